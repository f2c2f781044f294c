#include "relay/lane/parker.h"

#include <algorithm>
#include <set>
#include <unordered_set>
#include <utility>

#include "base/order_key.h"

namespace outbox::relay {

// --- before sending ----------------------------------------------------------------------------------------------

bool Parker::CheckKeys() {
  const ParkedQueue* parked = lane_->parked.get();
  if (std::exchange(late_holds_, parked->late_holds()) != parked->late_holds()) {
    keys_ = Keys::kFence;
  }
  if (!parked->knows_keys()) {
    return false;
  }
  if (keys_ == Keys::kFence && lane_->pipeline.outstanding() > 0) {
    return false;
  }
  keys_ = parked->holding() || lane_->spec().pauses_keys() ? Keys::kHeld : Keys::kFree;
  return true;
}

// Called for every event while keys wait: one hash and one look-up.
bool Parker::CheckDiverts(const Event& event, int64_t wall, Diversion* diversion) {
  if (event.deliver_at > wall) {
    diversion->state = ParkedState::kScheduled;
    diversion->due = event.deliver_at;
    return true;
  }
  if (keys_ != Keys::kHeld || IsNull(event.aggregate_id)) {
    return false;
  }
  diversion->paused = lane_->spec().PausesKey(event.aggregate_type, event.aggregate_id);
  if (diversion->paused) {
    return true;
  }
  const uint64_t key = OrderKey(lane_->format->Topic(event), event.aggregate_type, event.aggregate_id);
  diversion->moves = lane_->parked->moving().Has(key);
  return lane_->parked->Holds(key);
}

// While it stands no other key of the lane gets on either. Where those are most of what it sends, it stands a tenth of
// the time at most.
bool Parker::Stands(const Diversion& diversion, int64_t now) {
  MovingKeys& moving = lane_->parked->moving();
  if (!diversion.moves || now < goes_until_) {
    return false;
  }
  if (moving.TakesMore(now)) {
    ++parked_;
    return false;
  }
  if (std::exchange(rests_, moving.rests()) != moving.rests() || stands_since_ == 0) {
    stands_since_ = now;
    sent_ = parked_ = 0;
  }
  if (now - stands_since_ >= kLongestStand && sent_ > parked_) {
    goes_until_ = now + kGoes * kLongestStand;
    stands_since_ = 0;
    return false;
  }
  const int64_t longest = stands_since_ + kLongestStand;
  stands_until_ = now < longest ? std::min(moving.gives_up(), longest) : moving.gives_up();
  return true;
}

CallResult Parker::ParkDiverted(TurnContext* turn) {
  if (diverted_.empty()) {
    return CallResult::kDone;
  }
  if (!lane_->LogReady(*turn)) {
    return CallResult::kFailed;
  }
  Arena arena;
  std::vector<Parking> parkings;
  parkings.reserve(diverted_.size());
  for (const Diversion& diversion : diverted_) {
    const Event* event = lane_->pipeline.Find(diversion.ordinal);
    Parking parking;
    parking.event = *event;
    parking.topic = arena.Copy(lane_->format->Topic(*event));
    parking.order_key = OrderKey(parking.topic, event->aggregate_type, event->aggregate_id);
    parking.state = diversion.state;
    parking.due = diversion.due;
    // Asked once more: it may have been resumed while the log was in trouble.
    parking.paused = diversion.paused && lane_->spec().PausesKey(event->aggregate_type, event->aggregate_id);
    parkings.push_back(std::move(parking));
  }
  const Status status = lane_->parked->Park(parkings, lane_->spec().policy().on_failure);
  const CallResult result = lane_->log_retry.Result(status, *turn, LogCall::kPark);
  if (result == CallResult::kDone) {
    for (const Diversion& diversion : diverted_) {
      lane_->pipeline.MarkDone(diversion.ordinal);
    }
    diverted_.clear();
  }
  return result;
}

// --- refused -----------------------------------------------------------------------------------------------------

void Parker::Refuse(uint64_t ordinal, Error error, Verdict verdict) {
  refused_.push_back({ordinal, std::move(error), verdict});
}

void Parker::Arrange() {
  std::sort(refused_.begin(), refused_.end(), [](const Refusal& a, const Refusal& b) { return a.ordinal < b.ordinal; });
  ForgetOvertaken();
}

// What holds its key (one that is tried later, under `block` a dead letter) is parked only when all before it of its
// key are done. One that was refused ahead of them is sent again after them.
void Parker::ForgetOvertaken() {
  const bool blocks = lane_->spec().policy().on_failure == format::OnFailure::kBlock;
  const auto holds = [blocks](const Refusal& refusal) { return blocks || refusal.verdict == Verdict::kLater; };
  if (std::none_of(refused_.begin(), refused_.end(), holds)) {
    return;
  }
  std::unordered_set<uint64_t> undone;
  uint64_t ordinal = lane_->pipeline.prefix();
  const auto key_of = [this](uint64_t at) {
    const Event* event = lane_->pipeline.Find(at);
    return event == nullptr || IsNull(event->aggregate_id)
               ? 0
               : OrderKey(lane_->format->Topic(*event), event->aggregate_type, event->aggregate_id);
  };
  std::erase_if(refused_, [&](const Refusal& refusal) {
    for (; ordinal < refusal.ordinal; ++ordinal) {
      undone.insert(key_of(ordinal));
    }
    const uint64_t key = key_of(refusal.ordinal);
    ordinal = refusal.ordinal + 1;
    return key != 0 && holds(refusal) && undone.contains(key);
  });
}

Parking Parker::MakeParking(const Refusal& refusal, const Event& event, const TurnContext& turn, Arena* arena) {
  Parking parking;
  parking.event = event;
  parking.topic = arena->Copy(lane_->format->Topic(event));
  parking.order_key = OrderKey(parking.topic, event.aggregate_type, event.aggregate_id);
  parking.attempts = refusal.attempts();
  parking.error = refusal.error;
  const Consequence next = ConsequenceOf(refusal.verdict, refusal.attempts(), lane_->spec().policy(),
                                         turn.clock->WallMicros(), turn.clock->Random());
  parking.state = next.state;
  parking.due = next.due;
  return parking;
}

// An event whose key waits by now waits, too, whatever its verdict.
CallResult Parker::ParkRefused(TurnContext* turn) {
  const format::OnFailure on_failure = lane_->spec().policy().on_failure;
  if (on_failure == format::OnFailure::kBlock && lane_->pipeline.outstanding() > 0) {
    return CallResult::kFailed;  // an earlier event of its key that is in flight might have to be parked, behind this
                                 // one
  }
  if (const CallResult diverted = ParkDiverted(turn); diverted != CallResult::kDone || !lane_->LogReady(*turn)) {
    return diverted == CallResult::kDone ? CallResult::kFailed : diverted;
  }
  const size_t count = std::min(refused_.size(), kMaxRefused);
  Arena arena;
  std::vector<Parking> parkings;
  std::set<uint64_t> held;
  for (size_t i = 0; i < count; ++i) {
    const Event* event = lane_->pipeline.Find(refused_[i].ordinal);
    if (event == nullptr) {
      continue;
    }
    Parking parking = MakeParking(refused_[i], *event, *turn, &arena);
    if (parking.order_key != 0 && (lane_->parked->Holds(parking.order_key) || held.contains(parking.order_key))) {
      parking.state = ParkedState::kBlocked;
      parking.attempts = 0;
      parking.error = Error{};
      parking.due = 0;
    } else if (HoldsKey(parking.state, on_failure)) {
      held.insert(parking.order_key);
    }
    parkings.push_back(std::move(parking));
  }
  if (!parkings.empty()) {
    const Status status = lane_->parked->Park(parkings, on_failure);
    const CallResult result = lane_->log_retry.Result(status, *turn, LogCall::kPark);
    if (result != CallResult::kDone) {
      return result;
    }
  }
  for (size_t i = 0; i < count; ++i) {
    lane_->pipeline.MarkDone(refused_[i].ordinal);
  }
  refused_.erase(refused_.begin(), refused_.begin() + static_cast<std::ptrdiff_t>(count));
  return CallResult::kDone;
}

}  // namespace outbox::relay
