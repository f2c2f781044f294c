// The time of day, as records have it [-].
#pragma once

#include <sys/time.h>

#include <cstdint>

namespace outbox::sink::kafka {

inline int64_t WallMs() {
  timeval now{};
  gettimeofday(&now, nullptr);
  return int64_t{now.tv_sec} * 1000 + now.tv_usec / 1000;
}

}  // namespace outbox::sink::kafka
