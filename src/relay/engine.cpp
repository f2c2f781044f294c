#include "relay/engine.h"

#include <algorithm>
#include <utility>

#include "relay/engine_impl.h"

namespace outbox::relay {

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

void Engine::Impl::ShareBudgets() {
  for (const auto& [id, destination] : destinations) {
    size_t active = 0;
    ForLanesOf(destination.get(), [&](Lane* lane) { active += lane->active() ? 1 : 0; });
    destination->SetBudget(options.max_inflight, options.chunk_bytes, active);
  }
}

void Engine::Impl::DropGone() {
  const auto stays = [](const auto& lane) { return lane->state() != LaneState::kGone; };
  // Asked first: to put thousands in order needs memory for them, in each round of each turn.
  const auto leaving = std::all_of(lanes.begin(), lanes.end(), stays)
                           ? lanes.end()
                           : std::stable_partition(lanes.begin(), lanes.end(), stays);
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
    const auto stays_for = [&](const auto& lane) { return lane->destination() == it->second.get(); };
    if (it->second->removing && std::none_of(lanes.begin(), lanes.end(), stays_for)) {
      it->second->sink()->Close();
      it->second->retry().Close();
      it = destinations.erase(it);
    } else {
      ++it;
    }
  }
}

// Calls step(lane) for each lane that wants it, or for as many as can be until turn.enough; at least for one.
template <typename Wants, typename Step>
bool Engine::Impl::GoRound(size_t* first, Wants&& wants, Step&& step) {
  const size_t count = lanes.size();
  *first = count == 0 ? 0 : (*first + 1) % count;
  bool worked = false;
  bool begun = false;
  size_t seen = 0;
  for (; seen < count; ++seen) {
    Lane* lane = lanes[(*first + seen) % count].get();
    if (!wants(*lane)) {
      continue;
    }
    if (std::exchange(begun, true) && turn.clock->NowMicros() >= turn.enough) {
      break;
    }
    stepping = lane;
    worked |= step(lane);
    stepping = nullptr;
  }
  if (seen < count) {
    *first = (*first + seen - 1) % count;  // the others come first in the next turn
    worked = true;
  }
  return worked;
}

// Not those that rest. Unless `all`, only lanes for which something may have changed since the last time: that have
// done something then, wait for budget that another may have left, or have side lanes, which they wait for and which
// wait for them. The first one that was woken looks through the log for the others, so those rest that have nothing in
// it. Parked events have their turn when all lanes have had theirs: thousands of lanes with something due at once, and
// a transaction for each, hold up no event of the log for longer than a turn.
bool Engine::Impl::StepLanes(bool all) {
  const bool worked = GoRound(
      &first_lane,
      [this, all](Lane& lane) { return (all || lane.worked() || lane.waits_for_lanes()) && !lane.Rests(turn); },
      [this](Lane* lane) {
        changed |= !lane->AtEase(turn);
        const bool did = lane->Step(&turn);
        changed |= !lane->AtEase(turn);
        return did;
      });
  const bool parked = GoRound(
      &first_parked, [](const Lane& lane) { return lane.stepped(); },
      [this](Lane* lane) { return lane->StepParked(&turn); });
  return worked || parked;
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
                            std::unique_ptr<ServerRuns> servers, int64_t gather_micros, PastEnds past) {
  impl_->changed = true;
  Destination* destination = impl_->Find(id);
  if (destination != nullptr) {
    destination->removing = false;
    destination->Replace(std::move(factory), std::move(servers), drain_deadline);
  } else {
    impl_->destinations.emplace(id, std::make_unique<Destination>(id, std::move(factory), std::move(servers),
                                                                  gather_micros, std::move(past), impl_->options));
  }
}

void Engine::RemoveDestination(DestinationId id, int64_t deadline) {
  impl_->changed = true;
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

bool Engine::AddLane(const LaneId& id, std::shared_ptr<const format::RouteSpec> spec, LaneLogs logs,
                     DestinationId destination_id) {
  if (stopping_ || HasLane(id) || !HasDestination(destination_id)) {
    return false;
  }
  impl_->changed = true;
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
  impl_->changed = true;
  Lane* lane = impl_->Find(id);
  if (lane != nullptr) {
    lane->SetSpec(std::move(spec));
  }
}

void Engine::ReleaseLane(const LaneId& id, int64_t deadline) {
  impl_->changed = true;
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
  impl_->changed = true;
  for (const auto& lane : impl_->lanes) {
    lane->Release(deadline);
  }
}

int64_t Engine::Turn(const TurnInput& input) {
  TurnContext& turn = impl_->turn;
  impl_->stepping = nullptr;
  turn.barrier = std::max(turn.barrier, input.barrier);
  turn.config_reads = input.config_reads;
  turn.wants_config = false;
  turn.config_changed = input.config_changed;
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
  turn.first = turn.first == kLongAgo ? turn.now : turn.first;
  turn.enough = turn.now + turn.options->turn_micros;
  turn.loss_checks = 0;
  turn.postponed = false;
  for (bool all = true, first = true;; first = false) {
    const bool news = impl_->PollSinks(first);
    impl_->SwapSinks();
    impl_->ShareBudgets();
    const uint64_t durable = turn.durable_lsn;
    const bool worked = impl_->StepLanes(all || news);
    const bool saved = impl_->saver.Save(&turn);
    impl_->DropGone();
    impl_->changed |= news || saved || !impl_->gone.empty();
    if (!news && !worked && !saved) {
      break;
    }
    all = saved || turn.durable_lsn != durable;
    turn.now = turn.clock->NowMicros();
    if (turn.now >= turn.enough) {
      return turn.now;
    }
  }
  if (turn.postponed) {
    return turn.now;
  }
  constexpr int64_t kSoon = 5'000;  // it is read in no time, or the caller is in trouble
  return turn.wants_config ? std::min(impl_->NextTime(), turn.now + kSoon) : impl_->NextTime();
}

const LaneId* Engine::Interrupted() const {
  return impl_->stepping == nullptr ? nullptr : &impl_->stepping->id();
}

int64_t Engine::TurnsApart() {
  int64_t least = TurnSpacing::kAny;
  for (const auto& [id, destination] : impl_->destinations) {
    least = std::min(least, destination->spacing().Apart(impl_->turn.now));
  }
  return least == TurnSpacing::kAny ? 0 : least;
}

bool Engine::WantsConfig() const {
  return impl_->turn.wants_config;
}

void Engine::AppendWaits(std::vector<sink::WaitSpec>* waits) {
  for (const auto& [id, destination] : impl_->destinations) {
    destination->sink()->AppendWaits(waits);
    if (destination->retry().sink() != nullptr) {
      destination->retry().sink()->AppendWaits(waits);
    }
  }
}

bool Engine::TakeChanged() {
  return std::exchange(impl_->changed, false);
}

void Engine::TakeGone(std::vector<GoneLane>* gone) {
  gone->clear();
  gone->swap(impl_->gone);
}

void Engine::Lanes(std::vector<LaneStatus>* lanes) const {
  lanes->resize(impl_->lanes.size());
  const int64_t wall = lanes->empty() ? 0 : impl_->turn.clock->WallMicros();
  for (size_t i = 0; i < lanes->size(); ++i) {
    impl_->lanes[i]->Fill(impl_->turn, wall, &(*lanes)[i]);
  }
}

void Engine::Destinations(std::vector<DestinationStatus>* destinations) const {
  destinations->clear();
  for (const auto& [id, destination] : impl_->destinations) {
    DestinationStatus status;
    status.id = id;
    const Breaker& breaker = destination->breaker();
    status.state = breaker.state();
    status.reason = breaker.reason();
    status.since_unix = breaker.since_unix();
    status.trips = static_cast<int64_t>(breaker.trips());
    if (breaker.state() == Breaker::State::kOpen) {
      status.next_try_unix = impl_->turn.clock->WallMicros() + (breaker.next_try() - impl_->turn.now);
    }
    status.deaths = static_cast<int64_t>(destination->deaths());
    status.renewals = destination->renewals();
    status.warning = destination->warning(impl_->turn.now);
    status.sink_warning = destination->sink_warning();
    const RetryWarning& retries = destination->retry().warning();
    status.retry_trouble = retries.Now(impl_->turn.now);
    status.retry_trouble_since = retries.since();
    const auto cluster_of = [](const sink::Health* health) {
      return health == nullptr || health->cluster.empty() ? nullptr : &health->cluster;
    };
    status.met_cluster = cluster_of(&destination->health());
    status.retry_cluster = cluster_of(destination->retry().health());
    status.retries_work = retries.over();
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
