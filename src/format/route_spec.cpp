#include "format/route_spec.h"

#include <algorithm>

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

// Those of the format; of the kind, unknown ones count for nothing.
bool CheckOptions(const RouteConfig& config, TemplateError* error) {
  sink::OptionProblem problem;
  for (const sink::RouteOption& option : config.format->options) {
    const std::string_view value = sink::RouteOptionValue(config.options, option.name);
    if (problem.ok() && !IsNull(value)) {
      problem = CheckRouteOption(option, value);
    }
  }
  if (problem.ok() && config.format->check != nullptr) {
    problem = config.format->check({config.kind, config.form, &config.options, config.source});
  }
  error->message = problem.message;
  error->hint = problem.hint;
  return problem.ok();
}

}  // namespace

uint32_t KeyHash(std::string_view aggregate_id, const Uuid& id) {
  return aggregate_id.data() == nullptr
             ? Fnv1a(id.data(), id.size())
             : Fnv1a(reinterpret_cast<const uint8_t*>(aggregate_id.data()), aggregate_id.size());
}

uint32_t LaneOf(std::string_view aggregate_id, const Uuid& id, uint32_t lanes) {
  return lanes <= 1 ? 0 : KeyHash(aggregate_id, id) % lanes;
}

bool MayGiveTopic(const RouteConfig& config, std::string_view topic) {
  return std::any_of(config.aggregate_types.begin(), config.aggregate_types.end(), [&](const std::string& aggregate) {
    return std::any_of(config.event_types.begin(), config.event_types.end(), [&](const std::string& event) {
      return GlobMatches(PatternOf(config.topic, aggregate, event), topic);
    });
  });
}

std::shared_ptr<const RouteSpec> RouteSpec::Make(const RouteConfig& config, TemplateError* error) {
  std::optional<Template> topic = Template::ParseTopic(config.topic, *config.kind->topic_template, error);
  if (!topic) {
    error->message = "invalid topic template: " + error->message;
    return nullptr;
  }
  std::optional<Template> key = Template::ParseKey(config.key, error);
  if (!key) {
    error->message = "invalid key template: " + error->message;
    return nullptr;
  }
  if (!CheckOptions(config, error)) {
    return nullptr;
  }
  std::shared_ptr<RouteSpec> spec(new RouteSpec());
  spec->kind_ = config.kind;
  spec->form_ = config.form;
  spec->format_ = config.format;
  spec->options_ = config.options;
  spec->source_ = config.source;
  spec->aggregate_types_ = PatternList(config.aggregate_types);
  spec->event_types_ = PatternList(config.event_types);
  spec->topics_known_ = PatternList(config.topics_known);
  spec->knows_all_ = config.topics_known.empty();
  spec->topic_ = *std::move(topic);
  spec->topic_text_ = config.topic;
  spec->key_ = *std::move(key);
  spec->lanes_ = config.lanes < 1 ? 1 : config.lanes;
  spec->lane_ = config.lane;
  spec->policy_ = config.policy;
  spec->policy_.max_attempts = std::max(config.policy.max_attempts, 1);
  spec->policy_.backoff_base = std::max<int64_t>(config.policy.backoff_base, 1);
  spec->policy_.backoff_cap = std::max(config.policy.backoff_cap, spec->policy_.backoff_base);
  spec->paused_ = config.paused;
  spec->pause_reason_ = config.pause_reason;
  spec->paused_topics_.insert(config.paused_topics.begin(), config.paused_topics.end());
  for (const PausedKey& key : config.paused_keys) {
    spec->paused_keys_.emplace(key.aggregate_type, key.aggregate_id);
  }
  return spec;
}

Template RouteSpec::FormerTopic(std::string_view text) const {
  TemplateError error;
  std::optional<Template> parsed = Template::ParseTopic(text, sink::kFreeTopicTemplate, &error);
  return parsed ? *std::move(parsed) : topic_;
}

bool RouteSpec::Wants(std::string_view aggregate_type, std::string_view aggregate_id, std::string_view event_type,
                      const Uuid& id, std::string_view) const {
  return WantsTypes(aggregate_type, event_type) && LaneOf(aggregate_id, id, lanes_) == lane_;
}

bool RouteSpec::WantsTypes(std::string_view aggregate_type, std::string_view event_type) const {
  return aggregate_types_.Matches(aggregate_type) && event_types_.Matches(event_type);
}

bool RouteSpec::PausesKey(std::string_view aggregate_type, std::string_view aggregate_id) const {
  return aggregate_id.data() != nullptr && paused_keys_.contains(PairLess::View(aggregate_type, aggregate_id));
}

}  // namespace outbox::format
