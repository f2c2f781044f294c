#include "relay/engine.h"

#include <algorithm>
#include <map>
#include <unordered_map>
#include <utility>

#include "relay/destination.h"
#include "relay/lane.h"
#include "relay/saver.h"

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
  size_t first_lane = 0;  // goes round, so that no lane is always last at the budget

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
  bool CheckServer(Destination* destination);
  bool CheckHealth(Destination* destination);
  bool HasNothingToSend(const Destination* destination);
  void GiveTurns(Destination* destination);
  bool PollSinks();
  bool PollRetrySink(Destination* destination);
  void MeetTogether(Destination* destination);
  bool WatchSink(Destination* destination, SinkUse use);
  void CloseRetrySink(Destination* destination);
  void Swap(Destination* destination);
  void SwapSinks();
  void ShareBudgets();
  bool StepLanes(int64_t enough);
  void DropGone();
  int64_t NextTime() const;
};

bool Engine::Impl::PollSinks() {
  bool worked = false;
  for (const auto& [id, destination] : destinations) {
    results.clear();
    places.clear();
    destination->sink()->Poll(&results);
    destination->sink()->TakePlaces(&places);
    for (const sink::Result& result : results) {
      auto found = flows.find(result.flow);
      if (found != flows.end()) {
        found->second->OnResult(result, turn);
      }
    }
    for (const sink::Place& place : places) {
      if (auto found = flows.find(place.flow); found != flows.end()) {
        found->second->OnPlace(place);
      }
    }
    worked |= !results.empty();
    worked |= CheckServer(destination.get());
    worked |= CheckHealth(destination.get());
    worked |= PollRetrySink(destination.get());
    Breaker& breaker = destination->breaker();
    if (std::exchange(destination->was_closed, breaker.closed()) != breaker.closed() && breaker.closed()) {
      ForQueuesOf(destination.get(), [](ParkedQueue* queue) { queue->OnDestinationUp(); });
      worked = true;
    }
    if (destination->TakeRecovered()) {
      breaker.OnUp(turn.now, turn.clock->WallMicros());
      ForLanesOf(destination.get(), [](Lane* lane) { lane->OnUp(SinkUse::kMain); });
      worked = true;
    }
    GiveTurns(destination.get());
    worked |= WatchSink(destination.get(), SinkUse::kMain);
    worked |= WatchSink(destination.get(), SinkUse::kSecond);
  }
  return worked;
}

// Does nothing unless the sink has come to a server: this is called in every turn.
bool Engine::Impl::CheckServer(Destination* destination) {
  const sink::ServerIdentity* identity = destination->sink()->identity();
  if (identity == nullptr || identity->server_run.empty()) {
    return false;
  }
  std::vector<Lane*> met;
  ForLanesOf(destination, [&](Lane* lane) { met.push_back(lane); });
  return destination->server_check().Step(destination->sink(), met, &turn);
}

// Handles deaths of the lanes' sink, and tells the breaker whether it can be used.
bool Engine::Impl::CheckHealth(Destination* destination) {
  const sink::Health& health = destination->health();
  Breaker& breaker = destination->breaker();
  bool worked = false;
  const auto trip = [&](const Error& error) {
    breaker.Trip(0, error, turn.now, turn.clock->WallMicros(), turn.clock->Random());
    worked = true;
  };
  if (const SinkDeath death = destination->TakeDeath(); death != SinkDeath::kNone) {
    bool under_way = false;
    ForLanesOf(destination, [&](Lane* lane) { under_way |= lane->OnSinkDied(death); });
    if (!under_way) {  // then no event is to blame
      trip({ErrorClass::kConfig, health.error.code == "SINK_HUNG" ? "SINK_HUNG" : "SINK_DIED",
            health.error.ok() ? "the sink process ended with nothing to do" : health.error.message});
    }
    worked = true;
  }
  if (!health.up && breaker.closed()) {
    trip(health.error);
  } else if (!health.up && !worked && health.changes != destination->explained) {
    breaker.Explain(health.error);
  }
  destination->explained = health.changes;
  for (const bool second : {false, true}) {
    const uint32_t late = breaker.late(second);
    if (late != 0 && !breaker.probing(late) && Outstanding(late) == 0) {
      breaker.Forget(late);
    }
  }
  if (!health.up) {
    breaker.GiveUp(health.error, turn.now, turn.clock->WallMicros(), turn.clock->Random());
  } else {
    breaker.PassOn(turn.now);
    const sink::ServerIdentity* identity = destination->sink()->identity();
    if (breaker.state() == Breaker::State::kHalfOpen && (identity == nullptr || identity->server_run.empty()) &&
        HasNothingToSend(destination)) {
      breaker.Rest(turn.now, turn.clock->WallMicros());
    }
  }
  breaker.OnTime(turn.now, turn.clock->WallMicros());
  return worked;
}

// Neither a lane nor a queue of parked events has anything that could go.
bool Engine::Impl::HasNothingToSend(const Destination* destination) {
  bool nothing = true;
  ForLanesOf(destination, [&](Lane* lane) {
    nothing &= !lane->active() && (lane->pump() == nullptr || !lane->pump()->waits(turn.clock->WallMicros()));
  });
  return nothing;
}

// A suspected event is tested when the others' events are no longer in flight at that sink, or have been for a while
// without killing its process.
void Engine::Impl::GiveTurns(Destination* destination) {
  if (const uint32_t holder = destination->turns().holder(); holder != 0) {
    uint64_t others = 0;
    ForLanesOf(destination,
               [&](Lane* lane) { others += lane->flow() == holder ? 0 : lane->outstanding(SinkUse::kMain); });
    destination->turns().SetQuiet(others == 0, turn.now);
  }
  if (const uint32_t holder = destination->retry().turns().holder(); holder != 0) {
    const uint64_t others = destination->retry().under_way() - Outstanding(holder);
    destination->retry().turns().SetQuiet(others == 0, turn.now);
  }
}

Lane* Engine::Impl::MakeSide(Lane* lane, const SideLane& side, const std::shared_ptr<LaneFilter>& filter,
                             std::unique_ptr<LaneLog> log) {
  const uint32_t flow = next_flow++;
  LaneId id = lane->id();
  id.side = side.side;
  auto made = std::make_unique<Lane>(id, flow, filter->spec(), filter, std::move(log), lane->parked(),
                                     lane->destination(), options, lane->figures());
  made->BecomeSide(lane, side, turn.clock->WallMicros());
  flows.emplace(flow, made.get());
  lanes.push_back(std::move(made));
  return lanes.back().get();
}

// The second sink is admitted only to the server run that the lanes' sink is at. A server can change (it was a replica
// for a moment) and only one of the two be disconnected: then the other, which goes on under the earlier run or has
// nothing to send, asks again which server answers. What came until now belongs to the earlier run.
void Engine::Impl::MeetTogether(Destination* destination) {
  RetrySink& retry = destination->retry();
  const ServerCheck& check = destination->server_check();
  const auto awaits = [](const sink::ServerIdentity* identity) {
    return identity != nullptr && !identity->server_run.empty();
  };
  const sink::ServerIdentity* identity = retry.sink()->identity();
  if (awaits(destination->sink()->identity())) {
    return;
  }
  if (awaits(identity) && identity->server_run == check.server_run()) {
    retry.Admit(check.server_run(), check.put_back());
  } else if (awaits(identity) && retry.MayAskAgain(turn.now)) {
    destination->sink()->IdentifyAgain();
  } else if (!awaits(identity) && !retry.server_run().empty() && retry.server_run() != check.server_run() &&
             retry.MayAskAgain(turn.now)) {
    retry.sink()->IdentifyAgain();
  }
}

bool Engine::Impl::PollRetrySink(Destination* destination) {
  RetrySink& retry = destination->retry();
  if (retry.sink() == nullptr) {
    return false;
  }
  results.clear();
  places.clear();
  retry.sink()->Poll(&results);
  retry.sink()->TakePlaces(&places);
  for (const sink::Result& result : results) {
    if (ParkedQueue* queue = QueueOf(result.flow)) {
      queue->OnResult(result, turn);
    } else if (auto found = flows.find(result.flow); found != flows.end()) {
      found->second->OnResult(result, turn);  // a side lane finds out whether its topic works again
    }
  }
  for (const sink::Place& place : places) {
    if (ParkedQueue* queue = QueueOf(place.flow)) {
      queue->OnPlace(place, retry.server_run());
    } else if (auto found = flows.find(place.flow); found != flows.end()) {
      found->second->OnPlace(place);
    }
  }
  MeetTogether(destination);
  if (!results.empty()) {
    uint64_t count = 0;
    for (const sink::Result& result : results) {
      count += result.count;
    }
    retry.Heard(count, turn.now);
  }
  const SinkDeath death = retry.TakeDeath();
  if (death != SinkDeath::kNone) {
    ForQueuesOf(destination, [&](ParkedQueue* queue) { queue->OnSinkDied(death); });
  }
  if (retry.TakeRecovered()) {
    ForLanesOf(destination, [](Lane* lane) { lane->OnUp(SinkUse::kSecond); });
    return true;
  }
  return death != SinkDeath::kNone || !results.empty();
}

// A sink that never gives an outcome is recreated (its process is killed): what was in flight counts as aborted, and is
// sent again. Said in the lanes, and in the destination's warning.
bool Engine::Impl::WatchSink(Destination* destination, SinkUse use) {
  const bool retry = use == SinkUse::kSecond;
  const sink::Sink* sink = retry ? destination->retry().sink() : destination->sink();
  const sink::ServerIdentity* identity = sink == nullptr ? nullptr : sink->identity();
  const bool well = sink != nullptr && sink->health().up && (identity == nullptr || identity->server_run.empty());
  std::vector<Lane*> lanes_overdue;
  std::vector<ParkedQueue*> queues_overdue;
  uint64_t count = 0;
  ForLanesOf(destination, [&](Lane* lane) {
    if (lane->Overdue(use, well, turn.now)) {
      lanes_overdue.push_back(lane);
      count += lane->outstanding(use);
    }
    if (retry && lane->pump() != nullptr && lane->pump()->Overdue(well, turn.now)) {
      queues_overdue.push_back(lane->pump());
      count += lane->pump()->outstanding();
    }
  });
  if (count == 0) {
    return false;
  }
  const Error error{ErrorClass::kDestination, "NO_OUTCOME",
                    "the sink said nothing about " + std::to_string(count) +
                        " events for a minute though it is up; it was started again"};
  for (Lane* lane : lanes_overdue) {
    lane->OnOverdue(error, turn);
  }
  for (ParkedQueue* queue : queues_overdue) {
    queue->OnOverdue(error, turn);
  }
  destination->CountRenewal(error, turn.now);
  if (retry) {
    CloseRetrySink(destination);
  } else {
    Swap(destination);
  }
  return true;
}

void Engine::Impl::CloseRetrySink(Destination* destination) {
  destination->retry().Close();
  ForLanesOf(destination, [](Lane* lane) { lane->OnSinkReplaced(SinkUse::kSecond); });
  ForQueuesOf(destination, [](ParkedQueue* queue) { queue->OnSinkClosed(); });
}

void Engine::Impl::Swap(Destination* destination) {
  destination->Swap();
  destination->breaker().Reset(turn.now, turn.clock->WallMicros());
  ForLanesOf(destination, [](Lane* lane) { lane->OnSinkReplaced(SinkUse::kMain); });
}

void Engine::Impl::SwapSinks() {
  for (const auto& [id, destination] : destinations) {
    if (destination->retry().Expired(turn.now)) {
      CloseRetrySink(destination.get());
    }
    if (!destination->replacing()) {
      continue;
    }
    uint64_t outstanding = 0;
    ForLanesOf(destination.get(), [&](Lane* lane) { outstanding += lane->outstanding(SinkUse::kMain); });
    if (outstanding == 0 || !destination->health().up || turn.now >= destination->drain_deadline()) {
      Swap(destination.get());
    }
  }
}

void Engine::Impl::ShareBudgets() {
  for (const auto& [id, destination] : destinations) {
    size_t active = 0;
    ForLanesOf(destination.get(), [&](Lane* lane) { active += lane->active() ? 1 : 0; });
    destination->SetBudget(options.max_inflight, options.chunk_bytes, active);
  }
}

void Engine::Impl::DropGone() {
  const auto leaving = std::stable_partition(lanes.begin(), lanes.end(),
                                             [](const auto& lane) { return lane->state() != LaneState::kGone; });
  for (auto it = leaving; it != lanes.end(); ++it) {
    flows.erase((*it)->flow());
    (*it)->destination()->breaker().Forget((*it)->flow());
    if ((*it)->pump() != nullptr) {
      queues.erase((*it)->pump()->first_flow());
      (*it)->destination()->breaker().Forget((*it)->pump()->first_flow());
      (*it)->destination()->retry().turns().End((*it)->pump()->first_flow(), false, turn.now);
    }
    if ((*it)->parent() != nullptr) {
      (*it)->parent()->sides()->OnGone(it->get());
    } else {
      gone.push_back({(*it)->id(), (*it)->gone_reason()});
    }
  }
  lanes.erase(leaving, lanes.end());
  for (auto it = destinations.begin(); it != destinations.end();) {
    size_t left = 0;
    ForLanesOf(it->second.get(), [&](Lane*) { ++left; });
    if (it->second->removing && left == 0) {
      it->second->sink()->Close();
      it->second->retry().Close();
      it = destinations.erase(it);
    } else {
      ++it;
    }
  }
}

// Each of them once, or as many as can be until `enough`; at least one.
bool Engine::Impl::StepLanes(int64_t enough) {
  const size_t count = lanes.size();
  first_lane = count == 0 ? 0 : (first_lane + 1) % count;
  bool worked = false;
  size_t stepped = 0;
  for (; stepped < count && (stepped == 0 || turn.clock->NowMicros() < enough); ++stepped) {
    worked |= lanes[(first_lane + stepped) % count]->Step(&turn);
  }
  if (stepped < count) {
    first_lane = (first_lane + stepped - 1) % count;  // the others come first in the next turn
    worked = true;
  }
  return worked;
}

// When there is something to do even if nothing happens. All that was due by turn.now has just been tried.
int64_t Engine::Impl::NextTime() const {
  int64_t next = saver.next_time();
  const auto at = [&next](int64_t time) { next = std::min(next, time); };
  for (const auto& lane : lanes) {
    at(lane->NextTime(turn));
    if (lane->watchdog().waits()) {
      at(lane->watchdog().next_check());
    }
    if (lane->pump() != nullptr && lane->pump()->watchdog().waits()) {
      at(lane->pump()->watchdog().next_check());
    }
  }
  for (const auto& [id, destination] : destinations) {
    if (destination->replacing()) {
      at(destination->drain_deadline());
    }
    const Breaker& breaker = destination->breaker();
    if (breaker.state() == Breaker::State::kOpen) {
      at(breaker.next_try());
    } else if (breaker.state() == Breaker::State::kHalfOpen && breaker.patience_ends() > turn.now) {
      at(breaker.patience_ends());
    }
    at(destination->server_check().next_try());
    at(destination->retry().close_at());
  }
  return next;
}

Engine::Engine(Clock* clock, const EngineOptions& options) : impl_(std::make_unique<Impl>()) {
  impl_->options = options;
  impl_->turn.clock = clock;
  impl_->turn.options = &impl_->options;
  impl_->turn.saver = &impl_->saver;
}

Engine::~Engine() = default;

void Engine::SetOptions(const EngineOptions& options) {
  impl_->options = options;
}

void Engine::SetDestination(DestinationId id, SinkFactory factory, int64_t drain_deadline,
                            std::unique_ptr<ServerRuns> servers) {
  Destination* destination = impl_->Find(id);
  if (destination != nullptr) {
    destination->removing = false;
    destination->Replace(std::move(factory), std::move(servers), drain_deadline);
  } else {
    impl_->destinations.emplace(
        id, std::make_unique<Destination>(id, std::move(factory), std::move(servers), impl_->options));
  }
}

void Engine::RemoveDestination(DestinationId id, int64_t deadline) {
  Destination* destination = impl_->Find(id);
  if (destination != nullptr) {
    destination->removing = true;
    impl_->ForLanesOf(destination, [&](Lane* lane) { lane->Release(deadline); });
  }
}

bool Engine::HasDestination(DestinationId id) const {
  const Destination* destination = impl_->Find(id);
  return destination != nullptr && !destination->removing;
}

const sink::Health* Engine::DestinationHealth(DestinationId id) const {
  const Destination* destination = impl_->Find(id);
  return destination == nullptr ? nullptr : &destination->health();
}

bool Engine::AddLane(const LaneId& id, std::shared_ptr<const format::RouteSpec> spec, LaneLogs logs,
                     DestinationId destination_id) {
  if (stopping_ || HasLane(id) || !HasDestination(destination_id)) {
    return false;
  }
  const uint32_t flow = impl_->next_flow++;
  Destination* destination = impl_->Find(destination_id);
  auto parked = std::make_shared<ParkedQueue>(impl_->next_flow, std::move(logs.parked), destination, impl_->options,
                                              logs.figures);
  impl_->queues.emplace(impl_->next_flow, parked.get());
  impl_->next_flow += ParkedQueue::kFlows;
  impl_->lanes.push_back(std::make_unique<Lane>(id, flow, std::move(spec), std::move(logs.filter), std::move(logs.log),
                                                std::move(parked), destination, impl_->options, logs.figures));
  Lane* lane = impl_->lanes.back().get();
  impl_->flows.emplace(flow, lane);
  if (logs.sides != nullptr) {
    Impl* impl = impl_.get();
    lane->UseSides(std::make_unique<SideLanes>(
        lane, std::move(logs.sides),
        [impl](Lane* of, const SideLane& side, const std::shared_ptr<LaneFilter>& filter,
               std::unique_ptr<LaneLog> log) { return impl->MakeSide(of, side, filter, std::move(log)); }));
  }
  return true;
}

void Engine::UpdateLane(const LaneId& id, std::shared_ptr<const format::RouteSpec> spec) {
  Lane* lane = impl_->Find(id);
  if (lane != nullptr) {
    lane->SetSpec(std::move(spec));
  }
}

void Engine::ReleaseLane(const LaneId& id, int64_t deadline) {
  Lane* lane = impl_->Find(id);
  if (lane != nullptr) {
    lane->Release(deadline);
  }
}

bool Engine::HasLane(const LaneId& id) const {
  return impl_->Find(id) != nullptr;
}

size_t Engine::lane_count() const {
  return impl_->lanes.size();
}

void Engine::Stop(int64_t deadline) {
  stopping_ = true;
  for (const auto& lane : impl_->lanes) {
    lane->Release(deadline);
  }
}

int64_t Engine::Turn(const TurnInput& input) {
  TurnContext& turn = impl_->turn;
  turn.barrier = std::max(turn.barrier, input.barrier);
  if (input.woken) {
    for (const auto& lane : impl_->lanes) {
      lane->Wake();
    }
  }
  if (input.parked) {
    for (const auto& lane : impl_->lanes) {
      lane->WakeParked();
    }
  }
  turn.now = turn.clock->NowMicros();
  const int64_t enough = turn.now + turn.options->turn_micros;
  for (;;) {
    bool worked = impl_->PollSinks();
    impl_->SwapSinks();
    impl_->ShareBudgets();
    worked |= impl_->StepLanes(enough);
    worked |= impl_->saver.Save(&turn);
    impl_->DropGone();
    if (!worked) {
      break;
    }
    turn.now = turn.clock->NowMicros();
    if (turn.now >= enough) {
      return turn.now;
    }
  }
  return impl_->NextTime();
}

void Engine::AppendWaits(std::vector<sink::WaitSpec>* waits) {
  for (const auto& [id, destination] : impl_->destinations) {
    destination->sink()->AppendWaits(waits);
    if (destination->retry().sink() != nullptr) {
      destination->retry().sink()->AppendWaits(waits);
    }
  }
}

void Engine::TakeGone(std::vector<GoneLane>* gone) {
  gone->clear();
  gone->swap(impl_->gone);
}

void Engine::Lanes(std::vector<LaneStatus>* lanes) const {
  lanes->resize(impl_->lanes.size());
  for (size_t i = 0; i < lanes->size(); ++i) {
    impl_->lanes[i]->Fill(impl_->turn, &(*lanes)[i]);
  }
}

void Engine::Destinations(std::vector<DestinationStatus>* destinations) const {
  destinations->clear();
  for (const auto& [id, destination] : impl_->destinations) {
    DestinationStatus status;
    status.id = id;
    const Breaker& breaker = destination->breaker();
    SetText(status.state, breaker.name());
    status.reason = breaker.reason();
    status.since_unix = breaker.since_unix();
    status.trips = static_cast<int64_t>(breaker.trips());
    if (breaker.state() == Breaker::State::kOpen) {
      status.next_try_unix = impl_->turn.clock->WallMicros() + (breaker.next_try() - impl_->turn.now);
    }
    status.deaths = static_cast<int64_t>(destination->deaths());
    status.renewals = destination->renewals();
    status.warning = destination->warning(impl_->turn.now);
    status.only_warning = status.reason.ok() && status.warning != nullptr;
    status.trouble.Set(status.reason.ok() ? status.warning : &status.reason);
    destinations->push_back(std::move(status));
  }
}

void Engine::Internals(std::vector<LaneInternals>* lanes) const {
  lanes->clear();
  for (const auto& lane : impl_->lanes) {
    lanes->push_back(lane->Internals());
  }
}

}  // namespace outbox::relay
