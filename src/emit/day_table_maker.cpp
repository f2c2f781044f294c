// A missing day table is made by a background worker of its own [P]: see EnsureDayTable in day_table.h.
#include "emit/day_table.h"
#include "log/day_table_ddl.h"
#include "pg/entry.h"
#include "pg/transaction.h"
#include "worker/identity.h"
#include "worker/worker_slot.h"

extern "C" {
#include "catalog/namespace.h"
#include "catalog/pg_class.h"
#include "storage/lmgr.h"
#include "utils/inval.h"
}

namespace outbox::emit {

namespace {

struct Job {
  Oid database;
  int32 day;
};
static_assert(sizeof(Job) <= BGW_EXTRALEN);

constexpr int kWorkerSlotWaitMs = 30 * 1000;
constexpr const char* kLockTimeout = "60s";

bool HoldsLock(Oid relation, LOCKMODE mode) {
  LOCKTAG tag;
  SET_LOCKTAG_RELATION(tag, MyDatabaseId, relation);
#if PG_VERSION_NUM >= 170000
  return LockHeldByMe(&tag, mode, false);
#else
  return LockHeldByMe(&tag, mode);
#endif
}

// Another process could not work on the parent while we hold one of these locks, and could not see it at all when this
// transaction has made it; both are undetectable deadlocks if we wait for that process.
bool MustBeMadeHere(Oid parent) {
  for (LOCKMODE mode = ShareUpdateExclusiveLock; mode <= AccessExclusiveLock; mode++) {
    if (HoldsLock(parent, mode)) {
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
  return OidIsValid(log::FindDayTable(log::DayTableKind::kLog, day));
}

// False when all of max_worker_processes are in use.
bool RunMaker(int32 day) {
  BackgroundWorker worker;
  memset(&worker, 0, sizeof(worker));
  pg_snprintf(worker.bgw_name, BGW_MAXLEN, "outbox day table maker");
  pg_snprintf(worker.bgw_type, BGW_MAXLEN, "outbox day table maker");
  worker.bgw_flags = BGWORKER_SHMEM_ACCESS | BGWORKER_BACKEND_DATABASE_CONNECTION;
  worker.bgw_start_time = BgWorkerStart_RecoveryFinished;
  worker.bgw_restart_time = BGW_NEVER_RESTART;
  strlcpy(worker.bgw_library_name, "outbox", sizeof(worker.bgw_library_name));
  strlcpy(worker.bgw_function_name, "outbox_day_table_main", sizeof(worker.bgw_function_name));
  Job job = {MyDatabaseId, day};
  memcpy(worker.bgw_extra, &job, sizeof(job));
  worker.bgw_notify_pid = MyProcPid;
  BackgroundWorkerHandle* handle = nullptr;
  if (!RegisterDynamicBackgroundWorker(&worker, &handle)) {
    return false;
  }
  if (WaitForBackgroundWorkerShutdown(handle) == BGWH_POSTMASTER_DIED) {
    ereport(FATAL, (errcode(ERRCODE_ADMIN_SHUTDOWN), errmsg("the server has gone away")));
  }
  pfree(handle);
  return true;
}

// Waits a moment for a worker process to come free.
void Nap() {
  int events = WaitLatch(MyLatch, WL_LATCH_SET | WL_TIMEOUT | WL_EXIT_ON_PM_DEATH, 100, PG_WAIT_EXTENSION);
  if ((events & WL_LATCH_SET) != 0) {
    ResetLatch(MyLatch);
  }
  CHECK_FOR_INTERRUPTS();
}

}  // namespace

void EnsureDayTable(int32 day) {
  char name[NAMEDATALEN];
  log::DayTableName(log::DayTableKind::kLog, day, name);
  Oid schema = get_namespace_oid("outbox", true);
  if (OidIsValid(schema) && OidIsValid(get_relname_relid(name, schema)) && !DayTableExists(day)) {
    ereport(ERROR, (errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE), errmsg("could not make day table \"%s\"", name),
                    errdetail("A relation of that name exists and is not a partition of outbox.log."),
                    errhint("Rename or drop outbox.%s.", name)));
  }
  Oid parent = log::DayTableParent(log::DayTableKind::kLog);
  if (!IsUnderPostmaster || !OidIsValid(parent) || MustBeMadeHere(parent)) {
    log::CreateDayTable(log::DayTableKind::kLog, day);
    CommandCounterIncrement();
    return;
  }
  TimestampTz started = GetCurrentTimestamp();
  bool ran = RunMaker(day);
  while (!ran && !DayTableExists(day) &&
         !TimestampDifferenceExceeds(started, GetCurrentTimestamp(), kWorkerSlotWaitMs)) {
    Nap();
    ran = RunMaker(day);
  }
  if (DayTableExists(day)) {
    return;
  }
  if (!ran) {
    ereport(ERROR, (errcode(ERRCODE_CONFIGURATION_LIMIT_EXCEEDED), errmsg("could not make day table \"%s\"", name),
                    errdetail("All background worker processes were in use for %d seconds.", kWorkerSlotWaitMs / 1000),
                    errhint("Raise max_worker_processes.")));
  }
  ereport(ERROR,
          (errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE), errmsg("could not make day table \"%s\"", name),
           errdetail("The background worker that should make it failed."), errhint("The server log has the reason.")));
}

namespace {

Datum DayTableMain(Datum) {
  Job job;
  memcpy(&job, MyBgworkerEntry->bgw_extra, sizeof(job));
  pqsignal(SIGTERM, die);
  BackgroundWorkerUnblockSignals();
  BackgroundWorkerInitializeConnectionByOid(job.database, InvalidOid, BGWORKER_BYPASS_ALLOWCONN);
  pg::PinSessionSettings();
  SetConfigOption("lock_timeout", kLockTimeout, PGC_SUSET, PGC_S_OVERRIDE);
  SetCurrentStatementStartTimestamp();
  StartTransactionCommand();
  bool made = log::CreateDayTable(log::DayTableKind::kLog, job.day);
  worker::SettleIdentity();
  CommitTransactionCommand();
  worker::RequestProbe(job.database);  // a keeper that is missing may be wanted from now on
  if (made) {
    char name[NAMEDATALEN];
    log::DayTableName(log::DayTableKind::kLog, job.day, name);
    ereport(LOG,
            (errmsg("outbox: made day table \"%s\" for an event, because no keeper had made it in advance", name)));
  }
  return 0;
}

}  // namespace

}  // namespace outbox::emit

extern "C" {
void outbox_day_table_main(Datum arg);
void outbox_day_table_main(Datum arg) {
  outbox::pg::Entry(&outbox::emit::DayTableMain, arg);
}
}
