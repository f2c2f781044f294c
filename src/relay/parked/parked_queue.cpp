#include "relay/parked/parked_queue.h"

#include <algorithm>

namespace outbox::relay {

namespace {

constexpr int64_t kRecheckMicros = 30'000'000;  // how often a lane that holds nothing looks for what others left
constexpr int64_t kPausedMicros = 5'000'000;    // how often it is looked whether the key of one without a key is paused
constexpr int64_t kMendingMicros = 10'000'000;  // a sink whose process died is given this long to come back

}  // namespace

ParkedQueue::ParkedQueue(uint32_t first_flow, std::unique_ptr<ParkedLog> log, Destination* destination,
                         const EngineOptions& options, const MeterPlace& figures)
    : first_flow_(first_flow),
      log_(std::move(log)),
      destination_(destination),
      log_retry_(options.backoff_base_micros, options.backoff_cap_micros),
      meter_(figures),
      claim_(first_flow, &topics_, &meter_),
      sender_(first_flow, &claim_, destination, SinkUse::kSecond, PoisonSearch::Way::kEachAlone, options, &meter_) {}

// --- keys that wait ----------------------------------------------------------------------------------------------

Status ParkedQueue::Load(format::RecordFormat* format) {
  std::vector<uint64_t> keys;
  int64_t due = kNever;
  Status status = log_->LoadHeld(format, !keys_.known(), &keys, &due);
  if (status.ok()) {
    keys_.OnLoaded(keys);
    NoteDue(due);
  }
  return status;
}

// The result of a call of the log; notes that the lane is lost.
CallResult ParkedQueue::Result(const Status& status, const TurnContext& turn, LogCall call) {
  const CallResult result = log_retry_.Result(status, turn, call);
  ownership_ = result == CallResult::kLost ? Ownership::kLost : ownership_;
  return result;
}

bool ParkedQueue::Reload(const TurnContext& turn, format::RecordFormat* format) {
  if (turn.now < keys_.next_load() || !LogReady(turn)) {
    return false;
  }
  const int64_t began = turn.clock->NowMicros();
  const CallResult result = Result(Load(format), turn, LogCall::kHeld);
  if (result != CallResult::kDone) {
    return result == CallResult::kLost;
  }
  keys_.OnReloaded(turn.now, turn.clock->NowMicros() - began);
  return true;
}

Status ParkedQueue::Park(std::span<const Parking> events, format::OnFailure on_failure) {
  int64_t due = kNever;
  Status status = log_->Park(events, &due);
  if (!status.ok()) {
    return status;
  }
  NoteDue(due);
  for (const Parking& event : events) {
    meter_.Parked(event.state);
    if (HoldsKey(event.state, on_failure)) {
      keys_.Hold(event.order_key);
    }
  }
  return status;
}

// --- what happens ------------------------------------------------------------------------------------------------

void ParkedQueue::Wake() {
  keys_.Wake();
  Reconsider();
}

void ParkedQueue::ForgetKeys() {
  keys_.Forget();
  moving_.Rest();
  Reconsider();
}

void ParkedQueue::OnSpec() {
  if (durable_.waits()) {
    claim_.GiveBackAll();
  }
}

void ParkedQueue::Reconsider() {
  woken_ = true;
  not_before_ = 0;
}

void ParkedQueue::OnDestinationUp() {
  Reconsider();
  sender_.OnUp(SinkUse::kMain);
  topics_.EndAll();
}

void ParkedQueue::OnResult(const sink::Result& result, const TurnContext& turn) {
  const bool answer = result.outcome == sink::Outcome::kDelivered ||
                      (result.outcome == sink::Outcome::kFailed && MeaningOf(result.error.error_class).answers);
  answered_ |= sender_.OnResult(result, turn) > 0 && answer;
}

bool ParkedQueue::Step(TurnContext* turn, format::RecordFormat* format, LaneLog* log, bool may_claim) {
  if (lost()) {
    return false;
  }
  on_failure_ = format->spec().policy().on_failure;
  claim_.SetPolicy(format->spec().policy());
  sender_.EndTest(phase_ == Phase::kSending, *turn);
  bool worked = false;
  if (phase_ == Phase::kSending && claim_.outstanding() == 0) {
    worked |= Decide(*turn);
    worked |= Submit(turn, format, log, may_claim);
  }
  if (phase_ == Phase::kSettling && LogReady(*turn)) {
    worked |= Settle(*turn);
  }
  if (phase_ == Phase::kIdle && ownership_ == Ownership::kOwned) {
    worked |= keys_.wants_load() && Reload(*turn, format);
    worked |= !lost() && may_claim && keys_.known() && WantsClaim(*turn) && ClaimSome(turn, format, log);
  }
  log_retry_.EndStep(*turn);
  return worked;
}

// --- claiming ----------------------------------------------------------------------------------------------------

int64_t ParkedQueue::MayClaimAt() const {
  const int64_t backs_off = sender_.state() == SendState::kBackingOff ? sender_.next_try() : 0;
  return std::max({log_retry_.next_try(), not_before_, backs_off});
}

bool ParkedQueue::WantsClaim(const TurnContext& turn) const {
  if (turn.now < MayClaimAt() || !destination_->retry().accepting()) {
    return false;
  }
  return woken_ || turn.now >= next_poll_ || turn.now >= topic_try_ ||
         (next_due_ != kNever && turn.clock->WallMicros() >= next_due_);
}

bool ParkedQueue::ClaimSome(TurnContext* turn, format::RecordFormat* format, LaneLog* log) {
  ClaimLimits limits;
  limits.now = turn->clock->WallMicros();
  limits.max_events = std::min(Claim::kMaxEvents, destination_->breaker().Admits(true));
  limits.max_bytes = turn->options->chunk_bytes;
  limits.without = without_;
  const int64_t topic_try = topics_.Append(turn->now, &limits.without);
  ClaimedChunk chunk;
  int64_t due = kNever;
  const CallResult result = Result(log_->Claim(limits, &chunk, &due), *turn, LogCall::kClaim);
  if (result != CallResult::kDone) {
    return result == CallResult::kLost;
  }
  woken_ = false;
  next_due_ = due;
  topic_try_ = topic_try;
  next_poll_ = turn->NextOf(holding() ? turn->options->poll_micros : kRecheckMicros);
  if (chunk.events.empty()) {
    moving_.Rest();
    if (due <= limits.now) {
      not_before_ = turn->now + turn->options->poll_micros;  // another worker's, or of a topic in trouble
    } else {
      topics_.OnNothingDue(limits.without);
    }
    return false;
  }
  moving_.BeginClaim(turn->clock->NowMicros());
  for (const Claimed& claimed : chunk.events) {
    if (claimed.replay == 0 && keys_.Holds(claimed.order_key)) {
      moving_.OnClaimed(claimed.order_key);
    }
  }
  durable_lsn_ = chunk.durable_lsn;
  if (claim_.Begin(std::move(chunk), format, limits.now + kPausedMicros)) {
    not_before_ = turn->now + turn->options->poll_micros;  // the table will know of the pause by then
  }
  sender_.Forget();
  sender_.Flow();
  phase_ = Phase::kSending;
  mending_ = 0;
  Submit(turn, format, log, true);
  return true;
}

// --- sending -----------------------------------------------------------------------------------------------------

// All that was sent has its outcome. What is ready after this goes again.
bool ParkedQueue::Decide(const TurnContext& turn) {
  claim_.EndSubmission();
  if (std::exchange(answered_, false)) {
    sender_.Recover();  // trouble of an event or a topic is recorded with the event
  }
  if (!sender_.drained()) {
    return false;
  }
  if (sender_.died()) {
    mending_ = turn.now + kMendingMicros;
  }
  sender_.Settle(turn);
  claim_.GiveBackTopics(turn.now);
  sender_.Resume(turn);
  if (!sender_.flowing() || destination_->breaker().state() == Breaker::State::kOpen) {
    claim_.GiveBackAll();
  }
  return true;
}

// Sends what the claim still has to send; if nothing is left, goes on to settling.
bool ParkedQueue::Submit(TurnContext* turn, format::RecordFormat* format, LaneLog* log, bool may_send) {
  if (!may_send || ownership_ != Ownership::kOwned || !keys_.known()) {
    claim_.GiveBackAll();
  } else if (turn->now < mending_ && destination_->retry().health() != nullptr && !destination_->retry().health()->up) {
    return false;
  }
  claim_.GiveBackFollowers();
  if (claim_.any_ready()) {
    return durable_.Look(durable_lsn_, log, &log_retry_, turn) != Durability::kNotYet &&
           claim_.Send(&sender_, format, turn);
  }
  durable_.Forget(&log_retry_);
  phase_ = Phase::kSettling;
  return true;
}

// --- settling ----------------------------------------------------------------------------------------------------

bool ParkedQueue::Settle(const TurnContext& turn) {
  const std::vector<Settlement> outcomes = claim_.Outcomes();
  std::vector<uint64_t> freed;
  int64_t due = kNever;
  const CallResult result = Result(log_->Settle(outcomes, &freed, &due), turn, LogCall::kSettle);
  if (result != CallResult::kDone) {
    return result == CallResult::kLost;
  }
  const int64_t settled_at = turn.clock->NowMicros();
  for (const Settlement& settled : outcomes) {
    topics_.OnSettled(settled.topic, settled.outcome != ParkedOutcome::kGiveBack);
    if (settled.outcome == ParkedOutcome::kDead) {
      meter_.Parked(ParkedState::kDead);
    }
    if (settled.claimed->replay != 0) {
      continue;  // a refused copy (replay) holds nothing up
    }
    if (keys_.Holds(settled.claimed->order_key)) {
      moving_.OnSettled(settled.claimed->order_key, settled.outcome, settled_at);
    }
    if (HoldsKey(settled.outcome, on_failure_)) {
      keys_.HoldLate(settled.claimed->order_key);
    }
  }
  for (const uint64_t key : freed) {
    keys_.Free(key);
    moving_.OnFreed(key);
  }
  next_due_ = due;
  if (due > turn.clock->WallMicros()) {
    moving_.Rest();
  }
  destination_->breaker().Forget(first_flow_);
  topics_.EndClaim();
  claim_.End();
  phase_ = Phase::kIdle;
  return true;
}

bool ParkedQueue::GiveUp(TurnContext* turn) {
  if (phase_ == Phase::kSending) {
    claim_.ForgetSent();
    claim_.EndSubmission();
    claim_.GiveBackAll();
    phase_ = Phase::kSettling;
  }
  if (phase_ == Phase::kSettling && !lost()) {
    Settle(*turn);
  }
  return phase_ == Phase::kIdle;
}

// --- looking -----------------------------------------------------------------------------------------------------

ParkedQueue::Told ParkedQueue::trouble(int64_t wall) const {
  if (log_retry_.trouble().tells(wall)) {
    return {nullptr, &log_retry_.trouble(), log_retry_.next_try()};
  }
  const std::vector<Told> topics = topics_.Longest(without_, 1);
  const Trouble& sent = sender_.trouble();
  if (!sent.ok() && (topics.empty() || !IsAborted(sent.error()))) {
    return {nullptr, &sent, sender_.next_try()};
  }
  return topics.empty() ? Told() : topics[0];
}

int64_t ParkedQueue::NextTime(const TurnContext& turn) const {
  int64_t next = kNever;
  const auto at = [&](int64_t time) {
    if (time > turn.now && time < next) {
      next = time;
    }
  };
  if (lost()) {
    return kNever;
  }
  at(log_retry_.forgets_at());
  if (phase_ != Phase::kIdle) {
    at(log_retry_.next_try());
    at(mending_);
    at(durable_.next_try());
    sender_.TestTimes(at);
    return next;
  }
  if (ownership_ == Ownership::kReleasing) {
    return kNever;
  }
  if (keys_.wants_load()) {
    at(std::max(keys_.next_load(), log_retry_.next_try()));
  }
  const int64_t earliest = MayClaimAt();
  at(std::max(earliest, next_poll_));
  if (woken_) {
    at(earliest);
  }
  if (next_due_ != kNever) {
    const int64_t wall = turn.clock->WallMicros();
    const int64_t in = next_due_ > wall ? next_due_ - wall : 0;  // it may have been due since before all time
    at(std::max(earliest, turn.now + in));
  }
  if (topic_try_ != kNever) {
    at(std::max(earliest, topic_try_));
  }
  return next;
}

}  // namespace outbox::relay
