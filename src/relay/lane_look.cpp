// When a lane wants its next step, and what it looks like from outside. The rest of Lane is in lane.cpp.
#include <algorithm>

#include "relay/lane.h"

namespace outbox::relay {

const char* LaneStateName(LaneState state) {
  switch (state) {
    case LaneState::kStarting:
      return "starting";
    case LaneState::kIdle:
      return "idle";
    case LaneState::kRunning:
      return "running";
    case LaneState::kDraining:
      return "draining";
    case LaneState::kParking:
      return "parking";
    case LaneState::kBackingOff:
      return "backing off";
    case LaneState::kForking:
      return "forking";
    case LaneState::kPaused:
      return "paused";
    case LaneState::kSolo:
      return "solo";
    case LaneState::kReleasing:
      return "releasing";
    case LaneState::kGone:
      return "gone";
  }
  return "gone";
}

// Whatever was due by turn.now has just been tried; if it could not be done, an outcome or a wake has to come first.
int64_t Lane::NextTime(const TurnContext& turn) const {
  int64_t next = kNever;
  const auto at = [&](int64_t time) {
    if (time > turn.now) {
      next = std::min(next, time);
    }
  };
  if (state_ == LaneState::kGone) {
    return kNever;
  }
  at(log_try_);
  if (pump() != nullptr) {
    at(parked_->NextTime(turn));
  }
  if (state_ == LaneState::kReleasing) {
    at(save_try_);
    at(release_deadline_);
    return next;
  }
  at(SaveDue(turn));
  if (sides_ != nullptr) {
    at(sides_->NextTime(turn));
  }
  if (state_ == LaneState::kBackingOff) {
    at(next_try_);
  }
  if (state_ == LaneState::kRunning || state_ == LaneState::kIdle) {
    at(durable_try_);
    at(next_poll_);
    if (waits_for_parked_) {
      at(park_at_);
    }
    if (!hunt_.empty()) {
      at(destination_->turns().next());
      at(destination_->turns().quiet_by());
      at(destination_->turns().longest());
    }
  }
  return next;
}

void Lane::Fill(const TurnContext& turn, LaneStatus* status) const {
  status->id = id_;
  status->state = LaneStateName(state_);
  status->delivered_to = pipeline_.done_to();
  status->delivered_count = delivered_;
  status->parked_count = parked_count_;
  status->inflight_count = static_cast<int64_t>(pipeline_.unresolved());
  status->inflight_bytes = static_cast<int64_t>(pipeline_.bytes());
  const Breaker& breaker = destination_->breaker();
  const bool stopped = state_ == LaneState::kRunning && !breaker.closed() && !breaker.probing(flow_) &&
                       pipeline_.unresolved() > pipeline_.outstanding();
  if (stopped) {
    status->state = LaneStateName(LaneState::kBackingOff);
  }
  const int64_t try_at = state_ == LaneState::kBackingOff                      ? next_try_
                         : stopped && breaker.state() == Breaker::State::kOpen ? breaker.next_try()
                         : log_error_.ok()                                     ? save_try_
                                                                               : log_try_;
  status->next_try_unix = try_at > turn.now ? turn.clock->WallMicros() + (try_at - turn.now) : 0;
  if (!log_error_.ok()) {
    status->error = &log_error_;
    status->error_since_unix = log_error_since_;
  } else if (!save_error_.ok()) {
    status->error = &save_error_;
    status->error_since_unix = save_error_since_;
  } else if (error_.ok() && stopped) {
    status->error = &breaker.reason();
    status->error_since_unix = breaker.since_unix();
  } else if (error_.ok() && pump() != nullptr && parked_->error() != nullptr) {
    status->error = parked_->error();
    status->error_since_unix = parked_->error_since();
  } else {
    status->error = error_.ok() ? nullptr : &error_;
    status->error_since_unix = error_.ok() ? 0 : error_since_;
  }
  if (pump() != nullptr) {
    status->held_keys = static_cast<int64_t>(parked_->held_keys());
    status->retrying_count = parked_->outstanding();
  }
  status->barrier_done = sides_ == nullptr ? barrier_done() : sides_->BarrierDone(barrier_done());
  status->topic = parent_ == nullptr ? nullptr : &side_topic_;
  status->topics = filter_ == nullptr ? 0 : static_cast<int32_t>(filter_->topics());
}

}  // namespace outbox::relay
