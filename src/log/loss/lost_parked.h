// What was delivered from outbox_internal.parked and is lost: found by outbox_internal.outcome, event by event, and
// parked again [P].
#pragma once

#include "base/lane_id.h"
#include "base/status.h"
#include "log/loss/finding.h"
#include "parked/statements.h"

namespace outbox::log {

// Finds what was delivered from outbox_internal.parked, is lost, and was not known to be: by the lane, or by an earlier
// lane of the route; without what seek() has had the lanes send since. `looked`: as of FindRun. Plain code, as is
// KeepOwnParked().
void FindLostParked(const Asked& asked, const Stretch& own, Finding* finding);

// Drops those that are another lane's: the route has another number of lanes since they were delivered. Those that the
// log has no more are of the first lane.
void KeepOwnParked(const LaneId& lane, Finding* finding);

// In portions: what one of them has put back is not lost any more.
Status SendParkedAgain(const Asked& asked, const LaneId& lane, const parked::ParkedOwner& me, const Stretch& own,
                       const Position& position, Finding* finding);

}  // namespace outbox::log
