#include "admin/lookup/standing_lanes.h"

#include <algorithm>

#include "base/monotonic.h"
#include "log/window/snapshots.h"
#include "pg/wall.h"

namespace outbox::admin {

struct StandingLanes::Kept {
  Position stood;    // the lane's position
  uint64 wants = 0;  // LaneRecord.wants
  Position looked;   // the same, as far as was looked
  int64 waiting = 0;
  int64 oldest = 0;
  DueCounts later;  // what was found and is not due yet
  int rounds = 0;   // in which it stood there
  bool seen = false;

  void Find(const DueEvents& more) {
    waiting += static_cast<int64>(more.count);
    oldest = oldest == 0 || (more.since != 0 && more.since < oldest) ? more.since : oldest;
  }
};

StandingLanes::StandingLanes() : stride_(10'000) {}
StandingLanes::~StandingLanes() = default;

// Notes where each lane stands, and forgets those that do not. Returns where to look on from; a lane that nothing is to
// be found for is put at `now`.
std::vector<const Position*> StandingLanes::Stand(const Snapshot& now, const LaneViews& views,
                                                  std::vector<LaneRecord>* lanes) {
  for (auto& [id, kept] : kept_) {
    kept.seen = false;
  }
  std::vector<const Position*> from;
  const auto stand = [&](const LaneId& id, uint64 wants, const OwnedLaneView* view, Position* position) {
    static_cast<void>(BeginBehind(view, position));
    if (IsTold(view)) {
      *position = {now, std::nullopt, kBeforeAllTime};
      return;
    }
    Kept& kept = kept_[id];
    kept.rounds = kept.stood == *position && kept.wants == wants ? kept.rounds + 1 : 0;
    if (kept.rounds == 0) {
      kept = Kept();
      kept.stood = kept.looked = *position;
      kept.wants = wants;
    }
    kept.seen = true;
    if (kept.rounds == 0) {
      *position = {now, std::nullopt, kBeforeAllTime};
    } else {
      *position = kept.looked;
      from.push_back(position);
    }
  };
  for (LaneRecord& lane : *lanes) {
    stand({lane.route_id, lane.lane, 0}, lane.wants, views.Find(lane.route_id, lane.lane), &lane.position);
    for (SideRecord& side : lane.sides) {
      stand({lane.route_id, lane.lane, side.side}, lane.wants, views.Find(lane.route_id, lane.lane, side.side),
            &side.position);
    }
  }
  std::erase_if(kept_, [](const auto& one) { return !one.second.seen; });
  return from;
}

// How far the next walk goes; nothing: all have come to `now`.
std::optional<Snapshot> StandingLanes::NextCut(const std::vector<const Position*>& from, const Snapshot& now) const {
  const Snapshot* last = nullptr;
  for (const Position* position : from) {
    last = last == nullptr || Earlier(position->base, *last) ? &position->base : last;
  }
  if (last == nullptr || *last == now || last->xmax > now.xmax) {
    return std::nullopt;
  }
  // A cut between two transactions is no snapshot that was ever taken, but does for counting.
  Snapshot until = now;
  if (last->xmax + stride_ < now.xmax) {
    until.xmax = last->xmax + stride_;
    std::erase_if(until.xip, [&](uint64 xid) { return xid >= until.xmax; });
    until.xmin = std::min(until.xmin, until.xmax);
  }
  return until;
}

// Adds what a walk up to there has found.
void StandingLanes::Keep(const std::vector<LaneWaiting>& found, const Snapshot& until, std::vector<LaneRecord>* lanes) {
  const auto go_on = [&](const LaneId& id, const Waiting& more, Position* position) {
    const auto kept = kept_.find(id);
    if (kept != kept_.end() && until.Covers(position->base)) {
      kept->second.Find({static_cast<uint64_t>(more.count), more.oldest});
      kept->second.later.Add(more.later);
      position->base = until;
      kept->second.looked = kept->second.rounds > 0 ? *position : kept->second.looked;
    }
  };
  for (size_t i = 0; i < lanes->size(); i++) {
    LaneRecord& lane = (*lanes)[i];
    go_on({lane.route_id, lane.lane, 0}, found[i].own, &lane.position);
    for (size_t s = 0; s < lane.sides.size(); s++) {
      go_on({lane.route_id, lane.lane, lane.sides[s].side}, found[i].sides[s], &lane.sides[s].position);
    }
  }
}

// Walks until all have come to `now`, or its time is over. The stride adapts to what one walk can look at.
void StandingLanes::Look(const std::vector<const Position*>& from, const Snapshot& now, int64_t until_time,
                         std::vector<LaneRecord>* lanes) {
  constexpr SurveyLimits kWalk = {250'000, 1'000'000, 32, 0, 1'000, true};
  constexpr uint64 kLongestStride = 1'000'000;
  const LogEstimate* log = from.empty() ? nullptr : pg::Guard([]() -> const LogEstimate* { return EstimateLog(); });
  while (log != nullptr && log->whole() && MonotonicMicros() < until_time) {
    const std::optional<Snapshot> until = NextCut(from, now);
    if (!until) {
      break;
    }
    SurveyLimits limits = kWalk;
    if (stride_ == 1) {
      limits.rows = limits.judgments = SIZE_MAX / 2;  // one transaction of many events
    }
    const std::vector<LaneWaiting> found = Survey(*lanes, *log, limits, &*until);
    if (std::any_of(found.begin(), found.end(), [](const LaneWaiting& lane) { return lane.more(); })) {
      if (stride_ == 1) {
        break;
      }
      stride_ = std::max<uint64>(stride_ / 8, 1);
      continue;
    }
    stride_ = std::min(stride_ * 2, kLongestStride);
    Keep(found, *until, lanes);
  }
}

void StandingLanes::Step() {
  constexpr int64_t kTime = 100'000;
  constexpr int64_t kShare = 10;
  const int64_t began = MonotonicMicros();
  pg::DatabaseSlot* database = pg::Guard([] { return pg::FindDatabaseSlot(MyDatabaseId, false); });
  if (began < next_ || database == nullptr) {
    return;
  }
  if (const uint64 now = pg_atomic_read_u64(&database->erasures); now != erasures_) {
    erasures_ = now;
    kept_.clear();
  }
  const std::vector<OwnedLaneView> views = ReadLaneViews(MyDatabaseId);
  const LaneViews by_lane(views);
  std::vector<LaneRecord> lanes = LoadUntold(FindUntold(by_lane));
  Snapshot now;
  pg::Guard([&now] { log::ReadActiveSnapshot(&now); });
  const std::vector<const Position*> from = Stand(now, by_lane, &lanes);
  Look(from, now, began + kTime, &lanes);
  const int64 wall = pg::Guard([] { return pg::BelievedWall(); });
  for (auto& [id, kept] : kept_) {
    kept.Find(kept.later.Take(wall));
  }
  Publish();
  next_ = MonotonicMicros() + (MonotonicMicros() - began) * (kShare - 1);
}

void StandingLanes::Publish() {
  if (kept_.empty() && !published_) {
    return;
  }
  published_ = !kept_.empty();
  pg::Guard([this] {
    LWLockAcquire(pg::Shared()->lock, LW_EXCLUSIVE);
    auto kept = kept_.begin();
    for (int i = 0; i < pg::Shared()->max_lanes; i++) {
      pg::StandingSlot* slot = &pg::StandingSlots()[i];
      if (slot->database != InvalidOid && slot->database != MyDatabaseId) {
        continue;
      }
      slot->database = InvalidOid;
      while (kept != kept_.end() && kept->second.rounds == 0) {
        ++kept;
      }
      if (kept == kept_.end()) {
        continue;
      }
      const Kept& of = kept->second;
      slot->database = MyDatabaseId;
      slot->erasures = erasures_;
      slot->wants = of.wants;
      slot->lane = kept->first;
      slot->stood_xmin = of.stood.base.xmin;
      slot->stood_xmax = of.stood.base.xmax;
      slot->stood_done_to = of.stood.done_to;
      slot->looked_to.Set(of.looked.base);
      slot->waiting = of.waiting;
      slot->oldest = of.oldest;
      ++kept;
    }
    LWLockRelease(pg::Shared()->lock);
  });
}

}  // namespace outbox::admin
