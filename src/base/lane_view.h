// What one lane, or a side lane, is doing [-]: the engine fills it, shared memory holds it, outbox.lag shows it. It is
// copied whole: a new figure is a field here, a line where the engine fills it and a column of the view.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <type_traits>

#include "base/error_text.h"
#include "base/lane_id.h"
#include "base/lane_state.h"
#include "base/snapshot.h"

namespace outbox {

// A snapshot in a fixed place, where few transactions were in progress in it.
struct SnapshotView {
  static constexpr size_t kMost = 12;
  uint64_t xmin = 0;
  uint64_t xmax = 0;
  int32_t count = -1;  // in progress; -1: not known, or more than there is room for
  uint64_t xip[kMost] = {};

  void Set(const Snapshot& snapshot) {
    count = snapshot.xip.size() > kMost ? -1 : static_cast<int32_t>(snapshot.xip.size());
    xmin = snapshot.xmin;
    xmax = snapshot.xmax;
    if (count > 0) {
      std::copy(snapshot.xip.begin(), snapshot.xip.end(), xip);
    }
  }
  std::optional<Snapshot> Get() const {
    return count < 0 ? std::nullopt : std::optional(Snapshot{xmin, xmax, {xip, xip + count}});
  }
};

// Times are Unix microseconds; 0: none.
struct LaneView {
  LaneId id;
  LaneState state = LaneState::kUnknown;
  uint32_t server = 0;         // where its owner sends to, which may not be where its route goes now; 0: not known yet
  int64_t delivered_to = 0;    // created_at of the last event resolved without a gap since the owner took the lane
  int64_t inflight_count = 0;  // read from the log and not resolved
  int64_t waiting = 0;         // found in the log and not resolved: in flight, or in a window that is read
  SnapshotView found_to;       // what finished later was not looked through yet
  int64_t behind_since = 0;    // since when it has not been caught up, or what waited then has waited; 0: it is well
  bool sends_parked = false;   // parked events of it are due and go: nothing is in the way of the lane
  bool caught_up = false;      // had read to the end of the log when it last looked, and looks when it is woken
  int64_t oldest = 0;          // created_at of the first of what waits; 0: nothing does
  int64_t next_try_unix = 0;   // while backing off
  int64_t error_since_unix = 0;  // while there is trouble
  ErrorText trouble;             // the newest, of the log or the destination

  // What waits in it goes: nobody has paused it, and it has no trouble.
  bool goes_on() const { return trouble.empty() && state != LaneState::kPaused && state != LaneState::kBackingOff; }
};
static_assert(std::is_trivially_copyable_v<LaneView>);

}  // namespace outbox
