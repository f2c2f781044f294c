// What waits for the lanes of all routes, found out at a bounded cost [P]: the one rule behind outbox.lag, the figures,
// the progress of a drain and what doctor() says of them. An event waits for a lane if the lane wants it, has not
// passed it, it is committed, by the rules of the lanes' own windows, and it is due.
//
// The log behind the lanes is walked once for all of them: from where the last of them stands, and from where others
// do, so that one far behind does not hide those near the end. Each row is judged for those routes only that want its
// types. Where that takes more rows than it may, the rest is sampled: pages at even distances, whose rows stand for
// those between (survey_sample.h). Then `more` says so: the count is an estimate, and the oldest is the oldest of those
// seen.
#pragma once

#include <algorithm>
#include <vector>

#include "admin/lookup/log_estimate.h"
#include "admin/lookup/route_lanes.h"
#include "base/due_counts.h"

namespace outbox::admin {

struct Waiting {
  int64 count = 0;
  // Since when the first of them that is known has waited (created_at, or deliver_at), Unix microseconds; 0: none is.
  int64 oldest = 0;
  bool more = false;        // not all rows behind the lane were looked at
  int64 unseen = 0;         // then: created_at of the first row that was not
  DueCounts later;          // what is not due yet, if asked for
  bool unreadable = false;  // of what is behind the lane a page or a file cannot be read: `count` tells nothing

  // For a lane that is there since then: nothing has waited for it for longer.
  Waiting Since(int64 there_since) const {
    Waiting since = *this;
    since.oldest = oldest == 0 ? 0 : std::max(oldest, there_since);
    since.unseen = unseen == 0 ? 0 : std::max(unseen, there_since);
    return since;
  }
};

// Of a lane without its side lanes, and of each of those.
struct LaneWaiting {
  Waiting own;
  std::vector<Waiting> sides;

  // Not all rows behind it, or behind one of those, were looked at.
  bool more() const {
    return own.more || std::any_of(sides.begin(), sides.end(), [](const Waiting& side) { return side.more; });
  }
};

struct SurveyLimits {
  size_t rows;       // walked
  size_t judgments;  // of a row for a lane that may want it
  size_t segments;   // parts of the log that are walked each by itself
  size_t pages;      // sampled
  size_t parked;     // events that are looked up among the parked ones: those are no part of the log's
  bool later;        // Waiting.later is asked for
};
inline constexpr SurveyLimits kLagSurvey = {300'000, 3'000'000, 32, 512, 5'000, false};
inline constexpr SurveyLimits kFigureSurvey = {2'000, 20'000, 8, 48, 200, false};

// For `lanes`, of which those of a route come together, in their order; where they stand is what their positions say.
// A lane without a spec has nothing waiting. Under the snapshot of the calling statement, or up to `until`, which that
// covers. Throws PgError.
std::vector<LaneWaiting> Survey(const std::vector<LaneRecord>& lanes, const LogEstimate& log,
                                const SurveyLimits& limits, const Snapshot* until = nullptr);

// The same, of what can be read: where a page or a file cannot, each route is looked at by itself, with its share of
// what may be walked, and those whose part of the log that concerns are `unreadable`.
std::vector<LaneWaiting> SurveyReadable(const std::vector<LaneRecord>& lanes, const LogEstimate& log,
                                        const SurveyLimits& limits);

// Whether `a` was taken before `b`, of the same server: a later snapshot sees more.
bool Earlier(const Snapshot& a, const Snapshot& b);

}  // namespace outbox::admin
