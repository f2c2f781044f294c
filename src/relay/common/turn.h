// What the parts of the engine share during one turn [-].
#pragma once

#include <cstdint>
#include <functional>
#include <limits>

#include "relay/common/engine_clock.h"
#include "relay/common/engine_types.h"

namespace outbox::relay {

inline constexpr int64_t kLongAgo = std::numeric_limits<int64_t>::min() / 2;

class Saver;

struct TurnContext {
  Clock* clock = nullptr;
  const EngineOptions* options = nullptr;
  int64_t now = 0;                       // monotonic microseconds
  uint64_t barrier = 0;                  // newest seen before the turn
  uint64_t durable_lsn = 0;              // everything up to here is durable; grows
  Saver* saver = nullptr;                // gets the lanes whose progress is to be saved
  int64_t saved_at = kLongAgo;           // when progress of any lane was last flushed, monotonic microseconds
  uint64_t config_reads = 0;             // as in TurnInput
  bool wants_config = false;             // a lane waits for the next one
  std::function<bool()> config_changed;  // as in TurnInput
  int64_t first = kLongAgo;              // when the first turn was, monotonic microseconds
  int64_t enough = 0;                    // no lane begins anything after that, monotonic microseconds
  // When a Redis has lost something, looking for that takes a lane of a route with very many earlier lanes a tenth of a
  // second, and some milliseconds else. That is no time of the other lanes': `enough` comes later by it, and lanes that
  // would look when the time of a turn has gone into it wait for the next one.
  int64_t loss_checks = 0;  // microseconds they have taken
  bool postponed = false;   // a lane waits for the next turn, which is to begin at once

  // When what is done every `period` is due next: for all lanes in the same turn, since each turn looks at every lane.
  int64_t NextOf(int64_t period) const { return first + ((now - first) / period + 1) * period; }
};

// An event that its route's options refuse: they may be older than the event is, whose transaction may have changed
// them. Then nothing is refused before they have been read again. The events of one source, by ordinal.
class OptionsDoubt {
 public:
  // True: look at it again in a later turn. All events below `read_to` have been read by now.
  bool Holds(uint64_t ordinal, uint64_t read_to, TurnContext* turn) {
    if (asked_ && turn->config_reads > asked_at_) {
      known_to_ = asked_to_;
      asked_ = false;
    }
    if (turn->config_reads == 0 || ordinal < known_to_) {
      return false;
    }
    if (!asked_) {
      asked_ = true;
      asked_at_ = turn->config_reads;
      asked_to_ = read_to;
    }
    turn->wants_config = true;
    return true;
  }

 private:
  bool asked_ = false;
  uint64_t asked_at_ = 0;
  uint64_t asked_to_ = 0;
  uint64_t known_to_ = 0;  // options are newer than all events below
};

// What a step of a part of the lane has come to.
enum class StepResult : uint8_t {
  kIdle,  // there was nothing to do
  kWorked,
  kLost,  // the lane has another owner: the engine must let it go
};

}  // namespace outbox::relay
