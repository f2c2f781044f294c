// What a relay worker shows of itself [P]: lanes, side lanes and destinations in shared memory, a phrase in
// pg_stat_activity.
#include "worker/relay.h"

namespace outbox::worker {

namespace {

constexpr int64_t kWriteEvery = 250'000;  // microseconds; shared memory, without a change of state

}  // namespace

void Relay::Publish() {
  int64_t now = clock_->NowMicros();
  engine_->Lanes(&statuses_);
  for (const relay::LaneStatus& status : statuses_) {
    if (status.id.side != 0) {
      PublishSide(status, now);
      continue;
    }
    auto found = lanes_.find(status.id);
    if (found == lanes_.end()) {
      continue;
    }
    HeldLane& lane = found->second;
    troubled_ = troubled_ || (status.error != nullptr && status.error->error_class == ErrorClass::kInternal);
    bool changed = lane.state != status.state || lane.barrier != status.barrier_done;
    if (lane.slot != nullptr && (changed || now - lane.written_at >= kWriteEvery)) {
      WriteLaneSlot(lane.slot, incarnation_, status);
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
  Describe(statuses_);
}

void Relay::PublishSide(const relay::LaneStatus& status, int64_t now) {
  auto [shown, made] = sides_.try_emplace(status.id);
  ShownSide& side = shown->second;
  if (made) {
    side.slot = TakeLaneSlot(database_, status.id, incarnation_);
  }
  side.seen = true;
  if (side.slot != nullptr && (made || side.state != status.state || now - side.written_at >= kWriteEvery)) {
    WriteLaneSlot(side.slot, incarnation_, status);
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
    if (shown.slot != nullptr && (made || shown.state != status.state || now - shown.written_at >= kWriteEvery)) {
      WriteDestinationSlot(shown.slot, incarnation_, status);
      shown.state = status.state;
      shown.written_at = now;
    }
  }
}

void Relay::Describe(const std::vector<relay::LaneStatus>& lanes) {
  const relay::LaneStatus* shown = nullptr;
  bool down = false;
  for (const relay::LaneStatus& status : lanes) {
    auto held = lanes_.find(status.id);
    if (held == lanes_.end()) {
      continue;
    }
    const sink::Health* health = engine_->DestinationHealth(held->second.destination);
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
    const HeldLane& lane = lanes_.at({shown->id.route_id, shown->id.lane});
    activity_ = (down ? "waiting for " : "publishing to ") + lane.route.server;
  } else {
    activity_ = "idle";
  }
}

}  // namespace outbox::worker
