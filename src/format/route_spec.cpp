#include "format/route_spec.h"

namespace outbox::format {

namespace {

uint32_t Fnv1a(const uint8_t* bytes, size_t size) {
  uint32_t hash = 2166136261u;
  for (size_t i = 0; i < size; ++i) {
    hash ^= bytes[i];
    hash *= 16777619u;
  }
  return hash ^ (hash >> 16);
}

}  // namespace

uint32_t LaneOf(std::string_view aggregate_id, const Uuid& id, uint32_t lanes) {
  if (lanes <= 1) {
    return 0;
  }
  const uint32_t hash = aggregate_id.data() == nullptr
                            ? Fnv1a(id.data(), id.size())
                            : Fnv1a(reinterpret_cast<const uint8_t*>(aggregate_id.data()), aggregate_id.size());
  return hash % lanes;
}

std::shared_ptr<const RouteSpec> RouteSpec::Make(const RouteConfig& config, TemplateError* error) {
  const Use use = config.kind == DestinationKind::kKafka ? Use::kTopicWithoutId : Use::kTopicWithId;
  std::optional<Template> topic = Template::Parse(config.topic, use, error);
  if (!topic) {
    return nullptr;
  }
  std::optional<Template> key = Template::Parse(config.key, Use::kKey, error);
  if (!key) {
    return nullptr;
  }
  std::shared_ptr<RouteSpec> spec(new RouteSpec());
  spec->kind_ = config.kind;
  spec->form_ = config.form;
  spec->aggregate_types_ = PatternList(config.aggregate_types);
  spec->event_types_ = PatternList(config.event_types);
  spec->topic_ = *std::move(topic);
  spec->key_ = *std::move(key);
  spec->lanes_ = config.lanes < 1 ? 1 : config.lanes;
  spec->lane_ = config.lane;
  return spec;
}

bool RouteSpec::Wants(std::string_view aggregate_type, std::string_view aggregate_id, std::string_view event_type,
                      const Uuid& id) const {
  return aggregate_types_.Matches(aggregate_type) && event_types_.Matches(event_type) &&
         LaneOf(aggregate_id, id, lanes_) == lane_;
}

}  // namespace outbox::format
