// Routes and lanes as they stand in the tables, compiled with the very code that the engine uses [P].
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "admin/query.h"
#include "base/position.h"
#include "format/route_spec.h"

namespace outbox::admin {

struct LaneRecord {
  int64 route_id = 0;
  std::string route;
  std::string server;
  int lane = 0;
  Position position;        // durable: the newest row of outbox.progress, else the one in outbox.lane
  Snapshot start_snapshot;  // an event visible here and created before start_time is none of this route's
  int64 start_time = 0;     // Unix microseconds
  // nullptr: the server is gone or the route was edited by hand; `trouble` says what.
  std::shared_ptr<const format::RouteSpec> spec;
  std::string trouble;

  // Delivered or dead: the lane has passed it.
  bool Passed(uint64 xid, int64 created_at) const;
  // The route began after it.
  bool BeforeStart(uint64 xid, int64 created_at) const;
};

// Of one route, or of all (nothing), by route name and lane. Throws PgError.
std::vector<LaneRecord> LoadLanes(const Cell& route, Access access = Access::kRead);

// One group for each route, in the order given (lanes of a route come together).
std::vector<std::vector<LaneRecord>> ByRoute(std::vector<LaneRecord> lanes);

// `text` from the server in pg_snapshot's form. Throws UserError (XX001) on anything else.
Snapshot ParseSnapshot(const std::string& text);

}  // namespace outbox::admin
