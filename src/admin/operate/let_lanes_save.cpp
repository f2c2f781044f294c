#include "admin/operate/let_lanes_save.h"

#include <algorithm>
#include <cstdlib>

#include "admin/common/text_encoding.h"
#include "admin/lookup/backlog.h"
#include "admin/lookup/route_lanes.h"
#include "admin/lookup/shared_views.h"
#include "base/monotonic.h"
#include "pg/transaction_end.h"
#include "pg/wait.h"

namespace outbox::admin {

namespace {

constexpr int64_t kSettle = 1'000'000;  // microseconds
constexpr long kLookAgain = 20;         // milliseconds
constexpr int64 kMostCounted = 10'000;  // with more behind them lanes are not about to be at their end

// Delivered, as far as the worker knows, and not written down.
bool Unsaved(const OwnedLaneView& view, const Backlog& left) {
  return left.oldest != 0 && left.oldest <= view.delivered_to;
}

// Whether a lane or a side lane is on its way through what is left of it, or has been and has not written that down.
// Others stand still. Where it was moved a moment ago its worker gives it back, and it is claimed anew.
bool GoesOn(const OwnedLaneView* view, const Backlog& left, bool worker) {
  if (left.pending == 0) {
    return false;
  }
  if (view == nullptr || !view->owned) {
    return worker;
  }
  return Unsaved(*view, left) || view->goes_on();
}

// The worker has read something of it, sent it perhaps, and knows of no answer; or it has one that is not written down.
bool InHand(const OwnedLaneView* view, const Backlog& left) {
  return view != nullptr && view->owned &&
         ((view->inflight_count > 0 && (left.pending > 0 || left.capped)) || Unsaved(*view, left));
}

// What is left, of what was committed before, to the lanes of one route: of a side lane by itself. A topic that has
// been away for long has much behind it, which is read behind what is left to the lane, not before it.
std::vector<LaneBacklog> CountLeft(const std::vector<LaneRecord>& lanes, const Snapshot& asked, const BacklogKey* key) {
  const BacklogQuery query = {.limit = kMostCounted, .only = &asked, .key = key, .parked = true};
  std::vector<LaneRecord> without = lanes;
  bool sides = false;
  for (LaneRecord& lane : without) {
    for (SideRecord& side : lane.sides) {
      side.position = Position{asked};
      sides = true;
    }
  }
  std::vector<LaneBacklog> left = CountBacklog(without, Access::kLatest, query);
  if (sides) {
    const std::vector<LaneBacklog> with = CountBacklog(lanes, Access::kLatest, query);
    for (size_t i = 0; i < lanes.size(); i++) {
      left[i].sides = with[i].sides;
    }
  }
  return left;
}

struct LaneVersion {
  std::string row;
  // It has no owner, who may have died with something in hand, and was not let go without an answer (then it says still
  // when it was claimed).
  bool free = false;
};

// Of a route's lanes, by number.
std::map<int, LaneVersion> ReadVersions(int64 route_id) {
  std::map<int, LaneVersion> versions;
  for (const Row& row : RunSql(Access::kWrite,
                               "SELECT l.lane, l.xmin::text || ' ' || l.ctid::text, l.owner IS NULL AND l.claimed_at "
                               "IS NULL FROM outbox_internal.lane l WHERE l.route_id = $1::bigint",
                               {Cell(std::to_string(route_id))})) {
    versions[static_cast<int>(Number(row[0]))] = {row[1].value(), row[2] == "t"};
  }
  return versions;
}

uint64 Configuration() {
  return pg::Guard([] {
    pg::DatabaseSlot* slot = pg::MyDatabaseSlot();
    return slot == nullptr ? 0 : pg_atomic_read_u64(&slot->config_generation);
  });
}

struct Look {
  bool wait = false;
  bool in_hand = false;
  bool moves = false;
  StillLanes standing;

  bool stands() const { return !moves && (standing.paused || !standing.free.empty()); }

  void At(const OwnedLaneView* view, const Backlog& left, bool worker, const LaneRecord& lane,
          const std::map<int, LaneVersion>& versions) {
    wait = wait || (!left.capped && GoesOn(view, left, worker));
    in_hand = in_hand || InHand(view, left);
    if (left.pending == 0 && !left.capped) {
      return;
    }
    if (view != nullptr && view->owned) {
      standing.paused = true;
      moves = moves || view->state != LaneState::kPaused;
      return;
    }
    // The owner of one that came by a dump is none of this database.
    const auto version = versions.find(lane.lane);
    if (version != versions.end() && (version->second.free || lane.restored)) {
      standing.free.push_back({lane.lane, version->second.row});
    } else {
      moves = true;
    }
  }
};

Look LookAt(const std::vector<LaneRecord>& lanes, const Snapshot& asked, const BacklogKey* key) {
  Look look;
  // Before the lanes are looked at: what changes meanwhile has changed since.
  look.standing.configuration = Configuration();
  const std::map<int, LaneVersion> versions =
      lanes.empty() ? std::map<int, LaneVersion>() : ReadVersions(lanes[0].route_id);
  // Before the lanes are counted: what they do meanwhile is waited for once more, at most.
  const std::vector<OwnedLaneView> all = ReadLaneViews(MyDatabaseId);
  const LaneViews views(all);
  const bool worker = CountRelays(ReadWorkerViews()) > 0;
  const std::vector<LaneBacklog> left = CountLeft(lanes, asked, key);
  for (size_t i = 0; i < lanes.size(); i++) {
    const LaneRecord& lane = lanes[i];
    // Nobody claims one that came by a dump before adopt().
    const bool claimable = worker && !lane.restored;
    look.At(views.Find(lane.route_id, lane.lane), left[i].own, claimable, lane, versions);
    for (size_t n = 0; n < lane.sides.size(); n++) {
      look.At(views.Find(lane.route_id, lane.lane, lane.sides[n].side), left[i].sides[n], claimable, lane, versions);
    }
  }
  return look;
}

// The key's lane alone: others may be far behind.
std::vector<LaneRecord> LanesOf(std::vector<LaneRecord> lanes, const BacklogKey* key) {
  if (key != nullptr && !lanes.empty() && lanes[0].spec != nullptr) {
    const auto number = static_cast<int>(format::LaneOf(key->id, Uuid{}, lanes[0].spec->lanes()));
    std::erase_if(lanes, [number](const LaneRecord& lane) { return lane.lane != number; });
  }
  return lanes;
}

}  // namespace

LanesSaved LetLanesSave(const Cell& route, const AggregateKey* key) {
  LanesSaved saved;
  saved.asked = ParseSnapshot(RunSql(Access::kWrite, "SELECT pg_current_snapshot()")[0][0].value());
  BacklogKey utf8;
  if (key != nullptr) {
    utf8 = {Utf8(key->type), Utf8(key->id)};
  }
  const BacklogKey* of_key = key != nullptr ? &utf8 : nullptr;
  const int64_t end = MonotonicMicros() + kSettle;
  std::vector<std::vector<LaneRecord>> routes = ByRoute(LoadLanes(route, Access::kWrite));
  while (!routes.empty()) {
    std::vector<std::string> waited_for;
    const bool last = MonotonicMicros() >= end;
    for (std::vector<LaneRecord>& lanes : routes) {
      const std::string name = lanes[0].route;
      const int64 id = lanes[0].route_id;
      Look look = LookAt(LanesOf(std::move(lanes), of_key), saved.asked, of_key);
      // Whoever still goes on when the time is over may deliver more of it at any moment.
      saved.standing.erase(id);
      if (!look.wait && !look.in_hand && look.stands()) {
        saved.standing.emplace(id, std::move(look.standing));
      }
      if (look.wait) {
        waited_for.push_back(name);
      }
    }
    if (waited_for.empty() || last) {
      break;
    }
    pg::Guard([] {
      pg::WaitForLatch(kLookAgain, pg::WaitEventFor("OutboxWaitForDelivery"));
      CHECK_FOR_INTERRUPTS();
    });
    routes.clear();
    for (const std::string& name : waited_for) {
      std::vector<LaneRecord> lanes = LoadLanes(name, Access::kWrite);
      if (!lanes.empty()) {  // it was not dropped meanwhile
        routes.push_back(std::move(lanes));
      }
    }
  }
  return saved;
}

std::set<int64> StillStanding(const LanesSaved& saved) {
  std::set<int64> routes;
  for (const auto& [id, standing] : saved.standing) {
    const std::map<int, LaneVersion> now = ReadVersions(id);
    const bool free = std::all_of(standing.free.begin(), standing.free.end(), [&now](const auto& lane) {
      const auto version = now.find(lane.lane);
      return version != now.end() && version->second.row == lane.version;
    });
    if (free && (!standing.paused || Configuration() == standing.configuration)) {
      routes.insert(id);
    }
  }
  return routes;
}

}  // namespace outbox::admin
