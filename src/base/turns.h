// Which of many processes may run in a few slots [-]: background processes of all databases, if max_worker_processes
// has no room for all. The process that waits longest is next; it gets the slot of one that has nothing to do, or of
// the one that has had its slot longest, once that was long enough. While none waits, none leaves.
#pragma once

#include <cstdint>
#include <vector>

namespace outbox {

// One process that is wanted. Times are microseconds of a monotonic clock.
struct TurnTaker {
  bool keeper = false;   // else a relay worker
  bool running = false;  // has a place
  bool leaving = false;  // and was asked to give it back
  bool quiet = false;    // and has nothing to do
  bool due = false;      // has none, and should run
  int64_t since = 0;     // running: since when; due: since when it waits
  // The answer.
  bool start = false;
  bool stop = false;
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
