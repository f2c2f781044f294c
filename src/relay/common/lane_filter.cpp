#include "relay/common/lane_filter.h"

#include <utility>

namespace outbox::relay {

LaneFilter::LaneFilter(std::shared_ptr<const format::RouteSpec> spec)
    : side_(false), spec_(std::move(spec)), template_text_(spec_->topic_text()), topic_of_(spec_->topic()) {}

LaneFilter::LaneFilter(std::shared_ptr<const format::RouteSpec> spec, std::string_view topic_template)
    : side_(true),
      spec_(std::move(spec)),
      template_text_(topic_template),
      topic_of_(spec_->FormerTopic(topic_template)) {}

bool LaneFilter::Wants(std::string_view aggregate_type, std::string_view aggregate_id, std::string_view event_type,
                       const Uuid& id, std::string_view topic) const {
  if (!spec_->Wants(aggregate_type, aggregate_id, event_type, id, topic)) {
    return false;
  }
  if (topics_.empty()) {
    return !side_;
  }
  return Has(topic_of_.Resolve(aggregate_type, aggregate_id, event_type, topic)) == side_;
}

bool LaneFilter::Takes(const Event& event) const {
  if (topics_.empty()) {
    return !side_;
  }
  const auto found = topics_.find(topic_of_.Resolve(event));
  return side_ ? found != topics_.end() && !found->second.Covers(event.xid, event.created_at) : found == topics_.end();
}

void LaneFilter::UseTemplate(std::string_view text) {
  if (text != template_text_) {
    template_text_ = text;
    topic_of_ = format::TopicOf(spec_->FormerTopic(text));
  }
}

void LaneFilter::Leave(const std::string& topic, std::string_view topic_template) {
  if (topics_.empty()) {
    UseTemplate(topic_template);
  }
  topics_.emplace(topic, Position{});
  ++version_;
}

void LaneFilter::Return(const std::string& topic) {
  topics_.erase(topic);
  if (topics_.empty()) {
    UseTemplate(spec_->topic_text());
  }
  ++version_;
}

void LaneFilter::SetSpec(std::shared_ptr<const format::RouteSpec> spec) {
  spec_ = std::move(spec);
  if (!side_ && topics_.empty()) {
    UseTemplate(spec_->topic_text());
  }
}

void LaneFilter::Take(const std::string& topic, const Position& start) {
  topics_.insert_or_assign(topic, start);
  ++version_;
}

}  // namespace outbox::relay
