// Sends the events of one source to one destination [-]: numbers and epochs, what outcomes mean, suspects, the search
// for an event that kills the sink's process, back-off. README.md here draws the states.
//
// The owner packs what is next of its source and submits it while the sender is flowing. An outcome but "delivered"
// makes the sender drain: nothing is sent until all that was sent has its outcome. Then Settle() decides (outcomes.h),
// and the sender is halted: the owner records what was refused, and calls Resume().
//
// Trouble of the destination opens its breaker. The second sink has connections of its own: its trouble is not the
// lanes', and the sender backs off by itself, unless what it sent was the breaker's probe.
//
// Single-threaded. Source and destination outlive it. Times in monotonic microseconds.
#pragma once

#include <cstdint>
#include <set>
#include <string>
#include <vector>

#include "base/backoff.h"
#include "relay/common/call_retry.h"
#include "relay/common/turn.h"
#include "relay/common/watchdog.h"
#include "relay/destination/destination.h"
#include "relay/destination/poison_search.h"
#include "relay/send/send_source.h"

namespace outbox::relay {

enum class SendState : uint8_t {
  kFlowing,     // sends
  kSolo,        // one event is in flight, alone
  kDraining,    // sends nothing, waits until all that was sent has its outcome
  kHalted,      // the owner records what was refused, or which topics leave
  kBackingOff,  // waits for next_try, or for the sink to come up
  kStopped,     // sends nothing more; outcomes decide nothing
};

// The destination's sinks.
enum class SinkUse : uint8_t {
  kMain,    // the lanes'
  kSecond,  // of parked events, and of side lanes that try their topic
};

// What a sink takes of a sender now.
struct Admission {
  uint32_t count = 0;          // so many events; 0: none
  uint64_t stop = UINT64_MAX;  // of those before this one
  bool took_turn = false;      // the turn to test a suspected event was taken just now
};

class Sender {
 public:
  // `flow`: its own at the sinks; it may use `flow` + n as well, where the source says so.
  // `meter` counts what becomes of what it sends, and outlives it.
  Sender(uint32_t flow, SendSource* source, Destination* destination, SinkUse at, PoisonSearch::Way way,
         const EngineOptions& options, Meter* meter);
  Sender(const Sender&) = delete;
  Sender& operator=(const Sender&) = delete;

  SendState state() const { return state_; }
  bool flowing() const { return state_ == SendState::kFlowing; }
  // The sink at which its records are in flight.
  SinkUse at() const { return at_; }
  uint32_t outstanding(SinkUse sink) const { return at_ == sink ? source_->outstanding() : 0; }
  const Trouble& trouble() const { return trouble_; }
  void NoteTrouble(const Error& error, int64_t wall) { trouble_.Note(error, wall); }
  int64_t next_try() const { return next_try_; }  // kBackingOff

  // --- sending ---
  Admission Admits(SinkUse sink, const TurnContext& turn);
  // Whether the second sink takes anything of this sender now.
  bool OpensSecond() const;
  bool has_suspects() const { return !suspects_.empty(); }
  // Whether the event goes alone, because it may be at fault for what others were refused with.
  bool IsSuspect(uint64_t ordinal) const { return suspects_.contains(ordinal); }
  // How many of `count` events from `first` on may go together; 0: the first is a suspect and others are in flight.
  uint32_t LimitToSuspects(uint64_t first, uint32_t count) const;
  // For a source without order: whether the event goes alone because it is suspected of killing the sink's process.
  bool Suspects(uint64_t ordinal) const { return IsSuspect(ordinal) || search_.Suspects(ordinal); }
  bool SuspectsOfKilling(uint64_t ordinal) const { return search_.Suspects(ordinal); }
  // Whether that event may be sent now, to find out.
  enum class TestTurn : uint8_t {
    kWaits,  // others have the turn, or still have events in flight
    kTaken,  // the turn was taken just now; the others' events in flight have to end first
    kNow,
  };
  TestTurn MayTest(uint64_t ordinal, const TurnContext& turn);
  // The events get the sink's numbers from next_seq() on.
  uint64_t next_seq() const;
  void Submit(uint32_t more_flow, uint32_t count, std::string records, const TurnContext& turn);
  // What is submitted now is this event alone.
  void BeginSolo(uint64_t ordinal);
  void Drain() { state_ = SendState::kDraining; }
  void Halt() { state_ = SendState::kHalted; }
  void Stop() { state_ = SendState::kStopped; }

  // --- outcomes ---
  // Returns how many events it applied to.
  uint32_t OnResult(const sink::Result& result, const TurnContext& turn);
  // The prefix has moved, or everything is done. `over`: else its trouble is told on while there is anything to send.
  void OnProgress(bool all_done, bool over);
  // The topics that were in trouble are no longer this sender's.
  void ForgetTopicTrouble();
  // There is progress: the next back-off starts over.
  void Recover();
  // The sink is up (again).
  void OnUp(SinkUse sink);
  // What is in flight at that sink, if anything, will have no outcome.
  void OnSinkReplaced(SinkUse sink);
  // The second sink was closed: what is in flight there will have no outcome, and is not sent again before a back-off.
  void OnSinkClosed();
  // Returns false if nothing of this sender was in flight there.
  bool OnSinkDied(SinkUse sink, SinkDeath death);
  // What is in flight at that sink, if anything, has had no outcome for too long. `well`: see Watchdog.
  bool Overdue(SinkUse sink, bool well, int64_t now) {
    return at_ == sink && watchdog_.Check(source_->oldest(), well, now);
  }
  // The sink is replaced because of that.
  void OnOverdue(const Error& error, const TurnContext& turn);
  const Watchdog& watchdog() const { return watchdog_; }

  // --- settling ---
  // Nothing of what was sent is in doubt.
  bool Rests() const {
    return state_ == SendState::kFlowing && failures_.empty() && suspects_.empty() && search_.empty() && trouble_.ok();
  }
  // Something of it was in flight at that sink, or had no outcome there just now.
  bool under_way(SinkUse sink) const { return at_ == sink && (source_->outstanding() > 0 || cut_ != Cut::kNothing); }
  bool drained() const { return state_ == SendState::kDraining && source_->outstanding() == 0; }
  // Decides what each outcome means, and begins a new epoch. drained() before, halted after.
  void Settle(const TurnContext& turn);
  // Goes on, or backs off where there was trouble.
  void Resume(const TurnContext& turn);
  // Goes on, whatever there was.
  void Flow();
  // Backs off from trouble of its topic.
  void BackOff(const TurnContext& turn);
  // The process of the sink has died since the last Settle().
  bool died() const { return cut_ >= Cut::kDied; }
  // The source has other events now, with other ordinals.
  void Forget();
  // Ends the test of a suspect when it is over, or cannot go on now.
  void EndTest(bool goes_on, const TurnContext& turn);
  // When Admits() has to be asked again for the sake of a test.
  template <typename At>
  void TestTimes(At&& at) const {
    if (!search_.empty()) {
      const PoisonTurns& turns = at_ == SinkUse::kMain ? destination_->turns() : destination_->retry().turns();
      at(turns.next());
      at(turns.quiet_by());
      at(turns.longest());
    }
  }

 private:
  struct Failure {
    uint64_t ordinal;
    Error error;
    bool alone;
  };
  // Why records in flight got no outcome since the last Settle(); the worst reason.
  enum class Cut : uint8_t {
    kNothing,
    kAborted,
    kClosed,  // the sink was closed, and what was in flight is not sent again at once
    kDied,    // the sink's process died
    kKilled,  // the sink's process was killed from outside
  };
  // Why it backs off, or will after the owner's Resume().
  enum class Pause : uint8_t { kNone, kTopic, kSecondSink };

  PoisonTurns& Turns() { return at_ == SinkUse::kMain ? destination_->turns() : destination_->retry().turns(); }
  void SettleAborted(const TurnContext& turn);
  void SettleDeath(bool failed, const TurnContext& turn);
  bool Blames(int64_t event);
  void StartOver();  // the back-off
  void Trip(const Error& error, const TurnContext& turn);
  // What says no more than that something goes wrong covers no error that says what.
  void NoteUnlessKnown(const Error& error, const TurnContext& turn);

  const uint32_t flow_;
  SendSource* const source_;
  Destination* const destination_;
  Meter* const meter_;
  uint32_t epoch_ = 1;
  SendState state_ = SendState::kFlowing;
  SinkUse at_;
  Cut cut_ = Cut::kNothing;
  std::vector<Failure> failures_;        // since the last Settle
  std::vector<OrdinalRange> under_way_;  // aborted since the last Settle
  std::vector<OrdinalRange> ranges_;     // scratch
  std::set<uint64_t> suspects_;          // to be sent alone
  uint64_t solo_ = 0;                    // kSolo: the ordinal in flight
  PoisonSearch search_;
  Backoff backoff_;
  Pause pause_ = Pause::kNone;
  int64_t next_try_ = 0;
  uint64_t trouble_at_ = 0;  // the back-off starts over when the prefix passes this
  int aborts_ = 0;           // in a row without progress
  Trouble trouble_;
  Watchdog watchdog_;
};

// What is said of records that are aborted again and again, for the sake of others: it does not say of which.
Error AbortedError();
bool IsAborted(const Error& error);

}  // namespace outbox::relay
