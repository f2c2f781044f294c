// A lane's and its side lanes' rows in outbox_internal.progress, outbox_internal.lane and outbox_internal.side_lane
// [P]. For use under a guard, in a transaction with SPI connected.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string_view>

#include "base/position.h"
#include "log/progress/lane_claims.h"
#include "log/progress/run_period.h"
#include "pg/prelude.h"
#include "pg/statement_arguments.h"
#include "sink/sink.h"

namespace outbox::log {

// What a lane's rows say about its reading.
struct LaneRow {
  Position position;
  int lanes = 0;  // of its route
  // The route's number of lanes is changing: the lane reads up to `limit` and no further; without a limit it reads
  // nothing at all.
  bool converging = false;
  std::optional<Snapshot> limit;
  int64_t since = 0;                   // outbox_internal.lane.since: when the lane was last put somewhere
  std::optional<Snapshot> repeats_to;  // outbox_internal.lane.repeats_to
  int64_t there_since = 0;             // TimestampTz: the later of since, and when the route was made
};

// Reads the rows of a lane or a side lane. Returns false if it has gone (its route was dropped, or the topics are
// back).
bool ReadLaneRow(LaneId id, LaneRow* lane_row);

// outbox_internal.lane.since; 0 if the lane has gone.
int64_t ReadSince(LaneId lane);

// Locks the positions of a route's lanes, until the transaction ends: in RowExclusiveLock to append to their progress,
// in ShareLock to put the lanes somewhere else. Other routes are not concerned. Without `wait`, raises
// ERRCODE_LOCK_NOT_AVAILABLE if the lock is not free.
void LockPositions(int64_t route_id, LOCKMODE mode, bool wait);

enum class Appended : uint8_t {
  kWritten,
  kMoved,  // nothing was written: the lane is the incarnation's, but was put somewhere else since `since` was read.
           // What was done under the old position says nothing about the new one, and the worker is about to release it
  kLost,   // nothing was written: it is not the incarnation's
};

// `at`: a reading of the shared clock; its day's table must exist. `places`: where the events are that were delivered
// since the previous row. If there are many, the row keeps some of them, and the highest stream id of all. `server_run`
// acknowledged them; `survived`: the row puts the lane back (rewind.h). "": none. `period`: kept between calls by a
// caller that appends many rows, so that the previous row need not be read each time; may be nullptr. `over`: the side
// lane ends with it, having nothing in its hands any more.
Appended AppendProgress(LaneId id, uint64_t incarnation, int64_t since, int64_t at, const Position& position,
                        std::span<const sink::Place> places = {}, std::string_view server_run = {},
                        RunPeriod* period = nullptr, std::string_view survived = {}, bool over = false);

// As text, text and timestamptz.
void AddPosition(const Position& position, pg::Arguments* arguments);
// window_from, window_to and done_to: three columns of the last result.
void ReadPosition(uint64 row, int column, Position* position);

// pg_snapshot in text form and back, without an owner on the frame; raises XX001 if the text is no snapshot.
Datum SnapshotText(const Snapshot& snapshot);
void ReadSnapshotText(const char* text, Snapshot* snapshot);

}  // namespace outbox::log
