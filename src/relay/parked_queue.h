// The parked events of one lane, as its engine sees them [-]: which keys wait behind them, and the pump that sends what
// is due. README.md, "Parked events", draws the states.
//
// Sending: claim, submit to the destination's retry sink, wait until all have their outcome, settle, the next claim;
// one claim at a time. A key's events of one claim go under a flow of their own, so that one that is refused aborts no
// other and its place is known. What becomes of a claimed event:
//
//   delivered                                        leaves the table
//   `message`                                        a dead letter
//   `solo`                                           sent alone; failing alone it is charged: retrying, or dead
//   kills the sink's process                         sent alone; when it kills three alone: dead, class message
//   the same, but somebody killed the process        sent alone; after three: tried again later, charged to nobody
//   `topic`                                          given back; its topic is left alone until it has backed off
//   anything else, or aborted again without progress  all is given back; the pump backs off
//   behind one of its key that was not delivered     given back: the key's next event goes after a commit
//
// Only what is charged counts as an attempt. Recovery of the destination ends the back-off of pump and topics at once.
//
// Single-threaded. Owned by the lane (side lanes share it: their events park here too). A claim (at most 256 events and
// a chunk of bytes) is outside of the destination's budget.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "base/backoff.h"
#include "base/key_set.h"
#include "format/plain.h"
#include "relay/call_retry.h"
#include "relay/destination.h"
#include "relay/parked_log.h"
#include "relay/turn.h"
#include "relay/watchdog.h"

namespace outbox::relay {

class ParkedQueue {
 public:
  static constexpr uint32_t kMaxClaim = 256;
  // It submits under flows first_flow ... first_flow + kFlows - 1.
  static constexpr uint32_t kFlows = kMaxClaim;

  // `destination` outlives it.
  ParkedQueue(uint32_t first_flow, std::unique_ptr<ParkedLog> log, Destination* destination,
              const EngineOptions& options);
  ParkedQueue(const ParkedQueue&) = delete;
  ParkedQueue& operator=(const ParkedQueue&) = delete;

  uint32_t first_flow() const { return first_flow_; }

  // --- keys that wait ---
  // The lane calls this before it sends anything. See lost().
  Status Load();
  bool holding() const { return !held_.empty(); }
  bool Holds(uint64_t order_key) const { return held_.Contains(order_key); }
  // Of an event that was recorded as parked otherwise (a fork), with nothing of its key under way.
  void Hold(uint64_t order_key) { held_.Insert(order_key); }
  // Grows when keys are held that a lane may have events of under way: it lets these end before it parks anything
  // behind them, or what it parks could be sent first.
  uint64_t surprises() const { return surprises_; }
  size_t held_keys() const { return held_.size(); }

  // --- parking ---
  // Records them; the keys of those that retry or are blocked, under `block` also of dead ones, are held from then on.
  Status Park(std::span<const Parking> events, format::OnFailure on_failure, bool* owner);
  // Something was parked, or falls due: `due` in Unix microseconds.
  void NoteDue(int64_t due) { next_due_ = due < next_due_ ? due : next_due_; }

  // --- sending ---
  // Topics that have left the lane and do not flow: nothing of them is claimed.
  void SetWithout(std::vector<std::string> topics) { without_ = std::move(topics); }
  void Wake();  // somebody else may have changed parked events
  // The route's topics have other names from now on, and so have keys: which of them are held is not known until the
  // table has been read.
  void ForgetKeys();
  bool knows_keys() const { return !forgot_; }
  void Look();  // something may go that could not
  void OnDestinationUp();
  void OnResult(const sink::Result& result);
  void OnPlace(const sink::Place& place) { places_.push_back(place); }
  void OnSinkClosed();  // what is under way will have no outcome
  // What is under way, if anything, has had no outcome for too long. `well`: the sink is up.
  bool Overdue(bool well, int64_t now) {
    return watchdog_.Look(outstanding_ == 0 ? OldestRecord{} : OldestRecord{first_seq_, outstanding_}, well, now);
  }
  void OnOverdue(const Error& error, const TurnContext& turn);
  const Watchdog& watchdog() const { return watchdog_; }
  uint32_t outstanding() const { return outstanding_; }
  // True when it did something. `may_claim`: the lane lets parked events go.
  bool Step(TurnContext* turn, format::PlainFormat* format, bool may_claim);
  int64_t NextTime(const TurnContext& turn) const;
  // The lane belongs to somebody else: it must be let go.
  bool lost() const { return lost_; }

  // --- leaving ---
  // No more claims; what is not under way is given back.
  void Release() { releasing_ = true; }
  // Nothing is claimed.
  bool at_rest() const { return phase_ == Phase::kIdle; }
  // The deadline has passed: what has no outcome is given back. False when that, too, failed.
  bool GiveUp(TurnContext* turn);

  // Newest trouble of the parked table, then of the destination; nullptr: none.
  const Trouble* trouble() const {
    return !log_retry_.trouble().ok() ? &log_retry_.trouble() : !trouble_.ok() ? &trouble_ : nullptr;
  }

 private:
  enum class Phase : uint8_t { kIdle, kSending, kSettling };
  enum class ItemState : uint8_t { kReady, kSent, kFailed, kDecided };
  struct Item {
    ItemState state = ItemState::kReady;
    bool suspect = false;  // goes alone
    uint8_t kills = 0;     // processes of the sink that died of it alone
    bool killed = false;   // somebody killed one of those
    uint32_t flow = 0;     // number of the first item of its key
    Settlement settlement;
    std::string topic;  // resolved
  };
  struct TopicPause {
    Backoff backoff;
    int64_t until = 0;
  };

  // Claiming.
  int64_t MayClaimAt() const;
  bool WantsClaim(const TurnContext& turn) const;
  bool Claim(TurnContext* turn, format::PlainFormat* format);
  void Prepare(const TurnContext& turn, format::PlainFormat* format);
  bool Reload(const TurnContext& turn);
  bool LogReady(const TurnContext& turn) const { return log_retry_.Ready(turn.now); }

  // Sending.
  bool Submit(TurnContext* turn, format::PlainFormat* format, bool may_send);
  bool SubmitSome(TurnContext* turn, format::PlainFormat* format);
  void Decide(const TurnContext& turn, const format::RetryPolicy& policy);
  void DecideFailure(Item* item, bool alone, const TurnContext& turn, const format::RetryPolicy& policy);
  void DecideDeath(Item* item, bool killed, const TurnContext& turn, const format::RetryPolicy& policy);
  void CloseKeys();
  void GiveBackReady(const std::string* topic);
  void End(Item* item, ParkedOutcome outcome);
  void BackOff(const Error& error, const TurnContext& turn);
  void PauseTopic(const std::string& topic, const TurnContext& turn);
  std::string PlaceOf(const Item& item) const;
  bool Settle(const TurnContext& turn);

  const uint32_t first_flow_;
  uint32_t epoch_ = 1;
  std::unique_ptr<ParkedLog> log_;
  Destination* const destination_;
  format::OnFailure on_failure_ = format::OnFailure::kSkip;
  KeySet held_;
  uint64_t surprises_ = 0;
  std::vector<std::string> without_;

  // When to claim.
  int64_t next_due_ = kNever;  // Unix microseconds
  bool woken_ = false;
  bool reload_ = false;
  bool forgot_ = false;
  int64_t next_reload_ = 0;  // monotonic microseconds, all of these
  int64_t next_poll_ = 0;
  int64_t not_before_ = 0;
  int64_t next_try_ = 0;
  Backoff backoff_;
  std::map<std::string, TopicPause> topics_;  // in trouble
  int64_t topic_try_ = kNever;                // when the first of them may be tried

  // The claim.
  Phase phase_ = Phase::kIdle;
  bool releasing_ = false;
  bool lost_ = false;
  ClaimedChunk chunk_;
  std::vector<Item> items_;
  std::vector<uint32_t> sent_;  // items in submission order; the first has seq first_seq_; empty: nothing to decide
  uint64_t first_seq_ = 0;
  uint32_t outstanding_ = 0;
  Watchdog watchdog_;
  uint64_t deaths_ = 0;    // of the sink, before this submission
  uint64_t kills_ = 0;     // likewise
  bool closed_ = false;    // the sink was closed under it
  bool tested_ = false;    // a suspect, with nothing else under way
  int idle_aborts_ = 0;    // submissions in a row that brought nothing but aborts
  int64_t mending_ = 0;    // until then it waits for the sink's process to come back
  bool may_blame_ = true;  // something was delivered since an event was blamed for the death of the sink
  std::vector<sink::Place> places_;

  CallRetry log_retry_;
  Trouble trouble_;  // of the destination
};

}  // namespace outbox::relay
