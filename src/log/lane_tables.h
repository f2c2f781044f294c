// A lane's and its side lanes' rows in outbox.progress, outbox.lane and outbox.side_lane [P]. For use under a guard, in
// a transaction with SPI connected.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string_view>

#include "base/position.h"
#include "log/lanes.h"
#include "pg/arguments.h"
#include "pg/prelude.h"
#include "sink/sink.h"

namespace outbox::log {

// What a lane's rows say of its reading.
struct LaneStanding {
  Position position;
  int lanes = 0;  // of its route
  // The route's number of lanes is changing: the lane reads up to `limit` and no further; without a limit it reads
  // nothing at all.
  bool converging = false;
  std::optional<Snapshot> limit;
  int64_t since = 0;  // outbox.lane.since as it is: which reading of the route this is
};

// Of a lane or a side lane. Returns false if it has gone (its route was dropped, the topics are back).
bool ReadStanding(LaneId id, LaneStanding* standing);

// outbox.lane.since; 0 where the lane has gone.
int64_t ReadSince(LaneId lane);

// The positions of a route's lanes, as a lock of its own: whoever appends to their progress has it in RowExclusiveLock,
// whoever puts them somewhere else in ShareLock. Each to the end of its transaction; other routes are not concerned.
// Without `wait` ERRCODE_LOCK_NOT_AVAILABLE where it is not to be had just now.
void LockPositions(int64_t route_id, LOCKMODE mode, bool wait);

// Returns false if the lane is not the incarnation's, or was put somewhere else since `since` was read: what was done
// under the old position says nothing about the new one. `at`: a reading of the shared clock; its day's table must
// exist. `places`: where the events went that were delivered since the row before. Where there are many the row keeps
// some of them, and the highest stream id of all. `run` acknowledged them; `survived`: the row puts the lane back
// (rewind.h). "": none.
bool AppendProgress(LaneId id, uint64_t incarnation, int64_t since, int64_t at, const Position& position,
                    std::span<const sink::Place> places = {}, std::string_view run = {},
                    std::string_view survived = {});

// As text, text and timestamptz.
void AddPosition(const Position& position, pg::Arguments* arguments);
// window_from, window_to and done_to: three columns of the last result.
void ReadPosition(uint64 row, int column, Position* position);

// pg_snapshot in text form and back, without an owner on the frame; text that is none is an error (XX001).
Datum SnapshotText(const Snapshot& snapshot);
void ReadSnapshotText(const char* text, Snapshot* snapshot);

}  // namespace outbox::log
