// The row of pg_extension that is ours [P].
//
// Reads the catalog: within a transaction, and through the guard from C++ that has something to destroy.
#pragma once

#include "pg/prelude.h"

namespace outbox::pg {

struct OwnExtension {
  Oid owner = InvalidOid;
  const char* version = nullptr;  // palloc'd; nullptr: there is no extension
};

OwnExtension ReadOwnExtension();

}  // namespace outbox::pg
