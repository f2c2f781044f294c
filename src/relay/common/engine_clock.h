// Time and chance, injected [-].
#pragma once

#include <cstdint>

namespace outbox::relay {

class Clock {
 public:
  virtual ~Clock() = default;
  // Monotonic microseconds, for back-off and deadlines. Never goes back.
  virtual int64_t NowMicros() = 0;
  // Unix microseconds, for record times.
  virtual int64_t WallMicros() = 0;
  // 64 random bits, for jitter.
  virtual uint64_t Random() = 0;
};

}  // namespace outbox::relay
