// The keys of one lane whose later events wait behind a parked one [-]: a copy of what the parked table says, kept up
// to date by what this worker does and read again when the table may have been changed by others.
//
// Single-threaded; owned by the lane's ParkedQueue.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>

#include "base/key_set.h"

namespace outbox::relay {

class HeldKeys {
 public:
  bool any() const { return !held_.empty(); }
  size_t size() const { return held_.size(); }
  bool Holds(uint64_t key) const { return held_.Contains(key); }
  // Call with no event of the key in flight.
  void Hold(uint64_t key) { held_.Insert(key); }
  // As Hold(), but events of the key may be in flight; counted in late_holds().
  void HoldLate(uint64_t key) { late_holds_ += held_.Insert(key) ? 1 : 0; }
  void Free(uint64_t key) { held_.Erase(key); }
  // Grows when a key becomes held while the lane may have events of it in flight. The lane lets these end before it
  // parks anything behind them: otherwise a parked event could be sent before one of them.
  uint64_t late_holds() const { return late_holds_; }

  // --- reading them again ---
  // Others may have changed parked events.
  void Wake() { copy_ = std::max(copy_, Copy::kOld); }
  // Order keys are computed differently from now on: which keys are held is not known until they have been read again.
  void Forget() {
    copy_ = Copy::kWrong;
    next_load_ = 0;
  }
  bool known() const { return copy_ != Copy::kWrong; }
  bool wants_load() const { return copy_ != Copy::kCurrent; }
  int64_t next_load() const { return next_load_; }  // monotonic microseconds
  void OnLoaded(std::span<const uint64_t> keys) {
    if (copy_ == Copy::kWrong) {
      held_ = KeySet();
      ++late_holds_;
      copy_ = Copy::kOld;
    }
    for (const uint64_t key : keys) {
      HoldLate(key);
    }
  }
  // `took`: how long the load took. With a hundred thousand keys that is a good part of a second, during which no lane
  // of the worker moves.
  void OnReloaded(int64_t now, int64_t took) {
    copy_ = Copy::kCurrent;
    next_load_ = now + std::max(kLeastPause, kShare * took);
  }

 private:
  enum class Copy : uint8_t { kCurrent, kOld, kWrong };
  static constexpr int64_t kLeastPause = 2'000'000;  // between two loads
  static constexpr int64_t kShare = 20;              // a twentieth of the time at most goes into them

  KeySet held_;
  Copy copy_ = Copy::kCurrent;
  uint64_t late_holds_ = 0;
  int64_t next_load_ = 0;
};

}  // namespace outbox::relay
