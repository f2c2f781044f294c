// Ticks [P behind]: snapshots recorded while a lane lags, so that its backlog is read as many small windows.
#pragma once

#include <cstdint>

namespace outbox::log {

// For the keeper, about once a second: records the current snapshot in outbox.tick when events were committed since
// the last one and a lane has not got as far as the log was at the call before. Runs its own transaction, throws
// pg::PgError. True when a tick was recorded.
class TickRecorder {
 public:
  bool RecordTick(int64_t now_micros);

 private:
  uint64_t commits_seen_ = 0;   // DatabaseSlot.emitting_commits at the last tick
  uint64_t previous_xmax_ = 0;  // of the snapshot at the call before
};

}  // namespace outbox::log
