// Parked events when the number of a route's lanes changes [P]: each belongs to the lane that its key belongs to.
#pragma once

#include "pg/prelude.h"

namespace outbox::parked {

// Locks those rows of the route that belong to another lane when there are `lanes`, without waiting for anybody. False
// when somebody has one of them locked. Plain, in portions: there may be a million.
bool LockParkedToMove(int64 route_id, int32 lanes);

// Gives them to their lanes. Nobody else may add any meanwhile.
void MoveParked(int64 route_id, int32 lanes);

}  // namespace outbox::parked
