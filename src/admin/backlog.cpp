#include "admin/backlog.h"

#include <algorithm>
#include <string_view>

extern "C" {
#include "catalog/pg_type.h"
#include "utils/array.h"
}

namespace outbox::admin {

namespace {

constexpr int64 kFetch = 2000;

constexpr const char* kColumns =
    "SELECT xid, created_at, id, aggregate_type, aggregate_id, event_type FROM outbox.log ";

std::string_view TextView(Datum value, bool null) {
  if (null) {
    return {};
  }
  text* packed = DatumGetTextPP(value);
  return {VARDATA_ANY(packed), static_cast<size_t>(VARSIZE_ANY_EXHDR(packed))};
}

struct Counter {
  const LaneRecord* lane;
  uint64 me;  // events of this transaction are not committed
  int64 limit;
  int64 seen;
  Backlog* backlog;

  // Plain. False: enough seen.
  bool Take(HeapTuple tuple, TupleDesc columns) {
    if (limit > 0 && seen >= limit) {
      backlog->capped = true;
      return false;
    }
    seen++;
    bool null = false;
    uint64 xid = U64FromFullTransactionId(DatumGetFullTransactionId(SPI_getbinval(tuple, columns, 1, &null)));
    int64 created_at = DatumGetTimestampTz(SPI_getbinval(tuple, columns, 2, &null)) + kPgEpochMicros;
    if (xid == me || lane->Passed(xid, created_at)) {
      return true;
    }
    Uuid id;
    memcpy(id.data(), DatumGetUUIDP(SPI_getbinval(tuple, columns, 3, &null))->data, id.size());
    std::string_view type = TextView(SPI_getbinval(tuple, columns, 4, &null), false);
    Datum key = SPI_getbinval(tuple, columns, 5, &null);
    std::string_view aggregate_id = TextView(key, null);
    std::string_view event_type = TextView(SPI_getbinval(tuple, columns, 6, &null), false);
    if (lane->spec->Wants(type, aggregate_id, event_type, id)) {
      backlog->pending++;
      if (backlog->oldest == 0 || created_at < backlog->oldest) {
        backlog->oldest = created_at;
      }
    }
    return true;
  }
};

// Plain.
void Scan(const char* condition, Oid type, Datum value, Counter* counter) {
  const char* sql = psprintf("%s%s", kColumns, condition);
  Portal portal = SPI_cursor_open_with_args(nullptr, sql, 1, &type, &value, nullptr, true, CURSOR_OPT_NO_SCROLL);
  bool more = true;
  while (more) {
    SPI_cursor_fetch(portal, true, kFetch);
    more = SPI_processed > 0;
    for (uint64 i = 0; more && i < SPI_processed; i++) {
      more = counter->Take(SPI_tuptable->vals[i], SPI_tuptable->tupdesc);
    }
    SPI_freetuptable(SPI_tuptable);
    CHECK_FOR_INTERRUPTS();
  }
  SPI_cursor_close(portal);
}

// Plain. In the order in which the lane reads: first what was in progress at its snapshot, then what is newer.
void ScanBoth(const uint64* in_progress, int count, uint64 next, Counter* counter) {
  CallerIdentity caller = BecomeOwner();
  PlanIndexOrder();
  if (SPI_connect() != SPI_OK_CONNECT) {
    ereport(ERROR, (errcode(ERRCODE_INTERNAL_ERROR), errmsg("could not connect to SPI")));
  }
  if (count > 0) {
    Datum* late = static_cast<Datum*>(palloc(sizeof(Datum) * count));
    for (int i = 0; i < count; i++) {
      late[i] = FullTransactionIdGetDatum(FullTransactionIdFromU64(in_progress[i]));
    }
    ArrayType* array =
        construct_array(late, count, XID8OID, sizeof(FullTransactionId), FLOAT8PASSBYVAL, TYPALIGN_DOUBLE);
    Scan("WHERE xid OPERATOR(pg_catalog.=) ANY ($1)", XID8ARRAYOID, PointerGetDatum(array), counter);
  }
  Scan("WHERE xid OPERATOR(pg_catalog.>=) $1", XID8OID, FullTransactionIdGetDatum(FullTransactionIdFromU64(next)),
       counter);
  SPI_finish();
  BecomeCaller(caller);
}

}  // namespace

Backlog CountBacklog(const LaneRecord& lane, int64 limit) {
  Backlog backlog;
  if (lane.spec == nullptr) {
    return backlog;
  }
  Counter counter{&lane, 0, limit, 0, &backlog};
  const Snapshot& base = lane.position.base;
  const uint64* late = base.xip.data();
  int count = static_cast<int>(base.xip.size());
  pg::Guard([&] {
    counter.me = U64FromFullTransactionId(GetTopFullTransactionIdIfAny());
    ScanBoth(late, count, base.xmax, &counter);
  });
  return backlog;
}

Backlog CountBacklog(const std::vector<LaneRecord>& lanes) {
  Backlog total;
  for (const LaneRecord& lane : lanes) {
    Backlog one = CountBacklog(lane, 0);
    total.pending += one.pending;
    if (one.oldest != 0 && (total.oldest == 0 || one.oldest < total.oldest)) {
      total.oldest = one.oldest;
    }
  }
  return total;
}

}  // namespace outbox::admin
