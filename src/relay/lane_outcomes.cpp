// What outcomes mean for a lane: draining, suspects, back-off. Parking is in lane_parking.cpp.
#include <algorithm>
#include <unordered_set>
#include <utility>

#include "base/order_key.h"

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
    RampUp();
    if (!probing_) {
      destination_->turns().OnDelivered(turn.now);
    }
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
    under_way_.insert(under_way_.end(), ranges_.begin(), ranges_.end());
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

// That sink may well go down and up with each refusal of the topic it is there to try.
void Lane::OnSecondSinkUp() {
  if (state_ == LaneState::kBackingOff && std::exchange(second_down_, false)) {
    next_try_ = 0;
  }
  if (pump() != nullptr) {
    parked_->OnDestinationUp();
  }
}

void Lane::OnSinkReplaced(bool retry) {
  if (pipeline_.outstanding() > 0 && probing_ == retry) {
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

// The sink is replaced for it.
void Lane::OnOverdue(const Error& error, const TurnContext& turn) {
  NoteError(error, turn);
  watchdog_.Reset();
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
  second_down_ = false;
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
        if (WantsFork(failure.ordinal, failure.error, *turn.options)) {
          continue;
        }
        if (parent_ == nullptr && sides_ != nullptr && parked_ != nullptr) {
          // No side lane is left for it: the other topics go on past it, event by event.
          failure.attempts = 0;
          refused_.push_back(std::move(failure));
          continue;
        }
        delay_ = true;
        ramp_ = parent_ != nullptr ? 1 : kNoRamp;
      } else {
        trouble = &failure.error;
      }
    }
  }
  std::sort(refused_.begin(), refused_.end(), [](const Failure& a, const Failure& b) { return a.ordinal < b.ordinal; });
  if (format_->spec().policy().on_failure == format::OnFailure::kBlock) {
    ForgetOvertaken();
  }
  if (lowest != UINT64_MAX) {
    trouble_at_ = lowest;
  }
  if (trouble != nullptr) {
    TripBreaker(*trouble, turn);
  } else if (failures_.empty() && aborted_ && !died_) {
    SettleAborted(turn);
  }
  if (destination_->breaker().probing(flow_)) {  // it has died of this, or the like
    TripBreaker(Error(destination_->breaker().reason()), turn);
  }
  SettleDeath(turn);
  failures_.clear();
  aborted_ = false;
  if (refused_.empty()) {
    AfterParking(turn);
  } else {
    state_ = LaneState::kParking;
  }
}

// Under `block` a dead letter holds its key, so it is parked only when all before it of its key are done. One that was
// refused ahead of them is met again behind them.
void Lane::ForgetOvertaken() {
  std::unordered_set<uint64_t> undone;
  uint64_t ordinal = pipeline_.prefix();
  const auto key_of = [this](uint64_t at) {
    const Event* event = pipeline_.Find(at);
    return event == nullptr || IsNull(event->aggregate_id)
               ? 0
               : OrderKey(format_->Topic(*event), event->aggregate_type, event->aggregate_id);
  };
  std::erase_if(refused_, [&](const Failure& failure) {
    for (; ordinal < failure.ordinal; ++ordinal) {
      undone.insert(key_of(ordinal));
    }
    const uint64_t key = key_of(failure.ordinal);
    ordinal = failure.ordinal + 1;
    return key != 0 && undone.contains(key);
  });
}

// Without anybody's fault: again at once, unless that did not help the last time.
void Lane::SettleAborted(const TurnContext& turn) {
  const Breaker& breaker = destination_->breaker();
  trouble_at_ = pipeline_.prefix();
  if (aborts_++ > 0 || breaker.probing(flow_)) {
    const sink::Health& health = destination_->health();
    TripBreaker(!health.up          ? health.error
                : !breaker.closed() ? Error(breaker.reason())
                                    : Error{ErrorClass::kDestination, "ABORTED", "records are aborted again and again"},
                turn);
  }
}

// The second sink has connections of its own: its trouble is not the lanes'.
void Lane::TripBreaker(const Error& error, const TurnContext& turn) {
  NoteError(error, turn);
  if (probing_ && !destination_->breaker().probing(flow_)) {
    delay_ = true;
    second_down_ = true;
    return;
  }
  destination_->breaker().Trip(flow_, error, turn.now, turn.clock->WallMicros(), turn.clock->Random());
}

// --- the sink's deaths -------------------------------------------------------------------------------------------

bool Lane::OnSinkDied(bool unready, bool killed) {
  const bool under_way = outstanding() > 0 || (aborted_ && !probing_);
  died_ = under_way && !unready;
  killed_ = died_ && killed;
  return under_way;
}

// `stop`: no event from here on. With a test due, what may be sent is the suspected group, while nobody else sends.
uint32_t Lane::Admitted(TurnContext* turn, uint64_t* stop, bool* worked) {
  const Breaker& breaker = destination_->breaker();
  if (probing_ != (ramp_ != kNoRamp) && pipeline_.outstanding() > 0) {
    return 0;
  }
  if (ramp_ != kNoRamp) {
    const RetrySink& retry = destination_->retry();
    const bool ready = retry.accepting() && retry.Open(flow_, turn->now) && pipeline_.outstanding() == 0;
    return ready ? std::min(ramp_, breaker.Admits(true)) : 0;
  }
  if (!destination_->accepting() || breaker.Admits() == 0) {
    return 0;
  }
  TestTurns& turns = destination_->turns();
  if (turns.holder() != flow_) {
    if (turns.holder() != 0) {
      return 0;
    }
    if (hunt_.empty()) {
      return breaker.Admits();
    }
    const Run next = pipeline_.outstanding() == 0 ? pipeline_.NextRun(1) : Run{};
    if (next.count == 0 || next.first < hunt_.first() || !turns.Take(flow_, turn->now)) {
      *stop = hunt_.first();
      return breaker.Admits();
    }
    *worked = true;
  }
  *stop = hunt_.empty() ? 0 : hunt_.last() + 1;
  return turns.quiet() ? UINT32_MAX : 0;
}

Error KilledError() {
  return {
      ErrorClass::kSolo, "SINK_KILLED",
      "somebody killed the sink's process three times while it had this event alone: perhaps the kernel, for memory"};
}

void Lane::SettleDeath(const TurnContext& turn) {
  TestTurns& turns = destination_->turns();
  const bool tested = turns.holder() == flow_;
  if (tested) {
    turns.End(flow_, died_, turn.now);
  }
  std::vector<Pipeline::Range> under_way = std::exchange(under_way_, {});
  if (!std::exchange(died_, false)) {
    if (tested && !failures_.empty() && !hunt_.empty()) {
      hunt_.Drop();  // it was refused: the sink has lived to say so
    }
    return;
  }
  if (!tested) {
    std::sort(under_way.begin(), under_way.end(), [](const auto& a, const auto& b) { return a.first < b.first; });
    hunt_.OnDeath(under_way);
    return;
  }
  if (hunt_.empty() || !hunt_.OnTestDeath(killed_)) {
    return;
  }
  if (hunt_.killed()) {
    // No event is charged with what others did. But where it is the OOM killer, and it comes for what this event takes,
    // the others must get past it: it waits, and is tried at the second sink.
    if (parked_ != nullptr) {
      refused_.push_back({hunt_.first(), KilledError(), 0});
    } else {
      TripBreaker(KilledError(), turn);
    }
    hunt_.Drop();
    return;
  }
  if (!turns.Blame()) {
    TripBreaker({ErrorClass::kConfig, "SINK_DIED", "the sink's process dies whatever is sent"}, turn);
    return;
  }
  refused_.push_back(
      {hunt_.first(), {ErrorClass::kMessage, "SINK_DIED", "the sink's process died of this event three times"}, 1});
  hunt_.Drop();
}

// What was tested is done, or the lane cannot go on with it now.
void Lane::EndTest(const TurnContext& turn) {
  TestTurns& turns = destination_->turns();
  bool over = state_ != LaneState::kRunning && state_ != LaneState::kDraining && state_ != LaneState::kSolo;
  over = over || (state_ == LaneState::kRunning && turns.Overdue(pipeline_.outstanding() > 0, turn.now));
  if (!hunt_.empty()) {
    const uint64_t first = hunt_.first();
    hunt_.Pass(pipeline_.prefix());
    over = over || hunt_.empty() || hunt_.first() != first;
  }
  if ((over || hunt_.empty()) && turns.holder() == flow_) {
    turns.End(flow_, false, turn.now);
  }
}

}  // namespace outbox::relay
