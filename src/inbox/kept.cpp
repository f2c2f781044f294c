#include "inbox/kept.h"

#include "days/day_table_ddl.h"
#include "days/drop.h"
#include "inbox/as_owner.h"
#include "inbox/ring.h"
#include "pg/server_versions.h"
#include "pg/settings.h"

extern "C" {
#include "executor/tuptable.h"
#include "storage/bufmgr.h"
#include "storage/lmgr.h"
#include "utils/date.h"
#include "utils/inval.h"
}

namespace outbox::inbox {

namespace {

constexpr int64 kTryAgain = USECS_PER_SEC;

Kept known;
bool stale = true;
bool watching = false;
Oid table = InvalidOid;  // outbox_internal.inbox_kept when it was read
int64 next_try = 0;

void OnRelationChange(Datum, Oid relation) {
  stale = stale || relation == InvalidOid || relation == table;
}

int64 RetentionMicros() {
  return int64{pg::settings.inbox.retention_minutes} * SECS_PER_MINUTE * USECS_PER_SEC;
}

// Reads under the newest snapshot, not the transaction's: what is emptied meanwhile is empty.
void ReadKept(Relation relation, Kept* kept) {
  Snapshot snapshot = RegisterSnapshot(GetLatestSnapshot());
  TableScanDesc scan = pg::BeginScan(relation, snapshot);
  TupleTableSlot* slot = table_slot_create(relation, nullptr);
  if (table_scan_getnextslot(scan, ForwardScanDirection, slot)) {
    bool null = false;
    kept->settled = true;
    kept->from = DatumGetDateADT(slot_getattr(slot, 1, &null)) + (POSTGRES_EPOCH_JDATE - UNIX_EPOCH_JDATE);
    kept->turned_at = DatumGetTimestampTz(slot_getattr(slot, 2, &null)) + kPgEpochMicros;
    kept->last_emptied = DatumGetInt32(slot_getattr(slot, 3, &null));
  }
  ExecDropSingleTupleTableSlot(slot);
  table_endscan(scan);
  UnregisterSnapshot(snapshot);
}

void Write(const Kept& kept) {
  static OwnStatement insert = {
      "INSERT INTO outbox_internal.inbox_kept (kept_from, turned_at, last_emptied) VALUES ($1, $2, $3)",
      3,
      {DATEOID, TIMESTAMPTZOID, INT4OID}};
  static OwnStatement update = {
      "UPDATE outbox_internal.inbox_kept SET kept_from = $1, turned_at = $2, last_emptied = $3",
      3,
      {DATEOID, TIMESTAMPTZOID, INT4OID}};
  Datum values[] = {DateADTGetDatum(kept.from - (POSTGRES_EPOCH_JDATE - UNIX_EPOCH_JDATE)),
                    TimestampTzGetDatum(kept.turned_at - kPgEpochMicros), Int32GetDatum(kept.last_emptied)};
  const Caller caller = BecomeOwner();
  Run(CurrentKept().settled ? &update : &insert, values, true);
  BecomeCaller(caller);
}

enum class Emptied { kDone, kWasEmpty, kInUse };

// Never waits.
Emptied Empty(int number) {
  const Oid oid = TableOid(number);
  if (!ConditionalLockRelationOid(oid, AccessShareLock)) {
    return Emptied::kInUse;
  }
  Relation relation = table_open(oid, NoLock);
  const bool empty = RelationGetNumberOfBlocks(relation) == 0;
  const bool in_use = relation->rd_refcnt > 1;  // by a cursor of this very session
  table_close(relation, NoLock);
  if (empty) {
    return Emptied::kWasEmpty;
  }
  if (in_use || !ConditionalLockRelationOid(oid, AccessExclusiveLock)) {
    return Emptied::kInUse;
  }
  days::GiveNewStorage(oid);
  CommandCounterIncrement();
  return Emptied::kDone;
}

// `limit`: how many tables may be emptied; above one a table in use is passed by: its marks share it with another day's
// then, until the ring has come round once more.
bool MoveTo(int32 day, int limit, Kept* kept) {
  int emptied = 0;
  if (day - kept->from > kDayTables) {
    kept->from = day - kDayTables;  // each table once
  }
  while (kept->from < day && emptied < limit) {
    const Emptied outcome = Empty(TableOfDay(kept->from));
    if (outcome == Emptied::kInUse && limit == 1) {
      break;
    }
    emptied += outcome == Emptied::kDone ? 1 : 0;
    kept->from++;
  }
  return emptied > 0;
}

bool NeedsUpkeep(const Kept& kept, int64 now, int64 seen) {
  return !kept.settled || days::DayOfMicros(Min(now, seen) - RetentionMicros()) > kept.from ||
         now - kept.turned_at >= RetentionMicros();
}

bool TryLock() {
  return ConditionalLockRelationOid(InboxTable("inbox_kept"), ShareUpdateExclusiveLock);
}

}  // namespace

int64 TransactionMicros() {
  return GetCurrentTransactionStartTimestamp() + kPgEpochMicros;
}

Kept CurrentKept() {
  if (!watching) {
    CacheRegisterRelcacheCallback(OnRelationChange, static_cast<Datum>(0));
    watching = true;
  }
  if (stale) {
    table = InboxTable("inbox_kept");
    Relation relation = table_open(table, AccessShareLock);
    stale = false;  // a change from here on sets it again
    known = Kept{};
    ReadKept(relation, &known);
    table_close(relation, AccessShareLock);
  }
  Kept kept = known;
  if (!kept.settled) {
    kept.from = days::DayOfMicros(TransactionMicros()) - kLongestRetentionDays;
  }
  return kept;
}

void KeepInPassing(int64 now, int64 seen) {
  if (now < next_try && next_try - now <= kTryAgain) {
    return;
  }
  if (NeedsUpkeep(CurrentKept(), now, seen)) {
    next_try = now + kTryAgain;
    Keep(now, seen);
  }
}

bool Keep(int64 now, int64 seen) {
  if (!TryLock()) {
    return false;  // somebody is at it
  }
  Kept kept = CurrentKept();
  const Kept before = kept;
  if (!kept.settled) {
    kept.turned_at = now;
    kept.last_emptied = 1;
  }
  bool emptied = MoveTo(days::DayOfMicros(Min(now, seen) - RetentionMicros()), 1, &kept);
  if (!emptied && now - kept.turned_at >= RetentionMicros()) {
    const int next = 1 - kept.last_emptied;
    const Emptied outcome = Empty(next == 0 ? kUndatedA : kUndatedB);
    if (outcome != Emptied::kInUse) {
      kept.last_emptied = next;
      kept.turned_at = now;
      emptied = outcome == Emptied::kDone;
    }
  }
  if (!before.settled || kept.from != before.from || kept.turned_at != before.turned_at) {
    Write(kept);
  }
  return emptied;
}

void CatchUp(int64 now, int32 day) {
  const int32 most = days::DayOfMicros(now - RetentionMicros());
  Kept kept = CurrentKept();
  if (day < kept.from + kDayTables || day >= most + kDayTables || !TryLock()) {
    return;
  }
  kept = CurrentKept();
  MoveTo(most, kDayTables, &kept);
  if (!kept.settled) {
    kept.turned_at = now;
    kept.last_emptied = 1;
  }
  Write(kept);
}

}  // namespace outbox::inbox
