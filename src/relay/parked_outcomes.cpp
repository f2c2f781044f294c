// What outcomes mean for claimed events. The rest of ParkedQueue is in parked_queue.cpp.
#include <algorithm>
#include <bitset>
#include <utility>

#include "relay/parked_queue.h"
#include "relay/sender.h"

namespace outbox::relay {

namespace {

constexpr size_t kMaxTopics = 1024;             // that are backing off: more are forgotten, and tried
constexpr int kKilledSteps = 6;                 // nothing is counted, so that long at random: 32 s by default
constexpr int kMostKills = 3;                   // processes that an event may take with it
constexpr int64_t kMendingMicros = 10'000'000;  // a sink whose process died is given this long to come back

}  // namespace

void ParkedQueue::OnResult(const sink::Result& result) {
  for (uint64_t seq = result.first_seq; seq < result.first_seq + result.count; ++seq) {
    if (seq < first_seq_ || seq - first_seq_ >= sent_.size()) {
      continue;  // of a claim that was given up
    }
    Item& item = items_[sent_[seq - first_seq_]];
    if (item.state != ItemState::kSent) {
      continue;
    }
    --outstanding_;
    item.settlement.error = Error{};
    if (result.outcome == sink::Outcome::kDelivered) {
      End(&item, ParkedOutcome::kDelivered);
    } else if (result.outcome == sink::Outcome::kAborted) {
      item.state = ItemState::kReady;
    } else {
      item.state = ItemState::kFailed;
      item.settlement.error = result.error;
    }
  }
}

void ParkedQueue::OnSinkClosed() {
  for (uint32_t i : sent_) {
    if (items_[i].state == ItemState::kSent) {
      items_[i].state = ItemState::kReady;
    }
  }
  closed_ = outstanding_ > 0;
  outstanding_ = 0;
}

// The sink is replaced for it.
void ParkedQueue::OnOverdue(const Error& error, const TurnContext& turn) {
  trouble_.Note(error, turn.clock->WallMicros());
  watchdog_.Reset();
}

void ParkedQueue::End(Item* item, ParkedOutcome outcome) {
  item->state = ItemState::kDecided;
  item->settlement.outcome = outcome;
}

// All that were sent have their outcome. What is ready after this goes again.
void ParkedQueue::Decide(const TurnContext& turn, const format::RetryPolicy& policy) {
  ++epoch_;
  const std::vector<uint32_t> sent = std::exchange(sent_, {});
  const bool alone = sent.size() == 1;
  const bool died = !closed_ && destination_->retry().deaths() > deaths_;
  const bool killed = died && destination_->retry().deaths() - deaths_ == destination_->retry().kills() - kills_;
  Breaker& breaker = destination_->breaker();
  bool delivered = false;
  bool failed = false;
  for (uint32_t i : sent) {
    Item& item = items_[i];
    if (item.state == ItemState::kDecided) {
      delivered = true;
      item.settlement.place = PlaceOf(item);
      topics_.erase(item.topic);
    }
  }
  if (delivered) {
    may_blame_ = true;
    backoff_.Reset();
    trouble_.Clear();
    breaker.OnAnswer(first_flow_, turn.now, turn.clock->WallMicros());
  }
  for (uint32_t i : sent) {
    if (items_[i].state == ItemState::kFailed) {
      failed = true;
      DecideFailure(&items_[i], alone, turn, policy);
    }
  }
  idle_aborts_ = delivered || failed ? 0 : idle_aborts_ + 1;
  const sink::Health* health = destination_->retry().health();
  const bool down = health != nullptr && !health->up;
  if (died) {
    for (uint32_t i : sent) {
      items_[i].suspect |= items_[i].state == ItemState::kReady;
    }
    if (tested_ && items_[sent[0]].state == ItemState::kReady) {
      DecideDeath(&items_[sent[0]], killed, turn, policy);
    }
    mending_ = turn.now + kMendingMicros;
  } else if (closed_ || idle_aborts_ > 1 || (idle_aborts_ > 0 && down)) {
    BackOff(
        down ? health->error : Error{ErrorClass::kDestination, "ABORTED", "parked events are aborted again and again"},
        turn);
  }
}

void ParkedQueue::DecideFailure(Item* item, bool alone, const TurnContext& turn, const format::RetryPolicy& policy) {
  Settlement& settlement = item->settlement;
  switch (settlement.error.error_class) {
    case ErrorClass::kMessage:
      destination_->breaker().OnAnswer(first_flow_, turn.now, turn.clock->WallMicros());
      ++settlement.attempts;
      End(item, ParkedOutcome::kDead);
      return;
    case ErrorClass::kSolo:
      destination_->breaker().OnAnswer(first_flow_, turn.now, turn.clock->WallMicros());
      if (!alone) {
        item->suspect = true;
        item->state = ItemState::kReady;
        return;
      }
      ++settlement.attempts;
      if (settlement.attempts >= policy.max_attempts) {
        End(item, ParkedOutcome::kDead);
        return;
      }
      settlement.due = turn.clock->WallMicros() + Backoff::Delay(policy.backoff_base, policy.backoff_cap,
                                                                 settlement.attempts, turn.clock->Random());
      End(item, ParkedOutcome::kRetry);
      return;
    case ErrorClass::kTopic:
      destination_->breaker().OnAnswer(first_flow_, turn.now, turn.clock->WallMicros());
      PauseTopic(item->topic, turn);
      End(item, ParkedOutcome::kGiveBack);
      GiveBackReady(&item->topic);
      return;
    default:
      BackOff(settlement.error, turn);
      End(item, ParkedOutcome::kGiveBack);
  }
}

// The sink's process died of this event alone, as far as anybody can tell. That three die of one event and nothing is
// delivered before three die of the next is no event's fault.
void ParkedQueue::DecideDeath(Item* item, bool killed, const TurnContext& turn, const format::RetryPolicy& policy) {
  item->killed |= killed;
  if (++item->kills < kMostKills) {
    return;
  }
  if (item->killed) {
    item->settlement.error = KilledError();
    item->settlement.due = turn.clock->WallMicros() +
                           Backoff::Delay(policy.backoff_base, policy.backoff_cap, kKilledSteps, turn.clock->Random());
    End(item, ParkedOutcome::kRetry);
    return;
  }
  if (!may_blame_) {
    BackOff({ErrorClass::kDestination, "SINK_DIED", "the sink's process dies whatever is sent"}, turn);
    return;
  }
  may_blame_ = false;
  item->settlement.error = {ErrorClass::kMessage, "SINK_DIED", "the sink's process died of this event three times"};
  ++item->settlement.attempts;
  End(item, ParkedOutcome::kDead);
}

// A key's events behind one that was not delivered wait: what became of it is committed first.
void ParkedQueue::CloseKeys() {
  std::bitset<kMaxClaim> closed;
  for (Item& item : items_) {
    if (item.state == ItemState::kDecided && item.settlement.outcome != ParkedOutcome::kDelivered) {
      closed.set(item.flow % kFlows);
    } else if (item.state == ItemState::kReady && closed.test(item.flow % kFlows)) {
      End(&item, ParkedOutcome::kGiveBack);
    }
  }
}

// `topic`: only events of that; nullptr: all.
void ParkedQueue::GiveBackReady(const std::string* topic) {
  for (Item& item : items_) {
    if (item.state == ItemState::kReady && (topic == nullptr || item.topic == *topic)) {
      End(&item, ParkedOutcome::kGiveBack);
    }
  }
}

// Nothing more of this claim is sent, and the next is made later.
void ParkedQueue::BackOff(const Error& error, const TurnContext& turn) {
  GiveBackReady(nullptr);
  if (destination_->breaker().probing(first_flow_)) {
    destination_->breaker().Trip(first_flow_, error, turn.now, turn.clock->WallMicros(), turn.clock->Random());
  }
  if (turn.now >= next_try_) {
    next_try_ = turn.now + backoff_.Next(turn.clock->Random());
  }
  if (!error.ok()) {
    trouble_.Note(error, turn.clock->WallMicros());
  }
}

void ParkedQueue::PauseTopic(const std::string& topic, const TurnContext& turn) {
  if (topics_.size() >= kMaxTopics) {
    topics_.clear();
  }
  const EngineOptions& options = *turn.options;
  auto [found, fresh] =
      topics_.try_emplace(topic, TopicPause{Backoff(options.backoff_base_micros, options.backoff_cap_micros)});
  if (fresh || turn.now >= found->second.until) {
    found->second.until = turn.now + found->second.backoff.Next(turn.clock->Random());
  }
}

// "partition/offset" or a stream's id; nothing where the claim held more of its key: the sink tells of them together.
std::string ParkedQueue::PlaceOf(const Item& item) const {
  for (const sink::Place& place : places_) {
    if (place.flow == first_flow_ + item.flow % kFlows && place.topic == item.topic && !place.first.empty()) {
      return place.first != place.last
                 ? ""
                 : (place.partition < 0 ? "" : std::to_string(place.partition) + "/") + place.first;
    }
  }
  return "";
}

}  // namespace outbox::relay
