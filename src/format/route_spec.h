// A route, compiled, as one of its lanes uses it [-]: which events it wants, and where they go under which key.
//
// Immutable once built and shared (std::shared_ptr<const RouteSpec>): the log reader filters by it, the engine formats
// by it. A changed route is a new RouteSpec.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/event_filter.h"
#include "base/uuid.h"
#include "format/format.h"
#include "format/pattern.h"
#include "format/template.h"
#include "sink/kind.h"
#include "sink/record.h"

namespace outbox::format {

enum class OnFailure : uint8_t {
  kSkip,   // a dead letter lets its key go on
  kBlock,  // later events of the key wait until an operator has acted on it
};

// What is done with an event that the destination refuses because of the event. Microseconds.
struct RetryPolicy {
  OnFailure on_failure = OnFailure::kSkip;
  int max_attempts = 10;
  int64_t backoff_base = 1'000'000;  // full jitter, see base/backoff.h
  int64_t backoff_cap = 600'000'000;
  bool operator==(const RetryPolicy&) const = default;
};

struct PausedKey {
  std::string aggregate_type;
  std::string aggregate_id;
  bool operator==(const PausedKey&) const = default;
};

// A route as it stands in the tables.
struct RouteConfig {
  const sink::SinkKind* kind = &sink::kUnknownKind;
  std::vector<std::string> aggregate_types = {"*"};
  std::vector<std::string> event_types = {"*"};
  std::string topic = "outbox.event.{aggregate_type}";
  std::string key = "{aggregate_id}";
  sink::RecordForm form = sink::RecordForm::kStream;  // SinkKind::form
  const Format* format = &kOutboxFormat;
  sink::OptionList options;  // of the route, all of them
  std::string source;        // Use::source
  uint32_t lane = 0;         // < lanes
  uint32_t lanes = 1;        // >= 1
  RetryPolicy policy;
  std::vector<std::string> topics_known;  // patterns; empty: all topics are
  // What operators have paused. `paused`: the route, or its destination.
  bool paused = false;
  std::string pause_reason;
  std::vector<std::string> paused_topics;  // resolved
  std::vector<PausedKey> paused_keys;
  bool operator==(const RouteConfig&) const = default;
};

// Whether an event that the route wants may get that topic by its template.
bool MayGiveTopic(const RouteConfig& config, std::string_view topic);

class RouteSpec final : public EventFilter {
 public:
  // nullptr, and *error filled, when a template or an option of the format is wrong (a route in the tables was checked
  // when it was written, so this means that it was edited by hand).
  static std::shared_ptr<const RouteSpec> Make(const RouteConfig& config, TemplateError* error);

  bool Wants(std::string_view aggregate_type, std::string_view aggregate_id, std::string_view event_type,
             const Uuid& id, std::string_view topic = {}) const override;
  bool WantsTypes(std::string_view aggregate_type, std::string_view event_type) const override;
  // Whether it wants events of that aggregate type, of whatever event type.
  bool WantsAggregateType(std::string_view aggregate_type) const { return aggregate_types_.Matches(aggregate_type); }
  Share share() const override { return {lane_, lanes_}; }

  const sink::SinkKind& kind() const { return *kind_; }
  sink::RecordForm form() const { return form_; }
  const Format& format() const { return *format_; }
  Use use() const { return {kind_, form_, &options_, source_}; }  // lives as long as this
  const Template& topic() const { return topic_; }
  const std::string& topic_text() const { return topic_text_; }  // the template as it was written
  const Template& key() const { return key_; }
  // A topic template that this route had before. It was checked when it was written, perhaps by the rules of another
  // kind of destination; one that no longer parses by any (edited by hand) is taken as topic().
  Template FormerTopic(std::string_view text) const;
  uint32_t lane() const { return lane_; }
  uint32_t lanes() const { return lanes_; }
  const RetryPolicy& policy() const { return policy_; }
  // Whether events of the route may go there.
  bool KnowsTopic(std::string_view topic) const { return knows_all_ || topics_known_.Matches(topic); }
  bool paused() const { return paused_; }
  const std::string& pause_reason() const { return pause_reason_; }
  bool PausesTopic(std::string_view topic) const { return paused_topics_.contains(topic); }
  const std::set<std::string, std::less<>>& paused_topics() const { return paused_topics_; }
  bool pauses_keys() const { return !paused_keys_.empty(); }
  bool PausesKey(std::string_view aggregate_type, std::string_view aggregate_id) const;

 private:
  // Looks pairs of strings up by pairs of views.
  struct PairLess {
    using is_transparent = void;
    using View = std::pair<std::string_view, std::string_view>;
    template <typename A, typename B>
    bool operator()(const A& a, const B& b) const {
      return View(a.first, a.second) < View(b.first, b.second);
    }
  };

  RouteSpec() = default;

  const sink::SinkKind* kind_ = nullptr;
  sink::RecordForm form_ = sink::RecordForm::kStream;
  const Format* format_ = nullptr;
  sink::OptionList options_;
  std::string source_;
  PatternList aggregate_types_;
  PatternList event_types_;
  PatternList topics_known_;
  bool knows_all_ = true;
  Template topic_;
  std::string topic_text_;
  Template key_;
  uint32_t lane_ = 0;
  uint32_t lanes_ = 1;
  RetryPolicy policy_;
  bool paused_ = false;
  std::string pause_reason_;
  std::set<std::string, std::less<>> paused_topics_;
  std::set<std::pair<std::string, std::string>, PairLess> paused_keys_;
};

// The lane an event belongs to. Keys: FNV-1a (32 bits, offset basis 2166136261, prime 16777619; Fowler, Noll, Vo) over
// the bytes of aggregate_id, folded by h ^ (h >> 16), modulo lanes. Without a key: the same over the 16 bytes of the
// event id. Never changed: another hash would move keys between lanes of a running route and break their order.
uint32_t LaneOf(std::string_view aggregate_id, const Uuid& id, uint32_t lanes);
// What it takes modulo lanes.
uint32_t KeyHash(std::string_view aggregate_id, const Uuid& id);

}  // namespace outbox::format
