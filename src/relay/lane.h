// One lane in the engine [-]: reads its log, sends in order, decides what a refusal means. The state machine is drawn
// in README.md, with the names of LaneState.
//
// Single-threaded; called by the engine only. Owns its log and its pipeline; the destination is the engine's, the queue
// of parked events is shared with its side lanes.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "base/backoff.h"
#include "base/order_key.h"
#include "format/plain.h"
#include "relay/destination.h"
#include "relay/engine.h"
#include "relay/hunt.h"
#include "relay/lane_filter.h"
#include "relay/lane_log.h"
#include "relay/pace.h"
#include "relay/parked_queue.h"
#include "relay/pipeline.h"
#include "relay/side_lanes.h"
#include "relay/turn.h"
#include "relay/watchdog.h"
#include "sink/places.h"

namespace outbox::relay {

enum class LaneState : uint8_t {
  kStarting,    // the position and the keys that wait have not been loaded yet
  kIdle,        // caught up, nothing in flight
  kRunning,     // reads and sends
  kDraining,    // something failed: sends nothing, waits until every record sent has its outcome
  kParking,     // refused events are being recorded; nothing later goes before they are
  kBackingOff,  // waits for next_try, or for the destination to come up, then sends again in order
  kForking,     // nothing is under way; a topic is given to a side lane
  kPaused,      // somebody stopped it: reads and sends nothing
  kSolo,        // one suspected event is under way, alone
  kReleasing,   // sends nothing more, waits for what is in flight, saves progress
  kGone,        // has left; the engine drops it
};

// At most 15 characters.
const char* LaneStateName(LaneState state);

class Lane {
 public:
  // `parked` may be nullptr (see LaneLogs). The lane itself steps it; its side lanes only park there.
  Lane(const LaneId& id, uint32_t flow, std::shared_ptr<const format::RouteSpec> spec, std::unique_ptr<LaneLog> log,
       std::shared_ptr<ParkedQueue> parked, Destination* destination, const EngineOptions& options);
  ~Lane();
  Lane(const Lane&) = delete;
  Lane& operator=(const Lane&) = delete;

  const LaneId& id() const { return id_; }
  uint32_t flow() const { return flow_; }
  Destination* destination() const { return destination_; }
  LaneState state() const { return state_; }
  GoneReason gone_reason() const { return gone_reason_; }
  // It holds or wants events: it gets a share of the budget.
  bool active() const { return ramp_ == kNoRamp && !paused_ && (!pipeline_.empty() || hungry_); }
  // Under way at the lanes' sink, and at the destination's second one.
  uint32_t outstanding() const { return probing_ ? 0 : pipeline_.outstanding(); }
  uint32_t probes() const { return probing_ ? pipeline_.outstanding() : 0; }
  // nullptr where there is none, or it is another lane's to step.
  ParkedQueue* pump() const { return id_.side == 0 ? parked_.get() : nullptr; }
  const std::shared_ptr<ParkedQueue>& parked() const { return parked_; }

  // Events. None submits.
  void Wake() { woken_ = true; }
  void WakeParked();
  void SetSpec(std::shared_ptr<const format::RouteSpec> spec);
  void OnResult(const sink::Result& result, const TurnContext& turn);
  void OnPlace(const sink::Place& place) { places_.Add(0, place.topic, place.partition, place.first, place.last); }
  void OnDestinationUp();
  void OnSecondSinkUp();
  void OnSinkReplaced(bool retry);  // the lanes', or the second one: what was sent there will have no outcome
  // What is under way at that sink, if anything, has had no outcome for too long. `well`: the sink is up.
  bool Overdue(bool retry, bool well, int64_t now) {
    return probing_ == retry && watchdog_.Look(pipeline_.oldest(), well, now);
  }
  void OnOverdue(const Error& error, const TurnContext& turn);
  const Watchdog& watchdog() const { return watchdog_; }
  // Of the lanes' sink; false: nothing of this lane was under way. `unready`: the process had not seen any of it.
  // `killed`: by somebody else.
  bool OnSinkDied(bool unready, bool killed);
  void Release(int64_t deadline);

  // Another run of the destination's server answers (Meetings). Both false: call again.
  bool SaveAcknowledged(TurnContext* turn);
  bool MeetRun(const std::string& run, bool* rewound, TurnContext* turn);

  // Does what can be done now, one chunk at most each way. True when it did something.
  bool Step(TurnContext* turn);
  // When Step has something to do even if nothing happens; kNever.
  int64_t NextTime(const TurnContext& turn) const;
  void Fill(const TurnContext& turn, LaneStatus* status) const;

  // --- topics that leave and come back (lane_sides.cpp) ---
  // Call at most one, before the first Step.
  void UseSides(std::shared_ptr<LaneFilter> filter, std::unique_ptr<SideLanes> sides);
  void BecomeSide(Lane* parent, const SideLane& record, std::shared_ptr<LaneFilter> filter, int64_t wall);
  // For SideLanes, of the lane and of side lanes alike.
  Lane* parent() const { return parent_; }
  SideLanes* sides() const { return sides_.get(); }
  LaneFilter* filter() const { return filter_.get(); }
  uint64_t barrier_done() const { return pipeline_.barrier_done(); }
  bool caught_up() const { return caught_up_; }
  bool Calm() const;                             // nothing is in trouble that would keep it from coming to rest
  bool Flows() const;                            // it sends what it reads
  bool LetsClaim() const;                        // what is parked of its topics may be tried
  const Snapshot* RestsAt() const;               // all it has read is done; nullptr: not so
  bool HasRead(const Snapshot& snapshot) const;  // perhaps not sent
  void SetOpens(bool opens);                     // windows
  void LimitTo(const Snapshot* limit);           // see LaneLog
  bool SaveAll(TurnContext* turn);               // false: in trouble, or the lane has gone
  void PlanLeaving(const SideTopic& topic, const TurnContext& turn, ForkPlan* plan);
  void Left(const ForkPlan& plan, int64_t next_due);
  void Retire();
  void Lose();

 private:
  static constexpr uint32_t kNoRamp = UINT32_MAX;
  struct Failure {
    uint64_t ordinal;
    Error error;
    int attempts;  // charged to the event
  };
  // An event that is not sent but parked: not due yet, or its key waits.
  struct Diverted {
    uint64_t ordinal = 0;
    ParkedState state = ParkedState::kBlocked;
    int64_t due = 0;
    bool paused = false;
  };

  // Reading.
  bool Load(TurnContext* turn);
  bool LookForLoss(const std::string& run, Loss* loss, TurnContext* turn);
  bool Read(TurnContext* turn);
  bool WantsWindow(const TurnContext& turn) const;
  bool TryOpen(TurnContext* turn);
  bool LogReady(const TurnContext& turn) const { return turn.now >= log_try_; }
  enum class LogCall : uint8_t { kLoad, kOpen, kRead, kDurable, kPark, kHeld, kFork, kRewind };
  // Backs off; true when the call had failed. Only the call that failed ends the back-off by succeeding.
  bool LogFailed(LogCall call, const class Status& status, const TurnContext& turn);

  // Sending.
  bool Send(TurnContext* turn);
  bool Durable(uint64_t lsn, TurnContext* turn, bool* worked);
  uint32_t Format(const Run& run, int64_t wall, std::string* records, Error* bad, Diverted* diverted);
  uint32_t LimitToSuspects(const Run& run, bool* solo) const;
  uint32_t Admitted(TurnContext* turn, uint64_t* stop, bool* worked);
  void SetFlowing();  // kRunning, kIdle or kPaused; kDraining where a topic is to leave

  // Trouble.
  void Settle(const TurnContext& turn);
  void SettleAborted(const TurnContext& turn);
  void ForgetOvertaken();
  void TripBreaker(const Error& error, const TurnContext& turn);
  void NoteError(const Error& error, const TurnContext& turn);

  // Parking (lane_parking.cpp).
  bool Diverts(const Event& event, int64_t wall, Diverted* diverted) {
    return (event.deliver_at != 0 || watchful_) && Divert(event, wall, diverted);
  }
  bool Divert(const Event& event, int64_t wall, Diverted* diverted);
  // False while events that were sent before a key was held have to end first.
  bool BeWatchful();
  // Records them. False while the log is in trouble: nothing is sent before it is done. May let the lane go.
  bool ParkDiverted(TurnContext* turn);
  bool ParkRefused(TurnContext* turn);
  bool ParkInLog(TurnContext* turn);
  Parking MakeParking(const Failure& failure, const Event& event, int64_t wall, uint64_t random, Arena* arena);
  void Parked(uint64_t ordinal);
  void AfterParking(const TurnContext& turn);
  bool MayClaim() const;

  // Topics.
  SideLanes* Sides() const;  // of the lane; nullptr: none
  static uint64_t MarkOf(std::string_view topic);
  void NotePauses();
  void ApplyPauses();
  bool WantsFork(uint64_t ordinal, const Error& error, const EngineOptions& options);
  bool ForkOne(TurnContext* turn);
  bool StepSides(TurnContext* turn);
  void Sift(EventChunk* chunk) const;
  void RampUp();
  bool BeginProbe(const TurnContext& turn);
  void WaitForParked(bool waits, const TurnContext& turn);

  // The sink's deaths.
  void SettleDeath(const TurnContext& turn);
  void EndTest(const TurnContext& turn);

  // Acknowledging.
  void Advance();
  int64_t SaveDue(const TurnContext& turn) const;
  bool Save(TurnContext* turn);
  bool SaveNow(TurnContext* turn);
  bool SaveReady(const TurnContext& turn) const { return turn.now >= save_try_; }
  bool SaveFailed(const Status& status, const TurnContext& turn);
  Status SaveWithPlaces(bool* owner);
  bool StepReleasing(TurnContext* turn);
  void Leave(GoneReason reason);

  const LaneId id_;
  const uint32_t flow_;
  uint32_t epoch_ = 1;
  std::shared_ptr<LaneFilter> filter_;  // outlives the log
  std::unique_ptr<LaneLog> log_;
  const std::shared_ptr<ParkedQueue> parked_;
  Destination* const destination_;
  std::unique_ptr<format::PlainFormat> format_;
  Pipeline pipeline_;
  LaneState state_ = LaneState::kStarting;
  GoneReason gone_reason_ = GoneReason::kReleased;

  // Reading.
  bool woken_ = false;
  bool hungry_ = false;     // would read, but for the budget
  bool held_ = false;       // the log lets it read no further
  bool caught_up_ = false;  // the newest window ended at the moment it was opened
  uint64_t barrier_opened_ = 0;
  int64_t next_poll_ = 0;
  int64_t durable_try_ = 0;
  Backoff log_backoff_;
  LogCall log_failed_call_ = LogCall::kLoad;
  int64_t log_try_ = 0;
  Error log_error_;
  int64_t log_error_since_ = 0;  // Unix microseconds

  // Sending and trouble.
  Backoff backoff_;                // of trouble with a topic
  int64_t next_try_ = 0;           // kBackingOff
  uint64_t trouble_at_ = 0;        // the back-off starts over when the prefix passes this
  int aborts_ = 0;                 // in a row without progress
  bool aborted_ = false;           // since the last Settle
  std::vector<Failure> failures_;  // since the last Settle
  std::deque<Failure> refused_;    // to be parked, ascending
  std::set<uint64_t> suspects_;    // to be sent alone
  uint64_t solo_ = 0;              // kSolo: the ordinal under way
  bool delay_ = false;             // back off after parking
  bool watchful_ = false;          // keys wait or are paused: look at each event's
  OrderKeyer order_key_;
  bool fence_ = false;              // keys were paused or held for others' reasons: what is under way ends first
  uint64_t surprises_ = 0;          // of the queue, seen
  std::vector<Diverted> diverted_;  // passed over, to be parked before anything later is sent; ascending
  std::vector<Pipeline::Range> ranges_;
  Pace pace_;
  size_t record_bytes_ = 512;  // mean size of a packed record, of the last batch
  Error error_;
  int64_t error_since_ = 0;  // Unix microseconds

  // Topics.
  Lane* parent_ = nullptr;                // of a side lane
  std::unique_ptr<SideLanes> sides_;      // of a lane
  std::map<std::string, Error> leaving_;  // topics to fork once nothing is under way
  std::string side_topic_;                // of a side lane: the first
  uint64_t stuck_ = UINT64_MAX;           // what the parked queue was told of side lanes
  uint64_t opened_version_ = 0;           // of the filter, when the newest window was opened
  bool opens_ = true;
  bool paused_ = false;
  uint32_t ramp_ = kNoRamp;  // of a side lane whose topic was in trouble: how much it may send at once
  // All it could try its topic with waits behind parked events: these are tried, and nothing more is parked for a
  // while.
  bool waits_for_parked_ = false;
  int64_t park_at_ = 0;  // then it is parked all the same: what it waits for may be dead
  int64_t park_wait_ = 0;
  bool second_down_ = false;  // it backs off from trouble of the second sink, not of its topic
  bool probing_ = false;      // what is under way is at the destination's second sink

  // The sink's deaths and silences.
  Watchdog watchdog_;
  Hunt hunt_;
  bool died_ = false;                       // since the last Settle
  bool killed_ = false;                     // died_, and somebody killed it
  std::vector<Pipeline::Range> under_way_;  // aborted since the last Settle

  // Acknowledging.
  bool resolved_ = false;  // outcomes came since the last Advance
  bool dirty_ = false;     // events were resolved since the last save
  bool moved_ = false;     // the position moved since the last save
  bool passed_ = false;    // likewise, and rows of the log were read
  Backoff save_backoff_;
  int64_t save_try_ = 0;
  Error save_error_;
  int64_t save_error_since_ = 0;  // Unix microseconds
  sink::Places places_;           // of what was delivered since the last save, and of islands
  std::string run_;               // of the server that they are at
  int64_t last_save_ = 0;
  int64_t release_deadline_ = 0;
  int64_t delivered_ = 0;
  int64_t parked_count_ = 0;
};

}  // namespace outbox::relay
