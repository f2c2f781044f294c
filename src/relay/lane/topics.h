// The topics of one lane [-]: which of them are about to leave it, being a side lane itself, and pauses. What has left
// is in side_lanes.h; README.md here, "Side lanes".
//
// Single-threaded. Owned by the lane.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <string_view>

#include "relay/common/call_retry.h"
#include "relay/common/turn.h"
#include "relay/lane/lane_context.h"
#include "relay/lane/side_lanes.h"
#include "relay/lane/topic_trial.h"

namespace outbox::relay {

class Lane;

class Topics {
 public:
  // `self`: the lane.
  Topics(Lane* self, LaneContext* lane) : self_(self), lane_(lane) {}
  Topics(const Topics&) = delete;
  Topics& operator=(const Topics&) = delete;

  // Call at most one, before the first step.
  void UseSides(std::unique_ptr<SideLanes> sides);
  void BecomeSide(Lane* parent, const SideLane& record);

  Lane* parent() const { return parent_; }                       // of a side lane
  SideLanes* sides() const { return sides_.get(); }              // of a lane; nullptr: its topics stay with it
  const std::string& side_topic() const { return side_topic_; }  // of a side lane: the first
  // The topic that a side lane was refused at last: the template may have changed since its own left. Its own: none
  // yet.
  const std::string& refused_topic() const { return refused_topic_.empty() ? side_topic_ : refused_topic_; }
  TopicTrial& trial() { return trial_; }
  const TopicTrial& trial() const { return trial_; }

  // --- pauses ---
  // Reads the newest spec.
  void NotePauses();
  // Whether the whole lane is paused.
  bool paused() const { return paused_; }
  // Whether the event goes to a topic that is paused. Of the names that events are sent under NotePauses() knows those
  // only that are names of readers, too; it is not so while the lanes go by a former template.
  bool Pauses(const Event& event) const {
    return pauses_topics_ && lane_->spec().PausesTopic(lane_->format->Topic(event));
  }
  // The lane has come to such an event: its topic leaves, or the lane, being a side lane of nothing else, waits.
  void StopAt(const Event& event);

  // --- leaving ---
  enum class Answer : uint8_t {
    kLeaves,  // it is a side lane's from now on
    kParks,   // only the event is parked: the others of the topic may go on, or there is no side lane left for it
    kStays,   // the lane backs off
  };
  Answer OnTrouble(uint64_t ordinal, const Error& error, const TurnContext& turn);
  // Whether some are to leave as soon as nothing is in flight.
  bool leaving() const { return !leaving_.empty(); }
  // One of them; nullptr: none.
  const std::string* leaving_topic() const { return leaving_.empty() ? nullptr : &leaving_.begin()->first; }
  // None has left, is about to, or is paused, and it is no side lane.
  bool Rest() const {
    return parent_ == nullptr && !trial_.on() && !paused_ && leaving_.empty() && (sides_ == nullptr || sides_->empty());
  }
  // Lets one topic go; call with nothing in flight.
  CallResult LeaveOne(const TurnContext& turn);
  void Plan(const SideTopic& topic, const TurnContext& turn, ForkPlan* plan);
  // The plan is written: its events are no longer this lane's.
  void Left(const ForkPlan& plan, int64_t next_due, const TurnContext& turn);

  // Only for a lane with side lanes; call in each step.
  StepResult Step(TurnContext* turn);

 private:
  SideLanes* Sides() const;  // the lane's, also where this is a side lane; nullptr: none
  void MarkTopics();
  static uint64_t MarkOf(std::string_view topic);
  Parking PlanParking(const Event& event, const SideTopic& topic, int64_t wall, Arena* arena);

  Lane* const self_;
  LaneContext* const lane_;
  Lane* parent_ = nullptr;
  std::unique_ptr<SideLanes> sides_;
  std::string side_topic_;
  std::string refused_topic_;
  std::map<std::string, Error> leaving_;
  TopicTrial trial_;
  bool paused_ = false;
  bool pauses_topics_ = false;              // some topics of the route are paused
  uint64_t withheld_version_ = UINT64_MAX;  // what the parked queue was told of side lanes
};

}  // namespace outbox::relay
