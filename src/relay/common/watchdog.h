// Finds records that get no outcome though their sink is well [-].
//
// sink.h promises one outcome for each record, and a lane that drains waits for all of them: one that a sink forgets
// would hold its lane, and all topics of it, for ever. A record that the destination itself keeps back does not count:
// its sink says that it is down, or (Kafka) that the topic is in trouble, long before a minute has passed. Nor does one
// that its sink says is on its way still, over a slow link.
//
// Only time counts in which the owner was running: a second at most from one call to the next, so that a paused machine
// does not blame the sink. Monotonic microseconds.
#pragma once

#include <algorithm>
#include <cstdint>

namespace outbox::relay {

// The oldest record that has no outcome. Another value whenever it, or one that was sent with it, gets one.
struct OldestRecord {
  uint64_t seq = 0;  // 0: none
  uint32_t left = 0;
  bool operator==(const OldestRecord&) const = default;
};

class Watchdog {
 public:
  static constexpr int64_t kPatience = 60'000'000;
  static constexpr int64_t kStep = 1'000'000;

  // Returns true if the record has had no outcome for a minute. `well`: the sink is up, not
  // waiting to be admitted, and nothing is on its way for long.
  bool Check(const OldestRecord& oldest, bool well, int64_t now) {
    const int64_t step = std::min(now - looked_at_, kStep);
    looked_at_ = now;
    waits_ = well && oldest.seq != 0;
    if (!waits_ || !(oldest == oldest_)) {
      oldest_ = oldest;
      silent_ = 0;
      return false;
    }
    silent_ += step;
    return silent_ >= kPatience;
  }
  void Reset() { *this = Watchdog(); }
  bool waits() const { return waits_; }
  int64_t next_check() const { return looked_at_ + kStep; }

 private:
  OldestRecord oldest_;
  bool waits_ = false;
  int64_t silent_ = 0;
  int64_t looked_at_ = 0;
};

}  // namespace outbox::relay
