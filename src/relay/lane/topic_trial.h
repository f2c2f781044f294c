// How a side lane finds out whether its topic works again [-]: it sends one event to the destination's second sink,
// then a batch, then flows.
//
// Meanwhile it passes over events whose keys wait behind parked ones, so that nothing piles up among these. Where all
// it could try waits in this way, the parked events are tried instead, and nothing more is parked for a while. After
// that it is parked, since what it waits for may be dead.
//
// Single-threaded; owned by the lane. Monotonic microseconds.
#pragma once

#include <algorithm>
#include <cstdint>

#include "relay/destination/breaker.h"

namespace outbox::relay {

class TopicTrial {
 public:
  // Starts with one event; also called when a try has failed.
  void Begin() {
    stage_ = Stage::kOneEvent;
    over_ = false;
  }
  bool on() const { return stage_ != Stage::kFlows; }
  bool unproven() const { return stage_ == Stage::kOneEvent; }  // since the last Begin()
  // Whether the trouble is over, for people: the lanes' sink has delivered something since, too. It has found out for
  // itself what takes nothing, and may refuse at once what the second sink delivers (Kafka's: for a while after it has
  // given up a producer).
  bool over() const { return over_; }
  // The lanes' sink has delivered something.
  void OnFlowing() { over_ = true; }
  // How many events may be sent at once.
  uint32_t limit() const {
    return stage_ == Stage::kOneEvent ? 1 : stage_ == Stage::kBatch ? Breaker::kProbe : UINT32_MAX;
  }
  // All that was sent is delivered.
  void OnDelivered() {
    stage_ = stage_ == Stage::kOneEvent ? Stage::kBatch : Stage::kFlows;
    park_wait_ = 0;
    deaths_ = 0;
  }
  // The second sink's process died with what was sent. Twice in a row: perhaps of that. The lanes' sink has the means
  // to find out (PoisonSearch).
  void OnSinkDied() {
    if (++deaths_ >= 2) {
      stage_ = Stage::kFlows;
      deaths_ = 0;
    }
  }

  // Whether events whose keys wait are passed over, rather than parked.
  bool PassesOver(int64_t now) const { return on() && (!waits_for_parked_ || now < park_at_); }
  // After a try. `waits`: all it could have sent waits behind parked events.
  void SetWaits(bool waits, int64_t now) {
    if (waits && !waits_for_parked_) {
      park_wait_ = std::clamp(2 * park_wait_, kLeastParkWait, kMostParkWait);
      park_at_ = now + park_wait_;
    }
    waits_for_parked_ = waits;
  }
  bool waits_for_parked() const { return waits_for_parked_; }
  int64_t park_at() const { return park_at_; }

 private:
  enum class Stage : uint8_t { kFlows, kOneEvent, kBatch };
  static constexpr int64_t kLeastParkWait = 5'000'000;
  static constexpr int64_t kMostParkWait = 60'000'000;

  Stage stage_ = Stage::kFlows;
  bool over_ = true;
  int deaths_ = 0;  // since something was delivered
  bool waits_for_parked_ = false;
  int64_t park_at_ = 0;
  int64_t park_wait_ = 0;
};

}  // namespace outbox::relay
