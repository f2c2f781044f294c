// What lanes are doing and how destinations are, written into shared memory for views and for functions that wait [P].
// A lane has a slot while a live worker owns it. Plain code that never raises; see pg/shared.h for the fields.
#pragma once

#include <span>

#include "pg/shared.h"

namespace outbox::worker {

// A lane and its slot, now this incarnation's, with everything cleared; nullptr if all are taken (the lane works all
// the same, but is not shown).
struct TakenSlot {
  LaneId lane;
  pg::LaneSlot* slot = nullptr;
};
// Of lanes in ascending order, none twice: a worker may come to thousands at once, and looks at each slot twice for
// all.
void TakeLaneSlots(Oid database, uint64 incarnation, std::span<TakenSlot> lanes);
void WriteLaneSlot(pg::LaneSlot* slot, uint64 incarnation, const LaneView& view, uint64 barrier);
// Frees it, unless a new owner has it already.
void FreeLaneSlot(pg::LaneSlot* slot, uint64 incarnation);

// The slot for what this worker knows of a destination, cleared; nullptr if all are taken.
pg::DestinationSlot* TakeDestinationSlot(Oid database, Oid server, const char* name, uint64 incarnation);
void WriteDestinationSlot(pg::DestinationSlot* slot, uint64 incarnation, const DestinationView& view);
void FreeDestinationSlot(pg::DestinationSlot* slot, uint64 incarnation);

// Frees all slots of the incarnation, of lanes and of destinations.
void FreeLaneSlots(uint64 incarnation);

}  // namespace outbox::worker
