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

// The backlog of a lane including its side lanes, its own part, and the part of each side lane.
struct LaneBacklog : Backlog {
  Backlog own;
  std::vector<Backlog> sides;
};

inline constexpr const char* kWholeLog = "outbox._whole_log";

// The limit on events read per route where one is wanted: a few tenths of a second.
inline constexpr int64 kLagScanLimit = 300000;

// Counts, for each of `lanes`, which are all lanes of one route, the committed events that it wants and has not passed.
// This is one walk along the xid index from the position furthest back, by the rule of the lanes' windows, under the
// snapshot of the calling statement. `limit`: events read at most; 0: no limit. `only`: counts only what is visible in
// that snapshot, too. Lanes without a spec count none. Throws PgError. `table`: what is counted of it, the log or one
// of its day tables, as SQL has its name.
std::vector<LaneBacklog> CountBacklog(const std::vector<LaneRecord>& lanes, int64 limit, const Snapshot* only = nullptr,
                                      const char* table = kWholeLog);

}  // namespace outbox::admin
