// What lanes are doing, written into shared memory for views and for functions that wait [P]. A lane has a slot while a
// live worker owns it. Plain code that never raises; see pg/shared.h for the fields.
#pragma once

#include "pg/shared.h"
#include "relay/engine.h"

namespace outbox::worker {

// The lane's slot, now this incarnation's, with everything cleared; nullptr when all are taken (the lane works all the
// same, but nobody can see it).
pg::LaneSlot* TakeLaneSlot(Oid database, const LaneId& lane, uint64 incarnation);
void WriteLaneSlot(pg::LaneSlot* slot, uint64 incarnation, const relay::LaneStatus& status);
// Frees it, unless a new owner has it already.
void FreeLaneSlot(pg::LaneSlot* slot, uint64 incarnation);
void FreeLaneSlots(uint64 incarnation);

}  // namespace outbox::worker
