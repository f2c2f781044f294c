#include "worker/relay_config.h"

#include <algorithm>
#include <vector>

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
  std::vector<log::RouteConfig> routes;
  log::ListRoutes(&routes);
  std::vector<std::string> names;
  for (const log::RouteConfig& route : routes) {
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
  for (log::RouteConfig& route : routes) {
    DestinationConfig destination = servers.at(route.server);
    relay::DestinationId id = destination.oid != 0 ? destination.oid : MadeUpId(route.server, made_up);
    config.destinations.emplace(id, std::move(destination));
    config.destination_of.emplace(route.id, id);
    int64_t route_id = route.id;
    config.routes.emplace(route_id, std::move(route));
  }
  return config;
}

std::shared_ptr<const format::RouteSpec> MakeSpec(const log::RouteConfig& route, const sink::SinkKind& kind,
                                                  int32_t lane, std::string* problem) {
  format::RouteConfig config;
  config.kind = &kind;
  config.aggregate_types = route.aggregate_types;
  config.event_types = route.event_types;
  config.topic = route.topic;
  config.key = route.key;
  if (kind.form != nullptr) {
    config.form = kind.form(route.options);
  }
  config.lanes = static_cast<uint32_t>(route.lanes > 0 ? route.lanes : 1);
  config.lane = static_cast<uint32_t>(lane);
  config.policy.on_failure = route.block ? format::OnFailure::kBlock : format::OnFailure::kSkip;
  config.policy.max_attempts = route.max_attempts;
  config.policy.backoff_base = route.backoff_base;
  config.policy.backoff_cap = route.backoff_cap;
  config.paused = route.paused;
  config.pause_reason = route.pause_reason;
  config.paused_topics = route.paused_topics;
  for (const auto& [aggregate_type, aggregate_id] : route.paused_keys) {
    config.paused_keys.push_back({aggregate_type, aggregate_id});
  }
  if (config.lane >= config.lanes) {
    *problem = "the lane is outside of the route's lanes";
    return nullptr;
  }
  format::TemplateError error;
  auto spec = format::RouteSpec::Make(config, &error);
  if (spec == nullptr) {
    *problem = error.message;
  }
  return spec;
}

bool SameReading(const log::RouteConfig& one, const log::RouteConfig& other) {
  return one.aggregate_types == other.aggregate_types && one.event_types == other.event_types &&
         one.lanes == other.lanes && one.block == other.block && one.converging == other.converging &&
         one.common_snapshot == other.common_snapshot && one.moved_at == other.moved_at;
}

}  // namespace outbox::worker
