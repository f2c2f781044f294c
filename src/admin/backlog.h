// How much a lane has not delivered yet, counted in the log itself [P].
#pragma once

#include <vector>

#include "admin/lanes.h"

namespace outbox::admin {

struct Backlog {
  int64 pending = 0;
  int64 oldest = 0;     // created_at of the oldest one, Unix microseconds; 0: none
  bool capped = false;  // counting stopped: there are at least `pending`, and possibly an older one
};

// Looks at no more than this many events of a lane where a bound is wanted.
inline constexpr int64 kLagScanLimit = 100000;

// Committed events that the lane wants and has not passed. Through the xid index, by the rule of the lane's windows.
// `limit`: events looked at; 0: no limit. A lane without a spec counts none. Throws PgError.
Backlog CountBacklog(const LaneRecord& lane, int64 limit);
// Over all lanes, without a limit.
Backlog CountBacklog(const std::vector<LaneRecord>& lanes);

}  // namespace outbox::admin
