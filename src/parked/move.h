// Parked events when the number of a route's lanes changes [P]: each goes to the lane that its key hashes to.
#pragma once

#include "pg/prelude.h"

namespace outbox::parked {

// Locks those rows of the route that belong to another lane when there are `lanes`, without waiting. Returns false if
// another transaction has one of them locked. Plain, in portions: there may be a million.
bool LockParkedToMove(int64 route_id, int32 lanes);

// Gives them to their lanes. No other transaction may add any meanwhile.
void MoveParked(int64 route_id, int32 lanes);

}  // namespace outbox::parked
