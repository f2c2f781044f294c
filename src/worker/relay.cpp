#include "worker/relay.h"

#include <time.h>

#include <algorithm>

#include "base/monotonic.h"
#include "log/lane_log.h"
#include "log/side_log.h"
#include "parked/parked_log.h"
#include "pg/identity.h"
#include "pg/settings.h"
#include "pg/transaction.h"
#include "pg/wall.h"
#include "worker/process.h"

extern "C" {
#include "utils/inval.h"
}

namespace outbox::worker {

namespace {

constexpr int64_t kMilli = 1000;
constexpr int64_t kSecond = 1000 * kMilli;
constexpr int64_t kInstallationEvery = 5 * kSecond;
constexpr int64_t kInstallationTroubled = kSecond / 4;
constexpr int64_t kBalanceEvery = kSecond;
constexpr int64_t kSettle = 3 * kSecond;         // a worker that died is given this long to come back
constexpr int64_t kReleaseWithin = 5 * kSecond;  // for lanes and destinations in normal running
constexpr int64_t kUnused = 2 * kSecond;         // a lane may be given back only to be claimed again
constexpr long kLongestWaitMs = 1000;

class SystemClock final : public relay::Clock {
 public:
  SystemClock() {
    uint64_t seed = 0;
    (void)!pg_strong_random(&seed, sizeof(seed));
    state_ = seed | 1;
  }
  int64_t NowMicros() override { return MonotonicMicros(); }
  int64_t WallMicros() override { return pg::BelievedWall(); }
  uint64_t Random() override {  // xorshift64*; jitter only
    state_ ^= state_ >> 12;
    state_ ^= state_ << 25;
    state_ ^= state_ >> 27;
    return state_ * 2685821657736338717ULL;
  }

 private:
  uint64_t state_;
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

volatile bool servers_changed = true;

#if PG_VERSION_NUM >= 190000
using CacheNumber = SysCacheIdentifier;
#else
using CacheNumber = int;
#endif

void NoteServerChange(Datum, CacheNumber, uint32) {
  servers_changed = true;
}

}  // namespace

bool ServersMayHaveChanged() {
  static bool registered = false;
  if (!registered) {
    CacheRegisterSyscacheCallback(FOREIGNSERVEROID, NoteServerChange, static_cast<Datum>(0));
    CacheRegisterSyscacheCallback(USERMAPPINGOID, NoteServerChange, static_cast<Datum>(0));
    registered = true;
  }
  bool changed = servers_changed;
  servers_changed = false;
  return changed;
}

Relay::Relay(Oid database, pg::DatabaseSlot* database_slot, pg::WorkerSlot* worker_slot)
    : database_(database),
      database_slot_(database_slot),
      worker_slot_(worker_slot),
      incarnation_(worker_slot->incarnation),
      clock_(std::make_unique<SystemClock>()),
      engine_(std::make_unique<relay::Engine>(clock_.get(), OptionsFromSettings())),
      parked_generation_(pg_atomic_read_u64(&database_slot->parked_generation)) {}

Relay::~Relay() = default;

void Relay::SettingsChanged() {
  engine_->SetOptions(OptionsFromSettings());
  const SinkLimits limits = LimitsFromSettings();
  if (limits.max_message_bytes > limits_.max_message_bytes || limits.max_inflight_bytes > limits_.max_inflight_bytes) {
    generation_ = 0;  // sinks refuse what is above the limits they were made with: they are recreated
  }
}

bool Relay::stopped() const {
  return stopping_ && engine_->stopped() && given_back_.empty();
}

void Relay::BeginStop(int milliseconds) {
  stopping_ = true;
  engine_->Stop(clock_->NowMicros() + milliseconds * kMilli);
}

template <typename Work>
bool Relay::Do(Chore* chore, Work&& work) {
  if (clock_->NowMicros() < chore->next_try) {
    return false;
  }
  try {
    work();
  } catch (const pg::PgError&) {
    trouble_ = trouble_ ? trouble_ : std::current_exception();
    chore->next_try = clock_->NowMicros() + chore->backoff.Next(clock_->Random());
    return false;
  }
  chore->backoff.Reset();
  chore->next_try = 0;
  return true;
}

void Relay::ThrowTrouble() {
  if (trouble_) {
    std::rethrow_exception(trouble_);
  }
}

// Finds out whether the extension is installed and belongs to this server.
void Relay::CheckInstallation() {
  int64_t now = clock_->NowMicros();
  if (now < next_installation_check_ &&
      !(troubled_ && now >= next_installation_check_ - kInstallationEvery + kInstallationTroubled)) {
    return;
  }
  troubled_ = false;
  pg::Installation installation;
  // Not as the owner known so far: that role may not own the extension any more, or may be gone.
  pg::SetTransactionRole(InvalidOid);
  try {
    pg::InTransaction(CurrentMemoryContext, [&] { installation = pg::FindInstallation(); });
  } catch (...) {
    pg::SetTransactionRole(owner_);
    throw;
  }
  next_installation_check_ = now + kInstallationEvery;
  uprooted_ = installation.presence != pg::Presence::kHere;
  if (owner_ != installation.owner) {
    generation_ = 0;  // another role's user mappings count now
  }
  owner_ = installation.owner;
  pg::SetTransactionRole(installation.owner);
}

void Relay::Reload() {
  // Both read before the tables: a change that comes later is seen by the next turn.
  uint64_t generation = pg_atomic_read_u64(&database_slot_->config_generation);
  bool servers = ServersMayHaveChanged();
  if (generation == generation_ && !servers) {
    return;
  }
  generation_ = 0;  // until it has been applied
  RelayConfig config = LoadRelayConfig(owner_, &made_up_);
  ApplyDestinations(config);
  ApplyLanes(config);
  config_ = std::move(config);
  generation_ = generation;
  next_balance_ = 0;
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
      engine_->SetDestination(id, Factory(destination->second, limits_), deadline, MakeServerRuns(destination->second));
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
      std::string problem;
      auto spec = log::CompileRoute(route->second, *kind, id.lane, &problem);
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

void Relay::LetGo(const LaneId& id, OwnedLane* lane) {
  lane->leaving = true;
  engine_->ReleaseLane(id, clock_->NowMicros() + kReleaseWithin);
}

// How many lanes this worker should own. While a worker that died may be about to come back, its share is left free.
int Relay::FairShare(int all) {
  int64_t now = clock_->NowMicros();
  int running = pg::CountRunningRelays(database_);
  if (running != workers_) {
    workers_ = running;
    workers_since_ = now;
  }
  int expected = std::min({pg::settings.workers, database_slot_->relays_allowed, all});
  int sharers = now - workers_since_ < kSettle ? std::max(running, expected) : running;
  sharers = std::max(sharers, 1);
  return (all + sharers - 1) / sharers;
}

void Relay::Rebalance() {
  int64_t now = clock_->NowMicros();
  bool workers_changed = pg::CountRunningRelays(database_) != workers_;
  if (stopping_ || (now < next_balance_ && !workers_changed)) {
    return;
  }
  next_balance_ = now + kBalanceEvery;
  if (workers_changed) {
    workers_since_ = now;
    workers_ = pg::CountRunningRelays(database_);
  }
  log::LaneCount count = log::CountLanes();
  lanes_everywhere_ = count.all;
  int share = FairShare(count.all);
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
  pg_atomic_write_u64(&worker_slot_->barrier_done, 0);  // a lane that is claimed has reached nothing yet
  log::ClaimLanes(incarnation_, share - owned, &claimed);
  for (const LaneId& id : claimed) {
    if (!Add(id)) {
      given_back_.push_back(id);
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
  std::string problem;
  const sink::SinkKind* kind = config_.destinations.at(destination).kind;
  auto spec = log::CompileRoute(route->second, *kind, id.lane, &problem);
  if (spec == nullptr) {
    return false;
  }
  if (!engine_->HasDestination(destination)) {
    const DestinationConfig& config = config_.destinations.at(destination);
    engine_->SetDestination(destination, Factory(config, limits_), clock_->NowMicros(), MakeServerRuns(config));
  }
  relay::LaneLogs logs;
  logs.filter = std::make_shared<relay::LaneFilter>(spec);
  logs.log = std::make_unique<log::PgLaneLog>(id, static_cast<int>(route->second.config.lanes), incarnation_,
                                              logs.filter.get());
  logs.parked = std::make_unique<parked::PgParkedLog>(id, incarnation_, &dead_letters_);
  logs.sides = std::make_unique<log::PgSideLog>(id, static_cast<int>(route->second.config.lanes), incarnation_);
  OwnedLane lane;
  lane.route = route->second;
  lane.destination = destination;
  lane.kind = kind;
  if (!engine_->AddLane(id, spec, std::move(logs), destination)) {
    return false;
  }
  lane.slot = TakeLaneSlot(database_, id, incarnation_);
  lanes_.emplace(id, std::move(lane));
  return true;
}

// Lanes that left the engine are given back in the table, unless they have another owner already.
void Relay::TakeGone() {
  engine_->TakeGone(&gone_);
  for (const relay::GoneLane& gone : gone_) {
    LaneId id = gone.id;
    auto lane = lanes_.find(id);
    if (lane != lanes_.end()) {
      if (lane->second.slot != nullptr) {
        FreeLaneSlot(lane->second.slot, incarnation_);
      }
      lanes_.erase(lane);
    }
    if (gone.reason == relay::GoneReason::kLost) {
      troubled_ = true;
    } else {
      given_back_.push_back(id);
    }
  }
  if (!gone_.empty()) {
    drop_unused_at_ = clock_->NowMicros() + kUnused;
  }
  if (clock_->NowMicros() >= drop_unused_at_) {
    drop_unused_at_ = relay::kNever;
    DropUnusedDestinations();
  }
}

// A lane whose row is locked does not keep the others.
void Relay::GiveBack() {
  std::exception_ptr first;
  const size_t before = given_back_.size();
  std::erase_if(given_back_, [&](const LaneId& id) {
    try {
      (void)log::ReleaseLane(id, incarnation_);
      return true;
    } catch (const pg::PgError&) {
      first = first ? first : std::current_exception();
      return false;
    }
  });
  if (given_back_.size() < before && !stopping_) {
    next_balance_ = std::min(next_balance_, clock_->NowMicros() + 100 * kMilli);
  }
  if (first) {
    std::rethrow_exception(first);
  }
}

void Relay::PlanWait(int64_t deadline) {
  waits_.clear();
  engine_->AppendWaits(&waits_);
  descriptors_.clear();
  for (const sink::WaitSpec& wait : waits_) {
    uint32 events = (wait.read ? WL_SOCKET_READABLE : 0) | (wait.write ? WL_SOCKET_WRITEABLE : 0);
    if (wait.fd >= 0 && events != 0) {
      descriptors_.push_back({wait.fd, events});
    }
    if (wait.deadline >= 0) {
      deadline = std::min(deadline, wait.deadline);
    }
  }
  for (const Chore* chore : {&installation_, &reload_, &balance_, &give_back_}) {
    if (chore->next_try != 0) {
      deadline = std::min(deadline, chore->next_try);
    }
  }
  int64_t now = clock_->NowMicros();
  int64_t longest = now + kLongestWaitMs * kMilli;
  deadline = std::clamp(deadline, now, longest);
  timeout_ms_ = static_cast<long>((deadline - now + kMilli - 1) / kMilli);
}

void Relay::Turn() {
  timeout_ms_ = 0;
  descriptors_.clear();
  trouble_ = nullptr;
  if (pg_atomic_read_u64(&database_slot_->config_generation) != generation_) {
    next_installation_check_ = 0;  // the extension itself may be going
  }
  Do(&installation_, [&] { CheckInstallation(); });
  if (uprooted_) {
    return;
  }
  // Nothing is done in the owner's name before the owner is known.
  if (!stopping_ && owner_ != 0) {
    Do(&reload_, [&] { Reload(); });
    Do(&balance_, [&] { Rebalance(); });
  }
  relay::TurnInput input;
  input.barrier = pg_atomic_read_u64(&database_slot_->barrier);
  const uint64_t parked = pg_atomic_read_u64(&database_slot_->parked_generation);
  input.parked = parked != parked_generation_;
  // Cleared before the log is read, with a full barrier: a commit that comes too late for this turn sets it again.
  input.woken = pg_atomic_exchange_u32(&worker_slot_->pending, 0) != 0;
  int64_t deadline = engine_->Turn(input);
  parked_generation_ = parked;
  TakeGone();
  if (!given_back_.empty()) {
    Do(&give_back_, [&] { GiveBack(); });
  }
  Publish();
  PublishBarrier();
  PlanWait(deadline);
}

}  // namespace outbox::worker
