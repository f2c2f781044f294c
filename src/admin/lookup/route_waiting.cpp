#include "admin/lookup/route_waiting.h"

#include <algorithm>
#include <optional>

#include "admin/common/query.h"
#include "pg/statement.h"

namespace outbox::admin {

namespace {

// Of a lane that a worker has.
bool Stands(const OwnedLaneView* view) {
  return view != nullptr && view->owned && (!view->goes_on() || view->stands_since != 0);
}

void Add(const Waiting& more, const OwnedLaneView* view, RouteWaiting* route) {
  route->count += more.count;
  route->standing += Stands(view) ? more.count : 0;
  route->oldest = route->oldest == 0 || (more.oldest != 0 && more.oldest < route->oldest) ? more.oldest : route->oldest;
  route->more = route->more || more.more;
  route->unreadable = route->unreadable || more.unreadable;
}

void AddTold(const OwnedLaneView& view, int64 there_since, RouteWaiting* route) {
  Add(Waiting{view.waiting, view.oldest, false, 0, {}, false}.Since(there_since), &view, route);
}

void NoteBehind(const OwnedLaneView& view, RouteWaiting* route) {
  route->moves = route->moves || !Stands(&view);
  route->stopped = route->stopped || view.stands_since != 0;
  if (route->trouble.empty() && view.stands_since != 0) {
    route->trouble =
        "its relay worker has done nothing since " + UnixMicrosText(view.stands_since) + ", see outbox.doctor()";
  } else if (route->trouble.empty() && !view.trouble.empty()) {
    route->trouble = std::string(view.trouble.code) + ": " + view.trouble.message;
  }
  if (view.behind_since != 0 && (route->behind_since == 0 || view.behind_since < route->behind_since)) {
    route->behind_since = view.behind_since;
  }
}

// Lanes and side lanes.
struct Part {
  LaneId id;
  std::string route;
  int64 there_since = 0;  // see LaneRecord
};

// The results of both: route, lane, side lane, name, since when.
PlannedQuery select_lanes = {
    "SELECT l.route_id, l.lane, 0, r.name, greatest(l.since, r.created_at) "
    "FROM outbox_internal.lane l JOIN outbox.route r ON r.id = l.route_id"};
PlannedQuery select_side_lanes = {
    "SELECT s.route_id, s.lane, s.side, r.name, greatest(l.since, r.created_at) "
    "FROM outbox_internal.side_lane s JOIN outbox_internal.lane l ON l.route_id = s.route_id AND l.lane = s.lane "
    "JOIN outbox.route r ON r.id = s.route_id",
    Plan::kUsual, "side_lane"};

std::vector<Part> LoadParts() {
  std::vector<Part> parts;
  for (PlannedQuery* query : {&select_lanes, &select_side_lanes}) {
    RunPlanned(query, {}, [&parts] {
      parts.reserve(parts.size() + SPI_processed);
      for (uint64 i = 0; i < SPI_processed; i++) {
        const pg::ResultRow row = pg::TakeRow(i);
        parts.push_back({{pg::ResultInt64(row, 0), pg::ResultInt32(row, 1), pg::ResultInt32(row, 2)},
                         pg::ResultText(row, 3),
                         DatumGetTimestampTz(row.values[4]) + kPgEpochMicros});
      }
    });
  }
  return parts;
}

void Add(const Part& part, UntoldLanes* untold) {
  untold->routes.emplace(part.id.route_id, part.route);
  untold->lanes.emplace(part.id.route_id, part.id.lane);
}

}  // namespace

bool IsTold(const OwnedLaneView* view) {
  return view != nullptr && view->owned && view->caught_up && view->stands_since == 0;
}

UntoldLanes FindUntold(const LaneViews& views) {
  UntoldLanes untold;
  for (const Part& part : LoadParts()) {
    if (!IsTold(views.Find(part.id.route_id, part.id.lane, part.id.side))) {
      Add(part, &untold);
    }
  }
  return untold;
}

std::vector<LaneRecord> LoadUntold(const UntoldLanes& untold) {
  constexpr size_t kFew = 4;  // beyond that all are loaded at once
  std::vector<LaneRecord> lanes;
  if (untold.routes.size() > kFew) {
    lanes = LoadLanes(std::nullopt);
  } else {
    for (const auto& [id, name] : untold.routes) {
      for (LaneRecord& lane : LoadLanes(name)) {
        lanes.push_back(std::move(lane));
      }
    }
  }
  std::erase_if(lanes, [&](const LaneRecord& lane) { return !untold.Has({lane.route_id, lane.lane, 0}); });
  return lanes;
}

int64 BehindSince(const LaneRecord& lane, const OwnedLaneView* view) {
  return view != nullptr && view->owned ? view->behind_since : lane.saved_at;
}

const pg::StandingSlot* FindStanding(const std::vector<pg::StandingSlot>& slots, const LaneId& id, uint64 wants,
                                     const Position& position) {
  const auto slot = std::lower_bound(slots.begin(), slots.end(), id,
                                     [](const pg::StandingSlot& one, const LaneId& of) { return one.lane < of; });
  const bool found = slot != slots.end() && slot->lane == id && slot->wants == wants &&
                     slot->stood_xmin == position.base.xmin && slot->stood_xmax == position.base.xmax &&
                     slot->stood_done_to == position.done_to && slot->looked_to.count >= 0;
  return found ? &*slot : nullptr;
}

bool BeginBehind(const OwnedLaneView* view, Position* position) {
  if (view == nullptr || !view->owned) {
    return false;
  }
  std::optional<Snapshot> to = view->found_to.Get();
  if (to) {
    *position = {std::move(*to), std::nullopt, kBeforeAllTime};
  }
  return to.has_value();
}

std::map<int64, RouteWaiting> WaitingByRoute(const std::vector<OwnedLaneView>& views,
                                             const std::vector<pg::StandingSlot>& standing, const LogEstimate& log,
                                             const SurveyTables& readable) {
  std::map<int64, RouteWaiting> routes;
  if (!readable.lanes) {
    for (const OwnedLaneView& view : views) {
      if (view.owned) {
        RouteWaiting& route = routes[view.id.route_id];
        route.owned += view.id.side == 0 ? 1 : 0;
        route.inflight += view.inflight_count;
        route.more = route.more || !IsTold(&view);
        AddTold(view, 0, &route);
      }
    }
    return routes;
  }
  const LaneViews by_lane(views);
  const std::vector<Part> parts = LoadParts();
  UntoldLanes untold;
  bool lacking = false;
  for (const Part& part : parts) {
    const OwnedLaneView* view = by_lane.Find(part.id.route_id, part.id.lane, part.id.side);
    RouteWaiting& route = routes[part.id.route_id];
    const bool owned = view != nullptr && view->owned;
    if (part.id.side == 0) {
      (owned ? route.owned : route.unowned)++;
      lacking = lacking || !owned;
    }
    if (owned) {
      route.inflight += view->inflight_count;
      if (view->behind_since != 0 || view->stands_since != 0) {
        NoteBehind(*view, &route);
      }
    }
    if (!IsTold(view)) {
      Add(part, &untold);
      route.more = route.more || !readable.positions;
    }
  }
  // One that there was no place to show for has a worker all the same.
  for (const auto& [route_id, lane] :
       lacking ? LanesNotShown(Access::kRead, by_lane) : std::set<std::pair<int64, int>>()) {
    if (const auto route = routes.find(route_id); route != routes.end() && route->second.unowned > 0) {
      route->second.unowned--;
      route->second.owned++;
    }
  }
  for (const Part& part : parts) {
    const OwnedLaneView* view = by_lane.Find(part.id.route_id, part.id.lane, part.id.side);
    if (view != nullptr && view->owned && (!readable.positions || !untold.Has(part.id))) {
      AddTold(*view, part.there_since, &routes[part.id.route_id]);
    }
  }
  if (untold.routes.empty() || !readable.positions) {
    return routes;
  }
  std::vector<LaneRecord> lanes = LoadUntold(untold);
  const auto begin = [&](const LaneRecord& lane, int side, Position* position) {
    const LaneId id{lane.route_id, lane.lane, side};
    RouteWaiting* route = &routes[id.route_id];
    const OwnedLaneView* view = by_lane.Find(id.route_id, id.lane, id.side);
    if (BeginBehind(view, position)) {
      AddTold(*view, lane.there_since, route);
    }
    if (const pg::StandingSlot* slot = FindStanding(standing, id, lane.wants, *position); slot != nullptr) {
      position->base = slot->looked_to.Get().value();
      Add(Waiting{slot->waiting, slot->oldest, false, 0, {}, false}.Since(lane.there_since), view, route);
    }
  };
  for (LaneRecord& lane : lanes) {
    begin(lane, 0, &lane.position);
    for (SideRecord& side : lane.sides) {
      begin(lane, side.side, &side.position);
    }
  }
  SurveyLimits limits = kFigureSurvey;
  limits.parked = readable.parked ? limits.parked : 0;
  const std::vector<LaneWaiting> found = SurveyReadable(lanes, log, limits);
  for (size_t i = 0; i < lanes.size(); i++) {
    const LaneRecord& lane = lanes[i];
    RouteWaiting* route = &routes[lane.route_id];
    Add(found[i].own.Since(lane.there_since), by_lane.Find(lane.route_id, lane.lane), route);
    for (size_t s = 0; s < lane.sides.size(); s++) {
      Add(found[i].sides[s].Since(lane.there_since), by_lane.Find(lane.route_id, lane.lane, lane.sides[s].side), route);
    }
  }
  if (!log.whole() ||
      std::any_of(routes.begin(), routes.end(), [](const auto& one) { return one.second.unreadable; })) {
    std::map<int64, int64> behind;  // by route
    for (size_t i = 0; i < lanes.size(); i++) {
      const int64 since = BehindSince(lanes[i], by_lane.Find(lanes[i].route_id, lanes[i].lane));
      if (int64& first = behind[lanes[i].route_id]; found[i].more() && since != 0) {
        first = first == 0 ? since : std::min(first, since);
      }
    }
    for (auto& [id, route] : routes) {
      const int64 since = behind[id];
      route.uncounted = (!log.whole() || route.unreadable) && route.more && route.count == 0 && since != 0;
      route.oldest = route.uncounted && route.oldest == 0 ? since : route.oldest;
    }
  }
  return routes;
}

}  // namespace outbox::admin
