// Behind the view outbox.pg_stat_progress_outbox [P]: what takes long and is under way. Procedures say themselves how
// far they are (admin/common/progress.h); what outlives its session, or has none, is read from the tables: replays,
// changes of the number of lanes; and how far routes have come in a backlog since they fell behind.
#include <algorithm>
#include <cmath>
#include <map>

#include "admin/common/query.h"
#include "admin/lookup/parked_counts.h"
#include "admin/lookup/pauses.h"
#include "admin/lookup/route_waiting.h"
#include "admin/lookup/shared_views.h"
#include "base/count_text.h"
#include "metrics/store.h"
#include "pg/entry.h"
#include "pg/subtransaction.h"

namespace {

using namespace outbox::admin;
using outbox::pg::Guard;
namespace metrics = outbox::metrics;

struct Operation {
  Cell command;
  Cell pid;
  Cell who;
  Cell route;
  Cell phase;
  int64 since = 0;  // Unix microseconds; 0: not known
  int64 done = 0;
  int64 total = 0;
  double rate = -1;     // a second; negative: nothing can be said
  bool known = true;    // done is
  bool counted = true;  // total is
  bool estimated = false;
  int64 stands = 0;  // of what is left: what nobody is at, so that no end can be foreseen
  Cell hint;
};

double RateOf(int64 done, int64 since) {
  const int64 micros = outbox::pg::UnixNow() - since;
  return since == 0 || micros < USECS_PER_SEC / 2 ? -1 : static_cast<double>(done) * 1e6 / static_cast<double>(micros);
}

void Return(const Operation& of, ResultSet* result) {
  Cell rate, left;
  if (of.rate >= 0) {
    char text[32];
    pg_snprintf(text, sizeof(text), "%.1f", of.rate);
    rate = text;
  }
  if (of.rate > 0 && of.stands == 0 && of.counted) {
    left = std::to_string(static_cast<int64>(std::ceil(static_cast<double>(of.total - of.done) / of.rate))) + " s";
  }
  result->Add({of.command, of.pid, of.who, of.route, of.phase, UnixMicrosCell(of.since),
               of.known ? Cell(std::to_string(of.done)) : Cell(), of.counted ? Cell(std::to_string(of.total)) : Cell(),
               of.counted ? Cell(of.estimated ? "true" : "false") : Cell(), rate, left, of.hint});
}

// Adds what sessions do; returns where the replays among them are, by number.
std::map<int64, size_t> AddSessions(std::vector<Operation>* operations) {
  std::map<int64, size_t> numbers;
  if (outbox::pg::Shared() == nullptr) {
    return numbers;
  }
  std::vector<outbox::pg::ProgressSlot> slots;
  slots.reserve(static_cast<size_t>(outbox::pg::Shared()->max_progress));
  Guard([&] {
    LWLockAcquire(outbox::pg::Shared()->lock, LW_SHARED);
    for (int i = 0; i < outbox::pg::Shared()->max_progress; i++) {
      const outbox::pg::ProgressSlot& slot = outbox::pg::ProgressSlots()[i];
      if (slot.database == MyDatabaseId && slot.pid.value != 0) {
        slots.push_back(slot);
      }
    }
    LWLockRelease(outbox::pg::Shared()->lock);
  });
  for (const outbox::pg::ProgressSlot& slot : slots) {
    const Oid role = slot.role;
    Operation of;
    of.command = slot.command;
    of.pid = std::to_string(slot.pid.value);
    const char* name = Guard([role]() -> const char* { return GetUserNameFromId(role, true); });
    of.who = name == nullptr ? Cell() : Cell(name);
    of.route = slot.subject[0] == '\0' ? Cell() : Cell(slot.subject);
    of.phase = slot.number != 0 ? "copying" : "in batches";
    of.since = slot.since + kPgEpochMicros;
    of.done = static_cast<int64>(slot.done.value);
    of.total = static_cast<int64>(slot.total.value);
    of.rate = RateOf(of.done, of.since);
    if (slot.number != 0) {
      of.hint = "SELECT outbox.cancel_replay(" + std::to_string(slot.number) + ") ends it.";
      numbers[slot.number] = operations->size();
    } else {
      of.hint = "SELECT pg_cancel_backend(" + std::to_string(slot.pid.value) + ") ends it; what is done stays done.";
    }
    operations->push_back(std::move(of));
  }
  return numbers;
}

// What keeps the events of a route, parked ones too, from going just now; empty: nothing that is known.
std::string WhatStops(const std::vector<OwnedLaneView>& views, const Pause* pause, int64 route_id) {
  if (pause != nullptr) {
    return "paused: " + pause->reason;
  }
  std::string trouble = "no worker has the route";
  for (const OwnedLaneView& view : views) {
    if (view.owned && view.id.route_id == route_id) {
      if (view.trouble.empty() && view.state != outbox::LaneState::kPaused) {
        return "";
      }
      trouble = view.trouble.empty() ? "paused" : std::string(view.trouble.code) + ": " + view.trouble.message;
    }
  }
  return trouble;
}

// What is done of a replay are the copies that have gone, also while a session still copies: some go meanwhile.
// `copied_now`: places in `operations` by number.
void AddReplays(const std::map<int64, size_t>& copied_now, std::vector<Operation>* operations) {
  constexpr int64 kMostCounted = 1'000'000;
  const std::vector<Row> rows = RunSql(
      Access::kRead,
      "SELECT q.number, q.who, coalesce(f.name, q.route), q.state, q.copied, q.matched, (extract(epoch FROM q.at) * "
      "1000000)::bigint, q.n, t.id, t.server FROM (SELECT r.*, x.n FROM outbox.replay r CROSS JOIN LATERAL (SELECT "
      "count(*) AS n FROM (SELECT FROM outbox_internal.parked p "
      "WHERE r.state <> 'cancelled' AND p.replay = r.number AND p.replay <> 0 AND p.state <> 'dead' "
      "LIMIT $1::bigint) y) x WHERE r.state IN ('copying', 'interrupted') OR x.n > 0 OFFSET 0) q "
      "LEFT JOIN LATERAL outbox_internal.route_of_name(q.route, q.at) fi ON true "
      "LEFT JOIN outbox.route f ON f.id = fi.route_id "
      "LEFT JOIN LATERAL outbox_internal.route_of_name(q.to_route, q.at) ti ON true "
      "LEFT JOIN outbox.route t ON t.id = ti.route_id ORDER BY 1",
      {Cell(std::to_string(kMostCounted))}, outbox::admin::Plan::kByKey);
  if (rows.empty()) {
    return;
  }
  const std::vector<OwnedLaneView> views = ReadLaneViews(MyDatabaseId);
  const std::vector<Pause> pauses = LoadPauses();
  for (const Row& row : rows) {
    const std::string& number = row[0].value();
    const auto session = copied_now.find(Number(row[0]));
    const int64 left = Number(row[7]);
    Operation made;
    Operation& of = session == copied_now.end() ? made : (*operations)[session->second];
    of.done = std::max<int64>(Number(row[4]) - left, 0);
    of.known = left < kMostCounted;
    of.rate = of.known && of.done > 0 ? RateOf(of.done, Number(row[6])) : -1;
    const Pause* pause = row[8] ? FindRoutePause(pauses, Number(row[8]), row[9].value()) : nullptr;
    const std::string stops = WhatStops(views, pause, Number(row[8]));
    if (!stops.empty()) {
      of.rate = -1;
    }
    if (session != copied_now.end()) {
      of.hint = row[4].value() + " are copied. " + of.hint.value_or("");
      continue;
    }
    of.command = "replay";
    of.who = row[1];
    of.route = row[2];
    of.since = Number(row[6]);
    if (row[3] == "scheduled") {
      of.phase = stops.empty() ? "sending" : "waits";
      of.total = Number(row[4]);
      of.hint = (stops.empty() ? "" : stops + ". ") + "SELECT outbox.cancel_replay(" + number + ") ends it.";
    } else {
      of.phase = "interrupted";
      of.total = Number(row[5]);
      of.rate = -1;
      of.hint = "CALL outbox.replay(number => " + number + ", dry_run => false) goes on, SELECT outbox.cancel_replay(" +
                number + ") ends it.";
    }
    operations->push_back(std::move(made));
  }
}

// A lane has arrived that stands where all are to be exchanged.
void AddLaneChanges(std::vector<Operation>* operations) {
  for (const Row& row :
       RunSql(Access::kRead,
              "SELECT r.name, r.lanes, r.lanes_wanted, r.lanes_begun IS NOT NULL, r.common_snapshot IS NOT NULL, "
              "(extract(epoch FROM r.lanes_begun) * 1000000)::bigint, (SELECT count(*) FROM outbox_internal.position p "
              "WHERE p.route_id = r.id AND p.side = 0 AND p.window_to IS NULL "
              "AND p.window_from::text = r.common_snapshot::text), "
              "(SELECT a.who FROM outbox_internal.route_names(r.created_at) n JOIN outbox.audit a ON a.route = n.name "
              "AND a.at BETWEEN n.since AND n.until WHERE n.route_id = r.id AND a.action = 'alter_route' "
              "AND a.detail -> 'changed' ? 'lanes' ORDER BY a.at DESC LIMIT 1) "
              "FROM outbox.route r WHERE r.lanes_wanted IS NOT NULL ORDER BY 1")) {
    Operation of;
    of.command = "lane change";
    of.who = row[7];
    of.route = row[0];
    of.phase = row[4] == "t" ? "reading up to the common snapshot" : row[3] == "t" ? "lanes stop" : "waits";
    of.since = Number(row[5]);
    of.done = Number(row[6]);
    of.total = Number(row[1]);
    const std::string resume = ResumeCalls(Access::kRead, row[0].value());
    of.hint = !resume.empty() ? Cell("The route is paused: it waits for " + resume + ".")
              : row[3] == "t"
                  ? Cell("From " + row[1].value() + " lanes to " + row[2].value() + ".")
                  : Cell(
                        "It begins when all lanes are near the end of the log and no topic has left its lane; see "
                        "outbox.lag.");
    operations->push_back(std::move(of));
  }
}

// What a route has done since it fell behind; nullptr: it counts together with others.
const outbox::Drain* FindDrain(int64 route_id) {
  const metrics::Store* store = metrics::Figures();
  const outbox::Drain* found = nullptr;
  for (int i = 0; store != nullptr && i < store->max_routes; i++) {
    const metrics::RouteSlot& slot = metrics::RouteSlots()[i];
    if (slot.database.load() == MyDatabaseId && slot.route_id == route_id &&
        (found == nullptr || slot.figures.drain.seen > found->seen)) {
      found = &slot.figures.drain;
    }
  }
  return found;
}

bool IsBehind(int64 since, int64 now) {
  return since != 0 && now - since >= outbox::Drain::kLasts;
}

bool SendsParked(const std::vector<OwnedLaneView>& views, int64 route_id) {
  return std::any_of(views.begin(), views.end(), [route_id](const OwnedLaneView& view) {
    return view.owned && view.id.route_id == route_id && view.sends_parked;
  });
}

// What is in the way of the events of a route that nobody sends just now.
std::string InTheWay(const Pause* pause, const RouteWaiting& behind) {
  return pause != nullptr         ? "paused: " + pause->reason
         : behind.trouble.empty() ? "a topic or key is paused"
                                  : behind.trouble;
}

Cell DrainHint(const Pause* pause, const RouteWaiting& behind, const Operation& of) {
  constexpr const char* kSeeLag = ". outbox.lag says what is in the way of each lane.";
  if (of.phase == "waits") {
    return (behind.standing == 0 && behind.trouble.empty() && pause == nullptr ? std::string("nothing is acknowledged")
                                                                               : InTheWay(pause, behind)) +
           kSeeLag;
  }
  if (of.stands == 0) {
    return Cell();
  }
  std::string hint = outbox::CountText(of.stands, "event waits", "events wait") + " apart (" +
                     (behind.standing > 0 ? InTheWay(pause, behind) : "parked, and due for long") + ")";
  if (const int64 others = of.total - of.done - of.stands; others > 0 && of.rate > 0) {
    hint += ", the others for " + std::to_string(static_cast<int64>(std::ceil(static_cast<double>(others) / of.rate))) +
            " s at this rate";
  }
  return hint + kSeeLag;
}

void AddDrains(std::vector<Operation>* operations) {
  const std::vector<OwnedLaneView> views = ReadLaneViews(MyDatabaseId);
  const int64 now = outbox::pg::UnixNow();
  std::map<int64, OverdueOfRoute> overdue;
  std::map<int64, Following> following;
  // Of what cannot be read doctor() tells.
  static_cast<void>(outbox::pg::TryPart(outbox::pg::IsUnreadable, [&] {
    overdue = OverdueByRoute(kParkedCountLimit);
    if (std::any_of(overdue.begin(), overdue.end(), [](const auto& one) { return one.second.turns > 0; })) {
      following = FollowingByRoute();
    }
  }));
  if (overdue.empty() && std::none_of(views.begin(), views.end(), [now](const OwnedLaneView& view) {
        return view.owned && (IsBehind(view.behind_since, now) || view.stands_since != 0);
      })) {
    return;
  }
  const LogEstimate* log = EstimateReadableLog();
  std::map<int64, RouteWaiting> waiting = WaitingByRoute(views, ReadStanding(MyDatabaseId), *log);
  const std::vector<Pause> pauses = LoadPauses();
  for (const Row& route : RunSql(Access::kRead, "SELECT r.id, r.name, r.server FROM outbox.route r ORDER BY 2")) {
    const auto found = waiting.find(Number(route[0]));
    const auto parked = overdue.find(Number(route[0]));
    const OverdueOfRoute due = parked == overdue.end() ? OverdueOfRoute() : parked->second;
    if (found == waiting.end() || (found->second.behind_since == 0 && !found->second.stopped && due.count == 0)) {
      continue;
    }
    RouteWaiting& behind = found->second;
    Operation of;
    of.command = "drain";
    of.route = route[1];
    // Lanes that stand do not know since when something has been behind them, and are behind when nothing is.
    const int64 oldest = std::min(behind.oldest, now);
    const bool waits = behind.count > 0 || behind.uncounted;
    of.since = waits && behind.behind_since != 0               ? std::max(behind.behind_since, oldest)
               : waits && behind.stopped && behind.oldest != 0 ? oldest
                                                               : now;
    of.since = due.count == 0 ? of.since : std::min(of.since, due.since);
    const outbox::Drain* drain = FindDrain(Number(route[0]));
    const bool noted = drain != nullptr && now - drain->seen <= outbox::Drain::kGap;
    if (noted) {
      of.since = std::min<int64>(of.since, drain->since);
      of.done = static_cast<int64>(drain->done());
      of.rate = of.done > 0 ? RateOf(of.done, drain->moves) : -1;
    }
    if ((!waits && due.count == 0) || !IsBehind(of.since, now)) {
      continue;  // it wants nothing of what is behind it
    }
    const auto follow = following.find(Number(route[0]));
    const Following next = follow == following.end() ? Following() : follow->second;
    of.total = of.done + behind.count + due.count + next.count;
    of.counted = !behind.uncounted;
    of.estimated = behind.more || due.capped || next.capped;
    // Of a route that counts with others it is not known what it has done; of what is parked, in its first seconds.
    const bool sends_parked = due.count > 0 && SendsParked(views, Number(route[0])) && (!noted || of.done > 0);
    const bool sends = (behind.moves && (drain == nullptr || of.done > 0)) || sends_parked;
    of.phase = sends ? "sending" : "waits";
    // Many that were delayed may be due for long, and go one after the other.
    const int64 others = sends_parked && due.turns == 0 ? 0 : due.count - due.turns;
    const int64 late = others > 0 && now - due.others_due > kOverdueGrace ? others : 0;
    of.stands = sends ? behind.standing + late : of.total - of.done;
    of.rate = sends ? of.rate : -1;
    const Pause* pause = FindRoutePause(pauses, Number(route[0]), route[2].value());
    if (behind.trouble.empty() && behind.standing == 0 && !sends) {
      behind.trouble = WhatStops(views, pause, Number(route[0]));  // a lane that is well with the log is not behind
    }
    of.hint = of.counted ? DrainHint(pause, behind, of)
                         : Cell("The log is locked or damaged and cannot be counted: see outbox.doctor().");
    operations->push_back(std::move(of));
  }
}

}  // namespace

OUTBOX_FUNCTION(outbox_progress) {
  ResultSet result(fcinfo);
  result.Begin();
  std::vector<Operation> operations;
  const std::map<int64, size_t> copied_now = AddSessions(&operations);
  AddReplays(copied_now, &operations);
  AddLaneChanges(&operations);
  AddDrains(&operations);
  for (const Operation& of : operations) {
    Return(of, &result);
  }
  return static_cast<Datum>(0);
}
