// One lane in the engine [-]: reads its log, sends in order, acknowledges. The work is done by its parts, each with
// state of its own; the lane steps them, and passes on what one part has to tell another.
//
//   Reader      opens windows and reads chunks into the pipeline    reader.h
//   LaneSource  packs what goes next                                lane_source.h
//   Sender      submits; decides what outcomes mean; backs off      sender.h
//   Parker      parks what is not sent, or was refused              parker.h
//   Acker       moves the delivered prefix, and saves it            acker.h
//   Topics      lets topics go to side lanes; pauses                topics.h
//
// README.md draws the state machine, with the names of LaneState.
//
// Single-threaded; called by the engine only. Owns its log and its pipeline; the destination is the engine's, the queue
// of parked events is shared with its side lanes.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "relay/common/engine_types.h"
#include "relay/common/turn.h"
#include "relay/lane/acker.h"
#include "relay/lane/lane_context.h"
#include "relay/lane/lane_source.h"
#include "relay/lane/parker.h"
#include "relay/lane/reader.h"
#include "relay/lane/topics.h"
#include "relay/send/sender.h"

namespace outbox::relay {

class Lane final : public CheckedLane {
 public:
  // The lane itself steps `parked`; its side lanes only park there.
  Lane(const LaneId& id, uint32_t flow, std::shared_ptr<const format::RouteSpec> spec,
       std::shared_ptr<LaneFilter> filter, std::unique_ptr<LaneLog> log, std::shared_ptr<ParkedQueue> parked,
       Destination* destination, const EngineOptions& options, const MeterPlace& figures);
  ~Lane();
  Lane(const Lane&) = delete;
  Lane& operator=(const Lane&) = delete;

  const LaneId& id() const { return lane_.id; }
  uint32_t flow() const { return lane_.flow; }
  Destination* destination() const { return lane_.destination; }
  LaneState state() const;
  GoneReason gone_reason() const { return gone_reason_; }
  // Whether it holds or wants events, and so gets a share of the budget.
  bool active() const {
    return !topics_.trial().on() && !topics_.paused() && (!lane_.pipeline.empty() || reader_.starved());
  }
  uint32_t outstanding(SinkUse sink) const { return sender_.outstanding(sink); }
  // The parked queue, if this lane is the one that steps it; else nullptr.
  ParkedQueue* pump() const { return lane_.pump(); }
  const std::shared_ptr<ParkedQueue>& parked() const { return lane_.parked; }
  const MeterPlace& figures() const { return lane_.meter.place(); }

  // Events. None submits.
  void Wake() { reader_.Wake(); }
  void WakeParked();
  void SetSpec(std::shared_ptr<const format::RouteSpec> spec);
  void ApplyPauses();  // what is paused, or which topics are away, has changed
  void OnResult(const sink::Result& result, const TurnContext& turn);
  void OnPlace(const sink::Place& place) { acker_.AddPlace(place); }
  void OnUp(SinkUse sink);
  void OnSinkReplaced(SinkUse sink);  // what was sent there will have no outcome
  // See Sender.
  bool OnSinkDied(SinkDeath death) { return sender_.OnSinkDied(SinkUse::kMain, death); }
  void OnSecondSinkDied(SinkDeath death) {
    if (topics_.trial().on() && HadRecords(death) && sender_.under_way(SinkUse::kSecond)) {
      topics_.trial().OnSinkDied();
    }
  }
  bool Overdue(SinkUse sink, bool well, int64_t now) { return sender_.Overdue(sink, well, now); }
  void OnOverdue(const Error& error, const TurnContext& turn) { sender_.OnOverdue(error, turn); }
  const Watchdog& watchdog() const { return sender_.watchdog(); }
  // A pause has come since what it has in flight at that sink was sent.
  bool WantsBack(SinkUse sink) const { return paused_since_ && outstanding(sink) > 0; }
  void Release(int64_t deadline);

  // --- another run of the destination's server answers (lane_server.cpp) ---
  bool SaveAcknowledged(TurnContext* turn, Error* why) override;
  Acceptance AcceptServer(const std::string& server_run, TurnContext* turn, Error* why) override;

  void NotePutBack();

  // Does what can be done now, one chunk at most each way. Returns whether it did any work.
  bool Step(TurnContext* turn) {
    stepped_ = true;
    worked_ = DoStep(turn);
    lane_.log_retry.EndStep(*turn);
    return worked_;
  }
  // The same of its parked events: a statement or two each time, where a step is mostly none.
  bool StepParked(TurnContext* turn) {
    stepped_ = false;
    return parked_worked_ = DoStepParked(turn);
  }
  // Nothing is in flight, parked or in trouble: at most it reads on past what is nothing for it.
  bool AtEase(const TurnContext& turn) const {
    return phase_ == Phase::kActive && begun_ && lane_.pipeline.empty() && sender_.Rests() && topics_.Rest() &&
           lane_.log_retry.trouble().ok() && acker_.retry().trouble().ok() &&
           (pump() == nullptr || pump()->Rests(turn));
  }
  // Whether a step would find nothing to do: it has caught up, nothing of it is parked or unsaved, and what it was
  // woken for, if it was, is known to be nothing for it. Of thousands of lanes most rest in most turns.
  bool Rests(const TurnContext& turn) {
    return !worked() && AtEase(turn) && !acker_.behind() && turn.now < acker_.SaveDue(turn, reader_.stopped()) &&
           reader_.Rests(turn);
  }
  bool stepped() const { return stepped_; }                  // since its parked events were
  bool worked() const { return worked_ || parked_worked_; }  // in the last steps
  // Whether what another lane does may be what it waits for.
  bool waits_for_lanes() const {
    return reader_.starved() || parent() != nullptr || (sides() != nullptr && !sides()->empty());
  }
  // When Step has something to do even if nothing happens; kNever.
  int64_t NextTime(const TurnContext& turn) const;
  void Fill(const TurnContext& turn, int64_t wall, LaneStatus* status) const;
  LaneInternals Internals() const;

  // For Saver.
  bool WantsSave() const { return phase_ != Phase::kGone && !acker_.AllSaved(); }
  size_t most_together() const { return acker_.most_together(); }
  ProgressSave BeginSave() { return acker_.BeginSave(); }
  void EndSave(const Status& status, const ProgressSave& save, size_t count, const TurnContext& turn);

  // --- topics that leave and come back ---
  // Call at most one, before the first Step. Without either, topics in trouble back the lane off.
  void UseSides(std::unique_ptr<SideLanes> sides) { topics_.UseSides(std::move(sides)); }
  void BecomeSide(Lane* parent, const SideLane& record, int64_t wall);
  // For SideLanes, of the lane and of side lanes alike.
  Lane* parent() const { return topics_.parent(); }
  SideLanes* sides() const { return topics_.sides(); }
  LaneFilter* filter() const { return lane_.filter.get(); }
  uint64_t barrier_done() const { return lane_.pipeline.barrier_done(); }
  bool caught_up() const { return reader_.caught_up(); }
  bool Calm() const;                // nothing is in trouble that would keep it from stopping at a position
  bool Flows() const;               // it sends what it reads
  bool LetsClaim() const;           // what is parked of its topics may be tried
  const Snapshot* RestsAt() const;  // where it stands when all it has read is done; nullptr: it is not
  bool HasRead(const Snapshot& snapshot) const { return reader_.HasRead(snapshot); }
  void SetOpens(bool opens) { reader_.SetOpens(opens); }
  void LimitTo(const Snapshot* limit) { reader_.LimitTo(limit); }
  bool SaveAll(TurnContext* turn);  // false: in trouble, or the lane has gone
  void PlanLeaving(const SideTopic& topic, const TurnContext& turn, ForkPlan* plan) { topics_.Plan(topic, turn, plan); }
  void Left(const ForkPlan& plan, int64_t next_due, const TurnContext& turn);
  void Retire();
  void Lose();

 private:
  enum class Phase : uint8_t { kStarting, kActive, kReleasing, kGone };

  // What it has in flight may still be acknowledged, also on its way out.
  bool holds_position() const { return phase_ == Phase::kActive || phase_ == Phase::kReleasing; }
  bool DoStep(TurnContext* turn);
  bool DoStepParked(TurnContext* turn);
  bool Load(TurnContext* turn);
  bool CheckForLoss(const std::string& server_run, Loss* loss, TurnContext* turn);
  bool StepActive(TurnContext* turn);
  bool StepParts(TurnContext* turn);
  bool StepReleasing(TurnContext* turn);
  bool Read(TurnContext* turn);
  bool Send(TurnContext* turn);
  void Settle(const TurnContext& turn);
  bool ParkRefused(TurnContext* turn);
  bool LeaveOne(TurnContext* turn);
  bool Save(TurnContext* turn);
  bool MayClaim() const;
  // Its destination or one of its topics is in trouble: it reads little, and nothing while something of that waits.
  bool careful() const { return topics_.trial().on() || !lane_.destination->breaker().closed(); }
  bool flows() const { return state() == LaneState::kRunning || state() == LaneState::kIdle; }

  void ShowWaiting(int64_t wall, LaneStatus* status) const;
  void Advance();
  // All refused events are recorded: topics leave, or the sender goes on.
  void Resume(const TurnContext& turn);
  // The sender goes on, unless topics are to leave first.
  void Flow();
  void Leave(GoneReason reason);

  LaneContext lane_;
  Acker acker_;
  Reader reader_;
  Parker parker_;
  Topics topics_;
  LaneSource source_;
  Sender sender_;
  Phase phase_ = Phase::kStarting;
  bool begun_ = false;         // it has been stepped while active
  bool paused_since_ = false;  // something of it was paused since it last had nothing in flight
  bool stepped_ = false;
  bool worked_ = true;
  bool parked_worked_ = true;
  GoneReason gone_reason_ = GoneReason::kReleased;
  int64_t release_deadline_ = 0;
};

}  // namespace outbox::relay
