// What waits for the lanes of all routes, found out at a bounded cost [P]: the one rule behind outbox.lag, the figures,
// the progress of a drain and what doctor() says of them. An event waits for a lane if the lane wants it, has not
// passed it, and it is committed: by the rules of the lanes' own windows.
//
// The log behind the lanes is walked once for all of them: from where the last of them stands, and from where others
// do, so that one far behind does not hide those near the end. Each row is judged for those routes only that want its
// types. Where that takes more rows than it may, the rest is sampled: pages at even distances, whose rows stand for
// those between. Then `more` says so: the count is an estimate, and the oldest is the oldest of those seen.
#pragma once

#include <map>
#include <vector>

#include "admin/lookup/log_estimate.h"
#include "admin/lookup/route_lanes.h"
#include "admin/lookup/shared_views.h"

namespace outbox::admin {

struct Waiting {
  int64 count = 0;
  int64 oldest = 0;   // created_at of the oldest event that is known to wait, Unix microseconds; 0: none is
  bool more = false;  // not all rows behind the lane were looked at
  int64 unseen = 0;   // then: created_at of the first row that was not
};

// Of a lane without its side lanes, and of each of those.
struct LaneWaiting {
  Waiting own;
  std::vector<Waiting> sides;
};

struct SurveyLimits {
  size_t rows;       // walked
  size_t judgments;  // of a row for a lane that may want it
  size_t segments;   // parts of the log that are walked each by itself
  size_t pages;      // sampled
  size_t parked;     // events that are looked up among the parked ones: those are no part of the log's
};
inline constexpr SurveyLimits kLagSurvey = {300'000, 3'000'000, 32, 512, 5'000};
inline constexpr SurveyLimits kFigureSurvey = {2'000, 20'000, 8, 48, 200};

// For `lanes`, of which those of a route come together, in their order; where they stand is what their positions say.
// A lane without a spec has nothing waiting. Under the snapshot of the calling statement, or up to `until`, which that
// covers. Throws PgError.
std::vector<LaneWaiting> Survey(const std::vector<LaneRecord>& lanes, const LogEstimate& log,
                                const SurveyLimits& limits, const Snapshot* until = nullptr);

// What waits for a route with its side lanes: what the workers say of their lanes, and a survey of what they have not
// looked through, or of lanes that nobody has.
struct RouteWaiting : Waiting {
  int64 inflight = 0;
  int owned = 0;  // lanes, by whether a worker has them
  int unowned = 0;
  int64 behind_since = 0;  // since when one of its lanes has not been caught up, Unix microseconds; 0: all are
  bool stands = false;     // those that are not are paused or in trouble
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
// What the keeper has found behind that position of the lane, and up to where; nullptr: nothing. `slots`: as they were
// read.
const pg::StandingSlot* FindStanding(const std::vector<pg::StandingSlot>& slots, const LaneId& id,
                                     const Position& position);

// Looks through the log for lanes that stand where they are (paused, in trouble, without a worker) while it grows, step
// by step, so that nobody has to when somebody asks. The keeper's.
class StandingLanes {
 public:
  StandingLanes();
  ~StandingLanes();
  StandingLanes(const StandingLanes&) = delete;
  StandingLanes& operator=(const StandingLanes&) = delete;
  // Takes some 100 ms at most, and a tenth of all time. In a transaction. Throws PgError.
  void Step();

 private:
  struct Kept;
  void Publish();

  std::map<LaneId, Kept> kept_;
  uint64 generation_ = 0;
  uint64 stride_;           // transactions of one walk
  int64_t next_ = 0;        // MonotonicMicros()
  bool published_ = false;  // there is something in shared memory
};

}  // namespace outbox::admin
