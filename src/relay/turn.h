// What the parts of the engine share during one turn [-].
#pragma once

#include <cstdint>
#include <limits>

#include "relay/engine.h"
#include "relay/engine_clock.h"

namespace outbox::relay {

inline constexpr int64_t kLongAgo = std::numeric_limits<int64_t>::min() / 2;

class Saver;

struct TurnContext {
  Clock* clock = nullptr;
  const EngineOptions* options = nullptr;
  int64_t now = 0;              // monotonic microseconds
  uint64_t barrier = 0;         // newest seen before the turn
  uint64_t durable_lsn = 0;     // everything up to here is durable; grows
  Saver* saver = nullptr;       // gets the lanes whose progress is to be saved
  int64_t saved_at = kLongAgo;  // when progress of any lane was last flushed, monotonic microseconds
};

// What a step of a part of the lane has come to.
enum class StepResult : uint8_t {
  kIdle,  // there was nothing to do
  kWorked,
  kLost,  // the lane has another owner: the engine must let it go
};

}  // namespace outbox::relay
