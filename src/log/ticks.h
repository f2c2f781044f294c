// Ticks [P behind]: snapshots recorded while a lane lags, so that its backlog is read as many small windows.
#pragma once

#include <cstddef>
#include <cstdint>

#include "base/snapshot.h"

namespace outbox::log {

// For the keeper, about once a second: records the current snapshot in outbox.tick when events were committed since
// the last one and a lane has not got as far as the log was at the call before. Runs its own transaction, throws
// pg::PgError. Returns true if a tick was recorded.
class TickRecorder {
 public:
  bool RecordTick(int64_t now_micros);

 private:
  uint64_t commits_seen_ = 0;   // DatabaseSlot.emitting_commits at the last tick
  uint64_t previous_xmax_ = 0;  // of the snapshot at the call before
};

// A lane's way through the ticks. It steps over ticks as long as windows stay small, and takes each once they do not.
class TickCursor {
 public:
  // A lane that has fewer finished transactions to look at reads up to now.
  static constexpr uint64_t kNearNow = 2000;

  // Where the next window ends: a tick that is newer than `base`; false when there is none. Plain, under a guard, in a
  // transaction with SPI connected.
  bool Next(const Snapshot& base, Snapshot* end);
  // What became of the last window: bytes held, or too large to be held.
  void Learn(size_t bytes, bool large);

 private:
  bool FindStart(const Snapshot& base);

  bool started_ = false;
  int64_t at_ = 0;            // TimestampTz; ticks up to here are not newer than the lane
  uint64_t xids_ = kNearNow;  // how many transactions a window should span
  Snapshot tick_;             // scratch
};

}  // namespace outbox::log
