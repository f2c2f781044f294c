// Changing the number of lanes of a route [P behind]: first brings all of them to one common snapshot.
//
// 1. alter_route() writes lanes_wanted. Nothing else happens yet.
// 2. When every lane is near the end of the log (it has delivered, within three seconds, all that was committed when a
//    barrier was asked for), the keeper writes lanes_begun, unless topics have left their lanes: what waits for either
//    could stop for long. Workers give the route's lanes back, and none claims them.
// 3. When no live worker owns one, the keeper sets the common snapshot: the current one, so not older than any lane's
//    position. Workers claim the lanes again, read up to there, and stop.
// 4. When all positions are exactly there, no parked event is being sent, and no session has one locked that has to
//    move, the keeper exchanges the lanes: n new ones start from there.
//
// When a topic leaves its lane in between, a session has such an event locked, or it takes seconds, the keeper takes
// steps 2 and 3 back: the lanes go on as they are, and the change begins again after at least twice the time that they
// were idle.
//
// Safe because nothing is in flight beyond the common snapshot when the lanes are exchanged, and a worker learns of the
// limit, and of the number of lanes that its filter must be made for, from the tables after it has claimed the lane.
#pragma once

#include <cstdint>
#include <exception>
#include <map>

#include "pg/prelude.h"

namespace outbox::log {

struct LaneChanges {
  int under_way = 0;                   // routes whose lanes are stopping
  int waiting = 0;                     // routes whose change has not begun
  bool asked = false;                  // a barrier was asked for just now
  bool changed = false;                // what workers read of a route has changed
  std::exception_ptr error = nullptr;  // the first PgError; other routes' steps were taken all the same
};

// What the keeper remembers of a route's change: microseconds, moments by the monotonic clock.
struct LaneChangeState {
  int64_t began = 0;                    // 0: it has not begun
  int64_t allowed = 5 * USECS_PER_SEC;  // how long it may take from then on
  int64_t pause = 0;                    // the last one between two tries
  int64_t not_before = 0;               // when the next try may begin
  uint64_t barrier = 0;                 // asked for before it begins; 0: none
  int64_t asked_at = 0;
};

// For the keeper; takes what steps can be taken now, each in a transaction of its own, waiting for no lock. Throws
// pg::PgError. `lane_changes`: by route; empty at first.
LaneChanges AdvanceLaneChanges(std::map<int64_t, LaneChangeState>* lane_changes);

}  // namespace outbox::log
