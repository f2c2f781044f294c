#include "emit/clock.h"

#include "emit/commit.h"
#include "pg/entry.h"
#include "pg/shared.h"

extern "C" {
#include "catalog/namespace.h"
#include "commands/sequence.h"
}

namespace outbox::emit {

namespace {

int64 local_clock = 0;
bool warned = false;

int64 WallClock() {
  return GetCurrentTimestamp() + kPgEpochMicros;
}

void WarnNotPreloaded() {
  if (warned) {
    return;
  }
  warned = true;
  ereport(WARNING, (errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
                    errmsg("outbox is not preloaded: events are stored, but nothing publishes them"),
                    errdetail("No background worker of outbox runs in this server, and the order of events between "
                              "sessions is not kept."),
                    errhint("Add outbox to shared_preload_libraries in postgresql.conf and restart: "
                            "shared_preload_libraries = 'outbox'")));
}

int64 TakeLocal(int64 count) {
  int64 first = Max(WallClock(), local_clock + 1);
  local_clock = first + count - 1;
  return first;
}

}  // namespace

int64 StoredClockCeiling() {
  Oid schema = get_namespace_oid("outbox", true);
  Oid sequence = OidIsValid(schema) ? get_relname_relid("clock_ceiling", schema) : InvalidOid;
  if (!OidIsValid(sequence)) {
    return 0;
  }
  // A sequence is a table of one row. Read as such it needs no privilege of the caller, no SPI and no snapshot.
  Relation relation = relation_open(sequence, AccessShareLock);
  TableScanDesc scan = table_beginscan(relation, SnapshotAny, 0, nullptr);
  HeapTuple tuple = heap_getnext(scan, ForwardScanDirection);
  int64 ceiling = 0;
  if (HeapTupleIsValid(tuple)) {
    Form_pg_sequence_data data = reinterpret_cast<Form_pg_sequence_data>(GETSTRUCT(tuple));
    ceiling = data->is_called ? data->last_value : 0;
  }
  table_endscan(scan);
  relation_close(relation, AccessShareLock);
  return ceiling;
}

void RaiseSharedClock(int64 micros) {
  pg::SharedState* shared = pg::Shared();
  if (shared == nullptr || micros <= 0) {
    return;
  }
  uint64 last = pg_atomic_read_u64(&shared->clock);
  while (last < static_cast<uint64>(micros) &&
         !pg_atomic_compare_exchange_u64(&shared->clock, &last, static_cast<uint64>(micros))) {
  }
}

int64 TakeReadings(int64 count) {
  pg::SharedState* shared = pg::Shared();
  if (shared == nullptr) {
    WarnNotPreloaded();
    return TakeLocal(count);
  }
  pg::DatabaseSlot* slot = MySlot();
  if (slot == nullptr || pg_atomic_read_u32(&slot->clock_raised) == 0) {
    RaiseSharedClock(StoredClockCeiling());
    if (slot != nullptr) {
      pg_atomic_write_u32(&slot->clock_raised, 1);
    }
  }
  int64 now = WallClock();
  uint64 last = pg_atomic_read_u64(&shared->clock);
  for (;;) {
    int64 first = Max(now, static_cast<int64>(last) + 1);
    if (pg_atomic_compare_exchange_u64(&shared->clock, &last, static_cast<uint64>(first + count - 1))) {
      return first;
    }
  }
}

}  // namespace outbox::emit

OUTBOX_FUNCTION(outbox_preloaded) {
  PG_RETURN_BOOL(outbox::pg::Shared() != nullptr);
}
