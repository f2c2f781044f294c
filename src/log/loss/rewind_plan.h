// Which reader begins where, so that all that is lost is read again and little else [P].
#pragma once

#include "base/lane_id.h"
#include "log/loss/finding.h"

namespace outbox::log {

constexpr size_t kMostSides = 200;  // a lane has room for 256

// One position before all of them.
Position Oldest(const std::vector<Position>& positions);

// The side lanes that there are. Plain.
void ReadPresent(const LaneId& lane, Finding* finding);

// Topics whose events a side lane has delivered and lost are read again by a side lane, from where that stood: one that
// there is goes back, else one is made. The lane, which begins at `position`, passes over them. Side lanes that
// have lost nothing stay, unless the lane goes back behind the point where their topics left it.
void PlanSides(const Position& position, bool moved, Finding* finding);

// The position of the reader that has the event's topic.
const Position& ReaderOf(const LostParked& lost, const Position& position, const Finding& finding);

}  // namespace outbox::log
