// What a relay worker is to do [P behind, no Postgres type in sight]: the routes, compiled, and their destinations.
#pragma once

#include <cstdint>
#include <map>
#include <string>

#include "log/progress/routes.h"
#include "relay/common/engine_types.h"
#include "worker/destination_config.h"

namespace outbox::worker {

struct RelayConfig {
  std::map<int64_t, log::Route> routes;
  std::map<relay::DestinationId, DestinationConfig> destinations;
  std::map<int64_t, relay::DestinationId> destination_of;  // route -> its destination
};

// Throws pg::PgError. `owner`: the extension's, see LoadDestinations. A destination's id is its server's oid; a server
// that does not exist (its lanes are shown as in trouble) gets a small made-up number that `made_up` remembers.
RelayConfig LoadRelayConfig(uint32_t owner, std::map<std::string, relay::DestinationId>* made_up);

// Returns true if both versions of the route read the same events up to the same limit and hold the same keys:
// otherwise a lane is released and added again.
bool SameReading(const log::Route& one, const log::Route& other);

}  // namespace outbox::worker
