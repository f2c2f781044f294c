#include "worker/process.h"

#include "pg/clock.h"
#include "pg/entry.h"
#include "pg/library_directory.h"
#include "pg/log_line.h"
#include "pg/transaction.h"
#include "worker/start_mark.h"

extern "C" {
#include <signal.h>
#include "utils/timeout.h"
}

namespace outbox::worker {

namespace {

volatile sig_atomic_t terminated = false;

void HandleTerminate(SIGNAL_ARGS) {
  int save_errno = errno;
  terminated = true;
  pg::CancelTransaction();
  SetLatch(MyLatch);
  errno = save_errno;
}

// PostgreSQL cancels a wait for a lock that has lasted for lock_timeout by sending the process a SIGINT. A SIGINT for
// any other reason is a pg_cancel_backend(): there is no user's statement to cancel here.
void HandleInterrupt(SIGNAL_ARGS) {
  int save_errno = errno;
  if (get_timeout_indicator(LOCK_TIMEOUT, false)) {
    pg::CancelTransaction();
    SetLatch(MyLatch);
  }
  errno = save_errno;
}

// The launcher starts it again at once: it has not failed.
void NoteTerminatedAtExit(int code, Datum arg) {
  if (terminated) {
    pg::NoteTerminated();
  }
}

const char* TypeName(pg::WorkerKind kind) {
  return kind == pg::WorkerKind::kKeeper ? "keeper" : "relay";
}

}  // namespace

void InstallSignalHandlers() {
  pqsignal(SIGHUP, SignalHandlerForConfigReload);
  pqsignal(SIGTERM, HandleTerminate);
  pqsignal(SIGINT, HandleInterrupt);
  BackgroundWorkerUnblockSignals();
}

bool Terminated() {
  return terminated;
}

bool StopRequested() {
  pg::WorkerSlot* slot = pg::MyWorkerSlot();
  return terminated || (slot != nullptr && pg_atomic_read_u32(&slot->stop) != 0);
}

void LeaveClock(MemoryContext context) {
  pg::ForgetCancel();  // as below
  pg::PendingError error;
  (void)pg::Attempt([context] { pg::InTransaction(context, [] { pg::SettleCeiling(); }); }, &error);
}

void ProcessInterruptsBetweenTurns() {
  pg::ForgetCancel();  // from SIGTERM, or a lock that came at the last moment: there is nothing to cancel now
  (void)get_timeout_indicator(LOCK_TIMEOUT, true);
  CHECK_FOR_INTERRUPTS();
  if (ConfigReloadPending) {
    ConfigReloadPending = false;
    ProcessConfigFile(PGC_SIGHUP);
  }
}

bool StartWorker(const pg::SlotTicket& ticket, const char* database, BackgroundWorkerHandle** handle) {
  BackgroundWorker worker;
  memset(&worker, 0, sizeof(worker));
  worker.bgw_flags = BGWORKER_SHMEM_ACCESS | BGWORKER_BACKEND_DATABASE_CONNECTION;
  worker.bgw_start_time = BgWorkerStart_RecoveryFinished;
  worker.bgw_restart_time = BGW_NEVER_RESTART;  // the launcher restarts, with back-off and only where still wanted
  pg::NameLibrary(worker.bgw_library_name, sizeof(worker.bgw_library_name));
  pg_snprintf(worker.bgw_function_name, sizeof(worker.bgw_function_name), "outbox_%s_main", TypeName(ticket.kind));
  pg_snprintf(worker.bgw_type, sizeof(worker.bgw_type), "outbox %s", TypeName(ticket.kind));
  if (ticket.kind == pg::WorkerKind::kKeeper) {
    pg_snprintf(worker.bgw_name, sizeof(worker.bgw_name), "outbox keeper of database \"%s\"", database);
  } else {
    pg_snprintf(worker.bgw_name, sizeof(worker.bgw_name), "outbox relay %d of database \"%s\"", ticket.ordinal,
                database);
  }
  worker.bgw_main_arg = Int32GetDatum(ticket.slot);
  static_assert(sizeof(pg::SlotTicket) + NAMEDATALEN <= BGW_EXTRALEN);
  memcpy(worker.bgw_extra, &ticket, sizeof(ticket));
  strlcpy(worker.bgw_extra + sizeof(ticket), database, NAMEDATALEN);
  worker.bgw_notify_pid = MyProcPid;
  return RegisterDynamicBackgroundWorker(&worker, handle);
}

const char* DatabaseName() {
  return MyBgworkerEntry->bgw_extra + sizeof(pg::SlotTicket);
}

pg::SlotTicket BecomeWorker() {
  pg::SlotTicket ticket;
  memcpy(&ticket, MyBgworkerEntry->bgw_extra, sizeof(ticket));
  InstallSignalHandlers();
  if (pg::Shared() == nullptr || pg::MoveIntoSlot(ticket) == nullptr) {
    proc_exit(0);
  }
  on_shmem_exit(NoteTerminatedAtExit, static_cast<Datum>(0));  // before the slot is freed
  WatchOwnStart({ticket.database, static_cast<int>(ticket.kind), ticket.ordinal});
  pg::NameLogLines(TypeName(ticket.kind), DatabaseName());
  BackgroundWorkerInitializeConnectionByOid(ticket.database, InvalidOid, 0);
  pg::PinSessionSettings();
  pg::ReadThroughHold();
  // This also avoids deadlock errors in other sessions: a worker gives up before their deadlock_timeout.
  pg::LimitLockWaits();
  pgstat_report_appname(MyBgworkerEntry->bgw_type);
  pg::HoldCancels();
  if (StopRequested()) {
    proc_exit(0);
  }
  return ticket;
}

}  // namespace outbox::worker
