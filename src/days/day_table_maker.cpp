// A missing day table is made by a background worker of its own [P]: see HaveDayTableMade in day_table.h.
#include "days/day_table.h"
#include "days/day_table_ddl.h"
#include "pg/entry.h"
#include "pg/held_lock.h"
#include "pg/identity.h"
#include "pg/library_directory.h"
#include "pg/log_line.h"
#include "pg/transaction.h"
#include "pg/transaction_end.h"
#include "pg/worker_slot.h"

extern "C" {
#include "catalog/namespace.h"
#include "catalog/pg_class.h"
#include "utils/inval.h"
}

namespace outbox::days {

namespace {

struct Job {
  Oid database;
  int32 day;
};
static_assert(sizeof(Job) <= BGW_EXTRALEN);

constexpr int kWaitMs = 1000;        // how long an emitter waits for a maker
constexpr int kPauseMs = 10 * 1000;  // between two makers of a database, unless the first did its work
constexpr int kTellEveryMs = 60 * 1000;
constexpr const char* kLockTimeout = "5s";

// Another process could not work on the parent while we hold one of these locks, and could not see it at all when this
// transaction has made it; both are undetectable deadlocks if we wait for that process.
bool MustBeMadeHere(Oid parent) {
  for (LOCKMODE mode = ShareUpdateExclusiveLock; mode <= AccessExclusiveLock; mode++) {
    if (pg::HoldsLock(parent, mode)) {
      return true;
    }
  }
  bool mine = false;
  HeapTuple tuple = SearchSysCache1(RELOID, ObjectIdGetDatum(parent));
  if (HeapTupleIsValid(tuple)) {
    mine = TransactionIdIsCurrentTransactionId(HeapTupleHeaderGetXmin(tuple->t_data));
    ReleaseSysCache(tuple);
  }
  return mine;
}

bool DayTableExists(int32 day) {
  AcceptInvalidationMessages();
  return OidIsValid(FindDayTable(DayTableKind::kLog, day));
}

// nullptr when all of max_worker_processes are in use.
BackgroundWorkerHandle* StartMaker(int32 day) {
  BackgroundWorker worker;
  memset(&worker, 0, sizeof(worker));
  pg_snprintf(worker.bgw_name, BGW_MAXLEN, "outbox day table maker");
  pg_snprintf(worker.bgw_type, BGW_MAXLEN, "outbox day table maker");
  worker.bgw_flags = BGWORKER_SHMEM_ACCESS | BGWORKER_BACKEND_DATABASE_CONNECTION;
  worker.bgw_start_time = BgWorkerStart_RecoveryFinished;
  worker.bgw_restart_time = BGW_NEVER_RESTART;
  pg::NameLibrary(worker.bgw_library_name, sizeof(worker.bgw_library_name));
  strlcpy(worker.bgw_function_name, "outbox_day_table_main", sizeof(worker.bgw_function_name));
  Job job = {MyDatabaseId, day};
  memcpy(worker.bgw_extra, &job, sizeof(job));
  worker.bgw_notify_pid = MyProcPid;
  BackgroundWorkerHandle* handle = nullptr;
  return RegisterDynamicBackgroundWorker(&worker, &handle) ? handle : nullptr;
}

bool HasEnded(BackgroundWorkerHandle* handle) {
  pid_t pid = 0;
  return GetBackgroundWorkerPid(handle, &pid) == BGWH_STOPPED;
}

void Nap() {
  int events = WaitLatch(MyLatch, WL_LATCH_SET | WL_TIMEOUT | WL_EXIT_ON_PM_DEATH, 10, PG_WAIT_EXTENSION);
  if ((events & WL_LATCH_SET) != 0) {
    ResetLatch(MyLatch);
  }
  CHECK_FOR_INTERRUPTS();
}

// What the emitters of one database know of each other's makers; without shared memory each knows its own only.
struct MakerNotes {
  pg_atomic_uint64* started_at;  // of the last one; 0: none, or it did its work
  pg_atomic_uint64* told_at;     // when the server log last said that events go to the spare table
};

MakerNotes Notes() {
  static pg_atomic_uint64 own_started_at;
  static pg_atomic_uint64 own_told_at;
  pg::DatabaseSlot* slot = pg::MyDatabaseSlot();
  return slot != nullptr ? MakerNotes{&slot->maker_started_at, &slot->spare_told_at}
                         : MakerNotes{&own_started_at, &own_told_at};
}

bool Within(uint64 since, TimestampTz now, int64 ms) {
  auto time = static_cast<TimestampTz>(since);
  return since != 0 && now >= time && now - time < ms * 1000;
}

// One maker at a time: emitters that come while it works wait for it, those that come after it failed do not.
bool MadeByWorker(int32 day, const MakerNotes& notes) {
  for (;;) {
    TimestampTz now = GetCurrentTimestamp();
    uint64 last = pg_atomic_read_u64(notes.started_at);
    if (Within(last, now, kWaitMs)) {
      Nap();
      if (DayTableExists(day)) {
        return true;
      }
    } else if (Within(last, now, kPauseMs)) {
      return DayTableExists(day);
    } else if (pg_atomic_compare_exchange_u64(notes.started_at, &last, static_cast<uint64>(now))) {
      break;
    }
  }
  TimestampTz began = GetCurrentTimestamp();
  BackgroundWorkerHandle* handle = StartMaker(day);
  while (handle != nullptr && !HasEnded(handle) && Within(began, GetCurrentTimestamp(), kWaitMs)) {
    Nap();
  }
  bool made = DayTableExists(day);
  // No emitter waits for a maker that has ended already, or never began.
  pg_atomic_write_u64(notes.started_at, made ? 0 : static_cast<uint64>(began - kWaitMs * 1000));
  return made;
}

void TellOfSpare(const char* name, const MakerNotes& notes) {
  TimestampTz now = GetCurrentTimestamp();
  uint64 last = pg_atomic_read_u64(notes.told_at);
  if (Within(last, now, kTellEveryMs) ||
      !pg_atomic_compare_exchange_u64(notes.told_at, &last, static_cast<uint64>(now))) {
    return;
  }
  ereport(LOG, (errmsg("outbox: there is no day table \"%s\": events go to outbox_internal.log_spare meanwhile", name),
                errdetail("No background worker could make it within %d ms.", kWaitMs),
                errhint("Nothing is lost or late by that. Where it lasts, raise max_worker_processes: "
                        "outbox.doctor() says to what."),
                pg::LogEvent("spare_table_used", {{"table", name}})));
}

}  // namespace

bool HaveDayTableMade(int32 day) {
  char name[NAMEDATALEN];
  DayTableName(DayTableKind::kLog, day, name);
  Oid parent = DayTableParent(DayTableKind::kLog);
  if (!IsUnderPostmaster || !OidIsValid(parent) || MustBeMadeHere(parent)) {
    CreateDayTable(DayTableKind::kLog, day);
    CommandCounterIncrement();
    return true;
  }
  MakerNotes notes = Notes();
  if (MadeByWorker(day, notes)) {
    return true;
  }
  TellOfSpare(name, notes);
  pg::DatabaseSlot* slot = pg::MyDatabaseSlot();
  if (slot == nullptr || !slot->active) {
    pg::WakeLauncherAtCommit(true);  // a keeper settles the identity of this outbox, and makes the tables
  }
  return false;
}

namespace {

Datum DayTableMain(Datum) {
  Job job;
  memcpy(&job, MyBgworkerEntry->bgw_extra, sizeof(job));
  pqsignal(SIGTERM, die);
  BackgroundWorkerUnblockSignals();
  pg::NameLogLines("maker", nullptr);
  BackgroundWorkerInitializeConnectionByOid(job.database, InvalidOid, BGWORKER_BYPASS_ALLOWCONN);
  pg::PinSessionSettings();
  SetConfigOption("lock_timeout", kLockTimeout, PGC_SUSET, PGC_S_OVERRIDE);
  SetCurrentStatementStartTimestamp();
  StartTransactionCommand();
  bool made = CreateDayTable(DayTableKind::kLog, job.day);
  CommitTransactionCommand();
  // In a transaction of its own: an emitter waits for the table, and for nobody's open create_route().
  StartTransactionCommand();
  pg::SettleIdentityUnlessAnotherDoes();
  CommitTransactionCommand();
  pg::RequestDiscovery(job.database);  // a keeper that is missing may be wanted from now on
  if (made) {
    char name[NAMEDATALEN];
    DayTableName(DayTableKind::kLog, job.day, name);
    ereport(LOG, (errmsg("outbox: made day table \"%s\" for an event, because no keeper had made it in advance", name),
                  pg::LogEvent("day_table_made", {{"table", name}})));
  }
  return 0;
}

}  // namespace

}  // namespace outbox::days

extern "C" {
void outbox_day_table_main(Datum arg);
void outbox_day_table_main(Datum arg) {
  outbox::pg::Entry(&outbox::days::DayTableMain, arg);
}
}
