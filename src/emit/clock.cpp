#include "emit/clock.h"

#include "base/fault_point.h"
#include "emit/commit.h"
#include "pg/entry.h"
#include "pg/shared.h"

extern "C" {
#include "catalog/namespace.h"
#include "catalog/pg_class.h"
#include "commands/sequence.h"
#include "storage/lock.h"
#include "utils/fmgrprotos.h"
}

namespace outbox::emit {

namespace {

int64 local_clock = 0;
bool warned = false;

int64 WallClock() {
  return GetCurrentTimestamp() + kPgEpochMicros + OUTBOX_FAULT_VALUE("clock.shift");
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

Oid CeilingSequence() {
  Oid schema = get_namespace_oid("outbox", true);
  return OidIsValid(schema) ? get_relname_relid("clock_ceiling", schema) : InvalidOid;
}

// A sequence is a table of one row. Read as such it needs no privilege of the caller, no SPI and no snapshot.
int64 StoredCeiling(Oid sequence, Oid* owner) {
  Relation relation = relation_open(sequence, AccessShareLock);
  *owner = relation->rd_rel->relowner;
#if PG_VERSION_NUM >= 190000
  TableScanDesc scan = table_beginscan(relation, SnapshotAny, 0, nullptr, SO_NONE);
#else
  TableScanDesc scan = table_beginscan(relation, SnapshotAny, 0, nullptr);
#endif
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

// setval() does not care for what is stored: two that move the ceiling at once must take turns, or it could be moved
// back. Not the sequence's own lock, which a prepared transaction may hold for days.
void LockCeiling(Oid sequence, LOCKTAG* tag) {
  SET_LOCKTAG_OBJECT(*tag, MyDatabaseId, RelationRelationId, sequence, 1);
  LockAcquire(tag, ExclusiveLock, false, false);
}

void StoreCeiling(Oid sequence, Oid owner, int64 ceiling) {
  Oid saved_user = InvalidOid;
  int saved_context = 0;
  GetUserIdAndSecContext(&saved_user, &saved_context);
  SetUserIdAndSecContext(owner, saved_context | SECURITY_LOCAL_USERID_CHANGE);
  DirectFunctionCall2(setval_oid, ObjectIdGetDatum(sequence), Int64GetDatum(ceiling));
  SetUserIdAndSecContext(saved_user, saved_context);
}

void RaiseSharedClock(uint64 micros) {
  pg_atomic_uint64* clock = &pg::Shared()->clock;
  uint64 last = pg_atomic_read_u64(clock);
  while (last < micros && !pg_atomic_compare_exchange_u64(clock, &last, micros)) {
  }
}

// Of this process, where the database has no slot in shared memory.
pg_atomic_uint64 own_ceiling;

pg_atomic_uint64* KnownCeiling() {
  pg::DatabaseSlot* slot = MySlot();
  return slot != nullptr ? &slot->clock_ceiling : &own_ceiling;
}

}  // namespace

void AdvanceClockCeiling(int64 at_least) {
  Oid sequence = CeilingSequence();
  if (!OidIsValid(sequence)) {
    return;
  }
  LOCKTAG tag;
  LockCeiling(sequence, &tag);
  Oid owner = InvalidOid;
  int64 stored = StoredCeiling(sequence, &owner);
  if (stored < at_least) {
    stored = at_least + kCeilingAhead / 2;
    OUTBOX_FAULT_POINT("ceiling.before");
    StoreCeiling(sequence, owner, stored);
  }
  pg_atomic_write_u64(KnownCeiling(), static_cast<uint64>(stored));
  LockRelease(&tag, ExclusiveLock, false);
}

void ForgetClockCeiling() {
  pg::DatabaseSlot* slot = pg::FindDatabaseSlot(MyDatabaseId, false);
  // Not 0: the clock itself needs no raising again, it does not go back while the server runs.
  if (slot != nullptr && pg_atomic_read_u64(&slot->clock_ceiling) != 0) {
    pg_atomic_write_u64(&slot->clock_ceiling, 1);
  }
}

int64 TakeReadings(int64 count) {
  pg::SharedState* shared = pg::Shared();
  if (shared == nullptr) {
    WarnNotPreloaded();
    return TakeLocal(count);
  }
  pg_atomic_uint64* ceiling = KnownCeiling();
  if (pg_atomic_read_u64(ceiling) == 0) {
    // The first reading of this database since the server started. Whoever else comes here meanwhile does the same.
    Oid owner = InvalidOid;
    Oid sequence = CeilingSequence();
    if (OidIsValid(sequence)) {
      RaiseSharedClock(static_cast<uint64>(StoredCeiling(sequence, &owner)));
    }
  }
  int64 now = WallClock();
  uint64 last = pg_atomic_read_u64(&shared->clock);
  int64 first = 0;
  do {
    first = Max(now, static_cast<int64>(last) + 1);
  } while (!pg_atomic_compare_exchange_u64(&shared->clock, &last, static_cast<uint64>(first + count - 1)));
  if (static_cast<uint64>(first + count - 1) > pg_atomic_read_u64(ceiling)) {
    AdvanceClockCeiling(first + count - 1);
  }
  return first;
}

}  // namespace outbox::emit

OUTBOX_FUNCTION(outbox_preloaded) {
  PG_RETURN_BOOL(outbox::pg::Shared() != nullptr);
}
