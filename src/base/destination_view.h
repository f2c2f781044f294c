// What one relay worker knows of one destination: its circuit breaker and its sinks [-]. The engine fills it, shared
// memory holds it, outbox.destination shows it; copied whole, like a LaneView.
#pragma once

#include <cstdint>
#include <type_traits>

#include "base/error_text.h"

namespace outbox {

enum class BreakerState : uint8_t {
  kClosed,    // all is well
  kOpen,      // nothing is sent
  kHalfOpen,  // one small batch is
};

// The word of views and messages.
inline const char* BreakerStateName(BreakerState state) {
  return state == BreakerState::kClosed ? "closed" : state == BreakerState::kOpen ? "open" : "half-open";
}

// Times are Unix microseconds; 0: none.
struct DestinationView {
  BreakerState state = BreakerState::kClosed;
  bool only_warning = false;  // the trouble is one: the destination is usable, but an operator should look
  int64_t since_unix = 0;     // closed, or in trouble: open and half-open in turn
  int64_t next_try_unix = 0;  // while open
  int64_t trips = 0;          // how often it opened since the worker uses it
  int64_t deaths = 0;         // how often a sink process of it ended unasked
  ErrorText trouble;          // why it is not closed, else the newest warning
  char cluster[64] = "";      // the id of the cluster that it delivers to; "": not known, or not closed
};
static_assert(std::is_trivially_copyable_v<DestinationView>);

}  // namespace outbox
