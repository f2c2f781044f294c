#include "relay/parked/claim.h"

#include <algorithm>
#include <bitset>
#include <unordered_map>
#include <utility>

#include "sink/places.h"

namespace outbox::relay {

namespace {

// A stream id whose numbers are such as a clock makes: outbox_internal.outcome.acknowledged holds them.
bool FitsTable(std::string_view place) {
  constexpr uint64_t kMost = INT64_MAX;
  sink::StreamId id;
  return sink::ParseStreamId(place, &id) && id.time <= kMost && id.number <= kMost;
}

constexpr int kLaterSteps = 6;  // nothing was counted, so that long at random: 32 s by default

}  // namespace

void Claim::Decide(Item* item, ParkedOutcome outcome) {
  item->state = ItemState::kDecided;
  item->settlement.outcome = outcome;
}

bool Claim::Begin(ClaimedChunk chunk, format::RecordFormat* format, int64_t later) {
  chunk_ = std::move(chunk);
  const format::RouteSpec& spec = format->spec();
  items_ = std::vector<Item>(chunk_.events.size());
  doubt_ = {};
  std::unordered_map<uint64_t, uint32_t> first_of;
  bool paused = false;
  for (uint32_t i = 0; i < items_.size(); ++i) {
    const Claimed& claimed = chunk_.events[i];
    Item& item = items_[i];
    item.flow = claimed.order_key == 0 ? i : first_of.emplace(claimed.order_key, i).first->second;
    item.topic = format->Topic(claimed.event);
    item.settlement.claimed = &claimed;
    item.settlement.attempts = claimed.attempts;
    item.settlement.topic = item.topic;
    const bool of_key = spec.PausesKey(claimed.event.aggregate_type, claimed.event.aggregate_id);
    if (of_key || spec.PausesTopic(item.topic)) {
      Decide(&item, ParkedOutcome::kGiveBack);
      if (of_key && claimed.order_key == 0) {
        item.settlement.due = later;  // due, it would be in the way of all others
      } else {
        paused = true;
      }
    }
  }
  return paused;
}

bool Claim::any_ready() const {
  return std::any_of(items_.begin(), items_.end(), [](const Item& item) { return item.state == ItemState::kReady; });
}

// --- sending -----------------------------------------------------------------------------------------------------

bool Claim::Send(Sender* sender, format::RecordFormat* format, TurnContext* turn) {
  if (!sender->OpensSecond()) {
    return false;
  }
  sent_.clear();
  places_.clear();
  std::bitset<kMaxEvents> stopped;  // flows, behind a suspect
  uint32_t suspect = UINT32_MAX;
  bool worked = false;
  for (uint32_t i = 0; i < items_.size(); ++i) {
    const Item& item = items_[i];
    if (item.state != ItemState::kReady || stopped.test(item.flow % kMaxEvents)) {
      continue;
    }
    if (sender->Suspects(i)) {
      suspect = std::min(suspect, i);
      stopped.set(item.flow % kMaxEvents);
      continue;
    }
    SendOne(i, sender, format, turn);
    if (items_[i].state != ItemState::kSent) {
      stopped.set(item.flow % kMaxEvents);
      worked = worked || items_[i].state == ItemState::kDecided;
    }
  }
  if (sent_.empty() && !worked && suspect != UINT32_MAX) {
    if (sender->SuspectsOfKilling(suspect)) {
      if (const auto may = sender->MayTest(suspect, *turn); may != Sender::TestTurn::kNow) {
        return may == Sender::TestTurn::kTaken;
      }
    }
    SendOne(suspect, sender, format, turn);
    worked = items_[suspect].state != ItemState::kReady;
  }
  if (sent_.size() == 1) {
    sender->BeginSolo(sent_[0]);
  }
  return worked || !sent_.empty();
}

void Claim::SendOne(uint32_t i, Sender* sender, format::RecordFormat* format, TurnContext* turn) {
  Item& item = items_[i];
  std::string records;
  Error bad;
  if (!format->Append(chunk_.events[i].event, turn->clock->WallMicros(), &records, &bad)) {
    if (!doubt_.Holds(i, items_.size(), turn)) {
      Refuse(i, bad, MeaningOf(bad.error_class).alone, *turn);
    }
    return;
  }
  first_seq_ = sent_.empty() ? sender->next_seq() : first_seq_;
  item.state = ItemState::kSent;
  item.settlement.sent_at = turn->clock->WallMicros();
  item.sent_at = turn->clock->NowMicros();
  sent_.push_back(i);
  ++outstanding_;
  sender->Submit(item.flow % kMaxEvents, 1, std::move(records), *turn);
}

// --- outcomes ----------------------------------------------------------------------------------------------------

uint32_t Claim::Resolve(uint64_t first_seq, uint32_t count, bool delivered, std::vector<OrdinalRange>* undone) {
  uint32_t resolved = 0;
  for (uint64_t seq = first_seq; seq < first_seq + count; ++seq) {
    if (seq < first_seq_ || seq - first_seq_ >= sent_.size()) {
      continue;  // of a claim that was given up
    }
    const uint32_t i = sent_[seq - first_seq_];
    Item& item = items_[i];
    if (item.state != ItemState::kSent) {
      continue;
    }
    --outstanding_;
    ++resolved;
    item.settlement.error = Error{};
    if (delivered) {
      Decide(&item, ParkedOutcome::kDelivered);
      meter_->DeliveredParked(chunk_.events[i].event, chunk_.events[i].replay != 0, item.sent_at);
      topics_->OnDelivered(item.topic);
    } else {
      item.state = ItemState::kReady;
      undone->push_back({i, i});
    }
  }
  return resolved;
}

void Claim::ForgetSent() {
  for (const uint32_t i : sent_) {
    if (items_[i].state == ItemState::kSent) {
      items_[i].state = ItemState::kReady;
    }
  }
  outstanding_ = 0;
}

void Claim::EndSubmission() {
  std::bitset<kMaxEvents> one;
  std::bitset<kMaxEvents> more;
  for (const uint32_t i : sent_) {
    const uint32_t flow = items_[i].flow % kMaxEvents;
    more[flow] = more[flow] || one[flow];
    one.set(flow);
  }
  for (const uint32_t i : std::exchange(sent_, {})) {
    if (items_[i].state == ItemState::kDecided && items_[i].settlement.outcome == ParkedOutcome::kDelivered) {
      NotePlace(!more.test(items_[i].flow % kMaxEvents), &items_[i]);
    }
  }
}

void Claim::Refuse(uint64_t ordinal, const Error& error, Verdict verdict, const TurnContext& turn) {
  Item& item = items_[ordinal];
  Settlement& settlement = item.settlement;
  settlement.error = error;
  settlement.attempts += verdict == Verdict::kLater ? 0 : 1;
  const int steps = verdict == Verdict::kLater ? kLaterSteps : settlement.attempts;
  const Consequence next = ConsequenceOf(verdict, steps, policy_, turn.clock->WallMicros(), turn.clock->Random());
  settlement.due = next.due;
  Decide(&item, next.state == ParkedState::kDead ? ParkedOutcome::kDead : ParkedOutcome::kRetry);
}

bool Claim::OnTopicTrouble(uint64_t ordinal, const Error& error, const TurnContext& turn) {
  topics_->BackOff(items_[ordinal].topic, error, turn);
  items_[ordinal].settlement.error = error;  // charged to no event, and shown by status()
  Decide(&items_[ordinal], ParkedOutcome::kGiveBack);
  return true;
}

void Claim::GiveBackFollowers() {
  std::bitset<kMaxEvents> closed;
  for (Item& item : items_) {
    if (item.state == ItemState::kDecided && item.settlement.outcome != ParkedOutcome::kDelivered) {
      closed.set(item.flow % kMaxEvents);
    } else if (item.state == ItemState::kReady && closed.test(item.flow % kMaxEvents)) {
      Decide(&item, ParkedOutcome::kGiveBack);
    }
  }
}

void Claim::GiveBackTopics(int64_t now) {
  for (Item& item : items_) {
    const Error* error = item.state == ItemState::kReady ? topics_->ErrorOf(item.topic, now) : nullptr;
    if (error != nullptr) {
      item.settlement.error = *error;
      Decide(&item, ParkedOutcome::kGiveBack);
    }
  }
}

void Claim::GiveBackAll() {
  for (Item& item : items_) {
    if (item.state == ItemState::kReady) {
      Decide(&item, ParkedOutcome::kGiveBack);
    }
  }
}

// "partition/offset" or a stream's id; nothing where more of its key was sent with it (not `alone`): the sink tells of
// them together, or one after the other.
void Claim::NotePlace(bool alone, Item* item) const {
  Settlement& settlement = item->settlement;
  for (const Acknowledged& acknowledged : places_) {
    const sink::Place& place = acknowledged.place;
    if (place.flow != first_flow_ + item->flow % kMaxEvents || place.topic != item->topic || place.first.empty()) {
      continue;
    }
    if (alone && place.first == place.last) {
      settlement.place = (place.partition < 0 ? "" : std::to_string(place.partition) + "/") + place.first;
    }
    if (!acknowledged.server_run.empty() && FitsTable(place.last)) {
      // Where there are two runs, the first: the later one may not have acknowledged all of it.
      settlement.server_run = settlement.server_run.empty() ? acknowledged.server_run : settlement.server_run;
      settlement.acknowledged =
          sink::PlaceBefore(settlement.acknowledged, place.last) ? place.last : settlement.acknowledged;
    }
  }
}

std::vector<Settlement> Claim::Outcomes() const {
  std::vector<Settlement> outcomes;
  outcomes.reserve(items_.size());
  for (const Item& item : items_) {
    outcomes.push_back(item.settlement);
  }
  return outcomes;
}

void Claim::End() {
  items_.clear();
  sent_.clear();
  chunk_ = ClaimedChunk{};
}

}  // namespace outbox::relay
