// The claiming of lanes [P behind, no Postgres type in sight]. Each call runs its own short transaction
// and throws pg::PgError.
#pragma once

#include <cstdint>
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

// Gives the lane up if it is this incarnation's. Returns false if it was not (then another worker may own it).
bool ReleaseLane(LaneId lane, uint64_t incarnation);

}  // namespace outbox::log
