// What one lane, or a side lane, is doing [-]: the engine fills it, shared memory holds it, outbox.lag shows it. It is
// copied whole: a new figure is a field here, a line where the engine fills it and a column of the view.
#pragma once

#include <cstdint>
#include <type_traits>

#include "base/error_text.h"
#include "base/lane_id.h"

namespace outbox {

// Times are Unix microseconds; 0: none.
struct LaneView {
  LaneId id;
  char state[16] = {};           // word of relay::LaneState; empty: not known yet
  int64_t delivered_to = 0;      // created_at of the last event resolved without a gap since the owner took the lane
  int64_t inflight_count = 0;    // read from the log and not resolved
  uint64_t next_xid = 0;         // transactions before this id are read and resolved, but for those that were open then
  int64_t behind_since = 0;      // since when it has not been caught up; 0: it is
  uint64_t behind_from = 0;      // next_xid at that time
  bool caught_up = false;        // had read to the end of the log when it last looked, and looks when it is woken
  int64_t oldest = 0;            // created_at of the first event that is not resolved
  int64_t next_try_unix = 0;     // while backing off
  int64_t error_since_unix = 0;  // while there is trouble
  ErrorText trouble;             // the newest, of the log or the destination
};
static_assert(std::is_trivially_copyable_v<LaneView>);

}  // namespace outbox
