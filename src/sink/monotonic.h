// The clock of deadlines [-]: WaitSpec::deadline is a reading of it.
#pragma once

#include <time.h>

#include <cstdint>

namespace outbox::sink {

inline int64_t MonotonicMicros() {
  timespec now{};
  clock_gettime(CLOCK_MONOTONIC, &now);
  return int64_t{now.tv_sec} * 1000000 + now.tv_nsec / 1000;
}

}  // namespace outbox::sink
