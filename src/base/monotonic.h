// The monotonic clock [-]: for how long to wait, and how long something took. Messages and tables have the wall clock,
// which may be set at any time.
#pragma once

#include <time.h>

#include <cstdint>

namespace outbox {

// Its unit is the microsecond.
inline constexpr int64_t kMilli = 1000;
inline constexpr int64_t kSecond = 1000 * kMilli;

// Microseconds since some moment before this process; comparable within one start of the machine.
inline int64_t MonotonicMicros() {
  timespec now{};
  clock_gettime(CLOCK_MONOTONIC, &now);
  return now.tv_sec * kSecond + now.tv_nsec / 1000;
}

}  // namespace outbox
