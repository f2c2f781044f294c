#include "emit/view_columns.h"

extern "C" {
#include "catalog/pg_type.h"
}

namespace outbox::emit {

namespace {

constexpr Oid kTypes[] = {UUIDOID, TEXTOID, TEXTOID,  TEXTOID,        JSONBOID, JSONBOID, TEXTOID, TIMESTAMPTZOID,
                          TEXTOID, TEXTOID, BYTEAOID, TIMESTAMPTZOID, TEXTOID,  INT4OID,  TEXTOID};
static_assert(lengthof(kTypes) == kViewColumns);

}  // namespace

// (A column that was dropped has no type.)
bool HasViewColumns(TupleDesc desc, int count) {
  bool same = desc->natts == count;
  for (int column = 0; same && column < count; column++) {
    same = TupleDescAttr(desc, column)->atttypid == kTypes[column];
  }
  return same;
}

}  // namespace outbox::emit
