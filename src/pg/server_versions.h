// Calls of the server that take other arguments in one of its versions [P]. scripts/check-versions keeps them here, but
// for what one file does for all anyway: it names that file (pg/held_lock, pg/planning, pg/rights).
#pragma once

#include "pg/prelude.h"

extern "C" {
#include "access/heapam_xlog.h"
#include "access/transam.h"
#include "executor/tuptable.h"
#include "utils/inval.h"
#include "utils/jsonb.h"
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

// Columns that were put together one by one, before anything else is done with them.
inline TupleDesc FinishColumns(TupleDesc columns) {
#if PG_VERSION_NUM >= 190000
  TupleDescFinalize(columns);
#endif
  return columns;
}

// The record of pruning that prunes nothing; returns its kind. Whoever applies it waits until nobody has the page
// pinned.
inline uint8 MakeEmptyPruning(xl_heap_prune* record) {
  memset(record, 0, sizeof(*record));
#if PG_VERSION_NUM >= 170000
  record->flags = XLHP_CLEANUP_LOCK;
  return XLOG_HEAP2_PRUNE_ON_ACCESS;
#else
  return XLOG_HEAP2_PRUNE;
#endif
}

// The oldest transaction id that pg_xact can be asked about. Under XactTruncationLock.
inline TransactionId OldestXidInPgXact() {
#if PG_VERSION_NUM >= 170000
  return TransamVariables->oldestClogXid;
#else
  return ShmemVariableCache->oldestClogXid;
#endif
}

// A value of jsonb that is put together part by part. In the current memory context.
class JsonbParts {
 public:
  void Push(JsonbIteratorToken token, JsonbValue* value = nullptr) {
#if PG_VERSION_NUM >= 190000
    pushJsonbValue(&state_, token, value);
#else
    whole_ = pushJsonbValue(&state_, token, value);
#endif
  }
  // After the part that ends it.
  Jsonb* Whole() const {
#if PG_VERSION_NUM >= 190000
    return JsonbValueToJsonb(state_.result);
#else
    return JsonbValueToJsonb(whole_);
#endif
  }

 private:
#if PG_VERSION_NUM >= 190000
  JsonbInState state_ = {};
#else
  JsonbParseState* state_ = nullptr;
  JsonbValue* whole_ = nullptr;
#endif
};

// The number of a catalog cache, as its callbacks are given it.
#if PG_VERSION_NUM >= 190000
using CacheId = SysCacheIdentifier;
#else
using CacheId = int;
#endif

}  // namespace outbox::pg
