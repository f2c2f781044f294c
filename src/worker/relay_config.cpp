#include "worker/relay_config.h"

#include <algorithm>
#include <vector>

#include "pg/key_secret.h"
#include "pg/transaction.h"

namespace outbox::worker {

namespace {

// Oids of foreign servers start at 16384.
constexpr relay::DestinationId kFirstMadeUp = 1;

relay::DestinationId MadeUpId(const std::string& server, std::map<std::string, relay::DestinationId>* made_up) {
  auto next = static_cast<relay::DestinationId>(kFirstMadeUp + made_up->size());
  return made_up->emplace(server, next).first->second;
}

}  // namespace

RelayConfig LoadRelayConfig(uint32_t owner, std::map<std::string, relay::DestinationId>* made_up) {
  // Before any lane of it computes a key.
  pg::InTransaction(CurrentMemoryContext, [] { pg::LoadKeySecret(); });
  std::vector<log::Route> routes;
  log::ListRoutes(&routes);
  std::vector<std::string> names;
  for (const log::Route& route : routes) {
    if (std::find(names.begin(), names.end(), route.server) == names.end()) {
      names.push_back(route.server);
    }
  }
  std::map<std::string, DestinationConfig> servers;
  for (DestinationConfig& destination : LoadDestinations(names, owner)) {
    std::string name = destination.name;
    servers.emplace(std::move(name), std::move(destination));
  }
  RelayConfig config;
  for (log::Route& route : routes) {
    DestinationConfig destination = servers.at(route.server);
    relay::DestinationId id = destination.oid != 0 ? destination.oid : MadeUpId(route.server, made_up);
    config.destinations.emplace(id, std::move(destination));
    config.destination_of.emplace(route.id, id);
    int64_t route_id = route.id;
    config.routes.emplace(route_id, std::move(route));
  }
  return config;
}

bool SameReading(const log::Route& one, const log::Route& other) {
  return one.config.aggregate_types == other.config.aggregate_types &&
         one.config.event_types == other.config.event_types && one.config.lanes == other.config.lanes &&
         one.config.policy.on_failure == other.config.policy.on_failure && one.converging == other.converging &&
         one.common_snapshot == other.common_snapshot && one.moved_at == other.moved_at;
}

}  // namespace outbox::worker
