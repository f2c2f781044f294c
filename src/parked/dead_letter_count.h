// Events that became dead letters and were not yet reported [-]: counted as the parked table reports them, written by
// the worker to the server log. One per worker; its owner outlives the logs that count.
#pragma once

#include <cstdint>
#include <map>

#include "base/status.h"

namespace outbox::parked {

struct DeadLetters {
  struct Count {
    int64_t events = 0;
    Error last;
  };
  std::map<int64_t, Count> of_route;

  // Call after the commit.
  void Add(int64_t route_id, const Error& error) {
    Count& count = of_route[route_id];
    ++count.events;
    count.last = error;
  }
};

}  // namespace outbox::parked
