// Which keepers and relay workers should run now [P]: all that are wanted where max_worker_processes has room for them,
// else some, in turn (base/turns.h). Part of the launcher; C++ code that owns things and calls nothing that raises.
#pragma once

#include <cstdint>
#include <vector>

#include "pg/worker_slot.h"

namespace outbox::worker {

struct TurnJob {
  enum class State : uint8_t {
    kDown,
    kDelayed,  // down, and not to be started yet
    kRuns,
    kLeaving,  // runs, and was asked to stop
  };
  pg::SlotTicket ticket;  // slot -1: it is down
  State state = State::kDown;
  bool wanted = false;  // the answer
};

// Sets `wanted` of the jobs that there are and appends those that should be started. Returns in how many milliseconds
// to ask again at the latest.
long DecideTurns(std::vector<TurnJob>* jobs);
// Whether a process may be started beside so many: not while it is known that the server has no place for it.
bool MayStart(int running);
// The server had no place for one more than `running`: for a second there are no more places than that.
void NoteNoRoom(int running);
// At the end of a turn: publishes whether others hold places that are wanted. `waiting`: one is still to be tried.
// Returns since when they have, monotonic microseconds; 0: they do not.
int64_t PublishRoom(bool waiting);

}  // namespace outbox::worker
