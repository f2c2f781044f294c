// What outcomes mean for a lane: draining, suspects, back-off. Parking is in lane_parking.cpp.
#include <algorithm>
#include <utility>

#include "relay/lane.h"

namespace outbox::relay {

namespace {

// The destination works: it has looked at the record, or at least at its topic.
bool Answers(const sink::Result& result) {
  return result.outcome == sink::Outcome::kFailed &&
         (result.error.error_class == ErrorClass::kMessage || result.error.error_class == ErrorClass::kSolo ||
          result.error.error_class == ErrorClass::kTopic);
}

}  // namespace

void Lane::OnResult(const sink::Result& result, const TurnContext& turn) {
  const bool delivered = result.outcome == sink::Outcome::kDelivered;
  ranges_.clear();
  const uint32_t resolved = pipeline_.Resolve(result.first_seq, result.count, delivered, &ranges_);
  if (resolved == 0) {
    return;
  }
  resolved_ = true;
  if (delivered || Answers(result)) {
    destination_->breaker().OnAnswer(flow_, turn.now, turn.clock->WallMicros());
  }
  if (delivered) {
    delivered_ += resolved;
    pace_.OnDelivered(resolved);
    if (state_ == LaneState::kSolo) {
      suspects_.erase(solo_);
      SetFlowing();
    }
    return;
  }
  if (state_ == LaneState::kReleasing) {
    return;  // whoever owns the lane next sends it again
  }
  if (result.outcome == sink::Outcome::kAborted) {
    aborted_ = true;
  } else {
    for (const Pipeline::Range& range : ranges_) {
      for (uint64_t ordinal = range.first; ordinal <= range.last; ++ordinal) {
        const bool alone = state_ == LaneState::kSolo && ordinal == solo_;
        failures_.push_back({ordinal, result.error, alone ? 1 : 0});
      }
    }
    NoteError(result.error, turn);
  }
  state_ = LaneState::kDraining;
}

void Lane::OnDestinationUp() {
  if (state_ == LaneState::kBackingOff) {
    next_try_ = 0;
  }
  if (pump() != nullptr) {
    parked_->OnDestinationUp();
  }
}

void Lane::OnSinkReplaced() {
  if (pipeline_.outstanding() > 0) {
    pipeline_.ForgetSent();
    if (state_ != LaneState::kReleasing) {
      aborted_ = true;
      state_ = LaneState::kDraining;
    }
  }
  backoff_.Reset();
  aborts_ = 0;
  OnDestinationUp();
}

void Lane::NoteError(const Error& error, const TurnContext& turn) {
  if (error_.ok()) {
    error_since_ = turn.clock->WallMicros();
  }
  error_ = error;
}

// Nothing is under way any more: decides what each failure means, and begins a new epoch.
void Lane::Settle(const TurnContext& turn) {
  ++epoch_;
  Advance();
  pipeline_.Rewind();
  diverted_.clear();  // met again
  if (pipeline_.prefix() > trouble_at_) {
    backoff_.Reset();
    aborts_ = 0;
  }
  const Error* trouble = nullptr;  // the destination's
  uint64_t lowest = UINT64_MAX;
  for (Failure& failure : failures_) {
    if (pipeline_.Find(failure.ordinal) == nullptr) {
      continue;
    }
    const ErrorClass error_class = failure.error.error_class;
    if (error_class == ErrorClass::kMessage || (error_class == ErrorClass::kSolo && failure.attempts > 0)) {
      failure.attempts = 1;
      refused_.push_back(std::move(failure));
    } else if (error_class == ErrorClass::kSolo) {
      suspects_.insert(failure.ordinal);
    } else {
      lowest = std::min(lowest, failure.ordinal);
      if (error_class == ErrorClass::kTopic) {
        delay_ = true;
      } else {
        trouble = &failure.error;
      }
    }
  }
  std::sort(refused_.begin(), refused_.end(), [](const Failure& a, const Failure& b) { return a.ordinal < b.ordinal; });
  if (lowest != UINT64_MAX) {
    trouble_at_ = lowest;
  }
  if (trouble != nullptr) {
    TripBreaker(*trouble, turn);
  } else if (failures_.empty() && aborted_) {
    SettleAborted(turn);
  }
  failures_.clear();
  aborted_ = false;
  if (refused_.empty()) {
    AfterParking(turn);
  } else {
    state_ = LaneState::kParking;
  }
}

// Without anybody's fault: again at once, unless that did not help the last time.
void Lane::SettleAborted(const TurnContext& turn) {
  const Breaker& breaker = destination_->breaker();
  if (aborts_++ > 0 || breaker.probing(flow_)) {
    const sink::Health& health = destination_->health();
    TripBreaker(!health.up          ? health.error
                : !breaker.closed() ? Error(breaker.reason())
                                    : Error{ErrorClass::kDestination, "ABORTED", "records are aborted again and again"},
                turn);
  }
  trouble_at_ = pipeline_.prefix();
}

void Lane::TripBreaker(const Error& error, const TurnContext& turn) {
  NoteError(error, turn);
  destination_->breaker().Trip(flow_, error, turn.now, turn.clock->WallMicros(), turn.clock->Random());
}

}  // namespace outbox::relay
