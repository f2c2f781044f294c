// A lane's rows in outbox.progress and outbox.lane [P]. For use under a guard, in a transaction with SPI
// connected.
#pragma once

#include <cstdint>
#include <optional>

#include "base/position.h"
#include "log/lanes.h"
#include "pg/prelude.h"

namespace outbox::log {

// What a lane's rows say of its reading.
struct LaneStanding {
  Position position;
  int lanes = 0;  // of its route
  // The route's number of lanes is changing: the lane reads up to `limit` and no further; without a limit it reads
  // nothing at all.
  bool converging = false;
  std::optional<Snapshot> limit;
};

// False when the lane has gone (its route was dropped).
bool ReadStanding(LaneId id, LaneStanding* standing);

// Incarnations of this database's relay workers that are alive, as int8[]. An owner that is not among them owns
// nothing.
Datum LiveIncarnations();

// False when the lane is not the incarnation's. `at`: a reading of the shared clock; its day's table must exist.
bool AppendProgress(LaneId id, uint64_t incarnation, int64_t at, const Position& position);

// pg_snapshot in text form and back, without an owner on the frame; text that is none is an error (XX001).
Datum SnapshotText(const Snapshot& snapshot);
void ReadSnapshotText(const char* text, Snapshot* snapshot);

}  // namespace outbox::log
