// What all background processes of the extension do alike [P]: signals, and leaving. Plain code.
#pragma once

#include "pg/prelude.h"
#include "pg/worker_slot.h"

namespace outbox::worker {

// SIGHUP reloads the configuration, SIGTERM asks to leave in good order: it sets a flag and the latch, and cancels the
// transaction that is under way (a lock wait or a long read), nothing else. SIGINT ends a wait for a lock that has
// lasted for lock_timeout, and nothing else. Unblocks signals.
void InstallSignalHandlers();

// SIGTERM came, or the slot was asked to stop, or the database is barred.
bool StopRequested();
// On leaving in good order: what the clock had ahead is given back (pg/clock.h). Errors are left alone.
void LeaveClock(MemoryContext context);
// SIGTERM came: the whole server may be waiting for us.
bool Terminated();

// Between transactions: barriers, log rotation, memory contexts dumps, and a new configuration. Forgets a cancel that
// arrived when nothing was under way. May raise.
void ProcessInterruptsBetweenTurns();

// Registers a dynamic background worker for the ticket; false when the server has no room.
bool StartWorker(const pg::SlotTicket& ticket, const char* database, BackgroundWorkerHandle** handle);

// Of the database that this process was started for, as it was named then. Needs no transaction.
const char* DatabaseName();

// Reads the ticket that StartWorker passed, installs the handlers, moves into the slot and connects to the database.
// Does not return when there is nothing to do.
pg::SlotTicket BecomeWorker();

}  // namespace outbox::worker
