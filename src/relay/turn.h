// What the parts of the engine share during one turn [-].
#pragma once

#include <cstdint>

#include "relay/engine.h"
#include "relay/engine_clock.h"

namespace outbox::relay {

struct TurnContext {
  Clock* clock = nullptr;
  const EngineOptions* options = nullptr;
  int64_t now = 0;           // monotonic microseconds
  uint64_t barrier = 0;      // newest seen before the turn
  uint64_t durable_lsn = 0;  // everything up to here is durable; grows
};

}  // namespace outbox::relay
