// How much of a route is not delivered yet, counted in the log itself [P].
#pragma once

#include <string>
#include <vector>

#include "admin/lookup/route_lanes.h"

extern "C" {
#include "commands/trigger.h"
}

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

inline constexpr const char* kWholeLog = "outbox_internal.whole_log";

// The limit on events read per route where one is wanted: a few tenths of a second.
inline constexpr int64 kLagScanLimit = 300000;

// One aggregate; in UTF-8, as lanes compare it.
struct BacklogKey {
  std::string type;
  std::string id;
};

struct BacklogQuery {
  int64 limit = 0;                  // events read at most; 0: no limit
  const Snapshot* only = nullptr;   // counts only what is visible in that snapshot, too
  const BacklogKey* key = nullptr;  // counts only its events
  int64 due_by = PG_INT64_MAX;      // counts only what is due by then (deliver_at), Unix microseconds; of the whole log
  const char* table = kWholeLog;    // what is counted of it: the log or one of its day tables, as SQL has its name
  // Counts events that the route has parked, too, while its lane is not past them: a lane parks what is behind an event
  // in flight. Left out where outbox_internal.parked is counted as well.
  bool parked = false;
  bool own = false;                   // counts events of this transaction, too, which are not committed
  TriggerData* removed_by = nullptr;  // counts what its statement has removed; `table` is its transition table
};

// Counts, for each of `lanes`, which are all lanes of one route, the committed events that it wants and has not passed.
// This is one walk along the xid index from the position furthest back, by the rule of the lanes' windows.
// Access::kRead where the lanes were loaded so; else what is committed by now is counted. Under a snapshot older than
// that of the lanes, what was committed between the two would be neither passed nor pending. Lanes without a spec count
// none. Throws PgError.
std::vector<LaneBacklog> CountBacklog(const std::vector<LaneRecord>& lanes, Access access, const BacklogQuery& query);

}  // namespace outbox::admin
