// What all background processes of the extension have in common [P]: signals, starting and leaving. Plain code.
#pragma once

#include "pg/prelude.h"
#include "pg/worker_slot.h"

namespace outbox::worker {

// SIGHUP reloads the configuration, SIGTERM asks to leave in good order: it sets a flag and the latch, and cancels the
// transaction that runs (a lock wait or a long read) or else the next one, nothing else. SIGINT ends a wait for a lock
// that has lasted for lock_timeout, and nothing else. Unblocks signals.
void InstallSignalHandlers();

// Whether SIGTERM came, the slot was asked to stop, or the database is barred.
bool StopRequested();
// Call when leaving in good order: gives the clock's reserve back (pg/clock.h). Errors are ignored.
void LeaveClock(MemoryContext context);
// Whether SIGTERM came: the whole server may be waiting for this process.
bool Terminated();

// Between transactions: barriers, log rotation, memory contexts dumps, and a new configuration. Forgets a cancel that
// arrived between transactions. May raise.
void ProcessInterruptsBetweenTurns();

// Registers a dynamic background worker for the ticket; false when the server has no room.
bool StartWorker(const pg::SlotTicket& ticket, const char* database, BackgroundWorkerHandle** handle);

// The name that this process's database had when the process was started. Needs no transaction.
const char* DatabaseName();

// Reads the ticket that StartWorker passed, installs the handlers, moves into the slot and connects to the database.
// Does not return when there is nothing to do.
pg::SlotTicket BecomeWorker();

}  // namespace outbox::worker
