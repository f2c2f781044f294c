// Routes and the claiming of lanes [P behind, no Postgres type in sight]. Each call runs its own short transaction
// and throws pg::PgError.
#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "base/lane_id.h"

namespace outbox::log {

// One row of outbox.route.
struct RouteConfig {
  int64_t id = 0;
  std::string name;
  std::string server;
  std::vector<std::string> aggregate_types;  // patterns with *
  std::vector<std::string> event_types;
  std::string topic;  // template
  std::string key;    // template
  int lanes = 1;
  std::vector<std::pair<std::string, std::string>> options;
  bool block = false;  // on_failure
  int max_attempts = 10;
  int64_t backoff_base = 0;  // microseconds
  int64_t backoff_cap = 0;
  // What people have stopped: the route or its server, topics, keys (aggregate type and id).
  bool paused = false;
  std::string pause_reason;
  std::vector<std::string> paused_topics;
  std::vector<std::pair<std::string, std::string>> paused_keys;
  // The number of lanes is changing, and where the lanes are to meet; empty: not known yet. See lane_change.h.
  bool converging = false;
  std::string common_snapshot;
  // When its lanes were last put somewhere else (seek, another number of lanes), Unix microseconds; 0: never.
  int64_t moved_at = 0;
  bool operator==(const RouteConfig&) const = default;
};

// Appends all routes, by id.
void ListRoutes(std::vector<RouteConfig>* routes);

// Lanes in outbox.lane, and how many of them nobody alive owns and somebody may claim. `live`: see ClaimLanes.
struct LaneCount {
  int all = 0;
  int unowned = 0;
};
LaneCount CountLanes();

// Claims up to `limit` lanes that have no owner, or one that is not a live relay worker of this database on this
// server (shared memory says which incarnations are). Rows that another worker is just claiming are skipped, never
// waited for. The claim is committed when this returns; appends what was claimed, lowest lanes first.
void ClaimLanes(uint64_t incarnation, int limit, std::vector<LaneId>* claimed);

// Gives the lane up if it is this incarnation's. False when it was not (then somebody else may have it).
bool ReleaseLane(LaneId lane, uint64_t incarnation);
// All lanes of this incarnation. Returns how many.
int ReleaseLanes(uint64_t incarnation);

// Lanes that the table says are this incarnation's: a lane can be taken away by hand or with its route. Appends.
void ListOwnedLanes(uint64_t incarnation, std::vector<LaneId>* owned);

}  // namespace outbox::log
