// The live workers of this server [P]: slots in shared memory that the launcher takes, a worker moves into, and the
// worker's exit frees. Plain code; every function takes the lock for a moment and none raises, where it says
// nothing else; LiveIncarnations() allocates its result.
//
// A slot belongs to one incarnation, a random number. outbox_internal.lane.owner has that number: a lane whose owner is
// not a live incarnation is free, with no lease and no clock.
#pragma once

#include "pg/shared.h"

namespace outbox::pg {

// What the launcher hands to a worker through bgw_extra.
struct SlotTicket {
  Oid database;
  WorkerKind kind;
  int ordinal;
  int slot;  // -1: none
  uint64 incarnation;
};

// A free slot, now kStarting; ticket.slot stays -1 when there is none or the database is barred.
void TakeWorkerSlot(SlotTicket* ticket);
// Frees the slot if it still is this incarnation's. `starting_only`: and its worker never came.
void FreeWorkerSlot(const SlotTicket& ticket, bool starting_only);

// In the worker, once, first thing: moves in, and frees the slot when the process ends, however it ends short of a
// crash (which recreates all shared memory). nullptr when the ticket is no longer good or the database is barred:
// leave at once.
WorkerSlot* MoveIntoSlot(const SlotTicket& ticket);
// This process' slot; nullptr when it has none.
WorkerSlot* MyWorkerSlot();

// Says whether this process has nothing to do at the moment: while processes run in turn, another one may then take its
// place.
void SetQuiet(bool quiet);

// kFree when the slot is no longer this incarnation's.
WorkerState SlotState(const SlotTicket& ticket);
// Asks one worker to leave in good order; harmless when it has left.
void AskWorkerToStop(const SlotTicket& ticket);

// For the workers of one database: counts slots that are not free, asks all to leave in good order, sends them SIGTERM.
int CountWorkers(Oid database);
void AskWorkersToStop(Oid database);
void TerminateWorkers(Oid database);

// This relay worker takes its part of the lanes from now on, or does no longer. Both tell the others.
void BeginSharing();
void EndSharing();
// What the work of this relay worker fails of that is no lane's; nullptr: nothing does.
void ShowWorkerTrouble(const Error* error);
// Relay workers of a database that take their part.
struct Sharers {
  int all = 0;
  int steady = 0;          // of them, those that have done so since `steady_since`, monotonic microseconds
  int64 oldest_other = 0;  // since when the oldest of the rest does; 0: there is none
};
Sharers CountSharers(Oid database, int64 steady_since);
// Has the relay workers of this process's database look at how the lanes are shared out: some have no owner now, or a
// worker came or goes. Call when that can be seen. Plain.
void NoteLanesFreed();

// In the process itself: it ends because it got a SIGTERM. The launcher asks by WasTerminated() once the slot is free.
void NoteTerminated();
bool WasTerminated(const SlotTicket& ticket);
// The same of a process that ends because there is no outbox here that it is for. It may be wanted again by the time
// that the launcher sees it.
void NoteLeft();
bool HasLeft(const SlotTicket& ticket);

// Whether a worker of that incarnation (0: of none) runs. The caller has the lock.
bool IsAlive(uint64 incarnation);
// When it last ended a turn, monotonic microseconds; 0: it did not yet, or none runs. The caller has the lock.
int64 LastTurn(uint64 incarnation);
// Incarnations of this database's relay workers that are alive, as int8[]. An owner that is not among them owns
// nothing.
Datum LiveIncarnations();

// Asks the launcher to find out whether the database has the extension. When all database slots are taken, it looks at
// all databases again as soon as one is free.
void RequestDiscovery(Oid database);
// For the launcher itself: false when all database slots are taken.
bool MarkForDiscovery(Oid database);
// For the keeper: read the count before checking whether the extension is there, and pass it on with what was found.
uint32 DiscoveryRequests(Oid database);
void ConcludeDiscovery(Oid database, uint32 requests, bool active);
// How many relay workers the launcher is to keep running for an active database.
void SetRelayDemand(Oid database, int demand);
// Frees the database's slot, unless it is wanted again meanwhile, has workers, or is closed for a while: then it would
// come back to a server without a place for it. `dropped`: the database is no more.
void FreeDatabaseSlot(Oid database, bool dropped);

}  // namespace outbox::pg
