// Behind the view outbox.pg_stat_progress_outbox [P]: what takes long and is under way. Procedures say themselves how
// far they are (admin/common/progress.h); what outlives its session, or has none, is read from the tables: replays,
// changes of the number of lanes; and how far routes have come in a backlog since they fell behind.
#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <map>

#include "admin/common/query.h"
#include "admin/lookup/shared_views.h"
#include "admin/lookup/survey.h"
#include "metrics/store.h"
#include "pg/entry.h"

namespace {

using namespace outbox::admin;
using outbox::pg::Guard;
namespace metrics = outbox::metrics;

// A lane that reads window after window is behind for a moment all the time.
constexpr int64 kBehindFor = 3 * USECS_PER_SEC;

struct Operation {
  Cell command;
  Cell pid;
  Cell who;
  Cell route;
  Cell phase;
  int64 since = 0;  // Unix microseconds; 0: not known
  int64 done = 0;
  int64 total = 0;
  double rate = -1;  // a second; negative: nothing can be said
  Cell hint;
};

int64 Int(const Cell& cell) {
  return cell ? std::strtoll(cell->c_str(), nullptr, 10) : 0;
}

int64 Now() {
  return GetCurrentTimestamp() + kPgEpochMicros;
}

double RateOf(int64 done, int64 since) {
  const int64 micros = Now() - since;
  return since == 0 || micros < USECS_PER_SEC / 2 ? -1 : static_cast<double>(done) * 1e6 / static_cast<double>(micros);
}

void Return(const Operation& of, ResultSet* result) {
  Cell rate, left;
  if (of.rate >= 0) {
    char text[32];
    pg_snprintf(text, sizeof(text), "%.1f", of.rate);
    rate = text;
  }
  if (of.rate > 0) {
    left = std::to_string(static_cast<int64>(std::ceil(static_cast<double>(of.total - of.done) / of.rate))) + " s";
  }
  result->Add({of.command, of.pid, of.who, of.route, of.phase, UnixMicrosCell(of.since), std::to_string(of.done),
               std::to_string(of.total), rate, left, of.hint});
}

// Adds what sessions do; returns the numbers of the replays among them.
std::vector<int64> AddSessions(std::vector<Operation>* operations) {
  std::vector<int64> numbers;
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
      numbers.push_back(slot.number);
    } else {
      of.hint = "SELECT pg_cancel_backend(" + std::to_string(slot.pid.value) + ") ends it; what is done stays done.";
    }
    operations->push_back(std::move(of));
  }
  return numbers;
}

void AddReplays(const std::vector<int64>& copied_now, std::vector<Operation>* operations) {
  for (const Row& row : RunSql(
           Access::kRead,
           "SELECT r.number, r.who, r.route, r.state, r.copied, r.matched, "
           "(extract(epoch FROM r.at) * 1000000)::bigint, r.per_second, x.n "
           "FROM outbox.replay r CROSS JOIN LATERAL (SELECT count(*) AS n FROM (SELECT FROM outbox_internal.parked p "
           "WHERE r.state = 'scheduled' AND p.replay = r.number AND p.replay <> 0 AND p.state <> 'dead' "
           "LIMIT 100000) y) x WHERE r.state IN ('copying', 'interrupted') OR x.n > 0 ORDER BY 1",
           {}, outbox::admin::Plan::kByKey)) {
    if (std::find(copied_now.begin(), copied_now.end(), Int(row[0])) != copied_now.end()) {
      continue;
    }
    const std::string& number = row[0].value();
    Operation of;
    of.command = "replay";
    of.who = row[1];
    of.route = row[2];
    of.since = Int(row[6]);
    if (row[3] == "scheduled") {
      of.phase = "sending";
      of.total = Int(row[4]);
      of.done = std::max<int64>(of.total - Int(row[8]), 0);
      of.rate = row[7] ? std::strtod(row[7]->c_str(), nullptr) : RateOf(of.done, of.since);
      of.hint = "SELECT outbox.cancel_replay(" + number + ") ends it.";
    } else {
      of.phase = "interrupted";
      of.total = Int(row[5]);
      of.done = Int(row[4]);
      of.hint = "CALL outbox.replay(number => " + number + ", dry_run => false) goes on, SELECT outbox.cancel_replay(" +
                number + ") ends it.";
    }
    operations->push_back(std::move(of));
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
              "(SELECT a.who FROM outbox.audit a WHERE a.route = r.name AND a.action = 'alter_route' "
              "ORDER BY a.at DESC LIMIT 1) "
              "FROM outbox.route r WHERE r.lanes_wanted IS NOT NULL ORDER BY 1")) {
    Operation of;
    of.command = "lane change";
    of.who = row[7];
    of.route = row[0];
    of.phase = row[4] == "t" ? "reading up to the common snapshot" : row[3] == "t" ? "lanes stop" : "waits";
    of.since = Int(row[5]);
    of.done = Int(row[6]);
    of.total = Int(row[1]);
    of.hint = row[3] == "t"
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

void AddDrains(std::vector<Operation>* operations) {
  const std::vector<OwnedLaneView> views = ReadLaneViews(MyDatabaseId);
  const int64 now = Now();
  if (std::none_of(views.begin(), views.end(), [now](const OwnedLaneView& view) {
        return view.owned && view.behind_since != 0 && now - view.behind_since >= kBehindFor;
      })) {
    return;
  }
  const LogEstimate* log = Guard([]() -> const LogEstimate* { return EstimateLog(); });
  const std::map<int64, RouteWaiting> waiting = WaitingByRoute(views, ReadStanding(MyDatabaseId), *log);
  for (const Row& route : RunSql(Access::kRead, "SELECT r.id, r.name, r.server FROM outbox.route r ORDER BY 2")) {
    const auto found = waiting.find(Int(route[0]));
    if (found == waiting.end() || found->second.behind_since == 0 || now - found->second.behind_since < kBehindFor) {
      continue;
    }
    const RouteWaiting& behind = found->second;
    Operation of;
    of.command = "drain";
    of.route = route[1];
    of.since = behind.behind_since;
    if (const outbox::Drain* drain = FindDrain(Int(route[0])); drain != nullptr && drain->since != 0) {
      of.since = std::min<int64>(of.since, drain->since);
      of.done = static_cast<int64>(drain->done());
      of.rate = RateOf(of.done, drain->moves);
    }
    of.total = of.done + behind.count;
    if (of.total == 0) {
      continue;  // it wants nothing of what is behind it
    }
    const bool stands = behind.stands || of.done == 0;
    of.phase = stands ? "waits" : "sending";
    of.hint = stands ? Cell("outbox.lag says what is in the way of the route.") : Cell();
    operations->push_back(std::move(of));
  }
}

}  // namespace

OUTBOX_FUNCTION(outbox_progress) {
  ResultSet result(fcinfo);
  result.Begin();
  std::vector<Operation> operations;
  const std::vector<int64> copied_now = AddSessions(&operations);
  AddReplays(copied_now, &operations);
  AddLaneChanges(&operations);
  AddDrains(&operations);
  for (const Operation& of : operations) {
    Return(of, &result);
  }
  return static_cast<Datum>(0);
}
