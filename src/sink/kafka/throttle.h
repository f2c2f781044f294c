// What a quota of the brokers lets through [-].
//
// A broker answers what is over a quota at once, says for how long it throttles, and reads nothing more from that
// connection meanwhile. So what was sent behind it gets no answer for as long, and the next for twice as long, until
// the library takes the connection for dead. Therefore nothing is sent meanwhile, and afterwards not more at once than
// is throttled for a few seconds. Monotonic microseconds.
#pragma once

#include <algorithm>
#include <cstdint>
#include <utility>

#include "base/monotonic.h"

namespace outbox::sink::kafka {

class Throttle {
 public:
  // A broker throttles for so long from now on.
  void Told(int64_t micros, int64_t now) {
    until_ = std::max(until_, now + std::min(micros, kLongest));
    if (!on() && micros >= kLong) {
      room_ = kFirstRoom;
      used_ = room_;  // what is on its way already is waited for
    }
    told_ += on() ? micros : 0;
    told_at_ = until_;
  }
  // There are other connections, which no broker throttles yet.
  void Reconnected() { until_ = 0; }
  bool on() const { return room_ != kNoLimit; }
  // It has ended since the last call: all that waits may go.
  bool TakeEnded() { return std::exchange(ended_, false); }
  int64_t until() const { return until_; }
  // Whether no answer says nothing: a broker was throttling just now.
  bool Excuses(int64_t now) const { return on() && now < told_at_ + kSilence; }
  // What was sent before that and has no answer has none for another reason; 0: that cannot be said of anything.
  int64_t heard_to() const { return heard_to_; }
  // `empty`: nothing is on its way.
  bool MaySend(bool empty, int64_t now) {
    if (!on()) {
      return true;
    }
    if (now < until_) {
      return false;
    }
    // Where nothing has been throttled for a while, what is on its way waits for something else than a quota: replicas
    // that are away, a leader.
    if (used_ > 0 && (empty || now >= std::max(told_at_, heard_to_) + kHeard)) {
      EndRound(now);
    }
    return used_ < room_;
  }
  void Sent(uint64_t bytes) { used_ += on() ? bytes : 0; }

 private:
  static constexpr int64_t kLong = kSecond;         // shorter ones add up to nothing that hurts
  static constexpr int64_t kTooLong = 4 * kSecond;  // of all that was sent at once; a request has 14 s
  static constexpr int64_t kLongest = 3600 * kSecond;
  static constexpr int64_t kSilence = 20 * kSecond;  // a request that came too late has its answer by then
  static constexpr int64_t kHeard = 3 * kSecond;     // each answer to what was sent at once throttles again
  static constexpr int64_t kOver = 60 * kSecond;     // after so long without it, it is over
  static constexpr uint64_t kNoLimit = UINT64_MAX;
  static constexpr uint64_t kFirstRoom = 128 << 10;
  static constexpr uint64_t kLargestRoom = 8 << 20;

  // All that was sent at once has its answer, or none that a quota keeps back.
  void EndRound(int64_t now) {
    if (told_ > kTooLong) {
      room_ = std::max<uint64_t>(std::min(room_, used_) / 2, 1);
    } else if (told_ < kLong && used_ >= room_) {
      room_ *= 2;
    }
    used_ = 0;
    told_ = 0;
    heard_to_ = now;
    if (room_ > kLargestRoom || now > told_at_ + kOver) {
      room_ = kNoLimit;
      ended_ = true;
    }
  }

  int64_t until_ = 0;
  int64_t told_at_ = 0;       // the last of what `until_` was
  uint64_t room_ = kNoLimit;  // bytes that are sent at once
  uint64_t used_ = 0;         // of that, since nothing was on its way
  int64_t told_ = 0;          // for how long it was throttled since then
  int64_t heard_to_ = 0;      // when the last of such rounds ended
  bool ended_ = false;
};

}  // namespace outbox::sink::kafka
