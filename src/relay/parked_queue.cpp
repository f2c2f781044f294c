// Holding keys, parking, claiming and settling. What outcomes mean is in parked_outcomes.cpp.
#include "relay/parked_queue.h"

#include <algorithm>
#include <bitset>
#include <unordered_map>
#include <utility>

namespace outbox::relay {

namespace {

constexpr int64_t kReloadMicros = 2'000'000;  // least time between two loads of the held keys after a wake
constexpr int64_t kReloadShare = 20;          // a twentieth of the time at most goes into them
constexpr int64_t kLookMicros = 30'000'000;   // a lane that holds nothing looks for what others left this often

}  // namespace

ParkedQueue::ParkedQueue(uint32_t first_flow, std::unique_ptr<ParkedLog> log, Destination* destination,
                         const EngineOptions& options)
    : first_flow_(first_flow),
      log_(std::move(log)),
      destination_(destination),
      backoff_(options.backoff_base_micros, options.backoff_cap_micros),
      log_retry_(options.backoff_base_micros, options.backoff_cap_micros) {}

Status ParkedQueue::Load() {
  std::vector<uint64_t> keys;
  int64_t due = kNever;
  bool owner = true;
  Status status = log_->LoadHeld(&keys, &due, &owner);
  lost_ |= !owner;
  if (status.ok()) {
    if (std::exchange(forgot_, false)) {
      held_ = KeySet();
      ++surprises_;
    }
    for (uint64_t key : keys) {
      surprises_ += held_.Insert(key) ? 1 : 0;
    }
    NoteDue(due);
  }
  return status;
}

Status ParkedQueue::Park(std::span<const Parking> events, format::OnFailure on_failure, bool* owner) {
  int64_t due = kNever;
  Status status = log_->Park(events, &due, owner);
  if (!status.ok() || !*owner) {
    return status;
  }
  NoteDue(due);
  for (const Parking& event : events) {
    const bool passes = event.state == ParkedState::kScheduled ||
                        (event.state == ParkedState::kDead && on_failure == format::OnFailure::kSkip);
    if (!passes) {
      held_.Insert(event.order_key);
    }
  }
  return status;
}

void ParkedQueue::Wake() {
  reload_ = true;
  Look();
}

void ParkedQueue::ForgetKeys() {
  forgot_ = true;
  next_reload_ = 0;
  Wake();
}

void ParkedQueue::Look() {
  woken_ = true;
  not_before_ = 0;
}

void ParkedQueue::OnDestinationUp() {
  woken_ = true;
  not_before_ = 0;
  next_try_ = 0;
  for (auto& [name, topic] : topics_) {
    topic.until = 0;
  }
}

bool ParkedQueue::Step(TurnContext* turn, format::PlainFormat* format, bool may_claim) {
  if (lost_) {
    return false;
  }
  const format::RetryPolicy& policy = format->spec().policy();
  on_failure_ = policy.on_failure;
  bool worked = false;
  if (phase_ == Phase::kSending && outstanding_ == 0) {
    if (!sent_.empty()) {
      Decide(*turn, policy);
      worked = true;
    }
    worked |= Submit(turn, format, may_claim);
  }
  if (phase_ == Phase::kSettling && LogReady(*turn)) {
    worked |= Settle(*turn);
  }
  if (phase_ == Phase::kIdle && !releasing_ && !lost_) {
    worked |= reload_ && Reload(*turn);
    worked |= may_claim && WantsClaim(*turn) && Claim(turn, format);
  }
  return worked;
}

// --- claiming ----------------------------------------------------------------------------------------------------

bool ParkedQueue::Reload(const TurnContext& turn) {
  if (turn.now < next_reload_ || !LogReady(turn)) {
    return false;
  }
  const int64_t began = turn.clock->NowMicros();
  if (log_retry_.Failed(Load(), turn)) {
    return false;
  }
  reload_ = false;
  // With a hundred thousand keys a load takes a good part of a second, in which the lanes stand still.
  next_reload_ = turn.now + std::max(kReloadMicros, kReloadShare * (turn.clock->NowMicros() - began));
  return true;
}

int64_t ParkedQueue::MayClaimAt() const {
  return std::max({log_retry_.next_try(), not_before_, next_try_});
}

bool ParkedQueue::WantsClaim(const TurnContext& turn) const {
  if (turn.now < MayClaimAt() || !destination_->retry().accepting()) {
    return false;
  }
  return woken_ || turn.now >= next_poll_ || turn.now >= topic_try_ ||
         (next_due_ != kNever && turn.clock->WallMicros() >= next_due_);
}

bool ParkedQueue::Claim(TurnContext* turn, format::PlainFormat* format) {
  ClaimLimits limits;
  limits.now = turn->clock->WallMicros();
  limits.max_events = std::min(kMaxClaim, destination_->breaker().Admits(true));
  limits.max_bytes = turn->options->chunk_bytes;
  limits.without = without_;
  int64_t topic_try = kNever;
  for (const auto& [name, topic] : topics_) {
    if (turn->now < topic.until) {
      limits.without.push_back(name);
      topic_try = std::min(topic_try, topic.until);
    }
  }
  chunk_ = ClaimedChunk{};
  int64_t due = kNever;
  bool owner = true;
  if (log_retry_.Failed(log_->Claim(limits, &chunk_, &due, &owner), *turn)) {
    return false;
  }
  if (!owner) {
    lost_ = true;
    return true;
  }
  woken_ = false;
  next_due_ = due;
  topic_try_ = topic_try;
  next_poll_ = turn->now + (holding() ? turn->options->poll_micros : kLookMicros);
  if (chunk_.events.empty()) {
    if (due <= limits.now) {
      not_before_ = turn->now + turn->options->poll_micros;  // somebody else's, or of a topic in trouble
    }
    return false;
  }
  Prepare(*turn, format);
  phase_ = Phase::kSending;
  idle_aborts_ = 0;
  mending_ = 0;
  Submit(turn, format, true);
  return true;
}

void ParkedQueue::Prepare(const TurnContext& turn, format::PlainFormat* format) {
  const format::RouteSpec& spec = format->spec();
  items_ = std::vector<Item>(chunk_.events.size());
  std::unordered_map<uint64_t, uint32_t> first_of;
  for (uint32_t i = 0; i < items_.size(); ++i) {
    const Claimed& claimed = chunk_.events[i];
    Item& item = items_[i];
    item.flow = claimed.order_key == 0 ? i : first_of.emplace(claimed.order_key, i).first->second;
    item.topic = format->Topic(claimed.event);
    item.settlement.claimed = &claimed;
    item.settlement.attempts = claimed.attempts;
    item.settlement.topic = item.topic;
    if (spec.PausesTopic(item.topic) || spec.PausesKey(claimed.event.aggregate_type, claimed.event.aggregate_id)) {
      End(&item, ParkedOutcome::kGiveBack);
      not_before_ = turn.now + turn.options->poll_micros;  // the table will know of the pause by then
    }
  }
}

// --- sending -----------------------------------------------------------------------------------------------------

// What the claim still has to send, or on to settling.
bool ParkedQueue::Submit(TurnContext* turn, format::PlainFormat* format, bool may_send) {
  if (!may_send || releasing_) {
    GiveBackReady(nullptr);
  } else if (turn->now < mending_ && destination_->retry().health() != nullptr && !destination_->retry().health()->up) {
    return false;
  }
  CloseKeys();
  const bool any =
      std::any_of(items_.begin(), items_.end(), [](const Item& item) { return item.state == ItemState::kReady; });
  if (any) {
    return destination_->retry().accepting() && SubmitSome(turn, format);
  }
  phase_ = Phase::kSettling;
  return true;
}

// All that are ready but suspects and what is behind these; if there is nothing else, the first suspect alone. False:
// not now.
bool ParkedQueue::SubmitSome(TurnContext* turn, format::PlainFormat* format) {
  RetrySink& retry = destination_->retry();
  if (!retry.Open(first_flow_, turn->now)) {
    return false;
  }
  retry.Ensure(destination_->factory());
  deaths_ = retry.deaths();
  kills_ = retry.kills();
  first_seq_ = retry.next_seq();
  closed_ = false;
  sent_.clear();
  places_.clear();
  std::bitset<kMaxClaim> stopped;
  uint32_t suspect = UINT32_MAX;
  std::string records;
  const auto send = [&](uint32_t i) {
    Item& item = items_[i];
    records.clear();
    Error bad;
    if (!format->Append(chunk_.events[i].event, turn->clock->WallMicros(), &records, &bad)) {
      item.settlement.error = std::move(bad);
      ++item.settlement.attempts;
      End(&item, ParkedOutcome::kDead);
      stopped.set(item.flow % kFlows);
      return;
    }
    item.state = ItemState::kSent;
    sent_.push_back(i);
    retry.Submit(first_flow_ + item.flow % kFlows, epoch_, 1, std::move(records), turn->now);
  };
  for (uint32_t i = 0; i < items_.size(); ++i) {
    const Item& item = items_[i];
    if (item.state != ItemState::kReady || stopped.test(item.flow % kFlows)) {
      continue;
    }
    if (item.suspect) {
      suspect = std::min(suspect, i);
      stopped.set(item.flow % kFlows);
      continue;
    }
    send(i);
  }
  tested_ = sent_.empty() && suspect != UINT32_MAX;
  if (tested_) {
    if (!retry.BeginTest(first_flow_, turn->now)) {
      return false;
    }
    send(suspect);
  }
  outstanding_ = static_cast<uint32_t>(sent_.size());
  if (outstanding_ > 0) {
    destination_->breaker().OnSent(first_flow_, true);
  }
  return true;
}

// --- settling ----------------------------------------------------------------------------------------------------

bool ParkedQueue::Settle(const TurnContext& turn) {
  std::vector<Settlement> outcomes;
  outcomes.reserve(items_.size());
  for (const Item& item : items_) {
    outcomes.push_back(item.settlement);
  }
  std::vector<uint64_t> freed;
  int64_t due = kNever;
  bool owner = true;
  if (log_retry_.Failed(log_->Settle(outcomes, &freed, &due, &owner), turn)) {
    return false;
  }
  if (!owner) {
    lost_ = true;
    return true;
  }
  for (const Settlement& settled : outcomes) {
    if (settled.claimed->replay != 0) {
      continue;  // a copy that was refused holds nobody up
    }
    const bool dead_holds = settled.outcome == ParkedOutcome::kDead && on_failure_ == format::OnFailure::kBlock;
    if (settled.outcome == ParkedOutcome::kRetry || dead_holds) {
      surprises_ += held_.Insert(settled.claimed->order_key) ? 1 : 0;
    }
  }
  for (uint64_t key : freed) {
    held_.Erase(key);
  }
  next_due_ = due;
  destination_->breaker().Forget(first_flow_);
  items_.clear();
  sent_.clear();
  chunk_ = ClaimedChunk{};
  phase_ = Phase::kIdle;
  return true;
}

bool ParkedQueue::GiveUp(TurnContext* turn) {
  if (phase_ == Phase::kSending) {
    OnSinkClosed();
    sent_.clear();
    GiveBackReady(nullptr);
    phase_ = Phase::kSettling;
  }
  if (phase_ == Phase::kSettling && !lost_) {
    Settle(*turn);
  }
  return phase_ == Phase::kIdle;
}

// --- looking -----------------------------------------------------------------------------------------------------

int64_t ParkedQueue::NextTime(const TurnContext& turn) const {
  int64_t next = kNever;
  const auto at = [&](int64_t time) {
    if (time > turn.now && time < next) {
      next = time;
    }
  };
  if (lost_) {
    return kNever;
  }
  if (phase_ != Phase::kIdle) {
    at(log_retry_.next_try());
    at(mending_);
    return next;
  }
  if (releasing_) {
    return kNever;
  }
  if (reload_) {
    at(std::max(next_reload_, log_retry_.next_try()));
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
