#include "inbox/kept.h"

#include "days/day_table_ddl.h"
#include "days/drop.h"
#include "inbox/as_owner.h"
#include "inbox/ring.h"
#include "pg/cached_table.h"
#include "pg/clock.h"
#include "pg/entry.h"
#include "pg/schemas.h"
#include "pg/settings.h"

extern "C" {
#include "storage/bufmgr.h"
#include "storage/lmgr.h"
#include "storage/procarray.h"
#include "utils/date.h"
#include "utils/guc.h"
}

namespace outbox::inbox {

namespace {

constexpr int64 kTryAgain = USECS_PER_SEC;
constexpr int kDayMinutes = 24 * 60;

int64 next_try = 0;

// What is left to the commit of the current transaction.
struct Upkeep {
  bool due;
  int64 seen;
};
Upkeep upkeep = {};

int64 MicrosOfMinutes(int minutes) {
  return int64{minutes} * SECS_PER_MINUTE * USECS_PER_SEC;
}

// What this session began with: to see soon whether anything may be due.
int64 RetentionMicros() {
  return MicrosOfMinutes(pg::settings.inbox.retention_minutes);
}

// What the database has by now, or else all of the server's; sessions that are there, and the keeper, do not hear of
// it, and what goes is everybody's.
int64 RetentionByNow() {
  static pg::Statement of_database = {
      "SELECT pg_catalog.split_part(c, '=', 2) FROM pg_catalog.pg_db_role_setting s, pg_catalog.unnest(s.setconfig) c "
      "WHERE (s.setdatabase OPERATOR(pg_catalog.=) $1 OR s.setdatabase OPERATOR(pg_catalog.=) 0) AND s.setrole "
      "OPERATOR(pg_catalog.=) 0 AND pg_catalog.lower(pg_catalog.split_part(c, '=', 1)) OPERATOR(pg_catalog.=) "
      "'outbox.inbox_retention' ORDER BY s.setdatabase DESC LIMIT 1",
      1,
      {OIDOID}};
  return AsOwner([] {
    Datum values[] = {ObjectIdGetDatum(MyDatabaseId)};
    int minutes = 0;
    const bool has = Run(&of_database, values, true) > 0 &&
                     parse_int(pg::ResultText(0, 0), &minutes, GUC_UNIT_MIN, nullptr) && minutes >= kDayMinutes &&
                     minutes <= kLongestRetentionDays * kDayMinutes;  // else it does not count
    return has ? MicrosOfMinutes(minutes) : RetentionMicros();
  });
}

int32 DueDayBy(int64 retention, int64 now, int64 seen) {
  return days::DayOfMicros(Min(now, seen) - retention);
}

constexpr int32 kDateEpoch = POSTGRES_EPOCH_JDATE - UNIX_EPOCH_JDATE;

int32 DayOfDate(Datum date) {
  return DatumGetDateADT(date) + kDateEpoch;
}

Datum DateOfDay(int32 day) {
  return DateADTGetDatum(day - kDateEpoch);
}

void* KeepRow(TupleTableSlot* row) {
  auto* kept = static_cast<Kept*>(palloc0(sizeof(Kept)));
  bool null = false;
  kept->settled = true;
  kept->from = DayOfDate(slot_getattr(row, 1, &null));
  kept->turned_at = DatumGetTimestampTz(slot_getattr(row, 2, &null)) + kPgEpochMicros;
  kept->last_emptied = DatumGetInt32(slot_getattr(row, 3, &null));
  const Datum emptied_to = slot_getattr(row, 4, &null);
  kept->emptied_to = null ? kept->from : Min(DayOfDate(emptied_to), kept->from);
  bool free = false;
  kept->written_by = HeapTupleHeaderGetXmin(ExecFetchSlotHeapTuple(row, false, &free)->t_data);
  return kept;
}

// Its one row.
pg::CachedTable known("inbox_kept", KeepRow, pg::IfLocked::kWait);

void Write(const Kept& kept) {
  static pg::Statement insert = {
      "INSERT INTO outbox_internal.inbox_kept (kept_from, turned_at, last_emptied, emptied_to) "
      "VALUES ($1, $2, $3, $4)",
      4,
      {DATEOID, TIMESTAMPTZOID, INT4OID, DATEOID}};
  static pg::Statement update = {
      "UPDATE outbox_internal.inbox_kept SET kept_from = $1, turned_at = $2, last_emptied = $3, emptied_to = $4",
      4,
      {DATEOID, TIMESTAMPTZOID, INT4OID, DATEOID}};
  Datum values[] = {DateOfDay(kept.from), pg::TimeDatum(kept.turned_at), Int32GetDatum(kept.last_emptied),
                    DateOfDay(kept.emptied_to)};
  AsOwner([&values] { Run(CurrentKept().settled ? &update : &insert, values, true); });
}

pg::Statement marks_from[kDayTables];

// Looks at one mark of each consumer, by the index.
pg::Statement* MarksFrom(int table) {
  pg::Statement* statement = &marks_from[table];
  if (statement->sql == nullptr) {
    char name[NAMEDATALEN];
    TableName(table, name);
    *statement = {
        MemoryContextStrdup(
            TopMemoryContext,
            psprintf("WITH RECURSIVE c (consumer) AS ("
                     "(SELECT m.consumer FROM outbox_internal.%s m ORDER BY m.consumer LIMIT 1) UNION ALL "
                     "SELECT (SELECT m.consumer FROM outbox_internal.%s m WHERE m.consumer OPERATOR(pg_catalog.>) "
                     "c.consumer ORDER BY m.consumer LIMIT 1) FROM c WHERE c.consumer IS NOT NULL) "
                     "SELECT FROM c WHERE EXISTS (SELECT FROM outbox_internal.%s m WHERE m.consumer "
                     "OPERATOR(pg_catalog.=) c.consumer AND m.event_id OPERATOR(pg_catalog.>=) $1) LIMIT 1",
                     name, name, name)),
        1,
        {UUIDOID}};
  }
  return statement;
}

// Whether the table has marks of that day or a later one.
bool HasMarksFrom(int table, int32 day) {
  pg_uuid_t least = LeastIdOf(days::DayStartMicros(day));
  Datum values[] = {UUIDPGetDatum(&least)};
  return AsOwner([&values, table] { return Run(MarksFrom(table), values, true) > 0; });
}

enum class Emptied { kDone, kWasEmpty, kInUse, kShared };

constexpr int32 kAnyDay = -1;

// Never waits. `day`: whose table it is.
Emptied Empty(int number, int32 day = kAnyDay) {
  const Oid oid = TableOid(number);
  if (!ConditionalLockRelationOid(oid, AccessShareLock)) {
    return Emptied::kInUse;
  }
  Relation relation = table_open(oid, NoLock);
  const bool empty = RelationGetNumberOfBlocks(relation) == 0;
  // By a cursor of this very session; or by ids of that day that it has looked at, for its own locks do not stop it.
  // (An undated id is in the other table, too.)
  const bool in_use =
      relation->rd_refcnt > 1 || (number < kDayTables && CheckRelationLockedByMe(relation, RowExclusiveLock, true));
  table_close(relation, NoLock);
  if (empty) {
    return Emptied::kWasEmpty;
  }
  if (in_use || !ConditionalLockRelationOid(oid, AccessExclusiveLock)) {
    return Emptied::kInUse;
  }
  // Of a month after it: they were made while the row was behind. Nobody can add any, for the table is locked.
  if (day != kAnyDay && HasMarksFrom(number, day + 1)) {
    return Emptied::kShared;
  }
  days::GiveNewStorage(oid);
  CommandCounterIncrement();
  return Emptied::kDone;
}

// Whether every snapshot sees that row as it is. (It is committed, and locked.)
bool AllSee(const Kept& kept) {
  Relation relation = table_open(InboxTable("inbox_kept"), NoLock);
  const TransactionId oldest = GetOldestNonRemovableTransactionId(relation);
  table_close(relation, NoLock);
  return TransactionIdPrecedes(kept.written_by, oldest);
}

// Empties days before that one. `limit`: how many tables; above one a table in use is passed by. Marks that are passed
// by share the table with another day's, until the ring has come round once more.
bool EmptyDays(int32 day, int limit, Kept* kept) {
  int emptied = 0;
  kept->emptied_to = Max(kept->emptied_to, day - kDayTables);  // each table once
  while (kept->emptied_to < day && emptied < limit) {
    const Emptied outcome = Empty(TableOfDay(kept->emptied_to), kept->emptied_to);
    if (outcome == Emptied::kInUse && limit == 1) {
      break;
    }
    emptied += outcome == Emptied::kDone ? 1 : 0;
    kept->emptied_to++;
  }
  return emptied > 0;
}

// The newest time of marks that are there, to the day, where that lets a day go; 0: none does. What is later than now
// counts as today.
int64 NewestMarked(const Kept& kept, int64 retention, int64 now) {
  const int32 today = days::DayOfMicros(now);
  for (int32 day = today;
       day > today - kDayTables && DueDayBy(retention, now, days::DayStartMicros(day)) > kept.emptied_to; day--) {
    if (HasMarksFrom(TableOfDay(day), day)) {
      return days::DayStartMicros(day);
    }
  }
  return 0;
}

// What counts is when a table is emptied, and the transaction may have begun long before.
int64 UpkeepMicros() {
  return Min(pg::UnixNow(), pg::ExpiryNow());
}

bool NeedsUpkeep(const Kept& kept, int64 now, int64 seen) {
  return !kept.settled || DueDay(now, seen) > kept.emptied_to || now - kept.turned_at >= RetentionMicros();
}

// Against others who are at it, and an UPDATE by hand, whose row would be waited for.
bool TryLock() {
  return ConditionalLockRelationOid(InboxTable("inbox_kept"), ShareRowExclusiveLock);
}

// `seen`: as for KeepAtCommit().
void Keep(int64 retention, int64 now, int64 seen) {
  if (!TryLock()) {
    return;  // somebody is at it
  }
  Kept kept = CurrentKept();
  const Kept before = kept;
  if (!kept.settled) {
    kept.turned_at = now;
    kept.last_emptied = 1;
  }
  // Nobody has received anything for weeks, and today's marks lie beside old ones: all go at once, and not one table in
  // a transaction.
  const bool behind = days::DayOfMicros(seen) >= kept.emptied_to + kDayTables;
  const int32 due = DueDayBy(retention, now, seen);
  const int32 going = Min(kept.from, due);  // not what a day that was put ahead says
  const bool emptied = kept.emptied_to < going && AllSee(kept) && EmptyDays(going, behind ? kDayTables : 1, &kept);
  kept.from = Max(kept.from, due);
  if (!emptied && now - kept.turned_at >= retention) {
    const int next = 1 - kept.last_emptied;
    const Emptied outcome = Empty(next == 0 ? kUndatedA : kUndatedB);
    if (outcome != Emptied::kInUse) {
      kept.last_emptied = next;
      kept.turned_at = now;
    }
  }
  if (!before.settled || kept.from != before.from || kept.emptied_to != before.emptied_to ||
      kept.turned_at != before.turned_at) {
    Write(kept);
  }
}

// In a callback of PRE_COMMIT, before what is left of the transaction is put away.
void KeepNow(int64 seen) {
  if (XactReadOnly || !OidIsValid(pg::FindOurRelation("inbox_kept"))) {
    return;  // since the call; or the extension was dropped
  }
  PushActiveSnapshot(GetTransactionSnapshot());
  Keep(RetentionByNow(), UpkeepMicros(), seen);
  PopActiveSnapshot();
}

void OnTransactionEnd(XactEvent event, void*) {
  const Upkeep left = upkeep;
  upkeep = {};
  if (left.due && event == XACT_EVENT_PRE_COMMIT) {
    pg::Entry([left] { KeepNow(left.seen); });
  }
}

void LeaveToCommit(int64 seen) {
  static bool registered = false;
  if (!registered) {
    RegisterXactCallback(OnTransactionEnd, nullptr);
    registered = true;
  }
  upkeep = {true, seen};
}

}  // namespace

int64 TransactionMicros() {
  return GetCurrentTransactionStartTimestamp() + kPgEpochMicros;
}

int32 DueDay(int64 now, int64 seen) {
  return DueDayBy(RetentionMicros(), now, seen);
}

Kept CurrentKept() {
  const List* rows = known.Rows();
  Kept kept = rows == NIL ? Kept{} : *static_cast<const Kept*>(linitial(rows));
  if (!kept.settled) {
    kept.from = days::DayOfMicros(TransactionMicros()) - kLongestRetentionDays;
    kept.emptied_to = kept.from;
  }
  return kept;
}

void KeepAtCommit(int64 now, int64 seen) {
  if (upkeep.due) {
    upkeep.seen = Max(upkeep.seen, seen);
    return;
  }
  if (now < next_try && next_try - now <= kTryAgain) {
    return;
  }
  if (NeedsUpkeep(CurrentKept(), now, seen)) {
    next_try = now + kTryAgain;
    LeaveToCommit(seen);
  }
}

void KeepInRound() {
  const Kept kept = CurrentKept();
  if (kept.settled) {
    const int64 retention = RetentionByNow();
    const int64 now = UpkeepMicros();
    Keep(retention, now, NewestMarked(kept, retention, now));
  }
}

}  // namespace outbox::inbox
