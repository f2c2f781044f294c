#include "relay/lane/lane.h"

#include <algorithm>
#include <utility>

#include "relay/lane/saver.h"

namespace outbox::relay {

Lane::Lane(const LaneId& id, uint32_t flow, std::shared_ptr<const format::RouteSpec> spec,
           std::shared_ptr<LaneFilter> filter, std::unique_ptr<LaneLog> log, std::shared_ptr<ParkedQueue> parked,
           Destination* destination, const EngineOptions& options, const MeterPlace& figures)
    : lane_{.id = id,
            .flow = flow,
            .filter = std::move(filter),
            .log = std::move(log),
            .parked = std::move(parked),
            .destination = destination,
            .format = std::make_unique<format::RecordFormat>(std::move(spec)),
            .pipeline = {},
            .log_retry = CallRetry(options.backoff_base_micros, options.backoff_cap_micros),
            .meter = Meter(figures)},
      acker_(&lane_.pipeline, lane_.log.get(), destination, options),
      reader_(&lane_, &acker_),
      parker_(&lane_),
      topics_(this, &lane_),
      source_(&lane_, &acker_, &reader_, &parker_, &topics_),
      sender_(flow, &source_, destination, SinkUse::kMain, PoisonSearch::Way::kHalving, options, &lane_.meter) {}

Lane::~Lane() = default;

void Lane::BecomeSide(Lane* parent, const SideLane& record, int64_t wall) {
  topics_.BecomeSide(parent, record);
  const SideTopic& first = record.topics[0];
  if (!first.error.ok()) {
    sender_.NoteTrouble(first.error, first.since != 0 ? first.since : wall);
  }
}

// --- the state ---------------------------------------------------------------------------------------------------

LaneState Lane::state() const {
  if (phase_ != Phase::kActive) {
    return phase_ == Phase::kStarting    ? LaneState::kStarting
           : phase_ == Phase::kReleasing ? LaneState::kReleasing
                                         : LaneState::kGone;
  }
  switch (sender_.state()) {
    case SendState::kSolo:
      return LaneState::kSolo;
    case SendState::kDraining:
      return LaneState::kDraining;
    case SendState::kHalted:
      return parker_.refusing() ? LaneState::kParking : LaneState::kForking;
    case SendState::kBackingOff:
      return LaneState::kBackingOff;
    case SendState::kFlowing:
    case SendState::kStopped:
      break;
  }
  return topics_.paused() ? LaneState::kPaused : lane_.pipeline.empty() ? LaneState::kIdle : LaneState::kRunning;
}

void Lane::Flow() {
  sender_.Flow();
  if (topics_.leaving()) {
    sender_.Drain();
  }
}

void Lane::Resume(const TurnContext& turn) {
  if (!topics_.leaving()) {
    sender_.Resume(turn);
  } else if (lane_.pipeline.outstanding() > 0) {
    sender_.Drain();
  } else {
    sender_.Halt();
  }
}

void Lane::Leave(GoneReason reason) {
  if (phase_ == Phase::kGone) {
    return;
  }
  Destination* destination = lane_.destination;
  if (reason == GoneReason::kUnclean) {
    lane_.meter.Unknown(lane_.pipeline.outstanding() + lane_.pipeline.done_ahead());
  }
  destination->Refund(lane_.pipeline.TakeFreed() + lane_.pipeline.bytes());
  destination->breaker().Forget(flow());
  destination->turns().End(flow(), false, 0);
  phase_ = Phase::kGone;
  gone_reason_ = reason;
  if (reason == GoneReason::kLost && parent() != nullptr) {
    parent()->Lose();  // they have one owner
  }
  if (reason == GoneReason::kLost && sides() != nullptr) {
    sides()->Lose();
  }
}

void Lane::Retire() {
  if (phase_ != Phase::kGone) {
    Leave(GoneReason::kReleased);
  }
}

void Lane::Lose() {
  if (phase_ != Phase::kGone) {
    Leave(GoneReason::kLost);
  }
}

// --- what happens ------------------------------------------------------------------------------------------------

void Lane::WakeParked() {
  if (pump() != nullptr) {
    pump()->Wake();
  }
}

void Lane::SetSpec(std::shared_ptr<const format::RouteSpec> spec) {
  paused_since_ |= spec->paused() || spec->pauses_keys() || !spec->paused_topics().empty();
  lane_.filter->SetSpec(spec);
  lane_.pipeline.ForgetMarks();  // topics may have other names
  if (sides() != nullptr) {
    sides()->SetSpec(spec);
  }
  if (spec->pauses_keys()) {
    parker_.Fence();
  }
  if (lane_.spec().pauses_keys()) {
    WakeParked();  // for what was parked after its key was resumed, but under the old pause
  }
  if (pump() != nullptr && !(lane_.spec().topic() == spec->topic())) {
    pump()->ForgetKeys();
  }
  if (pump() != nullptr) {
    pump()->OnSpec();
  }
  lane_.format = std::make_unique<format::RecordFormat>(std::move(spec));
  ApplyPauses();
}

void Lane::ApplyPauses() {
  topics_.NotePauses();
  if (!topics_.leaving()) {
    lane_.log_retry.Drop(LogCall::kFork);
  }
  if (topics_.paused()) {
    reader_.ForgetDurable();
  }
  switch (state()) {
    case LaneState::kBackingOff:
      if (!topics_.paused() && !topics_.leaving()) {
        return;
      }
      [[fallthrough]];
    case LaneState::kIdle:
    case LaneState::kRunning:
    case LaneState::kPaused:
    case LaneState::kForking:
      Flow();
      return;
    default:
      return;  // it gets there
  }
}

void Lane::OnResult(const sink::Result& result, const TurnContext& turn) {
  sender_.OnResult(result, turn);
  if (sender_.flowing() && topics_.leaving()) {
    sender_.Drain();
  }
}

void Lane::OnUp(SinkUse sink) {
  sender_.OnUp(sink);
  if (pump() != nullptr) {
    pump()->OnDestinationUp();
  }
}

void Lane::OnSinkReplaced(SinkUse sink) {
  sender_.OnSinkReplaced(sink);
  if (pump() != nullptr) {
    pump()->OnDestinationUp();
  }
}

void Lane::Release(int64_t deadline) {
  if (phase_ == Phase::kStarting) {
    Leave(GoneReason::kReleased);
  } else if (phase_ == Phase::kReleasing) {
    release_deadline_ = std::min(release_deadline_, deadline);
  } else if (phase_ == Phase::kActive) {
    release_deadline_ = deadline;
    phase_ = Phase::kReleasing;
    sender_.Stop();
  }
  if (sides() != nullptr) {
    sides()->Release(deadline);
  }
}

// --- stepping ----------------------------------------------------------------------------------------------------

bool Lane::DoStep(TurnContext* turn) {
  if (phase_ == Phase::kGone) {
    return false;
  }
  if (acker_.behind()) {
    Advance();
  }
  const LaneState at = state();
  sender_.EndTest(at == LaneState::kRunning || at == LaneState::kDraining || at == LaneState::kSolo, *turn);
  switch (phase_) {
    case Phase::kGone:
      return false;
    case Phase::kStarting:
      return Load(turn);
    case Phase::kReleasing:
      return StepReleasing(turn);
    case Phase::kActive:
      break;
  }
  bool worked = StepActive(turn);
  begun_ = true;
  if (phase_ != Phase::kGone) {
    worked |= StepParts(turn);
  }
  return worked;
}

bool Lane::StepActive(TurnContext* turn) {
  paused_since_ = paused_since_ && source_.outstanding() > 0;
  const Error* down = lane_.destination->down();
  if (down != nullptr && sender_.trouble().ok() && lane_.pipeline.unresolved() > 0) {
    sender_.NoteTrouble(*down, turn->clock->WallMicros());
  }
  bool worked = false;
  if (sender_.drained()) {
    Settle(*turn);
    worked = true;
  }
  if (state() == LaneState::kParking) {
    worked |= ParkRefused(turn);
  }
  if (state() == LaneState::kForking) {
    worked |= LeaveOne(turn);
  }
  if (state() == LaneState::kBackingOff && turn->now >= sender_.next_try()) {
    Flow();
    worked = true;
  }
  if (flows()) {
    worked |= Read(turn);
  }
  if (flows()) {
    worked |= Send(turn);
  }
  return worked;
}

// What goes on whatever the lane's own events are doing.
bool Lane::StepParts(TurnContext* turn) {
  bool worked = false;
  if (turn->now >= acker_.SaveDue(*turn, reader_.stopped())) {
    turn->saver->Ask(this, !acker_.Acknowledged() && !reader_.stopped());
  } else {
    acker_.NotDue(*turn);
  }
  if (phase_ != Phase::kGone && sides() != nullptr) {
    const StepResult result = topics_.Step(turn);
    worked |= result != StepResult::kIdle;
    if (result == StepResult::kLost) {
      Leave(GoneReason::kLost);
    }
  }
  return worked;
}

bool Lane::DoStepParked(TurnContext* turn) {
  // Before it has looked at its log it does not know whether it may claim.
  if (phase_ != Phase::kActive || !begun_ || pump() == nullptr) {
    return false;
  }
  const bool worked = pump()->Step(turn, lane_.format.get(), lane_.log.get(), MayClaim());
  if (pump()->lost()) {
    Leave(GoneReason::kLost);
  }
  return worked;
}

bool Lane::Read(TurnContext* turn) {
  const bool trial = topics_.trial().on();
  if (!reader_.Read(turn, careful(), trial ? Destination::kSmallestChunk : lane_.destination->chunk_bytes())) {
    return false;
  }
  if (!lane_.pipeline.reading()) {
    Advance();  // nothing of it may have been for this lane
  }
  return true;
}

bool Lane::Send(TurnContext* turn) {
  if (turn->config_changed && turn->config_changed()) {
    return false;
  }
  const StepResult result = source_.Send(&sender_, turn);
  if (result == StepResult::kLost) {
    Leave(GoneReason::kLost);
  } else if (acker_.behind()) {
    Advance();  // events were parked
  }
  return result != StepResult::kIdle;
}

void Lane::Settle(const TurnContext& turn) {
  Advance();
  lane_.pipeline.Rewind();
  parker_.ForgetDiverted();  // they are read again from the pipeline
  sender_.Settle(turn);
  parker_.Arrange();
  if (!parker_.refusing()) {
    Resume(turn);
  }
}

bool Lane::ParkRefused(TurnContext* turn) {
  const CallResult result = parker_.ParkRefused(turn);
  if (result == CallResult::kLost) {
    Leave(GoneReason::kLost);
  }
  if (result == CallResult::kDone) {
    Advance();
    if (!parker_.refusing()) {
      Resume(*turn);
    }
  }
  return result != CallResult::kFailed;
}

bool Lane::LeaveOne(TurnContext* turn) {
  const CallResult result = topics_.LeaveOne(*turn);
  if (result == CallResult::kLost) {
    Leave(GoneReason::kLost);
  }
  if (result == CallResult::kDone && !topics_.leaving()) {
    sender_.ForgetTopicTrouble();  // that of its side lanes from now on
    Resume(*turn);
  }
  return result != CallResult::kFailed;
}

void Lane::Left(const ForkPlan& plan, int64_t next_due, const TurnContext& turn) {
  topics_.Left(plan, next_due, turn);
  Advance();
}

// --- acknowledging -----------------------------------------------------------------------------------------------

void Lane::Advance() {
  acker_.Advance();
  if (!topics_.trial().unproven()) {
    sender_.OnProgress(lane_.pipeline.empty(), topics_.trial().over());
  }
}

void Lane::EndSave(const Status& status, const ProgressSave& save, size_t count, const TurnContext& turn) {
  const CallResult result = acker_.EndSave(status, save, count, turn);
  if (result == CallResult::kLost) {
    Leave(GoneReason::kLost);
  } else if (result == CallResult::kFailed && phase_ == Phase::kReleasing && turn.now >= release_deadline_) {
    Leave(GoneReason::kUnclean);
  }
}

bool Lane::Save(TurnContext* turn) {
  const CallResult result = acker_.Save(*turn);
  if (result == CallResult::kLost) {
    Leave(GoneReason::kLost);
  }
  return result != CallResult::kFailed;
}

bool Lane::SaveAll(TurnContext* turn) {
  return acker_.AllSaved() || (acker_.Ready(*turn) && Save(turn) && phase_ != Phase::kGone);
}

// --- leaving -----------------------------------------------------------------------------------------------------

bool Lane::StepReleasing(TurnContext* turn) {
  const bool late = turn->now >= release_deadline_;
  bool worked = false;
  if (pump() != nullptr) {
    pump()->Release();
    worked = pump()->Step(turn, lane_.format.get(), lane_.log.get(), false);
    if (pump()->lost()) {
      Leave(GoneReason::kLost);
      return true;
    }
  }
  if (sides() != nullptr && !sides()->empty()) {
    return worked;  // they go first; they have the same deadline
  }
  const bool waits = lane_.pipeline.outstanding() > 0 || (pump() != nullptr && !pump()->at_rest());
  if (!late && (waits || (!acker_.AllSaved() && !acker_.Ready(*turn)))) {
    return worked;
  }
  // What is given up now is at rest when the lane comes here again, with its progress saved: so it is noted at once.
  if (waits || lane_.pipeline.has_done_ahead() || (sides() != nullptr && !sides()->clean())) {
    gone_reason_ = GoneReason::kUnclean;
  }
  if (pump() != nullptr && !pump()->at_rest() && !pump()->GiveUp(turn) && pump()->lost()) {
    Leave(GoneReason::kLost);
    return true;
  }
  if (!acker_.AllSaved()) {
    turn->saver->Ask(this, false);
    return worked;
  }
  Leave(gone_reason_);
  return true;
}

}  // namespace outbox::relay
