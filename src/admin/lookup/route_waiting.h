// What waits for each route [P], put together from what the relay workers say of their lanes, what the keeper has found
// behind lanes that stand (standing_lanes.h), and a survey of the rest: for figures and drains.
#pragma once

#include <map>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "admin/lookup/shared_views.h"
#include "admin/lookup/survey.h"

namespace outbox::admin {

// What waits for a route with its side lanes: what the workers say of their lanes, and a survey of what they have not
// looked through, or of lanes that nobody has.
struct RouteWaiting : Waiting {
  int64 inflight = 0;
  int owned = 0;  // lanes, by whether a worker has them
  int unowned = 0;
  int64 behind_since = 0;  // since when one of its lanes has been behind, Unix microseconds; 0: none is
  bool stopped = false;    // the worker of one of its lanes does nothing, and tells of nothing that has come since
  bool moves = false;      // one that is behind is neither paused nor in trouble, nor is its worker stopped
  int64 standing = 0;      // of the count: what waits for lanes that are
  std::string trouble;     // of the first of those, for people; empty: none is in trouble
  // A table of the log could not be read, and nothing else is known to wait: `count` tells nothing, and `oldest` is
  // since when something may wait.
  bool uncounted = false;
};
// Which tables may be read; without them, only what workers say is known.
struct SurveyTables {
  bool lanes = true;      // route, lane, side_lane, side_topic, pause
  bool positions = true;  // progress, lane_start, identity, origin: needed for lanes that are not told of as caught up
  bool parked = true;
};
// By route. Throws PgError.
std::map<int64, RouteWaiting> WaitingByRoute(const std::vector<OwnedLaneView>& views,
                                             const std::vector<pg::StandingSlot>& standing, const LogEstimate& log,
                                             const SurveyTables& readable = {});

// Where a survey begins for a lane that a worker has read further; false: where it is saved.
bool BeginBehind(const OwnedLaneView* view, Position* position);
// What the keeper has found behind that position of the lane, which wants that (LaneRecord.wants), and up to where;
// nullptr: nothing. `slots`: as they were read.
const pg::StandingSlot* FindStanding(const std::vector<pg::StandingSlot>& slots, const LaneId& id, uint64 wants,
                                     const Position& position);

// Since when something that nobody can look at may have waited for the lane: since its worker has been behind, or since
// a worker last had it; 0: not known.
int64 BehindSince(const LaneRecord& lane, const OwnedLaneView* view);

// What a worker says, and whether that is all.
bool IsTold(const OwnedLaneView* view);

// Lanes of which a worker does not tell all, or not of one of their side lanes.
struct UntoldLanes {
  std::map<int64, std::string> routes;  // by id: their names
  std::set<std::pair<int64, int>> lanes;

  bool Has(const LaneId& id) const { return lanes.contains({id.route_id, id.lane}); }
};
// Throw PgError.
UntoldLanes FindUntold(const LaneViews& views);
std::vector<LaneRecord> LoadUntold(const UntoldLanes& untold);

}  // namespace outbox::admin
