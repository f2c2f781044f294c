// The keys of one lane that wait behind parked events which are being delivered just now, and how much more the lane
// may park behind these [-].
//
// Parked events go by small claims, at a fraction of the speed of the lane. A key is freed when nothing of it is
// parked: under load that would never be, if all that the lane reads of it were parked, too. So it parks a thousand
// such events at once, and from then on one for two that are delivered; the others wait in the log, where they are.
//
// A key whose parked events wait for a time, a person or their topic does not move, and the lane does not wait for it.
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
  int64_t gives_up() const { return delivered_at_ + kPatience; }
  // Grows at each Rest().
  uint64_t rests() const { return rests_; }

  // An event of a key that was held is settled; call in the order of the events.
  void OnSettled(uint64_t key, ParkedOutcome outcome, int64_t now) {
    if (outcome != ParkedOutcome::kDelivered) {
      moving_.Erase(key);
      return;
    }
    moving_.Insert(key);
    delivered_at_ = now;
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
  static constexpr int64_t kPatience = 1'000'000;

  KeySet moving_;
  int credit_ = kMost;  // so many may be parked
  bool half_ = false;
  int64_t delivered_at_ = 0;
  uint64_t rests_ = 0;
};

}  // namespace outbox::relay
