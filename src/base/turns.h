// Who of many may run in a few places [-]: background processes of all databases, where max_worker_processes has not
// room for each. Whoever waits longest is next; he gets the place of one that has nothing to do, or of the one that has
// had its place longest, once that was long enough. Where nobody waits, nobody leaves.
#pragma once

#include <cstdint>
#include <vector>

namespace outbox {

// One process that there should be. Times are microseconds of a monotonic clock.
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

// Nobody is asked to leave before he has had this.
inline constexpr int64_t kShortestTurn = 300'000;
// Whoever has work is left alone for as long as lets all have a turn within kRound, within these bounds.
inline constexpr int64_t kShortestBusyTurn = 2'000'000;
inline constexpr int64_t kLongestBusyTurn = 10'000'000;
inline constexpr int64_t kRound = 30'000'000;

// Keepers never have all places, nor relay workers where there are two.
void ShareOutPlaces(int places, int64_t now, std::vector<TurnTaker>* takers);

}  // namespace outbox
