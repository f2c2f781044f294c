// How many background processes this server should have and may have [P]. Plain code; needs the shared memory.
#pragma once

#include "pg/shared.h"

namespace outbox::pg {

// Relay workers that an active database is to have.
int RelaysWanted(const DatabaseSlot& slot);
// Processes of all databases that would run at once if there were room, as shared memory knows them. `except`: without
// that database's.
int WantedProcesses(Oid except);
// How many outbox.reserved_processes leaves of max_worker_processes, the launcher not counted.
int ProcessPlaces();
// What max_worker_processes has to be for so many.
int MaxWorkerProcessesFor(int processes);

}  // namespace outbox::pg
