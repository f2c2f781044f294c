// Routes, from the row in outbox.route to the RouteSpec that a lane works by [P behind, no Postgres type in sight]: for
// workers and for the functions that people call alike.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "format/route_spec.h"

namespace outbox::log {

// One row of outbox.route, with what people have paused of it.
struct Route {
  int64_t id = 0;
  std::string name;
  std::string server;
  format::RouteConfig config;  // but for what the destination's kind and the lane say, see CompileRoute
  sink::OptionList options;
  // The number of lanes is changing, and where the lanes are to meet; empty: not known yet. See lane_change.h.
  bool converging = false;
  std::string common_snapshot;
  // When its lanes were last put somewhere else (seek, another number of lanes), Unix microseconds; 0: never.
  int64_t moved_at = 0;
  bool operator==(const Route&) const = default;
};

// All routes, by id; no argument.
extern const char* const kSelectRoutes;
// Appends the rows of that, SPI's last result. Plain: may raise.
void ReadRoutes(std::vector<Route>* routes);

// Both in a transaction of its own; throws pg::PgError.
void ListRoutes(std::vector<Route>* routes);

// The route as one of its lanes uses it; nullptr, and *problem filled, when somebody edited it by hand into nonsense.
std::shared_ptr<const format::RouteSpec> CompileRoute(const Route& route, const sink::SinkKind& kind, int32_t lane,
                                                      std::string* problem);

}  // namespace outbox::log
