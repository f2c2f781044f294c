// The parked events of one lane, as its engine sees them [-]: which keys wait behind them, and the pump that sends what
// is due. README.md, "Parked events", draws the states.
//
// Sending: claim, submit to the destination's second sink, wait until all have their outcome, settle, the next claim;
// one claim at a time. What an outcome means is said by outcomes.h, as for the lane's own events, and decided by a
// Sender. Where the sender backs off, all that is left of the claim is given back; an event whose topic is in trouble
// is given back, and its topic left alone until it has backed off; an event behind one of its key that was not
// delivered is given back, so that the key's next event goes after a commit. Nothing is sent before the claim is
// durable, and with it all that sessions did to its events. Only what is charged counts as an attempt. Recovery of the
// destination ends the back-off of pump and topics at once.
//
// Single-threaded. Owned by the lane (side lanes share it: their events park here too). A claim (at most 256 events and
// a chunk of bytes) is outside of the destination's budget.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "format/record_format.h"
#include "relay/common/call_retry.h"
#include "relay/common/durable_wait.h"
#include "relay/common/meter.h"
#include "relay/common/parked_log.h"
#include "relay/common/topic_backoffs.h"
#include "relay/common/turn.h"
#include "relay/destination/destination.h"
#include "relay/parked/claim.h"
#include "relay/parked/held_keys.h"
#include "relay/parked/moving_keys.h"
#include "relay/send/sender.h"

namespace outbox::relay {

class ParkedQueue {
 public:
  // It submits under flows first_flow ... first_flow + kFlows - 1.
  static constexpr uint32_t kFlows = Claim::kMaxEvents;

  // `destination` outlives it.
  ParkedQueue(uint32_t first_flow, std::unique_ptr<ParkedLog> log, Destination* destination,
              const EngineOptions& options, const MeterPlace& figures);
  ParkedQueue(const ParkedQueue&) = delete;
  ParkedQueue& operator=(const ParkedQueue&) = delete;

  uint32_t first_flow() const { return first_flow_; }

  // --- keys that wait ---
  // The lane calls this before it sends anything.
  Status Load(format::RecordFormat* format);
  bool holding() const { return keys_.any(); }
  bool Holds(uint64_t order_key) const { return keys_.Holds(order_key); }
  // Holds the key of an event that was parked by other means (a fork), with nothing of the key in flight.
  void Hold(uint64_t order_key) { keys_.Hold(order_key); }
  uint64_t late_holds() const { return keys_.late_holds(); }  // see HeldKeys
  size_t held_keys() const { return keys_.size(); }
  MovingKeys& moving() { return moving_; }

  // --- parking ---
  // Records them; the keys of those that retry or are blocked, under `block` also of dead ones, are held from then on.
  Status Park(std::span<const Parking> events, format::OnFailure on_failure);
  // Something was parked, or falls due: `due` in Unix microseconds.
  void NoteDue(int64_t due) { next_due_ = due < next_due_ ? due : next_due_; }

  // What a fork has parked of a topic, and not tried, was parked for that error. `since`: Unix microseconds.
  void NoteTopic(const std::string& topic, const Error& error, int64_t since, const EngineOptions& options) {
    topics_.Note(topic, error, since, options);
  }

  // --- sending ---
  // Topics that have left the lane and do not flow: none of their events is claimed.
  void SetWithout(std::vector<std::string> topics) {
    without_ = std::move(topics);
    std::sort(without_.begin(), without_.end());
  }
  void Wake();  // a session or another worker may have changed parked events
  // The route's topics have new names from now on, and with them the order keys change. Until what is parked has been
  // read again, under the new ones, nothing is claimed, and what is claimed and not sent is given back.
  void ForgetKeys();
  bool knows_keys() const { return keys_.known(); }
  // The route's options are others: what is claimed and waits for standbys, for hours perhaps, is looked at again.
  void OnSpec();
  void Reconsider();  // something may be claimable that was not
  void OnDestinationUp();
  void OnResult(const sink::Result& result, const TurnContext& turn);
  // `server_run`: that acknowledged what is there.
  void OnPlace(const sink::Place& place, const std::string& server_run) { claim_.AddPlace(place, server_run); }
  void OnSinkClosed() { sender_.OnSinkClosed(); }  // what is in flight will have no outcome
  void OnSinkDied(SinkDeath death) { sender_.OnSinkDied(SinkUse::kSecond, death); }
  // See Sender.
  bool Overdue(bool well, int64_t now) { return sender_.Overdue(SinkUse::kSecond, well, now); }
  void OnOverdue(const Error& error, const TurnContext& turn) { sender_.OnOverdue(error, turn); }
  const Watchdog& watchdog() const { return sender_.watchdog(); }
  uint32_t outstanding() const { return claim_.outstanding(); }
  // Returns whether it did any work. `may_claim`: the lane lets parked events go. `log`: the lane's.
  bool Step(TurnContext* turn, format::RecordFormat* format, LaneLog* log, bool may_claim);
  int64_t NextTime(const TurnContext& turn) const;
  // Whether Step() has nothing to do, nothing is due some time, and nobody has said that there may be anything.
  bool Rests(const TurnContext& turn) const {
    return phase_ == Phase::kIdle && ownership_ == Ownership::kOwned && !keys_.wants_load() && !woken_ &&
           next_due_ == kNever && topic_try_ == kNever && turn.now < next_poll_ && log_retry_.trouble().ok();
  }
  // The lane has another owner: it must be let go.
  bool lost() const { return ownership_ == Ownership::kLost; }

  // --- leaving ---
  // No more claims; what is not in flight is given back.
  void Release() { ownership_ = ownership_ == Ownership::kOwned ? Ownership::kReleasing : ownership_; }
  // Nothing is claimed.
  bool at_rest() const { return phase_ == Phase::kIdle; }
  // The deadline has passed: what has no outcome is given back. Returns false if that, too, failed.
  bool GiveUp(TurnContext* turn);

  // Newest trouble to tell of: of the parked table, then of the destination, then of the topic that has been in trouble
  // for longest; without `trouble`: none. `wall`: Unix microseconds.
  using Told = TopicBackoffs::Told;  // `topic`: nullptr where it is not of one
  Told trouble(int64_t wall) const;
  // The topics in trouble that have not left the lane. A few: each is told of by name.
  std::vector<Told> TopicsInTrouble() const { return topics_.Longest(without_, kToldTopics); }
  // Something is due that could go and does not, or is being sent. `wall`: Unix microseconds.
  bool waits(int64_t wall) const { return phase_ != Phase::kIdle || next_due_ <= wall; }

 private:
  static constexpr size_t kToldTopics = 32;
  enum class Phase : uint8_t { kIdle, kSending, kSettling };
  enum class Ownership : uint8_t { kOwned, kReleasing, kLost };

  // Claiming.
  int64_t MayClaimAt() const;
  bool WantsClaim(const TurnContext& turn) const;
  bool ClaimSome(TurnContext* turn, format::RecordFormat* format, LaneLog* log);
  bool Reload(const TurnContext& turn, format::RecordFormat* format);
  CallResult Result(const Status& status, const TurnContext& turn, LogCall call);
  bool LogReady(const TurnContext& turn) const { return log_retry_.Ready(turn.now); }

  // Sending.
  bool Decide(const TurnContext& turn);
  bool Submit(TurnContext* turn, format::RecordFormat* format, LaneLog* log, bool may_send);
  bool Settle(const TurnContext& turn);

  const uint32_t first_flow_;
  const std::unique_ptr<ParkedLog> log_;
  Destination* const destination_;
  CallRetry log_retry_;
  HeldKeys keys_;
  MovingKeys moving_;
  format::OnFailure on_failure_ = format::OnFailure::kSkip;
  std::vector<std::string> without_;  // sorted

  // When to claim. Monotonic microseconds, but for next_due_.
  int64_t next_due_ = kNever;  // Unix microseconds
  bool woken_ = false;
  int64_t next_poll_ = 0;
  int64_t not_before_ = 0;
  TopicBackoffs topics_;
  int64_t topic_try_ = kNever;  // when the first of those may be tried

  Meter meter_;

  // The claim.
  Phase phase_ = Phase::kIdle;
  Ownership ownership_ = Ownership::kOwned;
  Claim claim_;
  uint64_t durable_lsn_ = 0;  // of the claim
  DurableWait durable_;
  Sender sender_;
  bool answered_ = false;  // the destination has looked at something of the submission
  int64_t mending_ = 0;    // until then it waits for the sink's process to come back
};

}  // namespace outbox::relay
