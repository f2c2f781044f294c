#include "worker/process.h"

#include "emit/clock.h"
#include "pg/entry.h"
#include "pg/settings.h"
#include "pg/transaction.h"
#include "worker/start_mark.h"

extern "C" {
#include <signal.h>
}

namespace outbox::worker {

namespace {

volatile sig_atomic_t terminated = false;

void HandleTerminate(SIGNAL_ARGS) {
  int save_errno = errno;
  terminated = true;
  InterruptPending = true;
  QueryCancelPending = true;
  SetLatch(MyLatch);
  errno = save_errno;
}

const char* TypeName(pg::WorkerKind kind) {
  return kind == pg::WorkerKind::kKeeper ? "keeper" : "relay";
}

}  // namespace

void InstallSignalHandlers() {
  pqsignal(SIGHUP, SignalHandlerForConfigReload);
  pqsignal(SIGTERM, HandleTerminate);
  pqsignal(SIGINT, PG_SIG_IGN);  // pg_cancel_backend(): there is no statement of anybody's to cancel
  BackgroundWorkerUnblockSignals();
}

bool Terminated() {
  return terminated;
}

bool StopRequested() {
  pg::WorkerSlot* slot = MySlot();
  return terminated || (slot != nullptr && pg_atomic_read_u32(&slot->stop) != 0);
}

void LeaveClock(MemoryContext context) {
  QueryCancelPending = false;  // as below
  pg::PendingError error;
  (void)pg::Attempt([context] { pg::InTransaction(context, [] { emit::SettleCeiling(); }); }, &error);
}

void ProcessInterruptsBetweenTurns() {
  QueryCancelPending = false;  // from SIGTERM: there is nothing to cancel now
  CHECK_FOR_INTERRUPTS();
  if (ConfigReloadPending) {
    ConfigReloadPending = false;
    ProcessConfigFile(PGC_SIGHUP);
  }
}

bool StartWorker(const SlotTicket& ticket, BackgroundWorkerHandle** handle) {
  BackgroundWorker worker;
  memset(&worker, 0, sizeof(worker));
  worker.bgw_flags = BGWORKER_SHMEM_ACCESS | BGWORKER_BACKEND_DATABASE_CONNECTION;
  worker.bgw_start_time = BgWorkerStart_RecoveryFinished;
  worker.bgw_restart_time = BGW_NEVER_RESTART;  // the launcher restarts, with back-off and only where still wanted
  strlcpy(worker.bgw_library_name, "outbox", sizeof(worker.bgw_library_name));
  pg_snprintf(worker.bgw_function_name, sizeof(worker.bgw_function_name), "outbox_%s_main", TypeName(ticket.kind));
  pg_snprintf(worker.bgw_type, sizeof(worker.bgw_type), "outbox %s", TypeName(ticket.kind));
  if (ticket.kind == pg::WorkerKind::kKeeper) {
    pg_snprintf(worker.bgw_name, sizeof(worker.bgw_name), "outbox keeper of database %u", ticket.database);
  } else {
    pg_snprintf(worker.bgw_name, sizeof(worker.bgw_name), "outbox relay %d of database %u", ticket.ordinal,
                ticket.database);
  }
  worker.bgw_main_arg = Int32GetDatum(ticket.slot);
  static_assert(sizeof(SlotTicket) <= BGW_EXTRALEN);
  memcpy(worker.bgw_extra, &ticket, sizeof(ticket));
  worker.bgw_notify_pid = MyProcPid;
  return RegisterDynamicBackgroundWorker(&worker, handle);
}

SlotTicket BecomeWorker() {
  SlotTicket ticket;
  memcpy(&ticket, MyBgworkerEntry->bgw_extra, sizeof(ticket));
  InstallSignalHandlers();
  if (pg::Shared() == nullptr || MoveIntoSlot(ticket) == nullptr) {
    proc_exit(0);
  }
  WatchOwnStart({ticket.database, static_cast<int>(ticket.kind), ticket.ordinal});
  BackgroundWorkerInitializeConnectionByOid(ticket.database, InvalidOid, 0);
  pg::PinSessionSettings();
  emit::ReadThroughHold();
  // Nobody waits for us behind a lock that we wait for: DROP EXTENSION and the like would be called a deadlock after
  // deadlock_timeout, and the session would lose. We give up before that, are told of a deadlock first, and try again.
  SetConfigOption("lock_timeout", "500ms", PGC_SUSET, PGC_S_OVERRIDE);
  SetConfigOption("deadlock_timeout", "50ms", PGC_SUSET, PGC_S_OVERRIDE);
  pgstat_report_appname(MyBgworkerEntry->bgw_type);
  if (StopRequested()) {
    proc_exit(0);
  }
  return ticket;
}

}  // namespace outbox::worker
