#include "worker/process_turns.h"

#include <time.h>

#include <algorithm>
#include <map>

#include "base/monotonic.h"
#include "base/turns.h"
#include "pg/process_slots.h"

namespace outbox::worker {

namespace {

using pg::Databases;
using pg::DatabaseSlot;
using pg::Shared;
using pg::WorkerKind;
using pg::WorkerState;

constexpr int kDiscoveriesAtOnce = 2;
constexpr int64_t kTryAgainAfter = kSecond;  // PostgreSQL tells nobody that a place has come free
constexpr int64_t kSettled = 50'000;         // a counted commit has set the worker's flag by then
constexpr long kWhileOneWaitsMs = 100;
constexpr long kInTurnMs = 1000;
constexpr long kAllRunMs = 10'000;

// Counters of a database's work for a process: there is new work when they have changed.
struct Work {
  uint64_t config = 0;
  uint64_t parked = 0;
  uint64_t commits = 0;
  uint64_t barrier = 0;
  bool operator==(const Work&) const = default;
};

// One keeper, or the relay workers of one database. Monotonic microseconds.
struct Taker {
  bool running = false;
  int64_t started_at = 0;
  int64_t left_at = 0;      // 0: never ran
  int64_t due_since = 0;    // 0: not due
  bool unfinished = false;  // it was not quiet when it was last seen
  Work done;                // up to here it has seen all, or left it unfinished
  Work newest;
  int64_t newest_at = 0;
};

struct DatabaseTurns {
  Taker keeper;
  Taker relay;
  bool known = false;  // it has a slot
};

// Leaked on purpose: the process ends without destructors.
struct State {
  std::map<Oid, DatabaseTurns> databases;
  int found = -1;        // places, when others held all the rest; -1: they do not
  bool limited = false;  // to these: until then
  int64_t try_again = 0;
  int64_t lacking_since = 0;  // 0: none is lacking
};
State* state = nullptr;

// A copy of what is needed of a DatabaseSlot.
struct DatabaseNeeds {
  Oid database;
  bool active;
  bool undiscovered;
  int relays;
  int granted;  // of them, that may run at once
  Work work;
};

std::vector<DatabaseNeeds> ReadDatabases() {
  std::vector<DatabaseNeeds> needs;
  needs.reserve(static_cast<size_t>(Shared()->max_databases));  // nothing is allocated under the lock
  LWLockAcquire(Shared()->lock, LW_SHARED);
  for (int i = 0; i < Shared()->max_databases; i++) {
    DatabaseSlot& slot = Databases()[i];
    if (slot.database != InvalidOid && slot.barred_by == 0 && (slot.active || slot.needs_discovery)) {
      needs.push_back({slot.database,
                       slot.active,
                       slot.needs_discovery,
                       pg::RelaysWanted(slot),
                       0,
                       {pg_atomic_read_u64(&slot.config_generation), pg_atomic_read_u64(&slot.parked_generation),
                        pg_atomic_read_u64(&slot.emitting_commits), pg_atomic_read_u64(&slot.barrier)}});
    }
  }
  LWLockRelease(Shared()->lock);
  return needs;
}

bool IsQuiet(const pg::SlotTicket& ticket) {
  pg::WorkerSlot* slot = &pg::Workers()[ticket.slot];
  return slot->state == WorkerState::kRunning && pg_atomic_read_u32(&slot->quiet) != 0 &&
         (ticket.kind == WorkerKind::kKeeper || pg_atomic_read_u32(&slot->pending) == 0);
}

// Publishes a decision in shared memory, for views.
void Publish(bool in_turn, const std::vector<DatabaseNeeds>& needs) {
  pg_atomic_write_u32(&Shared()->in_turn, in_turn ? 1 : 0);
  LWLockAcquire(Shared()->lock, LW_EXCLUSIVE);
  for (int i = 0; i < Shared()->max_databases; i++) {
    DatabaseSlot& slot = Databases()[i];
    for (const DatabaseNeeds& need : needs) {
      if (slot.database == need.database) {
        slot.relays_allowed = need.granted;
      }
    }
  }
  LWLockRelease(Shared()->lock);
}

TurnJob* Find(std::vector<TurnJob>* jobs, Oid database, WorkerKind kind) {
  for (TurnJob& job : *jobs) {
    if (job.ticket.database == database && job.ticket.kind == kind && job.ticket.ordinal == 0) {
      return &job;
    }
  }
  return nullptr;
}

void Want(std::vector<TurnJob>* jobs, Oid database, WorkerKind kind, int ordinal) {
  for (TurnJob& job : *jobs) {
    if (job.ticket.database == database && job.ticket.kind == kind && job.ticket.ordinal == ordinal) {
      job.wanted = true;
      return;
    }
  }
  TurnJob job;
  job.ticket = pg::SlotTicket{database, kind, ordinal, -1, 0};
  job.wanted = true;
  jobs->push_back(job);
}

// Notes what has happened to the process since the last call.
void Follow(const TurnJob* job, const Work& work, int64_t now, Taker* taker) {
  bool running = job != nullptr && job->ticket.slot >= 0;
  if (running != taker->running) {
    taker->running = running;
    (running ? taker->started_at : taker->left_at) = now;
    taker->due_since = 0;
  }
  if (running && job->state != TurnJob::State::kLeaving) {
    taker->unfinished = !IsQuiet(job->ticket);
    // What is counted here may not have reached the worker's flag yet: it counts as seen a moment later.
    if (now - taker->newest_at >= kSettled) {
      taker->done = taker->newest;
      taker->newest = work;
      taker->newest_at = now;
    }
  }
}

// Since when it waits; 0: there is no need. `look_every`: work that no counter shows is found by running this often.
int64_t DueSince(bool changed, int64_t look_every, int64_t now, Taker* taker) {
  if (taker->left_at == 0 || changed || taker->unfinished) {
    taker->due_since = taker->due_since != 0 ? taker->due_since : now;
  } else if (now - taker->left_at >= look_every && taker->due_since == 0) {
    taker->due_since = taker->left_at + look_every;
  }
  return taker->due_since;
}

TurnTaker Candidate(bool keeper, const TurnJob* job, const Taker& taker, int64_t due_since) {
  TurnTaker candidate;
  using State = TurnTaker::State;
  const TurnJob::State state = job == nullptr ? TurnJob::State::kDown : job->state;
  candidate.keeper = keeper;
  if (taker.running) {
    candidate.state = state == TurnJob::State::kLeaving ? State::kLeaving
                      : taker.unfinished                ? State::kBusy
                                                        : State::kQuiet;
  } else if (due_since != 0 && state != TurnJob::State::kDelayed) {
    candidate.state = State::kDue;
  }
  candidate.since = taker.running ? taker.started_at : due_since;
  return candidate;
}

// Whose keeper could not find out whether there is an outbox, and waits before it tries again: others are looked at
// meanwhile.
bool IsDelayed(std::vector<TurnJob>* jobs, Oid database) {
  const TurnJob* keeper = Find(jobs, database, WorkerKind::kKeeper);
  return keeper != nullptr && keeper->state == TurnJob::State::kDelayed;
}

// Wants all processes that there is room for, if every database gets its keeper and one relay worker; else returns
// false.
bool WantAll(int room, std::vector<DatabaseNeeds>* needs, std::vector<TurnJob>* jobs) {
  int discoveries = 0;
  for (DatabaseNeeds& need : *needs) {
    need.granted = Min(need.relays, 1);
    room -= need.active ? 1 + need.granted : 0;
    discoveries += need.active || IsDelayed(jobs, need.database) ? 0 : 1;
  }
  discoveries = Min(discoveries, kDiscoveriesAtOnce);
  room -= discoveries;
  if (room < 0) {
    return false;
  }
  for (bool given = true; given && room > 0;) {
    given = false;
    for (DatabaseNeeds& need : *needs) {
      if (need.granted < need.relays && room > 0) {
        need.granted++;
        room--;
        given = true;
      }
    }
  }
  for (const DatabaseNeeds& need : *needs) {
    const bool counted = !need.active && !IsDelayed(jobs, need.database);
    if (!counted || discoveries > 0) {
      Want(jobs, need.database, WorkerKind::kKeeper, 0);
      discoveries -= counted ? 1 : 0;
    }
    for (int ordinal = 0; ordinal < need.granted; ordinal++) {
      Want(jobs, need.database, WorkerKind::kRelay, ordinal);
    }
  }
  return true;
}

// Returns true if a database waits.
bool WantInTurn(const std::vector<DatabaseNeeds>& needs, int room, int64_t now, std::vector<TurnJob>* jobs) {
  const auto all = static_cast<int64_t>(needs.size());
  const int64_t upkeep_every = std::clamp<int64_t>(all * kSecond / 2, 10 * kSecond, 60 * kSecond);
  const int64_t look_every = std::clamp<int64_t>(all * kSecond * 2 / 5, 5 * kSecond, 30 * kSecond);
  struct Candidacy {
    Oid database;
    WorkerKind kind;
  };
  std::vector<TurnTaker> candidates;
  std::vector<Candidacy> candidacies;
  for (const DatabaseNeeds& need : needs) {
    DatabaseTurns& turns = state->databases[need.database];
    const TurnJob* keeper = Find(jobs, need.database, WorkerKind::kKeeper);
    int64_t due =
        DueSince(need.undiscovered || need.work.config != turns.keeper.done.config, upkeep_every, now, &turns.keeper);
    candidates.push_back(Candidate(true, keeper, turns.keeper, due));
    candidacies.push_back({need.database, WorkerKind::kKeeper});
    if (need.relays > 0) {
      const TurnJob* relay = Find(jobs, need.database, WorkerKind::kRelay);
      due = DueSince(!(need.work == turns.relay.done), look_every, now, &turns.relay);
      candidates.push_back(Candidate(false, relay, turns.relay, due));
      candidacies.push_back({need.database, WorkerKind::kRelay});
    }
  }
  const size_t takers = candidates.size();
  // Others that still have a place: of when there was room, or of a database that is barred.
  for (const TurnJob& job : *jobs) {
    bool listed = std::any_of(candidacies.begin(), candidacies.end(), [&](const Candidacy& candidacy) {
      return job.ticket.database == candidacy.database && job.ticket.kind == candidacy.kind && job.ticket.ordinal == 0;
    });
    if (job.ticket.slot >= 0 && !listed) {
      TurnTaker leaving;
      leaving.keeper = job.ticket.kind == WorkerKind::kKeeper;
      leaving.state = TurnTaker::State::kLeaving;
      candidates.push_back(leaving);
    }
  }
  ShareOutSlots(room, now, &candidates);
  bool waiting = false;
  for (size_t i = 0; i < takers; i++) {
    const TurnTaker& candidate = candidates[i];
    waiting = waiting || candidate.state == TurnTaker::State::kDue;
    const bool stays = candidate.running() && candidate.state != TurnTaker::State::kLeaving &&
                       candidate.answer != TurnTaker::Answer::kStop;
    if (stays || candidate.answer == TurnTaker::Answer::kStart) {
      Want(jobs, candidacies[i].database, candidacies[i].kind, 0);
    }
  }
  return waiting;
}

}  // namespace

bool MayStart(int running) {
  return !state->limited || running < state->found;
}

void NoteNoRoom(int running) {
  state->found = running;
  state->limited = true;
  state->try_again = MonotonicMicros() + kTryAgainAfter;
}

int64_t PublishRoom(bool waiting) {
  if (!state->limited && !waiting) {
    state->found = -1;
    state->lacking_since = 0;
  } else if (state->found >= 0 && state->lacking_since == 0) {
    state->lacking_since = MonotonicMicros();
  }
  pg::SetPlacesFound(state->found);
  return state->lacking_since;
}

long DecideTurns(std::vector<TurnJob>* jobs) {
  if (state == nullptr) {
    state = new State;
  }
  const int64_t now = MonotonicMicros();
  const int slots = Max(pg::ProcessSlots(), 1);  // whether there is really none shows when one is started
  state->limited = state->limited && now < state->try_again;
  const int room = state->limited ? Min(state->found, slots) : slots;
  std::vector<DatabaseNeeds> needs = ReadDatabases();
  for (auto& [database, turns] : state->databases) {
    turns.known = false;
  }
  for (const DatabaseNeeds& need : needs) {
    DatabaseTurns& turns = state->databases[need.database];
    turns.known = true;
    Follow(Find(jobs, need.database, WorkerKind::kKeeper), need.work, now, &turns.keeper);
    Follow(Find(jobs, need.database, WorkerKind::kRelay), need.work, now, &turns.relay);
  }
  std::erase_if(state->databases, [](const auto& entry) { return !entry.second.known; });
  for (TurnJob& job : *jobs) {
    job.wanted = false;
  }
  const bool all = WantAll(room, &needs, jobs);
  Publish(!all, needs);
  const long ask_again = all                                              ? kAllRunMs
                         : room > 0 && WantInTurn(needs, room, now, jobs) ? kWhileOneWaitsMs
                                                                          : kInTurnMs;
  return !state->limited ? ask_again : Min(ask_again, static_cast<long>((state->try_again - now) / 1000 + 1));
}

}  // namespace outbox::worker
