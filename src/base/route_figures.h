// What is counted of one route at one destination [-]: in shared memory, written by the lanes of any relay worker, read
// by outbox.metrics() and outbox.latency, and kept over a clean restart. A new figure is a field here, in ForEach(), a
// line where it is known (relay/common/meter.h) and a line in admin/show/metrics.cpp.
#pragma once

#include <algorithm>
#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>

#include "base/histogram.h"
#include "base/recent.h"
#include "base/status.h"

namespace outbox {

inline constexpr size_t kParkedStates = 4;  // relay/common/parked_log.h: ParkedState (relay/common/meter.h compares)

// How a route gets through a backlog, whichever workers have its lanes: a spell of time in which some lane of it was
// always behind. A lane that reads window after window is behind for a moment all the time, so it counts once that has
// lasted. All zero when made; not kept over a restart.
struct Drain {
  // Microseconds.
  static constexpr int64_t kLasts = 3'000'000;  // a lane that has been behind for so long takes part
  static constexpr int64_t kGap = 5'000'000;    // so long without one that does ends it

  Counter delivered;           // events that destinations acknowledged to the route, parked ones too, since ever
  std::atomic<uint64_t> from;  // what that was when the drain began
  std::atomic<int64_t> since;  // Unix microseconds
  std::atomic<int64_t> seen;   // when a lane took part last
  std::atomic<int64_t> moves;  // since when anything of it is done, about

  uint64_t done() const {
    const uint64_t before = from.load(std::memory_order_relaxed);
    return std::max(ValueOf(delivered), before) - before;
  }
  // A lane has been behind since then, when so many were delivered. The first of several that fall behind counts,
  // whichever worker has it; what two say at once is right by the next time.
  void Note(int64_t now, int64_t behind_since, uint64_t delivered_then) {
    const int64_t before = seen.exchange(now, std::memory_order_relaxed);
    const bool begins = before == 0 || now - before > kGap || before - now > kGap;
    if (begins) {
      moves.store(behind_since, std::memory_order_relaxed);
    }
    if (begins || delivered_then < from.load(std::memory_order_relaxed)) {
      from.store(delivered_then, std::memory_order_relaxed);
    }
    if (begins || behind_since < since.load(std::memory_order_relaxed)) {
      since.store(behind_since, std::memory_order_relaxed);
    }
    if (done() == 0) {
      moves.store(now, std::memory_order_relaxed);
    }
  }
  void Reset() {
    delivered = 0;
    from = 0;
    since = 0;
    seen = 0;
    moves = 0;
  }
};

// All zero when made.
struct RouteFigures {
  Counter attempts;                           // events handed to the sink, each time
  Counter published;                          // events acknowledged
  Counter published_bytes;                    // of their payloads
  Counter retried;                            // outcomes after which an event is sent again
  Counter possible_duplicates;                // of these, those that may have arrived: their outcome is unknown
  Counter windows;                            // opened
  std::array<Counter, kErrorClasses> failed;  // outcomes, by class
  std::array<Counter, kParkedStates> parked;  // events parked, by the state in which
  Latency delivery;                           // from commit to acknowledgement
  Latency acknowledgement;                    // from submission to acknowledgement: the destination alone
  Drain drain;

  // Everything that is kept over a restart. A change here, at the end as well, is another form of the file: see kMagic
  // in metrics/stats_file.cpp.
  template <typename Fn>
  void ForEach(Fn&& fn) {
    for (Counter* counter : {&attempts, &published, &published_bytes, &retried, &possible_duplicates, &windows}) {
      fn(counter);
    }
    for (Counter& counter : failed) {
      fn(&counter);
    }
    for (Counter& counter : parked) {
      fn(&counter);
    }
    delivery.all.ForEach(fn);
    acknowledgement.all.ForEach(fn);
  }
  // What is kept beside that where the clock goes on: the last minute and hour.
  template <typename Fn>
  void ForEachRecent(Fn&& fn) {
    for (Latency* latency : {&delivery, &acknowledgement}) {
      latency->minute.ForEach(fn);
      latency->hour.ForEach(fn);
    }
  }
  void ResetRecent() {
    for (Latency* latency : {&delivery, &acknowledgement}) {
      latency->minute.Reset();
      latency->hour.Reset();
    }
  }
  void Reset() {
    ForEach([](Counter* counter) { counter->store(0, std::memory_order_relaxed); });
    delivery.Reset();
    acknowledgement.Reset();
  }
};

}  // namespace outbox
