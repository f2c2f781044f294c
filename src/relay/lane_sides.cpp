// What a lane does about its topics: those that leave it, those that come back, and being a side lane itself.
#include <algorithm>
#include <unordered_set>
#include <utility>

#include "base/order_key.h"
#include "relay/lane.h"

namespace outbox::relay {

namespace {

constexpr int64_t kLeastParkWait = 5'000'000;
constexpr int64_t kMostParkWait = 60'000'000;

// Of two positions that both say which events of a topic are done: the one that says more. They are comparable but for
// windows of one start and different ends; then what the other says may be repeated.
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

SideLanes* Lane::Sides() const {
  return parent_ != nullptr ? parent_->sides_.get() : sides_.get();
}

void Lane::UseSides(std::shared_ptr<LaneFilter> filter, std::unique_ptr<SideLanes> sides) {
  filter_ = std::move(filter);
  sides_ = std::move(sides);
  if (sides_ != nullptr) {
    pipeline_.SetMarker([this](const Event& event) { return MarkOf(filter_->Topic(event)); });
  }
  NotePauses();
}

void Lane::BecomeSide(Lane* parent, const SideLane& record, std::shared_ptr<LaneFilter> filter, int64_t wall) {
  parent_ = parent;
  filter_ = std::move(filter);
  side_topic_ = record.topics[0].topic;
  error_ = record.topics[0].error;
  error_since_ = record.topics[0].since != 0 ? record.topics[0].since : wall;
  ramp_ = std::all_of(record.topics.begin(), record.topics.end(),
                      [](const SideTopic& topic) { return topic.error.code == kPausedCode; })
              ? kNoRamp
              : 1;
  if (record.topics.size() > 1) {
    pipeline_.SetMarker([this](const Event& event) { return MarkOf(filter_->Topic(event)); });
  }
  NotePauses();
}

uint64_t Lane::MarkOf(std::string_view topic) {
  return OrderKey(topic, "", "t");
}

// --- pauses ------------------------------------------------------------------------------------------------------

void Lane::NotePauses() {
  const format::RouteSpec& spec = format_->spec();
  paused_ = spec.paused();
  std::erase_if(leaving_, [](const auto& topic) { return topic.second.code == kPausedCode; });
  SideLanes* sides = Sides();
  if (sides == nullptr) {
    return;
  }
  for (const std::string& topic : spec.paused_topics()) {
    // Of a side lane that serves several, the paused ones leave it.
    const bool mine = (parent_ == nullptr) != filter_->Has(topic);
    if (mine && (parent_ == nullptr || filter_->topics() > 1)) {
      leaving_.insert_or_assign(topic, Error{ErrorClass::kTopic, kPausedCode, "the topic is paused"});
    } else if (mine) {
      paused_ = true;
    }
  }
}

void Lane::ApplyPauses() {
  NotePauses();
  if (leaving_.empty() && log_failed_call_ == LogCall::kFork) {
    LogFailed(LogCall::kFork, Status(), {});  // it is not called again
  }
  switch (state_) {
    case LaneState::kBackingOff:
      if (!paused_ && leaving_.empty()) {
        return;
      }
      [[fallthrough]];
    case LaneState::kIdle:
    case LaneState::kRunning:
    case LaneState::kPaused:
    case LaneState::kForking:
      SetFlowing();
      return;
    default:
      return;  // it gets there
  }
}

bool Lane::StepSides(TurnContext* turn) {
  if (parked_ != nullptr && sides_->stuck() != stuck_) {
    stuck_ = sides_->stuck();
    parked_->SetWithout(sides_->Stuck());
    parked_->Look();
  }
  bool lost = false;
  const bool worked = sides_->Step(turn, &lost);
  if (lost) {
    Leave(GoneReason::kLost);
  }
  return worked;
}

// --- leaving -----------------------------------------------------------------------------------------------------

// True when the trouble of this event's topic is a side lane's from now on.
bool Lane::WantsFork(uint64_t ordinal, const Error& error, const EngineOptions& options) {
  SideLanes* sides = Sides();
  if (sides == nullptr || !sides->MayFork(this, error, options)) {
    return false;
  }
  const std::string topic(filter_->Topic(*pipeline_.Find(ordinal)));
  if (parent_ == nullptr && filter_->Has(topic)) {
    return false;
  }
  leaving_.try_emplace(topic, error);
  return true;
}

// Nothing is under way.
bool Lane::ForkOne(TurnContext* turn) {
  if (!LogReady(*turn)) {
    return false;
  }
  // Where there is no room for all that are in trouble at once: when they are met again, they are parked.
  std::erase_if(leaving_, [&](const auto& topic) { return !Sides()->MayFork(this, topic.second, *turn->options); });
  if (!leaving_.empty()) {
    const auto [topic, error] = *leaving_.begin();
    Status status;
    const SideLanes::Forked forked = Sides()->Fork(this, topic, error, *turn, &status);
    if (LogFailed(LogCall::kFork, status, *turn)) {
      return false;
    }
    if (forked == SideLanes::Forked::kLost) {
      Leave(GoneReason::kLost);
      return true;
    }
    leaving_.erase(topic);
  }
  if (leaving_.empty()) {
    AfterParking(*turn);
  }
  return true;
}

void Lane::PlanLeaving(const SideTopic& topic, const TurnContext& turn, ForkPlan* plan) {
  const std::string& name = topic.topic;
  Pipeline::Share share =
      pipeline_.ShareOf([&](const Event& event) { return filter_->Topic(event) == name; }, MarkOf(name));
  const int64_t wall = turn.clock->WallMicros();
  std::unordered_set<uint64_t> held;
  for (size_t i = 0; i < share.leave; ++i) {
    const Event& event = *pipeline_.Find(share.ordinals[i]);
    Parking parking;
    parking.event = event;
    parking.topic = plan->arena.Copy(format_->Topic(event));
    parking.order_key = OrderKey(parking.topic, event.aggregate_type, event.aggregate_id);
    const bool early = event.deliver_at > wall;
    parking.paused = !early && format_->spec().PausesKey(event.aggregate_type, event.aggregate_id);
    if (early) {
      parking.state = ParkedState::kScheduled;
      parking.due = event.deliver_at;
    } else if (parking.paused || (parking.order_key != 0 && (!held.insert(parking.order_key).second ||
                                                             (parked_ && parked_->Holds(parking.order_key))))) {
      parking.state = ParkedState::kBlocked;
    } else {
      parking.state = ParkedState::kRetrying;
      parking.due = wall;
      parking.error = topic.error;
    }
    plan->parked.push_back(std::move(parking));
  }
  SideTopic leaving = topic;
  leaving.start = parent_ == nullptr ? share.start : Further(filter_->names().at(name), share.start);
  plan->side.topics.push_back(std::move(leaving));
  plan->ordinals = std::move(share.ordinals);
}

void Lane::Left(const ForkPlan& plan, int64_t next_due) {
  if (parked_ != nullptr) {
    for (const Parking& parking : plan.parked) {
      if (parking.order_key != 0 && parking.state != ParkedState::kScheduled) {
        parked_->Hold(parking.order_key);
      }
    }
    parked_->NoteDue(next_due);
  }
  for (const uint64_t ordinal : plan.ordinals) {
    pipeline_.MarkDone(ordinal);
    suspects_.erase(ordinal);
  }
  parked_count_ += static_cast<int64_t>(plan.parked.size());
  Advance();
}

// Once more, for what was read before the last change of the filter.
void Lane::Sift(EventChunk* chunk) const {
  if (filter_ != nullptr && (parent_ != nullptr || filter_->version() != opened_version_)) {
    std::erase_if(chunk->events, [this](const Event& event) { return !filter_->Takes(event); });
  }
}

// --- being a side lane -------------------------------------------------------------------------------------------

// After success it sends more: one event, a small batch, all.
void Lane::RampUp() {
  if (ramp_ != kNoRamp && pipeline_.outstanding() == 0) {
    ramp_ = ramp_ < Breaker::kProbe ? Breaker::kProbe : kNoRamp;
    park_wait_ = 0;
    pipeline_.Rewind();  // to what was passed over
  }
}

// While it tries its topic it passes over events whose keys wait, so that nothing piles up among the parked. True when
// it does.
bool Lane::BeginProbe(const TurnContext& turn) {
  if (!probing_) {
    return false;
  }
  pipeline_.Rewind();
  return !waits_for_parked_ || turn.now < park_at_;
}

void Lane::WaitForParked(bool waits, const TurnContext& turn) {
  if (waits && !waits_for_parked_) {
    park_wait_ = std::clamp(2 * park_wait_, kLeastParkWait, kMostParkWait);
    park_at_ = turn.now + park_wait_;
  }
  waits_for_parked_ = waits;
}

bool Lane::Calm() const {
  return (state_ == LaneState::kIdle || state_ == LaneState::kRunning) && leaving_.empty() &&
         (destination_->breaker().closed() || pipeline_.empty());
}

bool Lane::Flows() const {
  return ramp_ == kNoRamp && !paused_ && state_ != LaneState::kBackingOff && state_ != LaneState::kStarting;
}

bool Lane::LetsClaim() const {
  return Flows() || (waits_for_parked_ && !paused_);
}

const Snapshot* Lane::RestsAt() const {
  const bool rests = pipeline_.empty() && !pipeline_.at().target && state_ != LaneState::kStarting && refused_.empty();
  return rests ? &pipeline_.at().base : nullptr;
}

bool Lane::HasRead(const Snapshot& snapshot) const {
  const Position position = pipeline_.ReadPosition();
  return !pipeline_.reading() && !position.target && position.base.Covers(snapshot);
}

void Lane::SetOpens(bool opens) {
  opens_ = opens;
  woken_ = woken_ || opens;
}

void Lane::LimitTo(const Snapshot* limit) {
  log_->LimitTo(limit);
  caught_up_ = false;
}

bool Lane::SaveAll(TurnContext* turn) {
  return (!dirty_ && !moved_) || (SaveReady(*turn) && SaveNow(turn) && state_ != LaneState::kGone);
}

void Lane::Retire() {
  if (state_ != LaneState::kGone) {
    Leave(GoneReason::kReleased);
  }
}

void Lane::Lose() {
  if (state_ != LaneState::kGone) {
    Leave(GoneReason::kLost);
  }
}

}  // namespace outbox::relay
