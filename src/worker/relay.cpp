#include "worker/relay.h"

#include <time.h>

#include <algorithm>
#include <set>

#include "base/monotonic.h"
#include "log/loss/noted_ends.h"
#include "log/pg_lane_log.h"
#include "log/pg_side_log.h"
#include "metrics/store.h"
#include "parked/pg_parked_log.h"
#include "pg/server_versions.h"
#include "pg/settings.h"
#include "pg/try.h"
#include "pg/wall.h"
#include "pg/worker_slot.h"
#include "worker/process.h"

extern "C" {
#include "common/pg_prng.h"
#include "utils/inval.h"
}

namespace outbox::worker {

namespace {

constexpr int64_t kReleaseWithin = 5 * kSecond;  // for lanes and destinations in normal running
constexpr int64_t kUnused = 2 * kSecond;         // a lane may be given back only to be claimed again
constexpr int64_t kPlacesComeFree = 60 * kSecond;
constexpr int64_t kHeldPause = 100 * kMilli;  // until a lane whose row somebody holds is given back
constexpr int64_t kShowWithin = 50 * kMilli;  // what a turn did not show
constexpr int64_t kShowReadingEvery = 200 * kMilli;
constexpr long kLongestWaitMs = 1000;

class SystemClock final : public relay::Clock {
 public:
  int64_t NowMicros() override { return MonotonicMicros(); }
  int64_t WallMicros() override { return pg::BelievedWall(); }
  uint64_t Random() override { return pg_prng_uint64(&pg_global_prng_state); }
};

relay::EngineOptions OptionsFromSettings() {
  relay::EngineOptions options;
  options.max_inflight = static_cast<size_t>(pg::settings.max_inflight_kb) * 1024;
  options.poll_micros = pg::settings.poll_interval_ms * kMilli;
  return options;
}

SinkLimits LimitsFromSettings() {
  SinkLimits limits;
  // Room for key, headers and our own fields; events emitted under an earlier, larger setting have to pass too.
  limits.max_message_bytes = static_cast<uint64_t>(std::max(pg::settings.max_payload_size, 1024 * 1024)) + 64 * 1024;
  limits.max_inflight_bytes = static_cast<uint64_t>(pg::settings.max_inflight_kb) * 1024;
  return limits;
}

relay::SinkFactory Factory(const DestinationConfig& config, const SinkLimits& limits) {
  return [config, limits] { return MakeSink(config, limits); };
}

std::vector<int64_t> RouteIds(const RelayConfig& config) {
  std::vector<int64_t> ids;
  for (const auto& [id, route] : config.routes) {
    ids.push_back(id);
  }
  return ids;
}

relay::MeterPlace FiguresOf(Oid database, int64_t route_id, relay::DestinationId destination,
                            const RelayConfig& config) {
  const std::vector<int64_t> live = RouteIds(config);
  RouteFigures* figures = pg::Guard(
      [&] { return metrics::TakeRoute(database, route_id, destination, {.ids = live.data(), .count = live.size()}); });
  return {.figures = figures, .commits = &metrics::Figures()->commits};
}

volatile bool servers_changed = true;

void NoteServerChange(Datum, pg::CacheId, uint32) {
  servers_changed = true;
}

}  // namespace

bool ServersMayHaveChanged() {
  static bool registered = false;
  if (!registered) {
    CacheRegisterSyscacheCallback(FOREIGNSERVEROID, NoteServerChange, static_cast<Datum>(0));
    CacheRegisterSyscacheCallback(USERMAPPINGOID, NoteServerChange, static_cast<Datum>(0));
    // Whose mapping counts: see admin/lookup/used_mapping.h.
    CacheRegisterSyscacheCallback(AUTHMEMROLEMEM, NoteServerChange, static_cast<Datum>(0));
    CacheRegisterSyscacheCallback(AUTHOID, NoteServerChange, static_cast<Datum>(0));
    registered = true;
  }
  bool changed = servers_changed;
  servers_changed = false;
  return changed;
}

Relay::Relay(const RelaySelf& self, Complaints* complaints)
    : self_(self),
      complaints_(complaints),
      clock_(std::make_unique<SystemClock>()),
      installation_(clock_.get()),
      share_(self, clock_.get()),
      publisher_(self, clock_.get()),
      nothing_parked_(self.incarnation),
      engine_(std::make_unique<relay::Engine>(clock_.get(), OptionsFromSettings())),
      parked_generation_(pg_atomic_read_u64(&self.database_slot->parked_generation)) {}

Relay::~Relay() = default;

void Relay::SettingsChanged() {
  engine_->SetOptions(OptionsFromSettings());
  // Routes are read again: outbox.cloudevents_source is part of them. Sinks refuse what is above the limits they were
  // made with: if those are raised, they are made again, too.
  generation_ = 0;
}

bool Relay::stopped() const {
  return stopping_ && engine_->stopped() && given_back_.lanes.empty();
}

void Relay::BeginStop(int milliseconds) {
  stopping_ = true;
  pg::EndSharing();
  engine_->Stop(clock_->NowMicros() + milliseconds * kMilli);
}

void Relay::Look() {
  if (pg_atomic_read_u64(&self_.database_slot->config_generation) != generation_) {
    installation_.LookNow();  // the extension itself may be going
  }
  if (installation_.Look()) {
    generation_ = 0;  // another role's user mappings count now
  }
}

bool Relay::FoundUprooted() {
  if (pg::TakeMissing()) {
    installation_.LookNow();
    pg::PendingError error;
    (void)pg::Attempt([this] { Look(); }, &error);
  }
  return uprooted();
}

void Relay::Reload() {
  // Both read before the tables: a change that comes later is seen by the next turn.
  uint64_t generation = pg_atomic_read_u64(&self_.database_slot->config_generation);
  bool servers = ServersMayHaveChanged();
  // An event may have come with a change of its route, whose news comes after it, or not at all (COMMIT PREPARED).
  if (generation == generation_ && !servers && !engine_->WantsConfig()) {
    return;
  }
  generation_ = 0;  // until it has been applied
  RelayConfig config = LoadRelayConfig(installation_.owner(), &made_up_);
  ApplyDestinations(config);
  ApplyLanes(config);
  if (config.routes.size() < config_.routes.size()) {
    places_.next_at = clock_->NowMicros();
    places_.until = places_.next_at + kPlacesComeFree;
  }
  config_ = std::move(config);
  generation_ = generation;
  config_reads_++;
  share_.DueAt(0);
}

// Destinations that this worker's lanes use have a sink here; a new one is made when its first lane comes.
void Relay::ApplyDestinations(const RelayConfig& config) {
  int64_t deadline = clock_->NowMicros() + kReleaseWithin;
  SinkLimits limits = LimitsFromSettings();  // they only grow: larger events may be in the log still
  limits.max_message_bytes = std::max(limits.max_message_bytes, limits_.max_message_bytes);
  limits.max_inflight_bytes = std::max(limits.max_inflight_bytes, limits_.max_inflight_bytes);
  const bool limits_changed = !(limits == limits_);
  limits_ = limits;
  for (const auto& [id, known] : config_.destinations) {
    if (!engine_->HasDestination(id)) {
      continue;
    }
    auto destination = config.destinations.find(id);
    if (destination == config.destinations.end()) {
      engine_->RemoveDestination(id, deadline);
    } else if (limits_changed || !(destination->second == known)) {
      engine_->SetDestination(id, Factory(destination->second, limits_), deadline, MakeServerRuns(destination->second),
                              destination->second.kind->gather_micros);
    }
  }
}

void Relay::DropUnusedDestinations() {
  for (const auto& [id, known] : config_.destinations) {
    bool used = std::any_of(lanes_.begin(), lanes_.end(),
                            [id = id](const auto& lane) { return lane.second.destination == id; });
    if (!used && engine_->HasDestination(id)) {
      engine_->RemoveDestination(id, clock_->NowMicros());
    }
  }
}

void Relay::ApplyLanes(const RelayConfig& config) {
  for (auto& [id, lane] : lanes_) {
    if (lane.leaving) {
      continue;
    }
    auto route = config.routes.find(id.route_id);
    if (route == config.routes.end()) {
      LetGo(id, &lane);
      continue;
    }
    relay::DestinationId destination = config.destination_of.at(id.route_id);
    bool given_back = route->second.converging && route->second.common_snapshot.empty();
    if (destination != lane.destination || given_back || !SameReading(route->second, lane.route)) {
      LetGo(id, &lane);  // and claimed again, by this worker or another
      continue;
    }
    const sink::SinkKind* kind = config.destinations.at(destination).kind;
    if (!(route->second == lane.route) || kind != lane.kind) {
      auto spec = log::CompileRoute(route->second, *kind, id.lane);
      if (spec == nullptr) {
        LetGo(id, &lane);
        continue;
      }
      engine_->UpdateLane(id, std::move(spec));
      lane.route = route->second;
      lane.kind = kind;
    }
  }
}

// Where routes have gone, those that are counted together for want of a place may have theirs: a lane gets it when it
// is claimed. A place is free when no worker shows a lane of the route that had it, which may be a while after the
// route has gone: it is looked for each second for a minute.
void Relay::MakeUseOfPlaces() {
  const int64_t now = clock_->NowMicros();
  if (now < places_.next_at) {
    return;
  }
  places_.next_at = now < places_.until ? now + kSecond : relay::kNever;
  const std::vector<int64_t> live = RouteIds(config_);
  const int places =
      pg::Guard([&] { return metrics::FreeRouteSlots(self_.database, {.ids = live.data(), .count = live.size()}); });
  std::set<int64_t> routes;
  for (auto& [id, lane] : lanes_) {
    if (lane.leaving || metrics::HasSlot(self_.database, id.route_id, lane.destination)) {
      continue;
    }
    if (!routes.contains(id.route_id) && routes.size() >= static_cast<size_t>(places)) {
      return;
    }
    routes.insert(id.route_id);
    LetGo(id, &lane);
  }
}

void Relay::LetGo(const LaneId& id, OwnedLane* lane) {
  lane->leaving = true;
  engine_->ReleaseLane(id, clock_->NowMicros() + kReleaseWithin);
}

// Nothing is done in the owner's name before the owner is known.
bool Relay::MayLoad() const {
  return !stopping_ && installation_.owner() != 0;
}

bool Relay::MayShare() const {
  return MayLoad() && config_reads_ > 0;
}

void Relay::ShareLanes() {
  pg::BeginSharing();  // it knows the routes now: the others may give it lanes
  const log::LaneCount count = log::CountLanes();
  const int share = share_.Of(count.all);
  int owned = 0;
  for (const auto& [id, lane] : lanes_) {
    owned += lane.leaving ? 0 : 1;
  }
  // The last lanes go first: claiming starts from the lowest, so lanes settle.
  for (auto lane = lanes_.rbegin(); lane != lanes_.rend() && owned > share; ++lane) {
    if (!lane->second.leaving) {
      LetGo(lane->first, &lane->second);
      owned--;
    }
  }
  if (count.unowned == 0 || owned >= share) {
    return;
  }
  std::vector<LaneId> claimed;
  pg_atomic_write_u64(&self_.worker_slot->barrier_done, 0);  // a lane that is claimed has reached nothing yet
  log::ClaimLanes(self_.incarnation, share - owned, &claimed);
  for (const LaneId& id : claimed) {
    if (!Add(id)) {
      given_back_.lanes.push_back(id);
    }
  }
}

// Returns false if the lane cannot be worked on as it is.
bool Relay::Add(const LaneId& id) {
  auto route = config_.routes.find(id.route_id);
  if (route == config_.routes.end() || lanes_.contains(id)) {
    return false;
  }
  relay::DestinationId destination = config_.destination_of.at(id.route_id);
  const sink::SinkKind* kind = config_.destinations.at(destination).kind;
  auto spec = log::CompileRoute(route->second, *kind, id.lane);
  if (spec == nullptr) {
    return false;
  }
  if (!engine_->HasDestination(destination)) {
    const DestinationConfig& config = config_.destinations.at(destination);
    relay::PastEnds past;
    static_cast<void>(log::LoadNotedEnds(config.oid, &past));  // else a loss goes unnoticed, and nothing else
    engine_->SetDestination(destination, Factory(config, limits_), clock_->NowMicros(), MakeServerRuns(config),
                            kind->gather_micros, std::move(past));
  }
  relay::LaneLogs logs;
  logs.filter = std::make_shared<relay::LaneFilter>(spec);
  const int lanes = static_cast<int>(route->second.config.lanes);
  auto lane_log = std::make_unique<log::PgLaneLog>(id, lanes, self_.incarnation, logs.filter.get(), &windows_);
  logs.parked = std::make_unique<parked::PgParkedLog>(id, self_.incarnation, publisher_.dead_letters(),
                                                      &nothing_parked_, &erasures_);
  logs.sides = std::make_unique<log::PgSideLog>(id, lanes, self_.incarnation, lane_log.get(), &erasures_);
  logs.log = std::move(lane_log);
  logs.figures = FiguresOf(self_.database, id.route_id, destination, config_);
  OwnedLane lane;
  lane.route = route->second;
  lane.destination = destination;
  lane.kind = kind;
  if (!engine_->AddLane(id, spec, std::move(logs), destination)) {
    return false;
  }
  lanes_.emplace(id, std::move(lane));
  return true;
}

// Lanes that left the engine are given back in the table, unless they have another owner already (ReleaseLanes looks).
void Relay::TakeGone() {
  std::vector<relay::GoneLane> gone_lanes;
  engine_->TakeGone(&gone_lanes);
  given_back_.told = given_back_.told && gone_lanes.empty();
  given_back_.next_at = gone_lanes.empty() ? given_back_.next_at : 0;
  for (const relay::GoneLane& gone : gone_lanes) {
    lanes_.erase(gone.id);
    if (gone.reason == relay::GoneReason::kLost) {
      installation_.Doubt();
    }
    if (gone.reason == relay::GoneReason::kUnclean) {
      given_back_.unanswered.insert(gone.id);
    }
    // A lost one, too: it may be this worker's still, put somewhere else while it forked.
    given_back_.lanes.push_back(gone.id);
  }
  if (!gone_lanes.empty()) {
    drop_unused_at_ = clock_->NowMicros() + kUnused;
    // Whoever sees a lane come back knows that it was away, and that what is new about it says nothing of its trouble.
    publishing_.changed = true;
    publishing_.at = 0;
  }
  if (clock_->NowMicros() >= drop_unused_at_) {
    drop_unused_at_ = relay::kNever;
    DropUnusedDestinations();
  }
}

// A lane whose row is locked does not keep the others.
void Relay::GiveBack() {
  std::vector<LaneId>& lanes = given_back_.lanes;
  const size_t before = lanes.size();
  std::erase_if(lanes,
                [&](const LaneId& id) { return lanes_.contains(id); });  // lost, and claimed anew before its turn
  const bool free = log::ReleaseLanes(self_.incarnation, &lanes, given_back_.unanswered);
  if (lanes.empty()) {
    given_back_.unanswered.clear();
  }
  given_back_.next_at = free ? 0 : clock_->NowMicros() + kHeldPause;
  // What could not be worked on is not offered again at once: two workers would hand it to and fro.
  if (lanes.size() < before && !given_back_.told) {
    given_back_.told = lanes.empty();
    pg::NoteLanesFreed();
  }
}

// What is shown goes through all lanes. Where they are thousands, no more than an eighth of the time is for that; and
// where commits go by that are nothing for them, no lane is shown anew for each.
void Relay::Publish() {
  const int64_t began = clock_->NowMicros();
  publishing_.changed |= engine_->TakeChanged() || pg_atomic_read_u64(&self_.worker_slot->barrier_done) <
                                                       pg_atomic_read_u64(&self_.database_slot->barrier);
  if (began < (publishing_.changed ? publishing_.at : publishing_.for_reading_at) && !stopping_) {
    return;
  }
  publishing_.changed = false;
  if (!publisher_.Publish({.engine = *engine_,
                           .lanes = lanes_,
                           .config = config_,
                           .generation = generation_,
                           .lanes_everywhere = share_.all(),
                           .stopping = stopping_,
                           .all_given_back = given_back_.lanes.empty()})) {
    installation_.Doubt();
  }
  const int64_t ended = clock_->NowMicros();
  publishing_.at = ended + 7 * (ended - began);
  publishing_.for_reading_at = std::max(publishing_.at, began + kShowReadingEvery);
  publishing_.done = true;
}

// That of one stands for all, of the one that is nearest to the claim of a lane: it is shown as what lanes wait for.
void Relay::ShowTrouble() {
  complaints_->SayEnds();
  const Error* shown = nullptr;
  for (const Chore* chore : {&chores_.balance, &chores_.reload, &chores_.look, &chores_.give_back}) {
    shown = shown == nullptr && !chore->trouble().ok() ? &chore->trouble() : shown;
  }
  pg::Guard([shown] { pg::ShowWorkerTrouble(shown); });
}

void Relay::PlanWait(int64_t deadline) {
  wait_.specs.clear();
  engine_->AppendWaits(&wait_.specs);
  wait_.descriptors.clear();
  for (const sink::WaitSpec& wait : wait_.specs) {
    uint32 events = (wait.read ? WL_SOCKET_READABLE : 0) | (wait.write ? WL_SOCKET_WRITEABLE : 0);
    if (wait.fd >= 0 && events != 0) {
      wait_.descriptors.push_back({wait.fd, events});
    }
    if (wait.deadline >= 0) {
      deadline = std::min(deadline, wait.deadline);
    }
  }
  deadline = publishing_.done
                 ? deadline
                 : std::min(deadline, publishing_.changed ? publishing_.at + kShowWithin : publishing_.for_reading_at);
  // What is not called in the next turn is nothing to wait for.
  const auto wait_for = [&deadline](const Chore& chore, bool called, int64_t at) {
    deadline = called ? std::min(deadline, std::max(chore.not_before(), at)) : deadline;
  };
  wait_for(chores_.look, !chores_.look.trouble().ok(), 0);
  wait_for(chores_.reload, MayLoad() && !chores_.reload.trouble().ok(), 0);
  wait_for(chores_.balance, MayShare(), share_.next());
  wait_for(chores_.give_back, !given_back_.lanes.empty(), given_back_.next_at);
  int64_t now = clock_->NowMicros();
  int64_t longest = now + kLongestWaitMs * kMilli;
  deadline = std::clamp(deadline, now, longest);
  wait_.timeout_ms = static_cast<long>((deadline - now + kMilli - 1) / kMilli);
}

// Undelivered events were erased, some of which may be in memory, here or in a sink: that can last as long as an
// outage. The lanes are let go and claimed again, and what is erased is not read again.
void Relay::PutDown() {
  if (!erasures_.TakeNew()) {
    return;
  }
  windows_.ForgetAhead();
  std::vector<relay::LaneStatus> statuses;
  engine_->Lanes(&statuses);
  for (const relay::LaneStatus& status : statuses) {
    // What is due later does not wait.
    const bool holds = status.waiting > 0 || !status.caught_up || status.state != LaneState::kIdle;
    if (auto found = lanes_.find({status.id.route_id, status.id.lane});
        holds && found != lanes_.end() && !found->second.leaving) {
      LetGo(found->first, &found->second);
    }
  }
}

bool Relay::Interrupted(LaneId* lane, const char** route) const {
  const LaneId* id = engine_->Interrupted();
  const auto owned = id == nullptr ? lanes_.end() : lanes_.find({id->route_id, id->lane});
  if (owned == lanes_.end()) {
    return false;
  }
  *lane = *id;
  *route = owned->second.route.name.c_str();
  return true;
}

void Relay::Turn() {
  wait_.timeout_ms = 0;
  wait_.descriptors.clear();
  const auto attempt = [this](Chore* chore, void (Relay::*part)()) {
    chore->Do(clock_.get(), complaints_, [&] { (this->*part)(); });
  };
  const uint64_t generation = pg_atomic_read_u64(&self_.database_slot->config_generation);
  attempt(&chores_.look, &Relay::Look);
  if (uprooted()) {
    return;
  }
  if (MayLoad()) {
    attempt(&chores_.reload, &Relay::Reload);
    MakeUseOfPlaces();
    PutDown();
  }
  if (MayShare() && chores_.balance.MayTry(clock_.get()) && share_.Due()) {
    attempt(&chores_.balance, &Relay::ShareLanes);
  }
  relay::TurnInput input;
  input.barrier = pg_atomic_read_u64(&self_.database_slot->barrier);
  const uint64_t parked = pg_atomic_read_u64(&self_.database_slot->parked_generation);
  input.parked = parked != parked_generation_;
  input.config_reads = config_reads_;
  input.config_changed = [slot = self_.database_slot, generation] {
    return pg_atomic_read_u64(&slot->config_generation) != generation;
  };
  // Cleared before the log is read, with a full barrier: a commit that comes too late for this turn sets it again.
  input.woken = pg_atomic_exchange_u32(&self_.worker_slot->pending, 0) != 0;
  windows_.BeginTurn();
  nothing_parked_.Forget();
  int64_t deadline = engine_->Turn(input);
  parked_generation_ = parked;
  TakeGone();
  if (!given_back_.lanes.empty() && clock_->NowMicros() >= given_back_.next_at) {
    attempt(&chores_.give_back, &Relay::GiveBack);
  }
  if (FoundUprooted()) {
    return;
  }
  ShowTrouble();
  publishing_.done = false;
  Publish();
  metrics::NoteTurn(input.woken);
  PlanWait(deadline);
}

}  // namespace outbox::worker
