// Where the lanes of a route have begun and been before, by outbox_internal.lane_start and outbox_internal.progress
// [P]. Plain code: may raise PostgreSQL errors.
#pragma once

#include "base/lane_id.h"
#include "log/loss/finding.h"

namespace outbox::log {

// The times of earlier lanes of the route, newest first. *border: what is older is not sent again, because seek() or
// adopt() put the lanes somewhere else then, or it is not recorded what did; DT_NOBEGIN: there is no such border.
void ReadFormer(int64_t route_id, int64_t since, std::vector<Former>* former, int64_t* border);

// Whether the lane has lost all that it delivered since a dump was adopted whose original wrote to this server, too: of
// what that one delivered nothing is noted here.
bool AllSinceAdoption(const Asked& asked, int32 lane, const Finding& finding);

// Whether adopt() put the lane before all that this log has: nothing older is its own. Reads the log only in that case,
// since that locks every day table.
bool BeganBeforeTheLog(const LaneId& lane);

int RewindsOfTheHour(const LaneId& lane);

// The route's topics may have had other names then.
bool AlteredSince(int64_t route_id, int64_t time);

// Sets finding->altered, of what was delivered after `since`. Up to ten seconds before and after, for what was on its
// way; a change that was still uncommitted in the positions that are kept is one, too.
void FindAltered(int64_t route_id, int64_t since, Finding* finding);

// A created_at that is no later than that of anything behind the position, of any lane: a second or so before what was
// emitted last before it. DT_NOBEGIN: not known. Reads the log, which locks every day table.
int64_t EmittedSince(const Position& position);

// From now on the lane also answers for what earlier lanes delivered after `position`.
void MoveStart(int64_t route_id, int64_t since, const Position& position);

// From here on the lane passes over what is parked or was settled from there, as far as it has read before.
void NoteRepeats(const LaneId& lane);

}  // namespace outbox::log
