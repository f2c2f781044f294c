// Arrays that are lists [P].
#pragma once

#include "pg/prelude.h"

extern "C" {
#include "utils/array.h"
}

namespace outbox::pg {

// Refuses an array of several dimensions (22023): flattened, it would mean what nobody wrote. Plain code.
inline void RequireList(const ArrayType* array, const char* argument) {
  if (ARR_NDIM(array) > 1) {
    ereport(ERROR, (errcode(ERRCODE_INVALID_PARAMETER_VALUE), errmsg("%s must be a list of one dimension", argument),
                    errdetail("It has %d.", ARR_NDIM(array)), errhint("Pass all elements in one list: '{a,b}'.")));
  }
}

}  // namespace outbox::pg
