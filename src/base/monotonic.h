// The monotonic clock [-]: for how long to wait, and how long something took. Messages and tables have the wall clock,
// which may be set at any time.
#pragma once

#include <time.h>

#include <cstdint>

namespace outbox {

// Microseconds since some moment before this process; comparable within one start of the machine.
inline int64_t MonotonicMicros() {
  timespec now{};
  clock_gettime(CLOCK_MONOTONIC, &now);
  return int64_t{now.tv_sec} * 1'000'000 + now.tv_nsec / 1000;
}

}  // namespace outbox
