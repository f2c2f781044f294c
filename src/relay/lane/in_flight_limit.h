// How much a lane may have in flight at once [-]: about what its destination acknowledges in 0.6 s.
//
// Why: a worker that is asked to stop waits for what is in flight, for less than two seconds; a fixed number of bytes
// takes a fast destination 50 ms and a slow one a minute. By Little's law (in flight = rate x latency) this bound
// costs no throughput while the latency stays below 0.6 s: in flight then grows with the rate that it allows.
#pragma once

#include <cstdint>

namespace outbox::relay {

class InFlightLimit {
 public:
  void OnDelivered(uint32_t count) { delivered_ += count; }

  // How many of `outstanding` events count. A topic that has stopped answering, while later events of others are
  // delivered, must not stop the others before it is known to be in trouble; so its events count less. They do count: a
  // stop has to wait for them.
  static uint32_t Load(uint32_t outstanding, uint64_t fresh) {
    const uint64_t load = fresh > outstanding / kSlow ? fresh : outstanding / kSlow;
    return load < outstanding ? static_cast<uint32_t>(load) : outstanding;
  }

  // How many more events may be sent. Call before each sending.
  uint32_t Room(uint32_t outstanding, int64_t now) {
    Measure(now);
    const double allowed = rate_ * kInFlightMicros;
    const uint32_t limit = allowed > kLeast ? static_cast<uint32_t>(allowed < kMost ? allowed : kMost) : kLeast;
    if (outstanding < limit) {
      return limit - outstanding;
    }
    held_back_ = true;
    return 0;
  }

 private:
  // The rate rises at once. It falls slowly, and only while the bound was felt: a lane with little to send says
  // nothing about its destination.
  void Measure(int64_t now) {
    const int64_t elapsed = now - since_;
    if (elapsed < kMeasureMicros) {
      return;
    }
    const double rate = static_cast<double>(delivered_) / static_cast<double>(elapsed);
    if (rate > rate_) {
      rate_ = rate;
    } else if (held_back_) {
      rate_ += (rate - rate_) * 0.2;
    }
    delivered_ = 0;
    held_back_ = false;
    since_ = now;
  }

  static constexpr double kInFlightMicros = 600'000;
  static constexpr int64_t kMeasureMicros = 50'000;
  static constexpr uint32_t kLeast = 4096;
  static constexpr uint32_t kSlow = 8;
  static constexpr double kMost = 1 << 30;

  double rate_ = 0;  // events per microsecond
  uint64_t delivered_ = 0;
  int64_t since_ = 0;
  bool held_back_ = false;
};

}  // namespace outbox::relay
