// How many background processes are wanted on this server, and have room [P]. Plain code; needs the shared memory.
#pragma once

#include "pg/shared.h"

namespace outbox::pg {

// Whether it is held back at the moment.
bool IsHeld(const HeldBack& process);
// 1: the database has an outbox, or its keeper cannot even find out. Others have one for a moment, at the most.
int KeepersWanted(const DatabaseSlot& slot);
// How many relay workers an active database is to have.
int RelaysWanted(const DatabaseSlot& slot);
// Whether other databases have all slots that there are for databases, so that the launcher does not know of this one.
// With the lock of the shared memory held.
bool HasNoSlot(Oid database);
// How many processes of all databases would run at once if there were room, from shared memory; without those of
// database `except`.
int WantedProcesses(Oid except);
// How many outbox.reserved_processes leaves of max_worker_processes, the launcher not counted; two at least, if it has
// them at all besides ServersOwn().
int ProcessSlots();
// Places of max_worker_processes that are taken before any keeper: by the launcher, and the one of logical replication.
int ServersOwn();
// Where others hold places that ProcessSlots() counts: how many keepers and relay workers there was room for when the
// launcher last tried to start one more, not long ago. -1: they hold none that is wanted.
int PlacesFound();
void SetPlacesFound(int found);
// Background workers that are not of outbox, as far as PostgreSQL tells of them.
struct OtherProcesses {
  char* kinds;  // "parallel worker (6), logical replication launcher (1)", in the current memory context; "": none
  int parallel;
};
OtherProcesses FindOtherProcesses();
// What to do so that there is room for so many: a sentence, in the current memory context. The server could be started
// with the numbers in it. `found`: what others leave, as PlacesFound().
char* RoomHint(int processes, int found);

}  // namespace outbox::pg
