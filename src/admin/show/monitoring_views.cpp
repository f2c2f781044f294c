// Behind the views outbox.lag, outbox.destination and outbox.worker [P].
#include <algorithm>
#include <cstring>
#include <map>
#include <set>

#include "admin/common/query.h"
#include "admin/common/text_encoding.h"
#include "admin/lookup/parked_counts.h"
#include "admin/lookup/pauses.h"
#include "admin/lookup/route_lanes.h"
#include "admin/lookup/route_waiting.h"
#include "admin/lookup/shared_views.h"
#include "admin/show/side_trouble.h"
#include "pg/clock.h"
#include "pg/entry.h"
#include "pg/subtransaction.h"
#include "pg/wall.h"
#include "sink/kind.h"

namespace {

using namespace outbox::admin;
using outbox::LaneId;
using outbox::pg::Guard;

// Some faults (missing server, bad template) are visible in the catalogs even if no worker has reported them.
// `unclaimed`: why free lanes stay free; nullptr: that is not known.
void AddTrouble(const LaneRecord& lane, const OwnedLaneView* view, const Pause* pause,
                const outbox::ErrorText* unclaimed, Row* row) {
  if (pause != nullptr) {
    row->insert(row->end(), {Cell("paused"), Cell("PAUSED"), Cell(pause->reason), pause->since});
  } else if (!lane.trouble.empty()) {
    row->insert(row->end(), {Cell("config"), Cell("BAD_ROUTE"), Cell(lane.trouble), Cell()});
  } else if (unclaimed != nullptr && (view == nullptr || !view->owned)) {
    row->insert(row->end(), {TextCell(ErrorClassName(unclaimed->error_class)), TextCell(unclaimed->code),
                             TextCell(unclaimed->message), Cell()});
  } else if (view != nullptr) {
    row->insert(row->end(), {TextCell(ErrorClassName(view->trouble.error_class)), TextCell(view->trouble.code),
                             TextCell(view->trouble.message), UnixMicrosCell(view->error_since_unix)});
  } else {
    row->insert(row->end(), 4, Cell());
  }
}

// Parked events of a lane, or of the topics of a side lane, that are due and have not gone.
struct Due {
  int64 count = 0;
  int64 since = 0;  // Unix microseconds; 0: none
  bool capped = false;

  void Add(const Overdue& one) {
    count += one.count;
    since = since == 0 ? one.since : std::min(since, one.since);
    capped = capped || one.capped;
  }
};

// What is overdue: first of the lane itself, then of each of its side lanes.
std::vector<Due> DueOf(const LaneRecord& lane, const std::vector<Overdue>& overdue) {
  std::vector<Due> due(1 + lane.sides.size());
  for (const Overdue& one : overdue) {
    if (one.route_id != lane.route_id || one.lane != lane.lane) {
      continue;
    }
    const int side = lane.SideOfTopic(one.topic);
    due[static_cast<size_t>(side) + 1].Add(one);
  }
  return due;
}

// What waits since: from the log when it was emitted, parked when it was due, or might have gone (Overdue).
Cell DelayCell(const Waiting& waiting, const Due& due) {
  const int64 since = waiting.oldest != 0 ? waiting.oldest : waiting.unseen;
  if (since == 0 && due.since == 0) {
    return Cell();
  }
  // Each by the clock that dated it: the server's may have jumped since.
  const int64 age = since == 0 ? 0 : Guard([] { return outbox::pg::ClockNow(); }) - since;
  const int64 late = due.since == 0 ? 0 : outbox::pg::BelievedWall() - due.since;
  return std::to_string(std::max<int64>({age, late, 0})) + " microseconds";
}

// What its worker says it is doing; a worker's lane is idle as long as it reads nothing, also while parked events of it
// are sent or before it has looked at what came: here none is idle that something waits for.
Cell StateCell(const OwnedLaneView* view, bool shown, const Waiting& waiting, const Due& due, const Pause* pause) {
  if (pause != nullptr) {
    return Cell("paused");
  }
  if (!shown) {
    return Cell(kNotShown);
  }
  if (view == nullptr || !view->owned) {
    return Cell("unowned");
  }
  const bool waits = waiting.count > 0 || due.count > 0 || (waiting.more && waiting.unseen != 0);
  if (waits && view->state == outbox::LaneState::kIdle) {
    return Cell(view->trouble.empty() ? "running" : "backing off");
  }
  return TextCell(LaneStateName(view->state));
}

std::string TopicsOf(const SideRecord& side) {
  std::string topics;
  for (const SideRecord::Topic& one : side.topics) {
    topics += (topics.empty() ? "" : ", ") + FromUtf8(one.topic);
  }
  return topics;
}

// The row of the lane itself (`side` is nullptr), or of a side lane: the topics that it serves have left the lane.
// `parked`: nullptr: they cannot be read.
Row LagRow(const LaneRecord& lane, const SideRecord* side, const Waiting& waiting, const OwnedLaneView* view,
           bool shown, const ParkedCount* parked, const Due& due, const Pause* pause, const std::vector<Pause>& pauses,
           const outbox::ErrorText* unclaimed) {
  const bool owned = view != nullptr && view->owned;
  Row row = {lane.route,
             std::to_string(lane.lane),
             side != nullptr ? Cell(std::to_string(side->side)) : Cell(),
             side != nullptr ? Cell(TopicsOf(*side)) : Cell(),
             lane.server,
             StateCell(view, shown, waiting, due, pause),
             lane.spec != nullptr && !waiting.unreadable ? Cell(std::to_string(waiting.count)) : Cell(),
             waiting.more ? "true" : "false",
             UnixMicrosCell(waiting.oldest),
             DelayCell(waiting, due),
             view != nullptr ? UnixMicrosCell(view->delivered_to) : Cell(),
             owned ? std::to_string(view->inflight_count) : "0",
             parked != nullptr ? Cell(std::to_string(parked->all())) : Cell(),
             (parked != nullptr && parked->capped) || due.capped ? "true" : "false",
             owned ? UnixMicrosCell(view->next_try_unix) : Cell()};
  if (side == nullptr || pause != nullptr || (owned && !view->trouble.empty())) {
    AddTrouble(lane, view, pause, shown ? unclaimed : nullptr, &row);
  } else {
    // Of several topics the first stands for all.
    const SideTrouble now = TroubleOf(lane, *side, FromUtf8(side->topics[0].topic), view, pauses);
    row.insert(row.end(), {TextCell(now.error_class.c_str()), TextCell(now.error_code.c_str()),
                           TextCell(now.error_message.c_str()), now.since});
  }
  row.push_back(parked != nullptr ? Cell(std::to_string(due.count)) : Cell());
  return row;
}

// The position of a lane that has had nothing to deliver is saved now and then only. Where much was written since, and
// its worker says that nothing of that waits, the log need not be looked through again. Nor is it saved while somebody
// has the table of positions locked: what was delivered meanwhile does not wait.
void GoOn(const OwnedLaneView* view, outbox::Position* position) {
  constexpr uint64 kFar = 2000;  // transactions
  if (view == nullptr || !view->owned || view->waiting > 0 || position->target) {
    return;
  }
  const bool unsaved = std::strcmp(view->trouble.code, outbox::kLocked) == 0;
  std::optional<outbox::Snapshot> live = view->found_to.Get();
  if (live && (unsaved || (view->caught_up && live->xmax > position->base.xmax + kFar)) &&
      live->Covers(position->base)) {
    position->base = std::move(*live);
  }
}

// Where the survey did not get through the log: what the lane's worker and the keeper have found counts. `behind`:
// where not all of the log could be read, since when something may wait.
Waiting WithFound(Waiting waiting, const LaneId& id, uint64 wants, const OwnedLaneView* view, outbox::Position position,
                  const std::vector<outbox::pg::StandingSlot>& standing, int64 behind) {
  if (!waiting.more) {
    return waiting;
  }
  int64 found = 0;
  int64 oldest = 0;
  if (BeginBehind(view, &position)) {
    found = view->waiting;
    oldest = view->oldest;
    // A worker that is at the end of the log has been through all that concerns its lane.
    waiting.unreadable = waiting.unreadable && !(IsTold(view) && view->trouble.empty());
  }
  if (const outbox::pg::StandingSlot* slot = FindStanding(standing, id, wants, position); slot != nullptr) {
    found += slot->waiting;
    oldest = oldest == 0 ? slot->oldest : oldest;
    waiting.unseen = 0;  // it has looked at more than this survey
  }
  waiting.count = std::max(waiting.count, found);
  waiting.oldest = waiting.oldest == 0 || (oldest != 0 && oldest < waiting.oldest) ? oldest : waiting.oldest;
  waiting.unseen = waiting.unseen == 0 ? behind : waiting.unseen;
  return waiting;
}

// See WithFound(): 0 where all of the log could be read.
int64 BehindUnread(const LogEstimate& log, const Waiting& waiting, const LaneRecord& lane, const OwnedLaneView* view) {
  return log.whole() && !waiting.unreadable ? 0 : BehindSince(lane, view);
}

int Badness(const OwnedDestinationView& view) {
  return view.state == outbox::BreakerState::kOpen       ? 3
         : view.state == outbox::BreakerState::kHalfOpen ? 2
         : !view.trouble.empty()                         ? 1
                                                         : 0;
}

const char* KindText(outbox::pg::WorkerKind kind) {
  return kind == outbox::pg::WorkerKind::kKeeper ? "keeper" : "relay";
}

// All wrappers of outbox, in the form that a cast to name[] takes.
Cell Wrappers() {
  std::vector<std::string> names;
  for (const outbox::sink::SinkKind* kind : outbox::sink::Kinds()) {
    names.emplace_back(kind->wrapper);
  }
  return TextArrayLiteral(names);
}

// Names of servers that a worker sends to. Of lanes that cannot be shown nobody knows where that is: where the route
// goes.
std::set<std::string> UsedServers() {
  const std::vector<OwnedLaneView> lanes = ReadLaneViews(MyDatabaseId);
  std::set<int64> unknown;
  if (const auto not_shown = LanesNotShown(Access::kRead, LaneViews(lanes)); !not_shown.empty() && !LanePlaceIsFree()) {
    for (const auto& [route_id, lane] : not_shown) {
      unknown.insert(route_id);
    }
  }
  std::set<std::string> used;
  for (const Row& route :
       RunSql(Access::kRead,
              "SELECT r.id, r.server, s.oid FROM outbox.route r JOIN pg_foreign_server s ON s.srvname = r.server")) {
    const int64 id = Number(route[0]);
    if (unknown.contains(id) || SendsTo(lanes, id, static_cast<Oid>(Number(route[2])))) {
      used.insert(route[1].value());
    }
  }
  return used;
}

}  // namespace

OUTBOX_FUNCTION(outbox_lag) {
  ResultSet result(fcinfo);
  result.Begin();
  std::vector<OwnedLaneView> views = ReadLaneViews(MyDatabaseId);
  std::map<std::pair<int64, int>, ParkedCount> parked;
  std::vector<Overdue> overdue;
  const bool parked_known = outbox::pg::TryPart(outbox::pg::IsUnreadable, [&] {
                              parked = CountParked(Access::kRead);
                              overdue = LoadOverdue(Access::kRead);
                            }).ok();
  const auto parked_of = [&](const LaneRecord& lane) {
    return parked_known ? &parked[{lane.route_id, lane.lane}] : nullptr;
  };
  static const ParkedCount kNoneAside = {};
  std::vector<Pause> pauses = LoadPauses();
  const std::vector<outbox::pg::StandingSlot> standing = ReadStanding(MyDatabaseId);
  const LaneViews by_lane(views);
  const std::set<std::pair<int64, int>> not_shown = LanesNotShown(Access::kRead, by_lane);
  std::vector<LaneRecord> lanes = LoadLanes(std::nullopt);
  for (LaneRecord& lane : lanes) {
    GoOn(by_lane.Find(lane.route_id, lane.lane), &lane.position);
    for (SideRecord& side : lane.sides) {
      GoOn(by_lane.Find(lane.route_id, lane.lane, side.side), &side.position);
    }
  }
  const std::vector<WorkerView> workers = ReadWorkerViews();
  const outbox::ErrorText* const unclaimed = WhyUnclaimed(workers);
  const LogEstimate* log = EstimateReadableLog();
  const std::vector<LaneWaiting> waiting = SurveyReadable(lanes, *log, kLagSurvey);
  for (size_t i = 0; i < lanes.size(); i++) {
    const LaneRecord& lane = lanes[i];
    const std::vector<Due> due = DueOf(lane, overdue);
    const Pause* pause = FindRoutePause(pauses, lane.route_id, lane.server);
    const OwnedLaneView* view = by_lane.Find(lane.route_id, lane.lane);
    const bool shown = !not_shown.contains({lane.route_id, lane.lane});
    const bool has_worker = !shown || (view != nullptr && view->owned);  // then its side lanes have it, too
    const Waiting own = WithFound(waiting[i].own, {lane.route_id, lane.lane, 0}, lane.wants, view, lane.position,
                                  standing, BehindUnread(*log, waiting[i].own, lane, view));
    result.Add(LagRow(lane, nullptr, own.Since(lane.there_since), view, shown, parked_of(lane), due[0], pause, pauses,
                      unclaimed));
    for (size_t s = 0; s < lane.sides.size(); s++) {
      const SideRecord& side = lane.sides[s];
      view = by_lane.Find(lane.route_id, lane.lane, side.side);
      const Waiting aside = WithFound(waiting[i].sides[s], {lane.route_id, lane.lane, side.side}, lane.wants, view,
                                      side.position, standing, BehindUnread(*log, waiting[i].sides[s], lane, view));
      const bool side_shown = !has_worker || (view != nullptr && view->owned);
      result.Add(LagRow(lane, &side, aside.Since(lane.there_since), view, side_shown,
                        parked_known ? &kNoneAside : nullptr, due[1 + s], pause, pauses, unclaimed));
    }
  }
  return static_cast<Datum>(0);
}

OUTBOX_FUNCTION(outbox_destination) {
  ResultSet result(fcinfo);
  result.Begin();
  std::vector<OwnedDestinationView> views = ReadDestinationViews(MyDatabaseId);
  const std::set<std::string> used = UsedServers();
  for (const Row& server : RunSql(Access::kRead,
                                  "SELECT s.oid, s.srvname, w.fdwname, p.reason, p.paused_by, "
                                  "(extract(epoch FROM p.paused_at) * 1000000)::bigint "
                                  "FROM pg_foreign_server s JOIN pg_foreign_data_wrapper w ON w.oid = s.srvfdw "
                                  "LEFT JOIN outbox.pause p ON p.server = s.srvname "
                                  "WHERE w.fdwname = ANY ($1::name[]) ORDER BY 2",
                                  {Wrappers()})) {
    const OwnedDestinationView* worst = nullptr;
    int64 workers = 0, trips = 0, deaths = 0;
    // An outage began with the first failure that one of them saw, and is over when the last of them is well.
    int64 down = PG_INT64_MAX, well = 0;
    for (const OwnedDestinationView& view : views) {
      if (!view.owned || std::to_string(view.server) != *server[0]) {
        continue;
      }
      workers++;
      trips += view.trips;
      deaths += view.deaths;
      if (view.state == outbox::BreakerState::kClosed) {
        well = std::max<int64>(well, view.since_unix);
      } else {
        down = std::min<int64>(down, view.since_unix);
      }
      worst = worst == nullptr || Badness(view) > Badness(*worst) ? &view : worst;
    }
    Row row = {server[1], server[2]};
    if (server[3]) {
      row.insert(row.end(), {Cell("paused"), UnixMicrosCell(Number(server[5])), Cell()});
    } else if (worst != nullptr) {
      row.insert(row.end(), {Cell(BreakerStateName(worst->state)),
                             UnixMicrosCell(worst->state == outbox::BreakerState::kClosed ? well : down),
                             UnixMicrosCell(worst->next_try_unix)});
    } else {
      row.insert(row.end(), {Cell(used.contains(*server[1]) ? kNotShown : "unused"), Cell(), Cell()});
    }
    row.insert(row.end(), {std::to_string(workers), std::to_string(trips), std::to_string(deaths)});
    if (worst != nullptr) {
      row.insert(row.end(), {TextCell(ErrorClassName(worst->trouble.error_class)), TextCell(worst->trouble.code),
                             TextCell(worst->trouble.message)});
    } else {
      row.insert(row.end(), 3, Cell());
    }
    row.insert(row.end(), {server[4], server[3]});
    result.Add(row);
  }
  return static_cast<Datum>(0);
}

OUTBOX_FUNCTION(outbox_worker) {
  ResultSet result(fcinfo);
  result.Begin();
  if (outbox::pg::Shared() == nullptr) {
    return static_cast<Datum>(0);
  }
  if (outbox::pg::Shared()->launcher_pid != 0) {
    result.Add({Cell("launcher"), std::to_string(outbox::pg::Shared()->launcher_pid), Cell(), Cell(), Cell(), Cell(),
                Cell("running")});
  }
  std::map<Oid, std::vector<OwnedLaneView>> lanes;
  for (const WorkerView& worker : ReadWorkerViews()) {
    bool relay = worker.kind == outbox::pg::WorkerKind::kRelay;
    if (relay && lanes.find(worker.database) == lanes.end()) {
      lanes[worker.database] = ReadLaneViews(worker.database);
    }
    int64 owned = 0;
    for (const OwnedLaneView& lane : relay ? lanes[worker.database] : std::vector<OwnedLaneView>()) {
      owned += lane.owned && lane.owner == worker.incarnation;
    }
    result.Add({KindText(worker.kind), worker.pid != 0 ? Cell(std::to_string(worker.pid)) : Cell(),
                DatabaseName(worker.database), relay ? Cell(std::to_string(worker.ordinal)) : Cell(),
                TimestampCell(worker.since), relay ? Cell(std::to_string(owned)) : Cell(),
                Cell(!worker.running   ? "starting"
                     : worker.stopping ? "stopping"
                                       : "running")});
  }
  return static_cast<Datum>(0);
}
