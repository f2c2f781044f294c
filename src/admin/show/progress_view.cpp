// Behind the view outbox.pg_stat_progress_outbox [P]: what takes long and is under way. Procedures say themselves how
// far they are (admin/common/progress.h); what outlives its session, or has none, is read from the tables: replays,
// changes of the number of lanes; and how far lanes have come in a backlog, from where they stood when they fell
// behind.
#include <algorithm>
#include <cmath>
#include <cstdlib>

#include "admin/common/query.h"
#include "admin/lookup/shared_views.h"
#include "admin/show/log_estimate.h"
#include "pg/entry.h"

namespace {

using namespace outbox::admin;
using outbox::pg::Guard;

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

// Rows of the log that a route had before it when it fell behind, and those of them that it has passed.
void AddDrains(std::vector<Operation>* operations) {
  const std::vector<OwnedLaneView> views = ReadLaneViews(MyDatabaseId);
  const int64 now = Now();
  const LogEstimate* log = nullptr;
  for (const Row& route : RunSql(Access::kRead, "SELECT r.id, r.name, r.server FROM outbox.route r ORDER BY 2")) {
    double before = 0;
    double left = 0;
    int lanes = 0;
    Operation of;
    bool stands = true;
    for (const OwnedLaneView& view : views) {
      if (view.id.route_id != Int(route[0]) || view.id.side != 0 || !view.owned) {
        continue;
      }
      lanes++;
      if (view.behind_since == 0 || now - view.behind_since < kBehindFor) {
        continue;
      }
      of.since = of.since == 0 ? view.behind_since : std::min(of.since, view.behind_since);
      stands = stands && (!view.trouble.empty() || strcmp(view.state, "paused") == 0);
      double* rows[] = {&before, &left};
      const uint64 from[] = {view.behind_from, view.next_xid};
      Guard([&] {
        log = log == nullptr ? EstimateLog() : log;
        for (int i = 0; i < 2; i++) {
          *rows[i] += EstimateBehind(*log, from[i]).rows;
        }
      });
    }
    if (of.since == 0) {
      continue;
    }
    of.command = "drain";
    of.route = route[1];
    of.total = static_cast<int64>(std::llround(before / lanes));
    of.done = std::clamp<int64>(std::llround((before - left) / lanes), 0, of.total);
    of.rate = RateOf(of.done, of.since);
    stands = stands || of.done == 0;
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
