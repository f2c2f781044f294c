// What an Engine has inside [-]. engine.cpp gives turns to the lanes, engine_sinks.cpp sees to the sinks.
#pragma once

#include <algorithm>
#include <cstdint>
#include <map>
#include <memory>
#include <unordered_map>
#include <vector>

#include "relay/destination/destination.h"
#include "relay/engine.h"
#include "relay/lane/lane.h"
#include "relay/lane/saver.h"

namespace outbox::relay {

struct Engine::Impl {
  EngineOptions options;
  TurnContext turn;
  Saver saver;
  std::map<DestinationId, std::unique_ptr<Destination>> destinations;
  std::vector<std::unique_ptr<Lane>> lanes;
  std::unordered_map<uint32_t, Lane*> flows;
  std::map<uint32_t, ParkedQueue*> queues;  // by their first flow
  std::vector<GoneLane> gone;
  std::vector<sink::Result> results;
  std::vector<sink::Place> places;
  uint32_t next_flow = 1;
  size_t first_lane = 0;    // goes round, so that no lane is always last at the budget
  size_t first_parked = 0;  // the same, of their parked events
  bool changed = true;      // see Engine::TakeChanged
  const Lane* stepping = nullptr;

  Lane* Find(const LaneId& id) const {
    auto found = std::find_if(lanes.begin(), lanes.end(), [&](const auto& lane) { return lane->id() == id; });
    return found == lanes.end() ? nullptr : found->get();
  }
  Destination* Find(DestinationId id) const {
    auto found = destinations.find(id);
    return found == destinations.end() ? nullptr : found->second.get();
  }
  template <typename Fn>
  void ForLanesOf(const Destination* destination, Fn&& fn) {
    for (const auto& lane : lanes) {
      if (lane->destination() == destination) {
        fn(lane.get());
      }
    }
  }

  // The queue of parked events that submitted under this flow; nullptr: it has gone.
  ParkedQueue* QueueOf(uint32_t flow) const {
    auto after = queues.upper_bound(flow);
    if (after == queues.begin()) {
      return nullptr;
    }
    --after;
    return flow - after->first < ParkedQueue::kFlows ? after->second : nullptr;
  }
  template <typename Fn>
  void ForQueuesOf(const Destination* destination, Fn&& fn) {
    ForLanesOf(destination, [&](Lane* lane) {
      if (lane->pump() != nullptr) {
        fn(lane->pump());
      }
    });
  }
  // How many of the flow's records have no outcome yet, parked events or not.
  uint64_t Outstanding(uint32_t flow) const {
    if (const ParkedQueue* queue = QueueOf(flow)) {
      return queue->outstanding();
    }
    auto found = flows.find(flow);
    return found == flows.end()
               ? 0
               : uint64_t{found->second->outstanding(SinkUse::kMain)} + found->second->outstanding(SinkUse::kSecond);
  }

  Lane* MakeSide(Lane* lane, const SideLane& side, const std::shared_ptr<LaneFilter>& filter,
                 std::unique_ptr<LaneLog> log);
  void ShareBudgets();
  template <typename Wants, typename Step>
  bool GoRound(size_t* first, Wants&& wants, Step&& step);
  bool StepLanes(bool all);
  void DropGone();
  int64_t NextTime() const;

  // --- engine_sinks.cpp ---
  bool PollSinks(bool watch);  // `watch`: also whether they still answer, of which once a turn is enough
  void SwapSinks();
  bool CheckServer(Destination* destination);
  bool CheckHealth(Destination* destination);
  bool HasNothingToSend(const Destination* destination);
  void GiveTurns(Destination* destination);
  bool PollRetrySink(Destination* destination);
  void MeetTogether(Destination* destination);
  bool WatchSink(Destination* destination, SinkUse use);
  void TakeBack(Destination* destination, SinkUse use);
  void CloseRetrySink(Destination* destination);
  void Swap(Destination* destination);
};

}  // namespace outbox::relay
