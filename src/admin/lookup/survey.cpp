#include "admin/lookup/survey.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>

#include "base/monotonic.h"
#include "log/blank.h"
#include "log/snapshots.h"
#include "log/window_scan.h"

namespace outbox::admin {

namespace {

constexpr size_t kMostTypes = 4096;
// Rows of one slice of a walk: after each it is seen whether it has cost enough.
constexpr size_t kSlice = 4096;

// Where events are counted: by the number of the lane or side lane.
struct Count {
  int64 walked = 0;
  int64 sampled = 0;  // in the part of the log that is sampled just now
  double estimated = 0;
  int64 oldest = 0;
  bool more = false;
  int64 unseen = 0;

  void See(int64 created_at) { oldest = oldest == 0 || created_at < oldest ? created_at : oldest; }
};

// An event that may be parked as well.
struct Candidate {
  size_t number;
  int64 route_id;
  int64 created_at;
  Uuid id;
};

// Judges rows, for all lanes at once.
class Judge final : public log::RowVisitor {
 public:
  struct Lane {
    const LaneRecord* record;
    size_t number;  // of its count; those of its side lanes follow
  };
  struct Route {
    int64 id;
    const format::RouteSpec* spec;
    bool parks;                   // it has parked something
    std::vector<Lane> by_number;  // record nullptr: not asked for
  };

  Judge(std::vector<Route> routes, size_t counts, size_t most_candidates)
      : counts(counts), routes_(std::move(routes)), most_candidates_(most_candidates) {}

  void Row(const log::RowView& row, uint64_t) override {
    if (log::RowForgotten(row)) {
      return;
    }
    EventFacts facts;
    facts.aggregate_type = log::RowText(row, log::kAggregateType);
    facts.event_type = log::RowText(row, log::kEventType);
    const std::vector<const Route*>& wanting = WantedBy(facts.aggregate_type, facts.event_type);
    if (wanting.empty()) {
      return;
    }
    Uuid id;
    memcpy(id.data(), row.id, id.size());
    facts.xid = row.xid;
    facts.created_at = row.created_at;
    facts.aggregate_id = log::RowText(row, log::kAggregateId);
    facts.topic = log::RowText(row, log::kTopic);
    const uint32 hash = format::KeyHash(facts.aggregate_id, id);
    judgments += wanting.size();
    for (const Route* route : wanting) {
      const Lane& lane = route->by_number[hash % route->by_number.size()];
      if (lane.record == nullptr || (lane.record->sides.empty() && lane.record->PassedBy(facts, -1))) {
        continue;
      }
      const int side = lane.record->SideOf(facts);
      if (lane.record->PassedBy(facts, side)) {
        continue;
      }
      const size_t number = lane.number + static_cast<size_t>(side + 1);
      if (sampling) {
        counts[number].sampled++;
        counts[number].See(row.created_at);
      } else if (route->parks && candidates.size() < most_candidates_) {
        candidates.push_back({number, route->id, row.created_at, id});
      } else {
        counts[number].walked++;
        counts[number].See(row.created_at);
      }
    }
  }

  bool sampling = false;
  size_t judgments = 0;
  std::vector<Count> counts;
  std::vector<Candidate> candidates;

 private:
  using Types = std::pair<std::string, std::string>;

  const std::vector<const Route*>& WantedBy(std::string_view aggregate_type, std::string_view event_type) {
    if (last_ == nullptr || last_->first.first != aggregate_type || last_->first.second != event_type) {
      Types types(aggregate_type, event_type);
      auto found = types_.find(types);
      if (found == types_.end()) {
        if (types_.size() >= kMostTypes) {
          types_.clear();
        }
        std::vector<const Route*> wanting;
        for (const Route& route : routes_) {
          if (route.spec->WantsTypes(aggregate_type, event_type)) {
            wanting.push_back(&route);
          }
        }
        found = types_.emplace(std::move(types), std::move(wanting)).first;
      }
      last_ = &*found;
    }
    return last_->second;
  }

  const std::vector<Route> routes_;
  const size_t most_candidates_;
  std::map<Types, std::vector<const Route*>> types_;
  const std::pair<const Types, std::vector<const Route*>>* last_ = nullptr;
};

// Routes that have parked something.
std::vector<int64> ParkingRoutes() {
  std::vector<int64> routes;
  for (const Row& row : RunSql(Access::kRead,
                               "SELECT r.id FROM outbox.route r WHERE EXISTS (SELECT FROM outbox_internal.parked p "
                               "WHERE p.route_id = r.id) ORDER BY 1",
                               {}, Plan::kByKey)) {
    routes.push_back(std::strtoll(row[0].value().c_str(), nullptr, 10));
  }
  return routes;
}

// Which of the candidates are parked, ascending.
std::vector<size_t> FindParked(const std::vector<Candidate>& candidates) {
  std::vector<Cell> routes, times, ids;
  for (const Candidate& one : candidates) {
    routes.emplace_back(std::to_string(one.route_id));
    times.push_back(UnixMicrosCell(one.created_at));
    std::string& id = ids.emplace_back(std::string(kUuidTextLength, '0')).value();
    FormatUuid(one.id, id.data());
  }
  std::vector<size_t> parked;
  for (const Row& row : RunSql(Access::kRead,
                               "SELECT k.n FROM ROWS FROM (unnest($1::bigint[]), unnest($2::timestamptz[]), "
                               "unnest($3::uuid[])) WITH ORDINALITY k(route_id, created_at, id, n) WHERE EXISTS "
                               "(SELECT FROM outbox_internal.parked p WHERE p.route_id = k.route_id "
                               "AND p.created_at = k.created_at AND p.id = k.id AND p.replay = 0) ORDER BY 1",
                               {ArrayLiteral(routes), ArrayLiteral(times), ArrayLiteral(ids)}, Plan::kByKey)) {
    parked.push_back(static_cast<size_t>(std::strtoull(row[0].value().c_str(), nullptr, 10)) - 1);
  }
  return parked;
}

void CountCandidates(Judge* judge) {
  if (judge->candidates.empty()) {
    return;
  }
  const std::vector<size_t> parked = FindParked(judge->candidates);
  auto next = parked.begin();
  for (size_t i = 0; i < judge->candidates.size(); i++) {
    if (next != parked.end() && *next == i) {
      ++next;
      continue;
    }
    Count& count = judge->counts[judge->candidates[i].number];
    count.walked++;
    count.See(judge->candidates[i].created_at);
  }
}

// A later snapshot of the same server sees more.
bool Earlier(const Snapshot* a, const Snapshot* b) {
  return a->xmax != b->xmax ? a->xmax < b->xmax : a->xip.size() > b->xip.size();
}

// Where lanes stand, each once; of many only those before which most was written.
std::vector<const Snapshot*> Cuts(const std::vector<const Snapshot*>& stands, size_t most) {
  std::vector<const Snapshot*> cuts = stands;
  std::sort(cuts.begin(), cuts.end(), Earlier);
  cuts.erase(std::unique(cuts.begin(), cuts.end(), [](const auto* a, const auto* b) { return *a == *b; }), cuts.end());
  if (cuts.size() <= most) {
    return cuts;
  }
  std::vector<size_t> order;
  for (size_t i = 1; i < cuts.size(); i++) {
    order.push_back(i);
  }
  std::partial_sort(
      order.begin(), order.begin() + static_cast<std::ptrdiff_t>(most - 1), order.end(),
      [&](size_t a, size_t b) { return cuts[a]->xmax - cuts[a - 1]->xmax > cuts[b]->xmax - cuts[b - 1]->xmax; });
  order.resize(most - 1);
  order.push_back(0);
  std::sort(order.begin(), order.end());
  std::vector<const Snapshot*> chosen;
  for (size_t i : order) {
    chosen.push_back(cuts[i]);
  }
  return chosen;
}

class Surveyor {
 public:
  Surveyor(const std::vector<LaneRecord>& lanes, const LogEstimate& log, const SurveyLimits& limits,
           const Snapshot* until)
      : lanes_(lanes), log_(log), limits_(limits), until_(until) {}

  std::vector<LaneWaiting> Run() {
    Prepare();
    if (!stands_.empty()) {
      if (until_ != nullptr) {
        now_ = *until_;
      } else {
        Guarded([this] { log::ReadActiveSnapshot(&now_); });
      }
      ListTables();
      std::vector<const Snapshot*> cuts = Cuts(stands_, limits_.segments);
      size_t rows = limits_.rows;
      for (size_t i = cuts.size(); i-- > 0;) {
        const Snapshot& to = i + 1 < cuts.size() ? *cuts[i + 1] : now_;
        Segment(*cuts[i], to, rows / (i + 1), (limits_.pages + cuts.size() - 1) / cuts.size(), &rows);
      }
      CountCandidates(&*judge_);
    }
    return Result();
  }

 private:
  template <typename Work>
  void Guarded(Work&& work) {
    pg::Guard([&] { work(); });
  }

  void Prepare() {
    std::vector<Judge::Route> routes;
    const std::vector<int64> parking = limits_.parked == 0 ? std::vector<int64>() : ParkingRoutes();
    size_t number = 0;
    for (const LaneRecord& lane : lanes_) {
      numbers_.push_back(number);
      number += 1 + lane.sides.size();
      if (lane.spec == nullptr || static_cast<uint32>(lane.lane) >= lane.spec->lanes()) {
        continue;
      }
      if (routes.empty() || routes.back().id != lane.route_id) {
        routes.push_back({lane.route_id, lane.spec.get(),
                          std::binary_search(parking.begin(), parking.end(), lane.route_id),
                          std::vector<Judge::Lane>(lane.spec->lanes(), Judge::Lane{nullptr, 0})});
      }
      routes.back().by_number[static_cast<size_t>(lane.lane)] = {&lane, numbers_.back()};
      stands_.push_back(&lane.position.base);
      for (const SideRecord& side : lane.sides) {
        stands_.push_back(&side.position.base);
      }
    }
    judge_.emplace(std::move(routes), number, limits_.parked);
  }

  void ListTables() {
    for (int i = 0; i < log_.count; i++) {
      const LogEstimate::Table& table = log_.tables[i];
      if (table.readable && table.blocks > 0) {
        days::LogTableEntry entry;
        entry.oid = table.oid;
        entry.closed = table.indexed;
        entry.largest_xid = table.largest_xid;
        leaves_.tables.push_back(entry);
        tables_.push_back(&table);
      }
    }
  }

  // Rows of the window, for lanes that stand where it begins or within it.
  void Segment(const Snapshot& from, const Snapshot& to, size_t rows, size_t pages, size_t* left) {
    log::WindowBounds window;
    window.Set(from, to);
    log::ScanState state;
    log::Scanned scanned = log::Scanned::kMore;
    if (window.xids.empty()) {
      return;
    }
    judge_->sampling = false;
    Guarded([&] {
      while (scanned == log::Scanned::kMore && state.looked < rows && judge_->judgments < limits_.judgments) {
        scanned = log::ScanWindow(window, PG_INT64_MIN, leaves_, Min(kSlice, rows - state.looked), &state, &*judge_);
      }
    });
    *left -= Min(*left, static_cast<size_t>(state.looked));
    if (scanned != log::Scanned::kMore && log_.whole()) {
      return;
    }
    if (scanned == log::Scanned::kMore) {
      Sample(window, state, pages);
    }
    MarkUnseen(window, state);
  }

  // Blocks of a table that hold what was not walked of the window.
  struct Range {
    Oid table;
    uint32 begin;
    uint32 end;
  };

  // Plain, but for what it fills.
  void FindUnwalked(const log::WindowBounds& window, const log::ScanState& state) {
    ranges_.clear();
    for (size_t i = state.log_table; i < tables_.size(); i++) {
      const LogEstimate::Table& table = *tables_[i];
      const bool here = i == state.log_table;
      if (!table.indexed) {
        ranges_.push_back({table.oid, here ? static_cast<uint32>(state.row) : 0, table.blocks});
        continue;
      }
      const uint64 first = here && state.part == 0 && state.inside ? state.xid + 1 : window.xids.begin;
      const LogPlace begin = PlaceInLog(table, first);
      if (!begin.found || (here && state.part > 0)) {
        continue;
      }
      const LogPlace end = PlaceInLog(table, window.xids.end);
      ranges_.push_back({table.oid, begin.block, Max(end.found ? end.block : table.blocks, begin.block + 1)});
    }
  }

  // What was walked is not sampled: of the transaction under way the rest is left out.
  void Sample(const log::WindowBounds& window, const log::ScanState& state, size_t pages) {
    Guarded([&] { FindUnwalked(window, state); });
    uint64 all = 0;
    for (const Range& range : ranges_) {
      all += range.end - range.begin;
    }
    if (all == 0 || pages == 0) {
      return;
    }
    const uint64 taken = Min(static_cast<uint64>(pages), all);
    judge_->sampling = true;
    uint64 before = 0;  // blocks of the ranges before
    uint64 next = 0;    // page of the sample
    for (const Range& range : ranges_) {
      blocks_.clear();
      const uint64 size = range.end - range.begin;
      for (; next < taken; next++) {
        const uint64 at = (next * all + all / 2) / taken;
        if (at >= before + size) {
          break;
        }
        blocks_.push_back(range.begin + static_cast<uint32>(at - before));
      }
      before += size;
      if (!blocks_.empty()) {
        Guarded([&] { log::ScanPages(window, range.table, blocks_, &*judge_); });
      }
    }
    for (Count& count : judge_->counts) {
      count.estimated += static_cast<double>(count.sampled) * static_cast<double>(all) / static_cast<double>(taken);
      count.sampled = 0;
    }
  }

  void MarkUnseen(const log::WindowBounds& window, const log::ScanState& state) {
    uint64 walked = window.xids.begin;
    if (state.part > 0) {
      walked = window.xids.end;  // but for some that were open when it began
    } else if (state.inside) {
      walked = state.xid;
    }
    const auto mark = [&](const Position& position, Count* count) {
      if (!position.base.Covers(window.to)) {
        count->more = true;
        const int64 at = TimeOf(Max(walked, position.base.xmax));
        count->unseen = count->unseen == 0 || (at != 0 && at < count->unseen) ? at : count->unseen;
      }
    };
    for (size_t i = 0; i < lanes_.size(); i++) {
      if (lanes_[i].spec != nullptr) {
        mark(lanes_[i].position, &judge_->counts[numbers_[i]]);
        for (size_t s = 0; s < lanes_[i].sides.size(); s++) {
          mark(lanes_[i].sides[s].position, &judge_->counts[numbers_[i] + 1 + s]);
        }
      }
    }
  }

  // When the first row of that transaction or a later one was emitted.
  int64 TimeOf(uint64 xid) {
    const auto made = times_.try_emplace(xid);
    int64& time = made.first->second;
    if (made.second) {
      Guarded([&] {
        for (const LogEstimate::Table* table : tables_) {
          const LogPlace place = PlaceInLog(*table, xid);
          if (place.found && (time == 0 || place.created_at < time)) {
            time = place.created_at;
          }
        }
      });
    }
    return time;
  }

  std::vector<LaneWaiting> Result() const {
    const auto waiting = [](const Count& count) {
      return Waiting{count.walked + static_cast<int64>(std::llround(count.estimated)), count.oldest, count.more,
                     count.more ? count.unseen : 0};
    };
    std::vector<LaneWaiting> result;
    for (size_t i = 0; i < lanes_.size(); i++) {
      LaneWaiting& lane = result.emplace_back();
      lane.own = waiting(judge_->counts[numbers_[i]]);
      for (size_t s = 0; s < lanes_[i].sides.size(); s++) {
        lane.sides.push_back(waiting(judge_->counts[numbers_[i] + 1 + s]));
      }
    }
    return result;
  }

  const std::vector<LaneRecord>& lanes_;
  const LogEstimate& log_;
  const SurveyLimits limits_;
  const Snapshot* const until_;
  std::vector<size_t> numbers_;  // of the lanes' counts
  std::vector<const Snapshot*> stands_;
  Snapshot now_;
  days::LogTableList leaves_;
  std::vector<const LogEstimate::Table*> tables_;  // those of leaves_
  std::unordered_map<uint64, int64> times_;
  std::optional<Judge> judge_;
  // What is sampled just now.
  std::vector<Range> ranges_;
  std::vector<uint32_t> blocks_;
};

// What a worker says, and whether that is all.
bool IsTold(const OwnedLaneView* view) {
  return view != nullptr && view->owned && view->caught_up;
}

void Add(const Waiting& more, RouteWaiting* route) {
  route->count += more.count;
  route->oldest = route->oldest == 0 || (more.oldest != 0 && more.oldest < route->oldest) ? more.oldest : route->oldest;
  route->more = route->more || more.more;
}

void AddTold(const OwnedLaneView& view, RouteWaiting* route) {
  Add({view.waiting, view.oldest, false, 0}, route);
}

void NoteBehind(const OwnedLaneView& view, RouteWaiting* route) {
  const bool stands = !view.trouble.empty() || strcmp(view.state, "paused") == 0;
  route->stands = stands && (route->behind_since == 0 || route->stands);
  if (route->behind_since == 0 || view.behind_since < route->behind_since) {
    route->behind_since = view.behind_since;
  }
}

// Lanes and side lanes.
struct Part {
  LaneId id;
  std::string route;
};

std::vector<Part> LoadParts() {
  static PlannedQuery query = {
      "SELECT l.route_id, l.lane, 0, r.name FROM outbox_internal.lane l JOIN outbox.route r ON r.id = l.route_id "
      "UNION ALL SELECT s.route_id, s.lane, s.side, r.name FROM outbox_internal.side_lane s "
      "JOIN outbox.route r ON r.id = s.route_id"};
  std::vector<Part> parts;
  for (const Row& row : RunPlanned(&query)) {
    parts.push_back(
        {{std::strtoll(row[0]->c_str(), nullptr, 10), std::atoi(row[1]->c_str()), std::atoi(row[2]->c_str())},
         row[3].value()});
  }
  return parts;
}

// Lanes of which a worker does not tell all, or not of one of their side lanes.
struct UntoldLanes {
  std::map<int64, std::string> routes;  // by id: their names
  std::set<std::pair<int64, int>> lanes;

  bool Has(const LaneId& id) const { return lanes.contains({id.route_id, id.lane}); }
  void Add(const Part& part) {
    routes.emplace(part.id.route_id, part.route);
    lanes.emplace(part.id.route_id, part.id.lane);
  }
};

UntoldLanes FindUntold(const LaneViews& views) {
  UntoldLanes untold;
  for (const Part& part : LoadParts()) {
    if (!IsTold(views.Find(part.id.route_id, part.id.lane, part.id.side))) {
      untold.Add(part);
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

}  // namespace

const pg::StandingSlot* FindStanding(const std::vector<pg::StandingSlot>& slots, const LaneId& id,
                                     const Position& position) {
  const auto slot = std::lower_bound(slots.begin(), slots.end(), id,
                                     [](const pg::StandingSlot& one, const LaneId& of) { return one.lane < of; });
  const bool found = slot != slots.end() && slot->lane == id && slot->stood_xmin == position.base.xmin &&
                     slot->stood_xmax == position.base.xmax && slot->stood_done_to == position.done_to &&
                     slot->looked_to.count >= 0;
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
        route.more = route.more || !view.caught_up;
        AddTold(view, &route);
      }
    }
    return routes;
  }
  const LaneViews by_lane(views);
  const std::vector<Part> parts = LoadParts();
  UntoldLanes untold;
  for (const Part& part : parts) {
    const OwnedLaneView* view = by_lane.Find(part.id.route_id, part.id.lane, part.id.side);
    RouteWaiting& route = routes[part.id.route_id];
    const bool owned = view != nullptr && view->owned;
    if (part.id.side == 0) {
      (owned ? route.owned : route.unowned)++;
    }
    if (owned) {
      route.inflight += view->inflight_count;
      if (view->behind_since != 0) {
        NoteBehind(*view, &route);
      }
    }
    if (!IsTold(view)) {
      untold.Add(part);
      route.more = route.more || !readable.positions;
    }
  }
  for (const Part& part : parts) {
    const OwnedLaneView* view = by_lane.Find(part.id.route_id, part.id.lane, part.id.side);
    if (view != nullptr && view->owned && (!readable.positions || !untold.Has(part.id))) {
      AddTold(*view, &routes[part.id.route_id]);
    }
  }
  if (untold.routes.empty() || !readable.positions) {
    return routes;
  }
  std::vector<LaneRecord> lanes = LoadUntold(untold);
  const auto begin = [&](const LaneId& id, Position* position) {
    RouteWaiting* route = &routes[id.route_id];
    const OwnedLaneView* view = by_lane.Find(id.route_id, id.lane, id.side);
    if (BeginBehind(view, position)) {
      AddTold(*view, route);
    }
    if (const pg::StandingSlot* slot = FindStanding(standing, id, *position); slot != nullptr) {
      position->base = slot->looked_to.Get().value();
      Add({slot->waiting, slot->oldest, false, 0}, route);
    }
  };
  for (LaneRecord& lane : lanes) {
    begin({lane.route_id, lane.lane, 0}, &lane.position);
    for (SideRecord& side : lane.sides) {
      begin({lane.route_id, lane.lane, side.side}, &side.position);
    }
  }
  SurveyLimits limits = kFigureSurvey;
  limits.parked = readable.parked ? limits.parked : 0;
  const std::vector<LaneWaiting> found = Survey(lanes, log, limits);
  for (size_t i = 0; i < lanes.size(); i++) {
    RouteWaiting* route = &routes[lanes[i].route_id];
    Add(found[i].own, route);
    for (const Waiting& side : found[i].sides) {
      Add(side, route);
    }
  }
  return routes;
}

std::vector<LaneWaiting> Survey(const std::vector<LaneRecord>& lanes, const LogEstimate& log,
                                const SurveyLimits& limits, const Snapshot* until) {
  return Surveyor(lanes, log, limits, until).Run();
}

// --- lanes that stand --------------------------------------------------------------------------------------------

struct StandingLanes::Kept {
  Position stood;   // the lane's position
  Position looked;  // the same, as far as was looked
  int64 waiting = 0;
  int64 oldest = 0;
  int rounds = 0;  // in which it stood there
  bool seen = false;
};

StandingLanes::StandingLanes() : stride_(10'000) {}
StandingLanes::~StandingLanes() = default;

void StandingLanes::Step() {
  constexpr SurveyLimits kWalk = {250'000, 1'000'000, 32, 0, 1'000};
  constexpr uint64 kLongestStride = 1'000'000;
  constexpr int64_t kTime = 100'000;
  constexpr int64_t kShare = 10;
  const int64_t began = MonotonicMicros();
  pg::DatabaseSlot* database = pg::Guard([] { return pg::FindDatabaseSlot(MyDatabaseId, false); });
  if (began < next_ || database == nullptr) {
    return;
  }
  if (const uint64 now = pg_atomic_read_u64(&database->config_generation); now != generation_) {
    generation_ = now;
    kept_.clear();
  }
  const std::vector<OwnedLaneView> views = ReadLaneViews(MyDatabaseId);
  const LaneViews by_lane(views);
  const UntoldLanes untold = FindUntold(by_lane);
  std::vector<LaneRecord> lanes = LoadUntold(untold);
  for (auto& [id, kept] : kept_) {
    kept.seen = false;
  }
  Snapshot now;
  pg::Guard([&now] { log::ReadActiveSnapshot(&now); });
  std::vector<std::pair<Kept*, Position*>> parts;
  const auto begin = [&](const LaneId& id, const OwnedLaneView* view, Position* position) {
    static_cast<void>(BeginBehind(view, position));
    if (IsTold(view)) {
      *position = {now, std::nullopt, kBeforeAllTime};
      return;
    }
    Kept& kept = kept_[id];
    kept.rounds = kept.stood == *position ? kept.rounds + 1 : 0;
    if (kept.rounds == 0) {
      kept = Kept{*position, *position};
    }
    kept.seen = true;
    if (kept.rounds == 0) {
      *position = {now, std::nullopt, kBeforeAllTime};
    } else {
      *position = kept.looked;
      parts.emplace_back(&kept, position);
    }
  };
  for (LaneRecord& lane : lanes) {
    begin({lane.route_id, lane.lane, 0}, by_lane.Find(lane.route_id, lane.lane), &lane.position);
    for (SideRecord& side : lane.sides) {
      begin({lane.route_id, lane.lane, side.side}, by_lane.Find(lane.route_id, lane.lane, side.side), &side.position);
    }
  }
  std::erase_if(kept_, [](const auto& one) { return !one.second.seen; });
  const LogEstimate* log = parts.empty() ? nullptr : pg::Guard([]() -> const LogEstimate* { return EstimateLog(); });
  while (log != nullptr && log->whole() && MonotonicMicros() - began < kTime) {
    const Snapshot* last = nullptr;
    for (const auto& [kept, position] : parts) {
      last = last == nullptr || Earlier(&position->base, last) ? &position->base : last;
    }
    if (last == nullptr || *last == now || last->xmax > now.xmax) {
      break;
    }
    // A cut between two transactions is no snapshot that was ever taken, but does for counting.
    Snapshot until = now;
    if (last->xmax + stride_ < now.xmax) {
      until.xmax = last->xmax + stride_;
      std::erase_if(until.xip, [&](uint64 xid) { return xid >= until.xmax; });
      until.xmin = std::min(until.xmin, until.xmax);
    }
    SurveyLimits limits = kWalk;
    if (stride_ == 1) {
      limits.rows = limits.judgments = SIZE_MAX / 2;  // one transaction of many events
    }
    const std::vector<LaneWaiting> found = Survey(lanes, *log, limits, &until);
    if (std::any_of(found.begin(), found.end(), [](const LaneWaiting& lane) {
          return lane.own.more ||
                 std::any_of(lane.sides.begin(), lane.sides.end(), [](const Waiting& w) { return w.more; });
        })) {
      if (stride_ == 1) {
        break;
      }
      stride_ = std::max<uint64>(stride_ / 8, 1);
      continue;
    }
    stride_ = std::min(stride_ * 2, kLongestStride);
    for (size_t i = 0; i < lanes.size(); i++) {
      const auto go_on = [&](const LaneId& id, const Waiting& more, Position* position) {
        const auto kept = kept_.find(id);
        if (kept != kept_.end() && until.Covers(position->base)) {
          kept->second.waiting += more.count;
          kept->second.oldest = kept->second.oldest == 0 || (more.oldest != 0 && more.oldest < kept->second.oldest)
                                    ? more.oldest
                                    : kept->second.oldest;
          position->base = until;
          kept->second.looked = kept->second.rounds > 0 ? *position : kept->second.looked;
        }
      };
      LaneRecord& lane = lanes[i];
      go_on({lane.route_id, lane.lane, 0}, found[i].own, &lane.position);
      for (size_t s = 0; s < lane.sides.size(); s++) {
        go_on({lane.route_id, lane.lane, lane.sides[s].side}, found[i].sides[s], &lane.sides[s].position);
      }
    }
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
      slot->generation = generation_;
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
