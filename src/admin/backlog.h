// How much of a route is not delivered yet, counted in the log itself [P].
#pragma once

#include <vector>

#include "admin/lanes.h"

namespace outbox::admin {

struct Backlog {
  int64 pending = 0;
  int64 oldest = 0;     // created_at of the oldest one, Unix microseconds; 0: none
  bool capped = false;  // counting stopped: there are at least `pending`, and possibly an older one
};

// Of a lane, its side lanes counted in; what is its own; and what is each side lane's.
struct LaneBacklog : Backlog {
  Backlog own;
  std::vector<Backlog> sides;
};

inline constexpr const char* kWholeLog = "outbox._whole_log";

// Looks at no more than this many events of a route where a bound is wanted: a few tenths of a second.
inline constexpr int64 kLagScanLimit = 300000;

// For each of `lanes`, which are all lanes of one route: committed events that it wants and has not passed. One walk
// along the xid index from where the last of them stands, by the rule of their windows, under the snapshot of the
// calling statement. `limit`: events looked at; 0: no limit. `only`: nothing but what is visible there as well. Lanes
// without a spec count none. Throws PgError.
// `table`: what is counted of it, the log or one of its day tables, as SQL has its name.
std::vector<LaneBacklog> CountBacklog(const std::vector<LaneRecord>& lanes, int64 limit, const Snapshot* only = nullptr,
                                      const char* table = kWholeLog);

}  // namespace outbox::admin
