// What a relay worker publishes about itself [P]: lanes, side lanes and destinations in shared memory, a phrase in
// pg_stat_activity.
#include <cstring>
#include <utility>

#include "pg/guard.h"
#include "pg/worker_slot.h"
#include "worker/relay.h"

namespace outbox::worker {

namespace {

// Microseconds.
constexpr int64_t kWriteEvery = 250'000;  // shared memory, without a change of state
constexpr int64_t kTroubleLasts = 1'000'000;
constexpr int64_t kComplainEvery = 60'000'000;

// A fault that should not happen was repaired: an operator should know of it.
void WarnOfRenewal(const char* server, const char* message) {
  pg::Guard([=] {
    ereport(WARNING, (errcode(ERRCODE_INTERNAL_ERROR), errmsg("outbox: a sink of server \"%s\" lost records", server),
                      errdetail("In its own words: %s.", message),
                      errhint("Nothing is lost: they are sent again, and some may arrive twice. This is a bug in the "
                              "sink or its client library; please report it.")));
  });
}

}  // namespace

void Relay::Publish() {
  int64_t now = clock_->NowMicros();
  engine_->Lanes(&statuses_);
  for (const relay::LaneStatus& status : statuses_) {
    auto found = lanes_.find({status.id.route_id, status.id.lane});
    if (found != lanes_.end()) {
      incidents_.SeeLane(status, found->second.route.name, now);
    }
    if (status.id.side != 0) {
      PublishSide(status, now);
      continue;
    }
    if (found == lanes_.end()) {
      continue;
    }
    OwnedLane& lane = found->second;
    if (status.error != nullptr && status.error->error_class == ErrorClass::kInternal) {
      troubled_ = true;
      ComplainOf(lane, status);
    }
    bool changed = lane.state != status.state || lane.barrier != status.barrier_done;
    if (lane.slot != nullptr && (changed || now - lane.written_at >= kWriteEvery)) {
      WriteLaneSlot(lane.slot, incarnation_, status, status.barrier_done);
      lane.state = status.state;
      lane.barrier = status.barrier_done;
      lane.written_at = now;
    }
  }
  for (auto side = sides_.begin(); side != sides_.end();) {
    if (!side->second.seen && side->second.slot != nullptr) {
      FreeLaneSlot(side->second.slot, incarnation_);
    }
    if (side->second.seen) {
      side->second.seen = false;
      ++side;
    } else {
      side = sides_.erase(side);
    }
  }
  PublishDestinations(now);
  incidents_.EndTurn(now);
  ReportDeadLetters(now);
  Describe(statuses_);
}

void Relay::ReportDeadLetters(int64_t now) {
  if (dead_letters_.of_route.empty()) {
    return;
  }
  for (const auto& [id, route] : config_.routes) {
    incidents_.SeeDeadLetters(&dead_letters_, id, route.name, now);
  }
}

// Publishes which barrier all lanes have reached, and whether this process could leave without anything undone. A lane
// that waits for its destination or for an operator is no reason to stay.
void Relay::PublishBarrier() {
  uint64_t done = UINT64_MAX;
  size_t reached = 0;
  bool quiet = !stopping_ && given_back_.empty();
  for (const relay::LaneStatus& status : statuses_) {
    if (status.id.side != 0) {
      quiet = quiet && status.inflight_count == 0;
      continue;
    }
    auto owned = lanes_.find(status.id);
    if (owned == lanes_.end() || owned->second.leaving) {
      quiet = false;
      continue;
    }
    reached++;
    done = std::min(done, status.barrier_done);
    const bool waits = strcmp(status.state, "idle") == 0 || strcmp(status.state, "paused") == 0 ||
                       (status.error != nullptr && strcmp(status.state, "backing off") == 0);
    quiet = quiet && waits && status.inflight_count == 0 && status.retrying_count == 0;
  }
  const uint64_t asked = pg_atomic_read_u64(&database_slot_->barrier);
  const bool current = generation_ != 0 && generation_ == pg_atomic_read_u64(&database_slot_->config_generation);
  const bool all = current && reached == lanes_.size() && static_cast<int>(reached) == lanes_everywhere_;
  done = reached == 0 ? 0 : done;
  pg_atomic_write_u64(&worker_slot_->barrier_done, reached == lanes_.size() ? done : 0);
  if (all && done > pg_atomic_read_u64(&database_slot_->barrier_done)) {
    pg_atomic_write_u64(&database_slot_->barrier_done, done);
  }
  bool caught_up = true;
  for (const relay::LaneStatus& status : statuses_) {
    caught_up = caught_up && (status.id.side != 0 || status.barrier_done >= asked || strcmp(status.state, "idle") != 0);
  }
  pg::SetQuiet(quiet && current && caught_up && !statuses_.empty() && pg_atomic_read_u32(&worker_slot_->pending) == 0);
}

// Trouble with tables is the server's own: it is also written to the server log, once a minute.
void Relay::ComplainOf(const OwnedLane& lane, const relay::LaneStatus& status) {
  const int64_t now = clock_->NowMicros();
  const bool lasts = clock_->WallMicros() - status.error_since_unix >= kTroubleLasts;
  const bool said = complained_code_ == status.error->code && now - complained_at_ < kComplainEvery;
  if (!lasts || said) {
    return;
  }
  complained_at_ = now;
  complained_code_ = status.error->code;
  const char* route = lane.route.name.c_str();
  const char* code = complained_code_.c_str();
  const char* message = status.error->message.c_str();
  const int number = status.id.lane;
  pg::Guard([=] {
    ereport(LOG, (errmsg("outbox: lane %d of route \"%s\" has trouble with its tables: %s", number, route, message),
                  errdetail("The error is %s. It is tried again by itself; nothing is lost meanwhile.", code),
                  errhint("See outbox.lag.")));
  });
}

void Relay::PublishSide(const relay::LaneStatus& status, int64_t now) {
  auto [shown, made] = sides_.try_emplace(status.id);
  ShownSide& side = shown->second;
  if (made) {
    side.slot = TakeLaneSlot(database_, status.id, incarnation_);
  }
  side.seen = true;
  if (side.slot != nullptr && (made || side.state != status.state || now - side.written_at >= kWriteEvery)) {
    WriteLaneSlot(side.slot, incarnation_, status, status.barrier_done);
    side.state = status.state;
    side.written_at = now;
  }
}

void Relay::PublishDestinations(int64_t now) {
  engine_->Destinations(&destinations_);
  for (auto shown = shown_.begin(); shown != shown_.end();) {
    if (engine_->HasDestination(shown->first)) {
      ++shown;
      continue;
    }
    if (shown->second.slot != nullptr) {
      FreeDestinationSlot(shown->second.slot, incarnation_);
    }
    shown = shown_.erase(shown);
  }
  for (const relay::DestinationStatus& status : destinations_) {
    auto known = config_.destinations.find(status.id);
    auto [place, made] = shown_.try_emplace(status.id);
    ShownDestination& shown = place->second;
    if (made && known != config_.destinations.end()) {
      shown.slot = TakeDestinationSlot(database_, status.id, known->second.name.c_str(), incarnation_);
    }
    if (status.renewals != std::exchange(shown.renewals, status.renewals) && status.warning != nullptr &&
        known != config_.destinations.end()) {
      WarnOfRenewal(known->second.name.c_str(), status.warning->message.c_str());
    }
    if (shown.slot != nullptr && (made || shown.state != status.state || now - shown.written_at >= kWriteEvery)) {
      WriteDestinationSlot(shown.slot, incarnation_, status);
      shown.state = status.state;
      shown.written_at = now;
    }
    if (known != config_.destinations.end()) {
      incidents_.SeeDestination(status, known->second.name, shown.slot, now);
      if (const sink::Health* health = engine_->DestinationHealth(status.id); health != nullptr) {
        incidents_.SeeWarning(health->warning, known->second.name, shown.slot);
      }
    }
  }
}

void Relay::Describe(const std::vector<relay::LaneStatus>& lanes) {
  const relay::LaneStatus* shown = nullptr;
  bool down = false;
  for (const relay::LaneStatus& status : lanes) {
    auto owned = lanes_.find(status.id);
    if (owned == lanes_.end()) {
      continue;
    }
    const sink::Health* health = engine_->DestinationHealth(owned->second.destination);
    bool lane_down = health != nullptr && !health->up;
    if ((status.inflight_count > 0 || lane_down) && (shown == nullptr || (lane_down && !down))) {
      shown = &status;
      down = lane_down;
    }
  }
  busy_ = shown != nullptr || stopping_;
  if (stopping_) {
    activity_ = "stopping";
  } else if (shown != nullptr) {
    const OwnedLane& lane = lanes_.at({shown->id.route_id, shown->id.lane});
    activity_ = (down ? "waiting for " : "publishing to ") + lane.route.server;
  } else {
    activity_ = "idle";
  }
}

}  // namespace outbox::worker
