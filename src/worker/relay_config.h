// What a relay worker is to do [P behind, no Postgres type in sight]: the routes, compiled, and their destinations.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <string>

#include "format/route_spec.h"
#include "log/lanes.h"
#include "relay/engine.h"
#include "worker/destination.h"

namespace outbox::worker {

struct RelayConfig {
  std::map<int64_t, log::RouteConfig> routes;
  std::map<relay::DestinationId, DestinationConfig> destinations;
  std::map<int64_t, relay::DestinationId> destination_of;  // route -> its destination
};

// Throws pg::PgError. `owner`: the extension's, see LoadDestinations. A destination's id is its server's oid; a server
// that does not exist (its lanes are shown as in trouble) gets a small made-up number that `made_up` remembers.
RelayConfig LoadRelayConfig(uint32_t owner, std::map<std::string, relay::DestinationId>* made_up);

// The route as one of its lanes uses it; nullptr, and *problem filled, when somebody edited it by hand into nonsense.
std::shared_ptr<const format::RouteSpec> MakeSpec(const log::RouteConfig& route, const sink::SinkKind& kind,
                                                  int32_t lane, std::string* problem);

// True when the two read the same events, as far, and the same keys are held: otherwise a lane is released and added
// anew.
bool SameReading(const log::RouteConfig& one, const log::RouteConfig& other);

}  // namespace outbox::worker
