// Which events a lane parks: refused ones, those behind a parked one of their key, those not due yet.
#include <algorithm>
#include <utility>

#include "base/order_key.h"
#include "relay/lane.h"

namespace outbox::relay {

namespace {

constexpr size_t kMaxParked = 256;  // refused events recorded at once

}  // namespace

void Lane::WakeParked() {
  if (pump() != nullptr) {
    parked_->Wake();
  }
}

bool Lane::MayClaim() const {
  if (held_) {
    return false;  // its successors will: until then nothing of the route may be in anybody's hands
  }
  const Breaker& breaker = destination_->breaker();
  const bool probes = pipeline_.unresolved() == 0 && breaker.Admits(true) > 0;  // else the lane's own events do
  return !format_->spec().paused() && (breaker.closed() || probes || breaker.probing(parked_->first_flow()));
}

bool Lane::BeWatchful() {
  if (parked_ != nullptr) {
    fence_ |= std::exchange(surprises_, parked_->surprises()) != parked_->surprises();
  }
  if (parked_ != nullptr && !parked_->knows_keys()) {
    return false;
  }
  if (fence_ && pipeline_.outstanding() > 0) {
    return false;
  }
  fence_ = false;
  watchful_ = parked_ != nullptr && (parked_->holding() || format_->spec().pauses_keys());
  return true;
}

// What the lane must not send now. Called for every event while keys wait: one hash and one look-up.
bool Lane::Divert(const Event& event, int64_t wall, Diverted* diverted) {
  if (parked_ == nullptr) {
    return false;
  }
  if (event.deliver_at > wall) {
    diverted->state = ParkedState::kScheduled;
    diverted->due = event.deliver_at;
    return true;
  }
  if (!watchful_ || IsNull(event.aggregate_id)) {
    return false;
  }
  diverted->paused = format_->spec().PausesKey(event.aggregate_type, event.aggregate_id);
  return diverted->paused ||
         parked_->Holds(order_key_(format_->Topic(event), event.aggregate_type, event.aggregate_id));
}

bool Lane::ParkDiverted(TurnContext* turn) {
  if (diverted_.empty()) {
    return true;
  }
  if (!LogReady(*turn)) {
    return false;
  }
  Arena arena;
  std::vector<Parking> parkings;
  parkings.reserve(diverted_.size());
  for (const Diverted& diverted : diverted_) {
    const Event* event = pipeline_.Find(diverted.ordinal);
    Parking parking;
    parking.event = *event;
    parking.topic = arena.Copy(format_->Topic(*event));
    parking.order_key = OrderKey(parking.topic, event->aggregate_type, event->aggregate_id);
    parking.state = diverted.state;
    parking.due = diverted.due;
    // Anew: it may have been resumed while the log was in trouble.
    parking.paused = diverted.paused && format_->spec().PausesKey(event->aggregate_type, event->aggregate_id);
    parkings.push_back(std::move(parking));
  }
  bool owner = true;
  if (LogFailed(LogCall::kPark, parked_->Park(parkings, format_->spec().policy().on_failure, &owner), *turn)) {
    return false;
  }
  if (!owner) {
    Leave(GoneReason::kLost);
    return false;
  }
  for (const Diverted& diverted : diverted_) {
    Parked(diverted.ordinal);
  }
  diverted_.clear();
  Advance();
  return true;
}

void Lane::Parked(uint64_t ordinal) {
  parked_count_ += pipeline_.Find(ordinal) != nullptr ? 1 : 0;
  pipeline_.MarkDone(ordinal);
  suspects_.erase(ordinal);
}

// --- refused events ----------------------------------------------------------------------------------------------

Parking Lane::MakeParking(const Failure& failure, const Event& event, int64_t wall, uint64_t random, Arena* arena) {
  const format::RetryPolicy& policy = format_->spec().policy();
  Parking parking;
  parking.event = event;
  parking.topic = arena->Copy(format_->Topic(event));
  parking.order_key = OrderKey(parking.topic, event.aggregate_type, event.aggregate_id);
  parking.attempts = failure.attempts;
  parking.error = failure.error;
  parking.state = ParkedState::kDead;
  const ErrorClass error_class = failure.error.error_class;
  if (error_class == ErrorClass::kTopic ||
      (error_class == ErrorClass::kSolo && failure.attempts < policy.max_attempts)) {
    parking.state = ParkedState::kRetrying;
    parking.due = wall + Backoff::Delay(policy.backoff_base, policy.backoff_cap, failure.attempts, random);
  }
  return parking;
}

// As many as go in one transaction. An event whose key waits by now waits too, whatever was said of it.
bool Lane::ParkRefused(TurnContext* turn) {
  if (parked_ == nullptr) {
    return ParkInLog(turn);
  }
  const format::OnFailure on_failure = format_->spec().policy().on_failure;
  if (on_failure == format::OnFailure::kBlock && pipeline_.outstanding() > 0) {
    return false;  // one of its key that is under way might yet have to wait, behind this one that comes after it
  }
  if (!ParkDiverted(turn) || !LogReady(*turn)) {
    return state_ == LaneState::kGone;
  }
  const int64_t wall = turn->clock->WallMicros();
  const size_t count = std::min(refused_.size(), kMaxParked);
  Arena arena;
  std::vector<Parking> parkings;
  std::set<uint64_t> held;
  for (size_t i = 0; i < count; ++i) {
    const Event* event = pipeline_.Find(refused_[i].ordinal);
    if (event == nullptr) {
      continue;
    }
    Parking parking = MakeParking(refused_[i], *event, wall, turn->clock->Random(), &arena);
    if (parking.order_key != 0 && (parked_->Holds(parking.order_key) || held.contains(parking.order_key))) {
      parking.state = ParkedState::kBlocked;
      parking.attempts = 0;
      parking.error = Error{};
      parking.due = 0;
    } else if (parking.state == ParkedState::kRetrying || on_failure == format::OnFailure::kBlock) {
      held.insert(parking.order_key);
    }
    parkings.push_back(std::move(parking));
  }
  bool owner = true;
  if (!parkings.empty() && LogFailed(LogCall::kPark, parked_->Park(parkings, on_failure, &owner), *turn)) {
    return false;
  }
  if (!owner) {
    Leave(GoneReason::kLost);
    return true;
  }
  for (size_t i = 0; i < count; ++i) {
    Parked(refused_[i].ordinal);
  }
  refused_.erase(refused_.begin(), refused_.begin() + static_cast<std::ptrdiff_t>(count));
  Advance();
  if (refused_.empty()) {
    AfterParking(*turn);
  }
  return true;
}

// Without a parked table: one by one, dead, and the key goes on.
bool Lane::ParkInLog(TurnContext* turn) {
  if (!LogReady(*turn)) {
    return false;
  }
  const Failure& failure = refused_.front();
  const Event* event = pipeline_.Find(failure.ordinal);
  if (event != nullptr) {
    RefusedEvent refused;
    refused.event = *event;
    refused.topic = format_->Topic(*event);
    refused.error = failure.error;
    refused.attempts = failure.attempts;
    bool owner = true;
    if (LogFailed(LogCall::kPark, log_->Park(refused, &owner), *turn)) {
      return false;
    }
    if (!owner) {
      Leave(GoneReason::kLost);
      return true;
    }
  }
  Parked(failure.ordinal);
  refused_.pop_front();
  Advance();
  if (refused_.empty()) {
    AfterParking(*turn);
  }
  return true;
}

void Lane::AfterParking(const TurnContext& turn) {
  if (!leaving_.empty()) {
    state_ = pipeline_.outstanding() > 0 ? LaneState::kDraining : LaneState::kForking;
    return;
  }
  if (!std::exchange(delay_, false)) {
    SetFlowing();
    return;
  }
  next_try_ = turn.now + backoff_.Next(turn.clock->Random());
  state_ = LaneState::kBackingOff;
}

}  // namespace outbox::relay
