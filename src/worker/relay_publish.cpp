#include "worker/relay_publish.h"

#include <algorithm>
#include <utility>

#include "base/fault_point.h"
#include "base/monotonic.h"
#include "pg/guard.h"
#include "pg/log_line.h"
#include "pg/trouble_hints.h"
#include "pg/worker_slot.h"
#include "relay/common/call_retry.h"
#include "worker/lane_board.h"

namespace outbox::worker {

namespace {

// Microseconds.
constexpr int64_t kAskEvery = 1'000'000;  // for a place, where there was none
constexpr int64_t kWriteEvery = 250'000;  // shared memory, without a change of state
constexpr int64_t kWellAfterStart = 60'000'000;

// `now` as far as it is more than what was counted.
void CountMore(int64_t now, int64_t* counted, Counter* counter) {
  const int64_t before = std::exchange(*counted, now);
  if (now > before) {
    Count(counter, static_cast<uint64_t>(now - before));
  }
}

// A fault that should not happen was repaired: an operator should know of it.
void WarnOfRenewal(const char* server, const char* message) {
  pg::Guard([=] {
    ereport(WARNING, (errcode(ERRCODE_INTERNAL_ERROR), errmsg("outbox: a sink of server \"%s\" lost records", server),
                      errdetail("In its own words: %s.", message),
                      errhint("Nothing is lost: they are sent again, and some may arrive twice. This is a bug in the "
                              "sink or its client library; please report it."),
                      pg::LogEvent("sink_renewed", {{"destination", server}})));
  });
}

}  // namespace

bool RelayPublisher::Publish(const RelayState& state) {
  const int64_t now = clock_->NowMicros();
  bool well = true;
  bool followed = false;  // the lane that stands for those in trouble with their tables is still here
  state.engine.Lanes(&lane_statuses_);
  owned_.clear();
  without_slot_.clear();
  for (const relay::LaneStatus& status : lane_statuses_) {
    auto found = state.lanes.find({status.id.route_id, status.id.lane});
    const OwnedLane* owned = found == state.lanes.end() ? nullptr : &found->second;
    owned_.push_back(owned);
    if (owned == nullptr) {
      continue;
    }
    incidents_.SeeLane(status, owned->route, now);
    if (status.id.side == 0 && status.error != nullptr && status.error->error_class == ErrorClass::kInternal &&
        !status.of_destination) {
      well = false;
      ComplainOf(*owned, status);
    }
    followed = followed || (status.id == complaint_.lane && !owned->leaving);
    auto shown = lanes_.find(status.id);
    if (shown == lanes_.end() || (shown->second.slot == nullptr && now - shown->second.asked_at >= kAskEvery)) {
      without_slot_.push_back(&status);
    } else {
      ShowLane(status, now, &shown->second);
    }
  }
  TakeLanePlaces(now);
  FollowComplaint(well, followed, now);
  FreeLanesThatLeft();
  ShowDestinations(state, now);
  incidents_.EndTurn(state.config.routes, now);
  ReportDeadLetters(state.config, now);
  Describe(state);
  ShowBarrier(state);
  return well;
}

// A worker comes to many at once: all take their slots together. Where there were too few, others may have left theirs
// since: it is asked again.
void RelayPublisher::TakeLanePlaces(int64_t now) {
  if (without_slot_.empty()) {
    return;
  }
  std::sort(without_slot_.begin(), without_slot_.end(), [](const auto* a, const auto* b) { return a->id < b->id; });
  taken_.clear();
  for (const relay::LaneStatus* status : without_slot_) {
    taken_.push_back({status->id});
  }
  TakeLaneSlots(self_.database, self_.incarnation, taken_);
  for (size_t i = 0; i < without_slot_.size(); ++i) {
    ShownLane& lane = lanes_[without_slot_[i]->id];
    lane.slot = taken_[i].slot;
    lane.asked_at = now;
    lane.written_at = lane.slot != nullptr ? 0 : lane.written_at;  // nothing stands there yet
    ShowLane(*without_slot_[i], now, &lane);
  }
}

void RelayPublisher::ShowLane(const relay::LaneStatus& status, int64_t now, ShownLane* shown) {
  ShownLane& lane = *shown;
  const bool made = lane.written_at == 0;
  lane.seen = true;
  // The barrier of a side lane is shown with its lane.
  const bool passed = status.id.side == 0 && lane.barrier != status.barrier_done;
  // A reader that finds the server here, and no figures of it or of the route, takes it that they were asked for.
  const uint32_t server = destinations_.contains(status.server) ? status.server : 0;
  const bool changed = made || passed || lane.state != status.state || lane.server != server;
  if (!changed && now - lane.written_at < kWriteEvery) {
    return;
  }
  lane.state = status.state;
  lane.server = server;
  lane.barrier = status.barrier_done;
  lane.written_at = now;
  FollowBacklog(status, clock_->WallMicros(), &lane);
  FollowParked(status, clock_->WallMicros(), &lane);
  if (lane.slot != nullptr) {
    LaneView view = status;
    view.behind_since = lane.behind_since;
    view.server = server;
    WriteLaneSlot(lane.slot, self_.incarnation, view, status.barrier_done);
  }
}

void RelayPublisher::FollowBacklog(const relay::LaneStatus& status, int64_t wall, ShownLane* lane) const {
  const bool over = status.caught_up && (status.waiting == 0 || status.passed >= lane->behind_to);
  if (over || lane->behind_since == 0) {
    lane->behind_since = status.caught_up && status.waiting == 0 ? 0 : wall;
    lane->behind_to = status.read;
    lane->backlog = false;
  }
  if (lane->behind_since == 0) {
    return;
  }
  if (!status.caught_up) {
    lane->behind_to = status.read;
  }
  Drain* drain = status.figures == nullptr ? nullptr : &status.figures->drain;
  // A lane that stands (paused, in trouble) is not caught up, and may have nothing behind it for long.
  if (!lane->backlog && status.waiting > 0) {
    lane->backlog = true;
    lane->behind_since = std::max(lane->behind_since, std::min(status.oldest, wall));
    lane->delivered_then = drain == nullptr ? 0 : ValueOf(drain->delivered);
  }
  if (drain != nullptr && lane->backlog && wall - lane->behind_since >= Drain::kLasts) {
    drain->Note(wall, lane->behind_since, lane->delivered_then);
  }
}

// A parked backlog that was let go is a drain like one of the log, which such a lane has read and is well with.
void RelayPublisher::FollowParked(const relay::LaneStatus& status, int64_t wall, ShownLane* lane) const {
  if (!status.sends_parked || status.figures == nullptr) {
    lane->sending_since = 0;
    return;
  }
  Drain* drain = &status.figures->drain;
  if (lane->sending_since == 0) {
    lane->sending_since = wall;
    lane->delivered_before = ValueOf(drain->delivered);
  }
  if (wall - lane->sending_since >= Drain::kLasts) {
    drain->Note(wall, lane->sending_since, lane->delivered_before);
  }
}

void RelayPublisher::FreeLanesThatLeft() {
  if (OUTBOX_FAULT_VALUE("lanes.shown_on") > 0) {
    return;
  }
  for (auto shown = lanes_.begin(); shown != lanes_.end();) {
    if (std::exchange(shown->second.seen, false)) {
      ++shown;
      continue;
    }
    if (shown->second.slot != nullptr) {
      FreeLaneSlot(shown->second.slot, self_.incarnation);
    }
    shown = lanes_.erase(shown);
  }
}

void RelayPublisher::ReportDeadLetters(const RelayConfig& config, int64_t now) {
  if (dead_letters_.of_route.empty()) {
    return;
  }
  for (const auto& [id, route] : config.routes) {
    incidents_.SeeDeadLetters(&dead_letters_, id, route.name, now);
  }
}

// Publishes which barrier all lanes have reached, and whether this process could leave without anything undone. A lane
// that waits for its destination or for an operator is no reason to stay.
void RelayPublisher::ShowBarrier(const RelayState& state) {
  uint64_t done = UINT64_MAX;
  size_t reached = 0;
  bool quiet = !state.stopping && state.all_given_back;
  for (size_t i = 0; i < lane_statuses_.size(); ++i) {
    const relay::LaneStatus& status = lane_statuses_[i];
    if (status.id.side != 0) {
      quiet = quiet && status.inflight_count == 0;
      continue;
    }
    if (owned_[i] == nullptr || owned_[i]->leaving) {
      quiet = false;
      continue;
    }
    reached++;
    done = std::min(done, status.barrier_done);
    const bool waits = status.state == LaneState::kIdle || status.state == LaneState::kPaused ||
                       (status.error != nullptr && status.state == LaneState::kBackingOff);
    quiet = quiet && waits && status.inflight_count == 0 && status.retrying_count == 0;
  }
  const uint64_t asked = pg_atomic_read_u64(&self_.database_slot->barrier);
  const bool current =
      state.generation != 0 && state.generation == pg_atomic_read_u64(&self_.database_slot->config_generation);
  const bool all = current && reached == state.lanes.size() && static_cast<int>(reached) == state.lanes_everywhere;
  done = reached == 0 ? 0 : done;
  pg_atomic_write_u64(&self_.worker_slot->barrier_done, reached == state.lanes.size() ? done : 0);
  if (all && done > pg_atomic_read_u64(&self_.database_slot->barrier_done)) {
    pg_atomic_write_u64(&self_.database_slot->barrier_done, done);
  }
  bool caught_up = true;
  for (const relay::LaneStatus& status : lane_statuses_) {
    caught_up = caught_up && (status.id.side != 0 || status.barrier_done >= asked || status.state != LaneState::kIdle);
  }
  pg::SetQuiet(quiet && current && caught_up && !lane_statuses_.empty() &&
               pg_atomic_read_u32(&self_.worker_slot->pending) == 0);
}

// Trouble of reading and saving is the server's own, such as of its tables or its memory: it is also written to the
// server log, each code once a minute, however lanes and codes take turns.
void RelayPublisher::ComplainOf(const OwnedLane& lane, const relay::LaneStatus& status) {
  const int64_t now = clock_->NowMicros();
  const int64_t wall = clock_->WallMicros();
  complaint_.outages.SeeTrouble(now);
  if (!relay::Trouble::Lasts(status.error_since_unix, wall) || !complaint_.said.MaySay(status.error->code, now)) {
    return;
  }
  complaint_.lane = status.id;
  complaint_.route = lane.route.name;
  const int64_t began = now - std::max<int64_t>(wall - status.error_since_unix, 0);
  if (!std::exchange(complaint_.told, true)) {
    complaint_.outages = Outages(began);
  }
  complaint_.outages.BeganAt(began);
  const char* route = lane.route.name.c_str();
  const char* code = status.error->code.c_str();
  const char* message = status.error->message.c_str();
  const char* known = pg::ServersHint(status.error->code, status.error->message);
  const char* hint = known != nullptr ? known : "See outbox.lag.";
  const int number = status.id.lane;
  pg::Guard([=] {
    ereport(WARNING,
            (errmsg("outbox: lane %d of route \"%s\" is in trouble: %s", number, route, message),
             errdetail("The error is %s. It is tried again by itself; nothing is lost meanwhile.", code),
             errhint("%s", hint),
             pg::LogEvent("lane_trouble", {{"route", route}, {"lane", pg::LogNumber(number)}, {"error_code", code}})));
  });
}

// As of a destination (incidents.h): an end that does not last is none, and several outages in a row have one pair of
// lines. Something that locks a table now and then would fill the log.
void RelayPublisher::FollowComplaint(bool well, bool followed, int64_t now) {
  if (!complaint_.told) {
    return;
  }
  if (!followed) {
    if (well && !complaint_.outages.in_trouble()) {
      SayLanesWork(now);
    } else {
      SayLaneLeft();
    }
  } else if (well) {
    complaint_.outages.SeeNone(now);
    if (complaint_.outages.Over(now)) {
      SayLanesWork(now);
    }
  }
}

// Nothing is known of its trouble from then on; who has it next tells of that again.
void RelayPublisher::SayLaneLeft() {
  complaint_.told = false;
  const char* route = complaint_.route.c_str();
  const int number = complaint_.lane.lane;
  pg::Guard([=] {
    ereport(
        LOG,
        (errmsg("outbox: lane %d of route \"%s\" is not this worker's any more, and its trouble not followed further",
                number, route),
         pg::LogEvent("lane_left", {{"route", route}, {"lane", pg::LogNumber(number)}})));
  });
}

void RelayPublisher::SayLanesWork(int64_t now) {
  complaint_.told = false;
  complaint_.said.Clear();
  const PastTrouble over = complaint_.outages.Past();
  const PastTrouble* past = &over;
  const double seconds = static_cast<double>(over.lasted) / kSecond;
  const char* route = complaint_.route.c_str();
  const int number = complaint_.lane.lane;
  pg::Guard([=] {
    ereport(LOG, (errmsg("outbox: lane %d of route \"%s\" works again after %.1f s", number, route, seconds),
                  DetailOfEnd(*past, now),
                  pg::LogEvent(
                      "lane_works",
                      {{"route", route}, {"lane", pg::LogNumber(number)}, {"seconds", psprintf("%.1f", seconds)}})));
  });
}

// An outage goes on when a worker, or in good order the server, ends and starts again: it began where it began. A new
// worker takes the destination for well until it has tried, so being well counts once that has lasted.
void RelayPublisher::FollowOutage(const ShownDestination& shown, int64_t now, relay::DestinationStatus* status) const {
  if (shown.figures == nullptr || !metrics::HasSlot(self_.database, status->id)) {
    return;
  }
  Counter& down_since = shown.figures->down_since;
  if (status->state == BreakerState::kClosed) {
    if (status->since_unix != 0 || now - shown.taken_at >= kWellAfterStart) {
      down_since.store(0, std::memory_order_relaxed);
    }
    return;
  }
  if (const auto began = static_cast<int64_t>(ValueOf(down_since)); began != 0 && began < status->since_unix) {
    status->since_unix = began;
  } else {
    down_since.store(static_cast<uint64_t>(status->since_unix), std::memory_order_relaxed);
  }
}

// Where all places are taken, others may leave theirs: it is asked again.
void RelayPublisher::TakePlaces(uint32_t server, const std::string& name, int64_t now, ShownDestination* shown) const {
  shown->asked_at = now;
  if (shown->slot == nullptr) {
    shown->slot = TakeDestinationSlot(self_.database, server, name.c_str(), self_.incarnation);
  }
  shown->figures = pg::Guard([&] { return metrics::TakeDestination(self_.database, server); });
}

void RelayPublisher::ShowDestinations(const RelayState& state, int64_t now) {
  state.engine.Destinations(&destination_statuses_);
  for (auto shown = destinations_.begin(); shown != destinations_.end();) {
    if (state.engine.HasDestination(shown->first)) {
      ++shown;
      continue;
    }
    if (shown->second.slot != nullptr) {
      FreeDestinationSlot(shown->second.slot, self_.incarnation);
    }
    clusters_.Forget(shown->first);
    shown = destinations_.erase(shown);
  }
  for (relay::DestinationStatus& status : destination_statuses_) {
    auto known = state.config.destinations.find(status.id);
    auto [place, made] = destinations_.try_emplace(status.id);
    ShownDestination& shown = place->second;
    if (made && known != state.config.destinations.end()) {
      shown.taken_at = now;
      TakePlaces(status.id, known->second.name, now, &shown);
    } else if (now - shown.asked_at >= kAskEvery && known != state.config.destinations.end() &&
               (shown.slot == nullptr || !metrics::HasSlot(self_.database, status.id))) {
      TakePlaces(status.id, known->second.name, now, &shown);
    }
    FollowOutage(shown, now, &status);
    if (shown.figures != nullptr) {
      CountMore(status.trips, &shown.trips, &shown.figures->trips);
      CountMore(status.deaths, &shown.deaths, &shown.figures->deaths);
    }
    if (status.renewals != std::exchange(shown.renewals, status.renewals) && status.warning != nullptr &&
        known != state.config.destinations.end()) {
      WarnOfRenewal(known->second.name.c_str(), status.warning->message.c_str());
    }
    const ClusterWatch::News clusters = clusters_.See(shown.slot, now, &status);
    if (shown.slot != nullptr && (made || shown.state != status.state || now - shown.written_at >= kWriteEvery)) {
      WriteDestinationSlot(shown.slot, self_.incarnation, status);
      shown.state = status.state;
      shown.written_at = now;
    }
    if (known != state.config.destinations.end()) {
      const bool paused = std::none_of(state.lanes.begin(), state.lanes.end(), [&](const auto& lane) {
        return lane.second.destination == status.id && !lane.second.route.config.paused;
      });
      incidents_.SeeDestination(status, known->second.name, paused, now);
      if (status.sink_warning != nullptr) {
        incidents_.SeeWarning(*status.sink_warning, known->second.name, shown.slot);
      }
      if (status.warning != nullptr && status.warning->code == pg::kOffsetsWentBack) {  // of an earlier sink
        incidents_.SeeWarning(*status.warning, known->second.name, shown.slot);
      }
      if (clusters.another != nullptr) {
        Incidents::SayWarning(known->second.name, *clusters.another);
      }
      if (clusters.two != nullptr) {
        incidents_.SeeWarning(*clusters.two, known->second.name, shown.slot);
      }
      incidents_.SeeRetries(status, known->second.name, now);
    }
  }
}

void RelayPublisher::Describe(const RelayState& state) {
  const OwnedLane* shown = nullptr;
  bool down = false;
  for (size_t i = 0; i < lane_statuses_.size(); ++i) {
    if (owned_[i] == nullptr || lane_statuses_[i].id.side != 0) {
      continue;
    }
    // Also where its sink is up, and waits until it is known what the server has lost, or takes nothing of what it
    // gets.
    const auto of_lane = std::find_if(
        destination_statuses_.begin(), destination_statuses_.end(),
        [id = owned_[i]->destination](const relay::DestinationStatus& destination) { return destination.id == id; });
    const bool lane_down = of_lane != destination_statuses_.end() && of_lane->state != BreakerState::kClosed;
    if ((lane_statuses_[i].inflight_count > 0 || lane_down) && (shown == nullptr || (lane_down && !down))) {
      shown = owned_[i];
      down = lane_down;
    }
  }
  busy_ = shown != nullptr || state.stopping;
  if (state.stopping) {
    activity_ = "stopping";
  } else if (shown != nullptr) {
    activity_ = (down ? "waiting for " : "publishing to ") + shown->route.server;
  } else {
    activity_ = "idle";
  }
}

}  // namespace outbox::worker
