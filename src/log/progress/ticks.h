// Ticks [P behind]: snapshots recorded while a lane lags, so that its backlog is read as many small windows; and while
// much is committed, for whoever reads that again or begins with it later. A window is looked through as a whole before
// the first of its events can be sent: 32,000 events take some 5 ms, for which what is in flight lasts.
#pragma once

#include <cstdint>

#include "base/snapshot.h"

namespace outbox::log {

// For the keeper, about once a second: records the current snapshot in outbox_internal.tick if events were committed
// since the last tick and a lane has not read as far as the log was at the previous call, or if many were; and
// after each change of routes, so that it can be told of later events that they came after it
// (admin/lookup/former_filters.h). Runs its own transaction, throws pg::PgError. Returns true if a tick was recorded.
class TickRecorder {
 public:
  bool RecordTick(int64_t now_micros);
  // Whether so much was committed since the last look, a tenth of a second ago, or since the last tick, that the next
  // one should not wait. Asks shared memory alone.
  bool IsDue();

 private:
  uint64_t commits_seen_ = 0;    // DatabaseSlot.emitting_commits at the last tick
  uint64_t commits_looked_ = 0;  // at the last look
  bool due_ = false;
  uint64_t previous_xmax_ = 0;  // of the snapshot at the previous call
  uint64_t generation_ = 0;     // DatabaseSlot.config_generation at the last tick
};

// A lane's way through the ticks. It steps over ticks as long as windows stay small, and takes each once they do not.
class TickCursor {
 public:
  // A lane with fewer finished transactions to read reads up to now.
  static constexpr uint64_t kNearNow = 2000;

  // `xids`: how many transactions the first window should span.
  explicit TickCursor(uint64_t xids = kNearNow) : xids_(xids) {}

  // The tick at which the next window ends, newer than `base`; returns false if there is none. Plain, under a guard, in
  // a transaction with SPI connected.
  bool Next(const Snapshot& base, Snapshot* end);
  // Reports the last window: how many rows were looked at.
  void Learn(uint64_t rows);

 private:
  bool FindStart(const Snapshot& base);

  bool started_ = false;
  int64_t at_ = 0;  // TimestampTz; ticks up to here are not newer than the lane
  uint64_t xids_;   // how many transactions a window should span
  Snapshot tick_;   // scratch
};

}  // namespace outbox::log
