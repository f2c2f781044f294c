// Changing the number of lanes of a route [P behind]: first brings all of them to one common snapshot.
//
//   alter_route:  lanes_wanted = n, no common snapshot. Workers give the route's lanes back; nobody claims them.
//   keeper:       when no live worker owns one: common_snapshot = the current one, so not older than any lane's
//   position. workers:      claim them again, read up to the common snapshot, and rest there. keeper:       when all
//   positions are exactly there, and no parked event is being sent: the old lanes go and n new ones start from there.
//
// Safe because nothing is in flight beyond the common snapshot when the lanes are exchanged, and a worker learns of the
// limit, and of the number of lanes that its filter must be made for, from the tables after it has claimed the lane.
#pragma once

namespace outbox::log {

struct LaneChanges {
  int under_way = 0;     // routes that are not there yet
  bool changed = false;  // what workers read of a route has changed
};

// For the keeper; takes what steps can be taken now, each in a transaction of its own, waiting for no lock. Throws
// pg::PgError.
LaneChanges AdvanceLaneChanges();

}  // namespace outbox::log
