// A clock that stands still until it is moved, and numbers from a seed, for the engine's tests.
#pragma once

#include <cstdint>

#include "relay/common/engine_clock.h"

namespace outbox::relay::fakes {

class FakeClock : public Clock {
 public:
  int64_t NowMicros() override { return now; }
  int64_t WallMicros() override { return kWallAtZero + now; }
  uint64_t Random() override {  // splitmix64
    uint64_t z = (seed += 0x9e3779b97f4a7c15);
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9;
    z = (z ^ (z >> 27)) * 0x94d049bb133111eb;
    return z ^ (z >> 31);
  }
  static constexpr int64_t kWallAtZero = 1'700'000'000'000'000;
  int64_t now = 0;
  uint64_t seed = 1;
};

}  // namespace outbox::relay::fakes
