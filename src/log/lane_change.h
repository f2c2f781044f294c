// Changing the number of lanes of a route [P behind]: first brings all of them to one common snapshot.
//
// 1. alter_route() writes lanes_wanted. Nothing else happens yet.
// 2. The keeper writes lanes_begun, unless topics have left their lanes: what waits for them could stand for long.
//    Workers give the route's lanes back; nobody claims them.
// 3. When no live worker owns one, the keeper sets the common snapshot: the current one, so not older than any lane's
//    position. Workers claim the lanes again, read up to there, and rest.
// 4. When all positions are exactly there, no parked event is being sent, and nobody else has one locked that has to
//    move, the keeper exchanges the lanes: n new ones start from there.
//
// When a topic leaves its lane in between, a session holds such an event, or it takes too long, the keeper takes 2 and
// 3 back: the lanes go on as they are, and a while later it begins anew.
//
// Safe because nothing is in flight beyond the common snapshot when the lanes are exchanged, and a worker learns of the
// limit, and of the number of lanes that its filter must be made for, from the tables after it has claimed the lane.
#pragma once

#include <cstdint>
#include <map>

#include "pg/prelude.h"

namespace outbox::log {

struct LaneChanges {
  int under_way = 0;     // routes whose lanes come to rest
  int waiting = 0;       // routes where it has not begun
  bool changed = false;  // what workers read of a route has changed
};

// What the keeper remembers of a route's change, microseconds. The longer it has taken, the longer it may take: lanes
// that are far behind the others come there as well.
struct LanePace {
  bool begun = false;
  int64_t allowed = 10 * USECS_PER_SEC;
  int64_t pause = 0;           // the last one
  TimestampTz not_before = 0;  // it begins
};

// For the keeper; takes what steps can be taken now, each in a transaction of its own, waiting for no lock. Throws
// pg::PgError. `paces`: by route; empty at first.
LaneChanges AdvanceLaneChanges(std::map<int64_t, LanePace>* paces);

}  // namespace outbox::log
