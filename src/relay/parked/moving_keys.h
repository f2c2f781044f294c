// The keys of one lane that wait behind parked events which are being delivered just now, and how much more the lane
// may park behind these [-].
//
// Parked events go by small claims, at a fraction of the speed of the lane. A key is freed when nothing of it is
// parked: under load that would never be, if all that the lane reads of it were parked, too. So it parks a thousand
// such events at once, and from then on one for two that are delivered; the others wait in the log, where they are.
//
// A key whose parked events wait for a time, a person or their topic does not move, and the lane does not wait for it.
// Nor does it wait for long where claims come to nothing: four times as long as the last one took, two seconds at least
// and ten at most.
//
// Single-threaded; owned by the lane's ParkedQueue. Monotonic microseconds.
#pragma once

#include <algorithm>
#include <cstdint>

#include "base/key_set.h"
#include "relay/common/parked_log.h"

namespace outbox::relay {

class MovingKeys {
 public:
  bool Has(uint64_t key) const { return moving_.Contains(key); }
  // Whether one more event may be parked behind one of them; then it counts.
  bool TakesMore(int64_t now) {
    if (now >= gives_up()) {
      Rest();
    }
    if (credit_ == 0) {
      return false;
    }
    --credit_;
    return true;
  }
  // Nothing moves any more if nothing was delivered by then.
  int64_t gives_up() const { return moved_at_ + patience_; }
  // Grows at each Rest().
  uint64_t rests() const { return rests_; }

  // Events were claimed; those of keys that are held are told of one by one.
  void BeginClaim(int64_t now) { claimed_at_ = moved_at_ = now; }
  void OnClaimed(uint64_t key) { moving_.Insert(key); }
  // Such an event is settled; call in the order of the events.
  void OnSettled(uint64_t key, ParkedOutcome outcome, int64_t now) {
    if (outcome != ParkedOutcome::kDelivered) {
      moving_.Erase(key);
      return;
    }
    moving_.Insert(key);
    moved_at_ = now;
    patience_ = std::clamp(4 * (now - claimed_at_), kLeastPatience, kMostPatience);
    half_ = !half_;
    credit_ = std::min(credit_ + (half_ ? 0 : 1), kMost);
  }
  void OnFreed(uint64_t key) { moving_.Erase(key); }
  // Nothing is due that could go.
  void Rest() {
    moving_ = KeySet();
    credit_ = kMost;
    ++rests_;
  }

 private:
  static constexpr int kMost = 1000;
  static constexpr int64_t kLeastPatience = 2'000'000;
  static constexpr int64_t kMostPatience = 10'000'000;

  KeySet moving_;
  int credit_ = kMost;  // so many may be parked
  bool half_ = false;
  int64_t claimed_at_ = 0;
  int64_t moved_at_ = 0;  // when the last ones were claimed or delivered
  int64_t patience_ = kLeastPatience;
  uint64_t rests_ = 0;
};

}  // namespace outbox::relay
