// Routes, from the row in outbox.route to the RouteSpec that a lane works by [P behind, no Postgres type in sight]: for
// workers and SQL functions alike.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "format/route_spec.h"

namespace outbox::log {

// One row of outbox.route, with its pauses.
struct Route {
  int64_t id = 0;
  std::string name;
  std::string server;
  format::RouteConfig config;  // without what the destination's kind and the lane add, see CompileRoute
  sink::OptionList options;
  // The number of lanes is changing, and the common snapshot; empty: not known yet. See lane_change.h.
  bool converging = false;
  std::string common_snapshot;
  // When its lanes were last put somewhere else (seek, another number of lanes), Unix microseconds; 0: never.
  int64_t moved_at = 0;
  bool operator==(const Route&) const = default;
};

// All routes, in no order; no argument. Behind it may follow what is asked of r, the row of outbox.route: of one by its
// id nothing of the others is read.
extern const char* const kSelectRoutes;
// Appends the rows of that statement, which are SPI's last result. Plain: may raise.
void ReadRoutes(std::vector<Route>* routes);

// Selects and reads all routes, by id, in a transaction of its own; throws pg::PgError.
void ListRoutes(std::vector<Route>* routes);

// The route as one of its lanes uses it; nullptr, and *problem filled where it is given, if the row was edited by
// hand into nonsense.
std::shared_ptr<const format::RouteSpec> CompileRoute(const Route& route, const sink::SinkKind& kind, int32_t lane,
                                                      std::string* problem = nullptr);

}  // namespace outbox::log
