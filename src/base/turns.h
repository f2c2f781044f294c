// Which of many processes may run in a few slots [-]: background processes of all databases, if max_worker_processes
// has no room for all. The process that waits longest is next; it gets the slot of one that has nothing to do, or of
// the one that has had its slot longest, once that was long enough. While none waits, none leaves.
#pragma once

#include <cstdint>
#include <vector>

namespace outbox {

// One process that is wanted. Times are microseconds of a monotonic clock.
struct TurnTaker {
  enum class State : uint8_t {
    kIdle,     // has no place, and needs none
    kDue,      // has none, and should run
    kBusy,     // has a place
    kQuiet,    // has one, and nothing to do
    kLeaving,  // has one, and was asked to give it back
  };
  enum class Answer : uint8_t {
    kAsItIs,
    kStart,
    kStop,
  };
  bool keeper = false;  // else a relay worker
  State state = State::kIdle;
  int64_t since = 0;  // it has had its place since then; kDue: it has waited
  Answer answer = Answer::kAsItIs;

  bool running() const { return state >= State::kBusy; }
};

// No process is asked to leave before it has run for this long.
inline constexpr int64_t kShortestTurn = 300'000;
// A process that has work keeps its slot for as long as still lets all have a turn within kRound, within these bounds.
inline constexpr int64_t kShortestBusyTurn = 2'000'000;
inline constexpr int64_t kLongestBusyTurn = 10'000'000;
inline constexpr int64_t kRound = 30'000'000;

// Keepers never get all slots, nor do relay workers if there are at least two.
void ShareOutSlots(int slots, int64_t now, std::vector<TurnTaker>* takers);

}  // namespace outbox
