// The claiming of lanes [P behind, no Postgres type in sight]. Each call runs its own short transaction
// and throws pg::PgError.
#pragma once

#include <cstddef>
#include <cstdint>
#include <set>
#include <vector>

#include "base/lane_id.h"

namespace outbox::log {

// Lanes in outbox_internal.lane, and how many of them have no live owner and may be claimed. Which owners are live: see
// ClaimLanes.
struct LaneCount {
  int all = 0;
  int unowned = 0;
};
LaneCount CountLanes();

// Claims up to `limit` lanes that have no owner, or one that is not a live relay worker of this database on this
// server (shared memory says which incarnations are). Rows that another worker is just claiming are skipped, never
// waited for. The claim is committed when this returns; appends what was claimed, lowest lanes first.
void ClaimLanes(uint64_t incarnation, int limit, std::vector<LaneId>* claimed);

// Gives up those of the lanes that are this incarnation's (others may have another owner already), up to kReleased of
// them. What stays in `*lanes` is to be tried again: rows that somebody holds are not waited for. Returns false if
// there are such. Of those in `unanswered`, which had something in flight, the row keeps when they were claimed: what
// they have sent nobody knows before another one sends it again.
inline constexpr std::size_t kReleased = 500;  // some 10 ms of a turn
bool ReleaseLanes(uint64_t incarnation, std::vector<LaneId>* lanes, const std::set<LaneId>& unanswered);

}  // namespace outbox::log
