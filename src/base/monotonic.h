// The clock that only goes ahead [-]: how long to wait, and how long something took. What people and tables are told of
// is the wall clock, which anybody may set.
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
