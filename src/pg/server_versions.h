// Calls of the server that take other arguments in one of its versions [P]. scripts/check-versions keeps them here.
#pragma once

#include "pg/prelude.h"

extern "C" {
#include "executor/tuptable.h"
#include "utils/inval.h"
#include "utils/syscache.h"
}

namespace outbox::pg {

// All of a table, in no order.
inline TableScanDesc BeginScan(Relation table, ::Snapshot snapshot) {
#if PG_VERSION_NUM >= 190000
  return table_beginscan(table, snapshot, 0, nullptr, SO_NONE);
#else
  return table_beginscan(table, snapshot, 0, nullptr);
#endif
}

inline TupleTableSlot* MakeSlot(TupleDesc columns, const TupleTableSlotOps* operations) {
#if PG_VERSION_NUM >= 190000
  return MakeTupleTableSlot(columns, operations, 0);
#else
  return MakeTupleTableSlot(columns, operations);
#endif
}

// The number of a catalog cache, as its callbacks are given it.
#if PG_VERSION_NUM >= 190000
using CacheId = SysCacheIdentifier;
#else
using CacheId = int;
#endif

}  // namespace outbox::pg
