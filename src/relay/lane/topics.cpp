#include "relay/lane/topics.h"

#include <algorithm>
#include <unordered_set>
#include <utility>

#include "base/order_key.h"
#include "relay/lane/lane.h"

namespace outbox::relay {

namespace {

Error PausedError() {
  return {ErrorClass::kTopic, kPausedCode, "the topic is paused"};
}

// The further of two positions that both say which events of a topic are done. They are comparable, except for windows
// with the same start and different ends; then some events may be repeated.
const Position& Further(const Position& a, const Position& b) {
  if (!a.base.Covers(b.base)) {
    return b;
  }
  if (!b.base.Covers(a.base)) {
    return a;
  }
  return b.done_to > a.done_to ? b : a;
}

}  // namespace

SideLanes* Topics::Sides() const {
  return parent_ != nullptr ? parent_->sides() : sides_.get();
}

void Topics::UseSides(std::unique_ptr<SideLanes> sides) {
  sides_ = std::move(sides);
  MarkTopics();
  NotePauses();
}

void Topics::BecomeSide(Lane* parent, const SideLane& record) {
  parent_ = parent;
  side_topic_ = record.topics[0].topic;
  const bool all_paused = std::all_of(record.topics.begin(), record.topics.end(),
                                      [](const SideTopic& topic) { return topic.error.code == kPausedCode; });
  if (!all_paused) {
    trial_.Begin();
  }
  if (record.topics.size() > 1) {
    MarkTopics();
  }
  NotePauses();
}

uint64_t Topics::MarkOf(std::string_view topic) {
  return OrderKey(topic, "", "t");
}

void Topics::MarkTopics() {
  lane_->pipeline.SetMarker([lane = lane_](const Event& event) { return MarkOf(lane->filter->Topic(event)); });
}

// --- pauses ------------------------------------------------------------------------------------------------------

void Topics::NotePauses() {
  const format::RouteSpec& spec = lane_->spec();
  paused_ = spec.paused();
  std::erase_if(leaving_, [](const auto& topic) { return topic.second.code == kPausedCode; });
  pauses_topics_ = Sides() != nullptr && !spec.paused_topics().empty();
  if (!pauses_topics_) {
    return;
  }
  const LaneFilter& filter = *lane_->filter;
  // While readers go by a former template, no topic of the present one can leave under its name: a side lane of that
  // name would get nothing, and keep the former template alive. See StopAt().
  const bool leaves = parent_ != nullptr || filter.topic_template() == spec.topic_text();
  for (const std::string& topic : spec.paused_topics()) {
    // Paused topics leave a side lane that serves several.
    const bool mine = (parent_ == nullptr) != filter.Has(topic);
    if (mine && (parent_ == nullptr || filter.topics() > 1)) {
      if (leaves) {
        leaving_.insert_or_assign(topic, PausedError());
      }
    } else if (mine) {
      paused_ = true;
    }
  }
}

void Topics::StopAt(const Event& event) {
  if (parent_ == nullptr || lane_->filter->topics() > 1) {
    leaving_.insert_or_assign(std::string(lane_->filter->Topic(event)), PausedError());
  } else {
    paused_ = true;
  }
}

StepResult Topics::Step(TurnContext* turn) {
  if (sides_->withheld_version() != withheld_version_) {
    withheld_version_ = sides_->withheld_version();
    lane_->parked->SetWithout(sides_->WithheldTopics());
    lane_->parked->Reconsider();
  }
  return sides_->Step(turn);
}

// --- leaving -----------------------------------------------------------------------------------------------------

Topics::Answer Topics::OnTrouble(uint64_t ordinal, const Error& error, const TurnContext& turn) {
  const EngineOptions& options = *turn.options;
  if (error.code == kPartOfTopic) {
    // The rest of the topic would wait in a side lane for the keys of this part. It is told of as long as they wait.
    lane_->parked->NoteTopic(std::string(lane_->format->Topic(*lane_->pipeline.Find(ordinal))), error,
                             turn.clock->WallMicros(), options);
    return Answer::kParks;
  }
  SideLanes* sides = Sides();
  if (sides != nullptr && sides->MayFork(self_, error, options)) {
    const std::string topic(lane_->filter->Topic(*lane_->pipeline.Find(ordinal)));
    if (parent_ != nullptr || !lane_->filter->Has(topic)) {
      leaving_.try_emplace(topic, error);
      return Answer::kLeaves;
    }
  }
  if (parent_ == nullptr && sides_ != nullptr) {
    return Answer::kParks;
  }
  if (parent_ != nullptr) {
    refused_topic_ = lane_->format->Topic(*lane_->pipeline.Find(ordinal));
    trial_.Begin();
  }
  return Answer::kStays;
}

CallResult Topics::LeaveOne(const TurnContext& turn) {
  if (!lane_->LogReady(turn)) {
    return CallResult::kFailed;
  }
  // If there is no room for all that are in trouble at once, the events of the others are parked when they are read
  // again.
  std::erase_if(leaving_, [&](const auto& topic) { return !Sides()->MayFork(self_, topic.second, *turn.options); });
  if (leaving_.empty()) {
    return CallResult::kDone;
  }
  const auto [topic, error] = *leaving_.begin();
  const CallResult forked = lane_->log_retry.Result(Sides()->Fork(self_, topic, error, turn), turn, LogCall::kFork);
  if (forked == CallResult::kDone) {
    leaving_.erase(topic);
  }
  return forked;
}

Parking Topics::PlanParking(const Event& event, const SideTopic& topic, int64_t wall, Arena* arena) {
  Parking parking;
  parking.event = event;
  parking.topic = arena->Copy(lane_->format->Topic(event));
  parking.order_key = OrderKey(parking.topic, event.aggregate_type, event.aggregate_id);
  const bool early = event.deliver_at > wall;
  parking.paused = !early && lane_->spec().PausesKey(event.aggregate_type, event.aggregate_id);
  if (early) {
    parking.state = ParkedState::kScheduled;
    parking.due = event.deliver_at;
  } else if (parking.paused || (parking.order_key != 0 && lane_->parked->Holds(parking.order_key))) {
    parking.state = ParkedState::kBlocked;
  } else {
    parking.state = ParkedState::kRetrying;
    parking.due = wall;
    parking.error = topic.error;
  }
  return parking;
}

void Topics::Plan(const SideTopic& topic, const TurnContext& turn, ForkPlan* plan) {
  const std::string& name = topic.topic;
  const LaneFilter& filter = *lane_->filter;
  Pipeline::Share share =
      lane_->pipeline.ShareOf([&](const Event& event) { return filter.Topic(event) == name; }, MarkOf(name));
  const int64_t wall = turn.clock->WallMicros();
  std::unordered_set<uint64_t> met;  // keys
  for (size_t i = 0; i < share.leave; ++i) {
    Parking parking = PlanParking(*lane_->pipeline.Find(share.ordinals[i]), topic, wall, &plan->arena);
    const bool waits = parking.state != ParkedState::kScheduled && !parking.paused && parking.order_key != 0;
    if (waits && !met.insert(parking.order_key).second) {
      parking.state = ParkedState::kBlocked;
      parking.due = 0;
      parking.error = Error{};
    }
    plan->parked.push_back(std::move(parking));
  }
  SideTopic leaving = topic;
  leaving.start = parent_ == nullptr ? share.start : Further(filter.names().at(name), share.start);
  plan->side.topics.push_back(std::move(leaving));
  plan->ordinals = std::move(share.ordinals);
}

void Topics::Left(const ForkPlan& plan, int64_t next_due, const TurnContext& turn) {
  const SideTopic& left = plan.side.topics[0];
  for (const Parking& parking : plan.parked) {
    if (parking.state == ParkedState::kRetrying && left.error.code != kPausedCode) {
      lane_->parked->NoteTopic(left.topic, left.error, left.since, *turn.options);
    }
    if (parking.order_key != 0 && parking.state != ParkedState::kScheduled) {
      lane_->parked->Hold(parking.order_key);
    }
  }
  lane_->parked->NoteDue(next_due);
  for (const uint64_t ordinal : plan.ordinals) {
    lane_->pipeline.MarkDone(ordinal);
  }
}

}  // namespace outbox::relay
