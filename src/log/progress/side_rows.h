// Rows of outbox_internal.side_lane and outbox_internal.side_topic: the side lanes of one lane, as they stand there
// [P]. For use under a guard, in a transaction.
#pragma once

#include <cstdint>
#include <vector>

#include "base/lane_id.h"
#include "relay/common/side_log.h"

namespace outbox::log {

void ReadSides(const LaneId& lane, std::vector<relay::SideLane>* sides);
// Makes the side lane, or moves it.
void PutSide(const LaneId& lane, const relay::SideLane& side, const Position& position);
void DropSide(const LaneId& lane, int32_t side);

}  // namespace outbox::log
