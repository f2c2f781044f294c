// What outcomes mean for a lane: draining, suspects, parking, back-off. The rest of Lane is in lane.cpp.
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
        failures_.push_back({ordinal, result.error, alone ? 2 : 1});
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
    if (error_class == ErrorClass::kMessage || (error_class == ErrorClass::kSolo && failure.attempts > 1)) {
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

bool Lane::ParkOne(TurnContext* turn) {
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
    pipeline_.MarkDone(failure.ordinal);
    ++parked_;
  }
  suspects_.erase(failure.ordinal);
  refused_.pop_front();
  Advance();
  if (refused_.empty()) {
    AfterParking(*turn);
  }
  return true;
}

void Lane::AfterParking(const TurnContext& turn) {
  if (!std::exchange(delay_, false)) {
    SetFlowing();
    return;
  }
  next_try_ = turn.now + backoff_.Next(turn.clock->Random());
  state_ = LaneState::kBackingOff;
}

}  // namespace outbox::relay
