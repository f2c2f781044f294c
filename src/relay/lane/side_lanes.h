// The topics that have left one lane, and the side lanes that serve them [-]: forking, and the way back. README.md
// here, "Side lanes", draws it.
//
// A side lane is a Lane of the engine with a position of its own in the same log, that takes nothing but its topics. It
// shares the lane's owner, its parked queue and its destination. Every step that matters after a crash is one
// transaction of the SideLog; in between, two readers never differ about which of them an event belongs to.
//
// Single-threaded; owned by the lane. The side lanes themselves are the engine's, as all lanes are.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "base/backoff.h"
#include "relay/common/call_retry.h"
#include "relay/common/lane_filter.h"
#include "relay/common/side_log.h"
#include "relay/common/turn.h"

namespace outbox::relay {

class Lane;

// A fork before it is written.
struct ForkPlan {
  SideLane side;
  std::vector<Parking> parked;
  Arena arena;                     // of what `parked` views, but for the events
  std::vector<uint64_t> ordinals;  // of the lane that the topic leaves: no longer its own
};

class SideLanes {
 public:
  // Makes the side lane and gives it to the engine.
  using MakeLane =
      std::function<Lane*(Lane* lane, const SideLane& side, std::shared_ptr<LaneFilter>, std::unique_ptr<LaneLog>)>;

  SideLanes(Lane* lane, std::unique_ptr<SideLog> log, MakeLane make);
  ~SideLanes();
  SideLanes(const SideLanes&) = delete;
  SideLanes& operator=(const SideLanes&) = delete;

  // Call before the lane reads anything.
  Status Load();

  // --- leaving ---
  // Whether `from` may let a topic go to a side lane of its own. `from` is the lane, or a side lane that serves several
  // topics (version 0.1 made such side lanes). There is always room for paused topics: an operator has named each.
  bool MayFork(const Lane* from, const Error& error, const EngineOptions& options) const;
  // Nothing of `from` is in flight, and MayFork().
  Status Fork(Lane* from, const std::string& topic, const Error& error, const TurnContext& turn);

  // --- coming back ---
  // Call in each step of the lane.
  StepResult Step(TurnContext* turn);
  int64_t NextTime(const TurnContext& turn) const;
  // Of a way back that the log refuses, while there is one that could be gone.
  const Trouble& trouble() const { return trouble_; }
  int64_t next_try() const { return next_try_; }  // monotonic microseconds; may be past

  // --- with the lane ---
  void SetSpec(const std::shared_ptr<const format::RouteSpec>& spec);
  void Release(int64_t deadline);
  void Lose();  // all of them leave at once
  // See Acker.
  void NotePutBack();
  void OnGone(const Lane* side);  // the engine drops it
  bool empty() const { return sides_.empty(); }
  bool clean() const { return clean_; }  // none left anything unresolved or unsaved
  uint64_t BarrierDone(uint64_t own) const;
  // Topics that are paused, or whose side lanes do not flow: their parked events are not to be claimed.
  std::vector<std::string> WithheldTopics() const;
  // A hash of WithheldTopics(): changes when its answer does, nearly surely.
  uint64_t withheld_version() const;

 private:
  struct Side {
    SideLane record;
    std::shared_ptr<LaneFilter> filter;
    Lane* lane = nullptr;
  };
  // What is awaited.
  enum class Phase : uint8_t {
    kNone,
    kSideRests,  // the side lane opens no more windows: it stops at B
    kLaneRests,  // the lane has read up to B, opens no more windows and stops at M
    kSideEnds,   // the side lane reads up to M exactly
  };

  int32_t FreeNumber() const;
  void Start(SideLane record);
  Side* Ready();
  StepResult Rejoin(TurnContext* turn);
  void Cancel(const TurnContext& turn);
  void LetGo();

  Lane* const lane_;
  const std::unique_ptr<SideLog> log_;
  const MakeLane make_;
  std::map<int32_t, Side> sides_;
  bool clean_ = true;

  Phase phase_ = Phase::kNone;
  int32_t returning_ = 0;  // side lane on its way back
  int64_t deadline_ = 0;   // monotonic microseconds: then it is put off
  int64_t next_try_ = 0;
  int64_t rest_;  // how long a try may take
  Backoff backoff_;
  Trouble trouble_;
};

}  // namespace outbox::relay
