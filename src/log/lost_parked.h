// What was delivered from outbox_internal.parked and is lost: found by outbox_internal.outcome, event by event, and
// parked again [P].
#pragma once

#include "base/lane_id.h"
#include "base/status.h"
#include "log/finding.h"
#include "parked/statements.h"

namespace outbox::log {

// Plain code, like the next one. What was delivered from outbox_internal.parked, and is lost and not known to be. Of
// the lane, or (from before the lanes began anew) of one that there was before. `looked`: as of FindRun.
void FindLostParked(const Asked& asked, const Stretch& own, Finding* finding);

// Drops those that are another lane's: the route has another number of lanes since they were delivered. Those that the
// log has no more are of the first lane.
void KeepOwnParked(const LaneId& lane, Finding* finding);

// In portions: what one of them has put back is not lost any more.
Status SendParkedAgain(const Asked& asked, const LaneId& lane, const parked::ParkedOwner& me, const Stretch& own,
                       const Position& position, Finding* finding);

}  // namespace outbox::log
