// Which events a lane reads while topics have left it, and which a side lane reads [-]. README.md here, "Side lanes".
//
// The log asks Wants() before it copies an event; the lane asks Takes() once more for what was read under an older
// version, or where a position decides. Single-threaded; the owner of a log that reads by it keeps it alive.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <string_view>

#include "base/event.h"
#include "base/position.h"
#include "format/route_spec.h"
#include "format/topic_of.h"
#include "relay/common/lane_log.h"

namespace outbox::relay {

class LaneFilter final : public EventFilter {
 public:
  // A lane's: all topics, until some leave.
  explicit LaneFilter(std::shared_ptr<const format::RouteSpec> spec);
  // A side lane's: none, until topics are given to it. `topic_template`: see SideLane.
  LaneFilter(std::shared_ptr<const format::RouteSpec> spec, std::string_view topic_template);

  bool Wants(std::string_view aggregate_type, std::string_view aggregate_id, std::string_view event_type,
             const Uuid& id, std::string_view topic) const override;
  // Call for an event that Wants() accepted earlier.
  bool Takes(const Event& event) const;
  bool WantsTypes(std::string_view aggregate_type, std::string_view event_type) const override {
    return spec_->WantsTypes(aggregate_type, event_type);
  }
  Share share() const override { return spec_->share(); }
  uint64_t version() const override { return version_; }

  // The topic of an event as all lanes of a route see it while topics are away; valid until the next call of anything.
  std::string_view Topic(const Event& event) const { return topic_of_.Resolve(event); }

  // For a lane's filter. From the first topic that leaves, `topic_template` decides which reader an event belongs to.
  void Leave(const std::string& topic, std::string_view topic_template);
  void Return(const std::string& topic);
  // For a lane's filter, when its route has changed: takes effect once no topic is away.
  void SetSpec(std::shared_ptr<const format::RouteSpec> spec);
  const std::string& topic_template() const { return template_text_; }

  // A side lane's: events that `start` covers are not its own.
  void Take(const std::string& topic, const Position& start);

  const std::shared_ptr<const format::RouteSpec>& spec() const { return spec_; }
  // Away, or a side lane's own.
  bool Has(std::string_view topic) const { return topics_.find(topic) != topics_.end(); }
  size_t topics() const { return topics_.size(); }
  const std::map<std::string, Position, std::less<>>& names() const { return topics_; }

 private:
  void UseTemplate(std::string_view text);

  const bool side_;
  std::shared_ptr<const format::RouteSpec> spec_;
  std::string template_text_;
  mutable format::TopicOf topic_of_;
  std::map<std::string, Position, std::less<>> topics_;  // away, or a side lane's own with their starts
  uint64_t version_ = 1;
};

}  // namespace outbox::relay
