// Where the lanes of a route have begun and been before, by outbox_internal.lane_start and outbox_internal.progress
// [P]. Plain code: may raise PostgreSQL errors.
#pragma once

#include "base/lane_id.h"
#include "log/finding.h"

namespace outbox::log {

// The times before the lane began, from the last one back. *border: from there back nothing is taken up, because seek()
// put the lanes somewhere else, or nobody wrote down who did; DT_NOBEGIN: all is.
void ReadFormer(int64_t route_id, int64_t since, std::vector<Former>* former, int64_t* border);

// Whether adopt() put the lane before all that this log has: nothing older is its own. Reads the log only in that case,
// since that locks every day table.
bool BeganBeforeTheLog(const LaneId& lane);

int RewindsOfTheHour(const LaneId& lane);

// The route's topics may have had other names then.
bool AlteredSince(int64_t route_id, int64_t time);

// What is delivered from here on was delivered by this lane, also what others had delivered that there were before.
void MoveStart(int64_t route_id, int64_t since, const Position& position);

// From here on the lane passes over what is parked or was settled from there, as far as it has read before.
void NoteRepeats(const LaneId& lane);

}  // namespace outbox::log
