#include "log/progress/ticks.h"

#include <algorithm>

#include "base/fault_point.h"
#include "days/day_table_ddl.h"
#include "log/progress/lane_tables.h"
#include "log/window/snapshots.h"
#include "pg/clock.h"
#include "pg/shared.h"
#include "pg/sql.h"
#include "pg/transaction.h"

namespace outbox::log {

using namespace pg::sql;

namespace {

constexpr int kTicksRead = 64;
constexpr uint64_t kManyAtOnce = 1'000;  // commits since the last look
constexpr uint64_t kManyInAll = 10'000;  // since the last tick
constexpr uint64_t kFewRows = 8'000;
constexpr uint64_t kManyRows = 32'000;
constexpr uint64_t kLeastXids = 250;
constexpr uint64_t kMostXids = 1'000'000;

// Selects ticks after a time, in order; returns how many.
uint64 ReadTicks(TimestampTz after, long limit) {
  static Statement next = {"SELECT at, snapshot FROM outbox_internal.tick WHERE at > $1 ORDER BY at LIMIT $2",
                           2,
                           {TIMESTAMPTZOID, INT8OID},
                           nullptr};
  Datum values[] = {TimestampTzGetDatum(after), Int64GetDatum(limit)};
  RunStatement(&next, values);
  return SPI_processed;
}

TimestampTz TickTime(uint64 row) {
  return ResultTime(row, 0);
}

uint64_t LowestLaneXmax() {
  static Statement lowest = {
      "SELECT pg_snapshot_xmax(p.window_from) AS x FROM outbox_internal.position p ORDER BY x LIMIT 1", 0, {}, nullptr};
  RunStatement(&lowest, nullptr);
  bool isnull = false;
  return SPI_processed == 0 ? UINT64_MAX : DatumGetUInt64(ResultDatum(0, 0, &isnull));
}

}  // namespace

bool TickRecorder::IsDue() {
  pg::DatabaseSlot* slot = pg::FindDatabaseSlot(MyDatabaseId, false);
  const uint64_t commits = slot == nullptr ? 0 : pg_atomic_read_u64(&slot->emitting_commits);
  due_ = due_ || commits - commits_looked_ >= kManyAtOnce || commits - commits_seen_ >= kManyInAll;
  commits_looked_ = commits;
  return due_;
}

bool TickRecorder::RecordTick(int64_t now_micros) {
  pg::DatabaseSlot* slot = pg::FindDatabaseSlot(MyDatabaseId, false);
  uint64_t generation = slot == nullptr ? 0 : pg_atomic_read_u64(&slot->config_generation);
  const bool changed = generation != generation_;
  const bool many = IsDue();
  const uint64_t commits = commits_looked_;
  due_ = false;
  if (commits == commits_seen_ && !changed) {
    return false;
  }
  bool recorded = false;
  Snapshot now;
  pg::InTransaction(CurrentMemoryContext, [&] {
    ReadActiveSnapshot(&now);
    if ((!changed && !many && LowestLaneXmax() >= previous_xmax_) ||
        !OidIsValid(days::FindDayTable(days::DayTableKind::kTick, days::DayOfMicros(now_micros)))) {
      return;
    }
    static Statement record = {"INSERT INTO outbox_internal.tick (at, snapshot) VALUES ($1, $2::pg_snapshot)",
                               2,
                               {TIMESTAMPTZOID, TEXTOID},
                               nullptr};
    Datum values[] = {TimeDatum(pg::TakeReadings(1)), SnapshotText(now)};
    RunStatement(&record, values);
    if (!changed) {
      pg::CommitWithoutFlush();  // one that a crash takes is missed by nobody
    }
    OUTBOX_FAULT_POINT("tick.uncommitted");
    recorded = true;
  });
  previous_xmax_ = now.xmax;
  if (recorded) {
    commits_seen_ = commits;
    generation_ = generation;
  }
  return recorded;
}

void TickCursor::Learn(uint64_t rows) {
  if (rows > kManyRows) {
    xids_ = std::max(kLeastXids, xids_ / 4);
  } else if (rows < kFewRows) {
    xids_ = std::min(kMostXids, xids_ * 2);
  }
}

// Ticks are in the order of their snapshots: halve the time between the first and the last until a second is left.
bool TickCursor::FindStart(const Snapshot& base) {
  static Statement last = {"SELECT at, snapshot FROM outbox_internal.tick ORDER BY at DESC LIMIT 1", 0, {}, nullptr};
  RunStatement(&last, nullptr);
  if (SPI_processed == 0) {
    return false;
  }
  TimestampTz high = TickTime(0);
  TimestampTz low = DT_NOBEGIN;
  if (ReadTicks(low, 1) == 0) {
    return false;
  }
  low = TickTime(0) - 1;
  while (high - low > USECS_PER_SEC) {
    TimestampTz middle = low + (high - low) / 2;
    if (ReadTicks(middle, 1) == 0) {
      break;
    }
    ReadSnapshotText(ResultText(0, 1), &tick_);
    if (tick_.xmax <= base.xmax) {
      low = TickTime(0);
    } else {
      high = middle;
    }
  }
  at_ = low;
  return true;
}

bool TickCursor::Next(const Snapshot& base, Snapshot* end) {
  if (!started_ && !FindStart(base)) {
    return false;
  }
  started_ = true;
  bool found = false;
  for (;;) {
    uint64 count = ReadTicks(at_, kTicksRead);
    for (uint64 row = 0; row < count; row++) {
      ReadSnapshotText(ResultText(row, 1), &tick_);
      if (tick_.xmax <= base.xmax || !tick_.Covers(base)) {
        at_ = TickTime(row);  // not newer than the lane; ticks before it are older still
        continue;
      }
      if (found && FinishedBetween(base, tick_) > xids_) {
        return true;
      }
      std::swap(*end, tick_);
      found = true;
    }
    if (found || count < kTicksRead) {
      return found;
    }
  }
}

}  // namespace outbox::log
