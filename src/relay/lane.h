// One lane in the engine [-]: reads its log, sends in order, decides what a refusal means. The state machine is drawn
// in README.md, with the names of LaneState.
//
// Single-threaded; called by the engine only. Owns its log and its pipeline; the destination is the engine's.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "base/backoff.h"
#include "format/plain.h"
#include "relay/destination.h"
#include "relay/engine.h"
#include "relay/lane_log.h"
#include "relay/pace.h"
#include "relay/pipeline.h"

namespace outbox::relay {

enum class LaneState : uint8_t {
  kStarting,    // the position has not been loaded yet
  kIdle,        // caught up, nothing in flight
  kRunning,     // reads and sends
  kDraining,    // something failed: sends nothing, waits until every record sent has its outcome
  kParking,     // refused events are being recorded; nothing later goes before they are
  kBackingOff,  // waits for next_try, or for the destination to come up, then sends again in order
  kSolo,        // one suspected event is under way, alone
  kReleasing,   // sends nothing more, waits for what is in flight, saves progress
  kGone,        // has left; the engine drops it
};

// At most 15 characters.
const char* LaneStateName(LaneState state);

// What all lanes share during a turn.
struct TurnContext {
  Clock* clock = nullptr;
  const EngineOptions* options = nullptr;
  int64_t now = 0;           // monotonic microseconds
  uint64_t barrier = 0;      // newest seen before the turn
  uint64_t durable_lsn = 0;  // everything up to here is durable; grows
};

class Lane {
 public:
  Lane(const LaneId& id, uint32_t flow, std::shared_ptr<const format::RouteSpec> spec, std::unique_ptr<LaneLog> log,
       Destination* destination, const EngineOptions& options);
  ~Lane();
  Lane(const Lane&) = delete;
  Lane& operator=(const Lane&) = delete;

  const LaneId& id() const { return id_; }
  uint32_t flow() const { return flow_; }
  Destination* destination() const { return destination_; }
  LaneState state() const { return state_; }
  GoneReason gone_reason() const { return gone_reason_; }
  // It holds or wants events: it gets a share of the budget.
  bool active() const { return !pipeline_.empty() || hungry_; }
  uint32_t outstanding() const { return pipeline_.outstanding(); }

  // Events. None submits.
  void Wake() { woken_ = true; }
  void SetSpec(std::shared_ptr<const format::RouteSpec> spec);
  void OnResult(const sink::Result& result, const TurnContext& turn);
  void OnDestinationUp();
  void OnSinkReplaced();  // what was sent will have no outcome
  void Release(int64_t deadline);

  // Does what can be done now, one chunk at most each way. True when it did something.
  bool Step(TurnContext* turn);
  // When Step has something to do even if nothing happens; kNever.
  int64_t NextTime(const TurnContext& turn) const;
  void Fill(const TurnContext& turn, LaneStatus* status) const;

 private:
  struct Failure {
    uint64_t ordinal;
    Error error;
    int attempts;
  };

  // Reading.
  bool Load(TurnContext* turn);
  bool Read(TurnContext* turn);
  bool WantsWindow(const TurnContext& turn) const;
  bool TryOpen(TurnContext* turn);
  bool LogReady(const TurnContext& turn) const { return turn.now >= log_try_; }
  enum class LogCall : uint8_t { kLoad, kOpen, kRead, kDurable, kSave, kPark };
  // Backs off; true when the call had failed. Only the call that failed ends the back-off by succeeding.
  bool LogFailed(LogCall call, const class Status& status, const TurnContext& turn);

  // Sending.
  bool Send(TurnContext* turn);
  bool Durable(uint64_t lsn, TurnContext* turn, bool* worked);
  uint32_t Format(const Run& run, int64_t wall, std::string* records, Error* bad);
  uint32_t LimitToSuspects(const Run& run, bool* solo) const;
  void SetFlowing();  // kRunning or kIdle

  // Trouble.
  void Settle(const TurnContext& turn);
  void SettleAborted(const TurnContext& turn);
  void TripBreaker(const Error& error, const TurnContext& turn);
  void AfterParking(const TurnContext& turn);
  bool ParkOne(TurnContext* turn);
  void NoteError(const Error& error, const TurnContext& turn);

  // Acknowledging.
  void Advance();
  int64_t SaveDue(const TurnContext& turn) const;
  bool Save(TurnContext* turn);
  bool StepReleasing(TurnContext* turn);
  void Leave(GoneReason reason);

  const LaneId id_;
  const uint32_t flow_;
  uint32_t epoch_ = 1;
  std::unique_ptr<LaneLog> log_;
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
  std::vector<Pipeline::Range> ranges_;
  Pace pace_;
  size_t record_bytes_ = 512;  // mean size of a packed record, of the last batch
  Error error_;
  int64_t error_since_ = 0;  // Unix microseconds

  // Acknowledging.
  bool resolved_ = false;  // outcomes came since the last Advance
  bool dirty_ = false;     // events were resolved since the last save
  bool moved_ = false;     // the position moved since the last save
  int64_t last_save_ = 0;
  int64_t release_deadline_ = 0;
  int64_t delivered_ = 0;
  int64_t parked_ = 0;
};

}  // namespace outbox::relay
