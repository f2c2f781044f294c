// A background worker's short transactions [P]. SQL functions do not begin any: they run in the caller's.
#pragma once

#include "pg/guard.h"
#include "pg/prelude.h"
#include "pg/statement_settings.h"

namespace outbox::pg {

// Settings that a worker inherits from database and role and must not: isolation, read only, deferrable,
// synchronous_commit, every timeout, row_security; and what its statements mean, and how they are planned. Once, after
// connecting. Plain.
void PinSessionSettings();

// Raises if search_path is another one: a statement would use operators of the session's schemas. Call before every
// statement that is not fully qualified. Plain.
void RequirePinnedSearchPath();

// From now on transactions of this process run as this role and in a security-restricted operation, so that nothing a
// user can attach to the extension's tables runs with a worker's rights. InvalidOid: as the connected user. Plain.
void SetTransactionRole(Oid role);

// Is what runs here done by outbox itself: by a worker, by one of its SQL functions, by the making of a day table? All
// of them act as its owner, with a mark that an error takes away by itself (kOwnStatement); a person's commands have
// none, wherever they are called. Plain.
bool InOwnStatement();

// From now on no lock is waited for longer than 20 ms (PostgreSQL's lock_timeout, so the process needs a SIGINT handler
// that knows of it: worker/process.cpp), and 1 ms after one was not had: then the transaction fails with
// ERRCODE_LOCK_NOT_AVAILABLE, and its caller tries again later. Plain.
void LimitLockWaits();
// Call after every transaction that failed, for LimitLockWaits() and TakeMissing(). Neither allocates nor raises.
void NoteFailure(int sqlstate);
// Whether a transaction has failed since the last call because something that it named was not there, or not as it
// should be. Calls nothing.
bool TakeMissing();

// The current transaction will not wait for its commit to be on disk: for what is not missed after a crash. Plain.
void CommitWithoutFlush();

// The transaction that this process is in, also a session's; of no meaning to others. Calls nothing.
inline LocalTransactionId CurrentTransaction() {
#if PG_VERSION_NUM >= 170000
  return MyProc->vxid.lxid;
#else
  return MyProc->lxid;
#endif
}

// Cancels the transaction that runs, or else the next one; for signal handlers of background processes. Between two of
// them nothing is cancelled: PostgreSQL does that wherever it looks for interrupts, also behind each line that is
// written to the server's log, and there it would jump over frames that own things.
void CancelTransaction();
// Before the first transaction it is PostgreSQL's own, which connects, that is cancelled. From now on as above. Plain.
void HoldCancels();
// What was asked for and not done is not wanted any more. Plain.
void ForgetCancel();

void BeginTransaction();   // plain: starts a transaction, pushes a snapshot, connects SPI
void CommitTransaction();  // plain
void AbortTransaction();   // plain; safe in any state

// Runs `body` in a transaction of its own, with an active snapshot and SPI connected, under the guard: `body` is plain
// code that may fill owners declared outside. On any error the transaction is rolled back and the error thrown on, its
// ErrorData in `error_context`.
template <typename Body>
void InTransaction(MemoryContext error_context, Body&& body) {
  MemoryContextSwitchTo(error_context);
  try {
    Guard([&] {
      BeginTransaction();
      body();
      CommitTransaction();
    });
  } catch (const PgError& error) {
    NoteFailure(error.sqlstate());
    MemoryContextSwitchTo(error_context);
    // A guard within the body has left it in the transaction's memory.
    const PgError kept(CopyError(error, error_context));
    Guard([] { AbortTransaction(); });
    throw kept;
  } catch (...) {
    MemoryContextSwitchTo(error_context);
    Guard([] { AbortTransaction(); });
    throw;
  }
  MemoryContextSwitchTo(error_context);
}

}  // namespace outbox::pg
