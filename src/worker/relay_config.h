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
  std::map<std::string, relay::DestinationId> destination_of;  // server name -> id
};

// Throws pg::PgError. `owner`: the extension's, see LoadDestinations. Servers that do not exist get small made-up ids,
// by name and stable
// (`missing` remembers them): their lanes are shown as in trouble.
RelayConfig LoadRelayConfig(uint32_t owner, std::map<std::string, relay::DestinationId>* missing);

// The route as one of its lanes uses it; nullptr, and *problem filled, when somebody edited it by hand into nonsense.
std::shared_ptr<const format::RouteSpec> MakeSpec(const log::RouteConfig& route, format::DestinationKind kind,
                                                  int32_t lane, std::string* problem);

// True when the two read different events: then a lane is released and added anew.
bool SameReading(const log::RouteConfig& one, const log::RouteConfig& other);

}  // namespace outbox::worker
