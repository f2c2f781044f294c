// wait_for and wait_until_idle [P].
//
// Both ask for a barrier: the database's counter goes up, workers wake, and each lane publishes the number once all
// that it could see after it saw the number is delivered or parked; what is parked and not dead is looked up in the
// table. The caller polls shared memory; workers cannot set its latch, since they do not know which backends wait.
//
// A lane that does not read (it is paused, or nobody has it) reaches no barrier. wait_until_idle counts in the log what
// such a lane has still to deliver: if that is nothing, there is nothing to wait for.
#include <algorithm>
#include <map>
#include <optional>
#include <set>
#include <span>
#include <utility>

#include "admin/common/operation.h"
#include "admin/common/query.h"
#include "admin/common/text_encoding.h"
#include "admin/lookup/backlog.h"
#include "admin/lookup/find_event.h"
#include "admin/lookup/parked_counts.h"
#include "admin/lookup/pauses.h"
#include "admin/lookup/processes.h"
#include "admin/lookup/shared_views.h"
#include "admin/lookup/try_lock.h"
#include "admin/show/side_trouble.h"
#include "base/fault_point.h"
#include "base/monotonic.h"
#include "pg/clock.h"
#include "pg/entry.h"
#include "pg/schemas.h"
#include "pg/wait.h"
#include "pg/wall.h"
#include "pg/writable.h"

namespace {

using namespace outbox::admin;
using outbox::pg::Guard;
using outbox::pg::UserError;

constexpr int64 kLongestSliceMicros = 50 * 1000;
constexpr int64 kTableCheckMicros = 200 * 1000;  // how often the tables are read again
constexpr int64 kForever = 365 * USECS_PER_DAY;

int64 TimeoutMicros(FunctionCallInfo fcinfo, int number) {
  if (PG_ARGISNULL(number)) {
    throw UserError{ERRCODE_NULL_VALUE_NOT_ALLOWED, "timeout must not be null", "", "For example '10 s'."};
  }
  Interval* timeout = Guard([&] { return PG_GETARG_INTERVAL_P(number); });
  int64 days = static_cast<int64>(timeout->month) * DAYS_PER_MONTH + timeout->day;
  if (days < 0 || timeout->time < 0) {
    throw UserError{ERRCODE_INVALID_PARAMETER_VALUE, "timeout must not be negative", "",
                    "0 looks once and does not wait; '10 s' waits so long at most."};
  }
  return std::min(kForever, std::min<int64>(days, 365) * USECS_PER_DAY + std::min<int64>(timeout->time, kForever));
}

// Waiting makes sense only where workers can run.
uint64 AskForBarrier() {
  RequirePreload();
  if (RecoveryInProgress()) {
    throw UserError{ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE, "nothing is published during recovery", "",
                    outbox::pg::RecoveryHint("Wait on the primary server.")};
  }
  return outbox::pg::AskForBarrier(RequirePlace());
}

struct LaneKey {
  int64 route_id;
  int lane;
  std::optional<int64> owner;  // as in the table; nullopt: any
};

// What a barrier is looked up in: what lanes show, their workers, and the database.
struct Reached {
  std::vector<OwnedLaneView> views;
  LaneViews lanes;
  std::vector<WorkerView> workers;
  uint64 everywhere;

  Reached() : views(ReadLaneViews(MyDatabaseId)), lanes(views), workers(ReadWorkerViews()), everywhere(0) {
    if (outbox::pg::DatabaseSlot* slot = outbox::pg::FindDatabaseSlot(MyDatabaseId, false)) {
      everywhere = pg_atomic_read_u64(&slot->barrier_done);
    }
  }

  bool By(const LaneKey& lane, uint64 barrier) const {
    // One worker had all lanes, and left when it had nothing more to do.
    if (everywhere >= barrier) {
      return true;
    }
    const OwnedLaneView* view = lanes.Find(lane.route_id, lane.lane);
    if (view != nullptr) {
      return view->owned && view->barrier >= barrier && (!lane.owner || static_cast<int64>(view->owner) == *lane.owner);
    }
    // A lane beyond outbox.max_lanes is not shown: then the barrier of its worker counts. (A copy of a database has its
    // owners by the dump: workers of the original, with barriers of that.)
    return lane.owner && std::any_of(workers.begin(), workers.end(), [&](const WorkerView& worker) {
             return worker.running && worker.database == MyDatabaseId &&
                    static_cast<int64>(worker.incarnation) == *lane.owner && worker.barrier >= barrier;
           });
  }
};

void Sleep(int64 milliseconds) {
  Guard([&] {
    static uint32 wait_event = 0;
    if (wait_event == 0) {
      wait_event = outbox::pg::WaitEventFor("OutboxWaitForDelivery");
    }
    outbox::pg::WaitForLatch(static_cast<long>(milliseconds), wait_event);
    CHECK_FOR_INTERRUPTS();
  });
}

// Calls `check_tables` at once and a few times a second, `done` far more often, until that is true. `end`, here and
// below: monotonic microseconds.
template <typename CheckTables, typename Done>
bool WaitUntil(int64 end, CheckTables&& check_tables, Done&& done) {
  int64 next_check = 0;
  int64 slice = 2000;
  for (;;) {
    const int64 now = outbox::MonotonicMicros();
    if (now >= next_check) {
      check_tables();
      next_check = now + kTableCheckMicros;
    }
    if (done()) {
      return true;
    }
    int64 left = std::min<int64>(slice, end - now);
    if (left <= 0) {
      return false;
    }
    Sleep((left + 999) / 1000);
    slice = std::min(slice * 2, kLongestSliceMicros);
  }
}

// What is looked at while waiting.
constexpr const char* kLookedAt[] = {"route",      "pause",  "lane",    "progress", "side_lane", "side_topic",
                                     "lane_start", "parked", "outcome", "log",      "log_spare", "origin"};
// What status() looks at besides, which wait_for() asks.
constexpr const char* kLookedAtByStatus[] = {"audit", "server_run", "tick"};

// One of these tables that somebody has locked against being looked at; nullptr: none, nor before this transaction
// ends. Plain.
const char* LockedTable(std::span<const char* const> tables) {
  for (const char* table : tables) {
    const Oid oid = outbox::pg::FindOurRelation(table);
    if (OidIsValid(oid) && !LockToLook(oid)) {
      return table;
    }
  }
  return nullptr;
}

// Waits for whoever has a table locked, until the time is over, but at least for a moment: who makes a day table needs
// no longer. Returns false then, and says so.
bool AwaitTables(int64 end, bool status) {
  end = std::max(end, outbox::MonotonicMicros() + kTableCheckMicros);
  for (;;) {
    const char* locked = Guard([&] {
      const char* found = LockedTable(kLookedAt);
      return found == nullptr && status ? LockedTable(kLookedAtByStatus) : found;
    });
    if (locked == nullptr) {
      return true;
    }
    const int64 left = end - outbox::MonotonicMicros();
    if (left <= 0) {
      Notice("nothing is known of deliveries within the timeout",
             std::string("Somebody has table \"") + locked + "\" locked, or one of its indexes or partitions.",
             "outbox.doctor() says who.");
      return false;
    }
    Sleep((std::min(left, kLongestSliceMicros) + 999) / 1000);
  }
}

constexpr int64 kShortestSettle = USECS_PER_SEC;
constexpr int64 kLongestSettle = 10 * USECS_PER_SEC;
constexpr int64 kSettleScanLimit = 10000;

// Calls `saved` until it returns true, for the rest of the time until `end`, but at least one second and at most ten:
// even where progress cannot be saved the events have arrived. `saved` is told when that is over.
template <typename Saved>
void Settle(int64 end, Saved&& saved) {
  const int64 now = outbox::MonotonicMicros();
  end = std::clamp<int64>(end, now + kShortestSettle, now + kLongestSettle);
  for (int64 slice_ms = 2; !saved(end) && outbox::MonotonicMicros() < end;
       slice_ms = std::min<int64>(slice_ms * 2, 50)) {
    Sleep(slice_ms);
  }
}

bool AllReached(const std::vector<LaneKey>& lanes, uint64 barrier) {
  if (lanes.empty()) {
    return true;
  }
  const Reached reached;
  return std::all_of(lanes.begin(), lanes.end(), [&](const LaneKey& lane) { return reached.By(lane, barrier); });
}

// Whether all present lanes have reached the barrier, not only those that existed a moment ago.
template <typename CheckTables>
bool StillReached(const std::vector<LaneKey>& lanes, uint64 barrier, CheckTables&& check_tables) {
  if (!AllReached(lanes, barrier)) {
    return false;
  }
  check_tables();
  return AllReached(lanes, barrier);
}

FoundEvent EventToWaitFor(const outbox::Uuid& id) {
  std::vector<FoundEvent> events = FindEvents(Access::kLatest, id);
  if (events.empty() && TransactionIdIsValid(GetTopTransactionIdIfAny())) {
    events = FindEvents(Access::kWrite, id);  // sees what this very statement has emitted
  }
  const std::string text = outbox::UuidText(id);
  if (events.empty()) {
    throw UserError{ERRCODE_UNDEFINED_OBJECT, "there is no event " + text, "",
                    "An event can be waited for after its transaction has committed and until its day is dropped."};
  }
  for (const FoundEvent& event : events) {
    if (event.mine) {
      throw UserError{ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE, "cannot wait for event " + text,
                      "It was emitted by this very transaction, and is published after it commits.",
                      "Commit first, then wait."};
    }
  }
  return events.back();
}

// Whether the event is parked and not dead.
bool EventIsParked(const FoundEvent& event) {
  return RunSql(
             Access::kLatest,
             "SELECT EXISTS (SELECT FROM outbox_internal.parked WHERE id = $1::uuid AND created_at = $2::timestamptz "
             "AND replay = 0 AND state <> 'dead')",
             {Cell(outbox::UuidText(event.id)), UnixMicrosCell(event.created_at)})[0][0] == "t";
}

// Routes on which it was given up, whatever its lane has passed.
std::set<int64> RoutesWithout(const FoundEvent& event) {
  std::set<int64> routes;
  for (const Row& row : RunSql(
           Access::kLatest,
           "SELECT route_id FROM outbox_internal.latest_outcome WHERE id = $1::uuid AND created_at = $2::timestamptz "
           "AND replay = 0 AND outcome IN ('skipped', 'discarded')",
           {Cell(outbox::UuidText(event.id)), UnixMicrosCell(event.created_at)})) {
    routes.insert(Number(row[0]));
  }
  return routes;
}

// Whether some route takes the event, and none has passed it over, or may have before it wanted it: as status() says.
bool AnyDelivers(const FoundEvent& event) {
  return RunSql(Access::kLatest,
                "SELECT coalesce(bool_and(s.state NOT IN ('passed over', 'not known', 'not routed')), false) "
                "FROM outbox.status($1::uuid) s WHERE s.created_at = $2::timestamptz AND coalesce(s.replay, 0) = 0",
                {Cell(outbox::UuidText(event.id)), UnixMicrosCell(event.created_at)})[0][0] == "t";
}

// Whether parked events wait; those scheduled for later count only if `scheduled`. What was emitted after `until` is
// not meant. What is dated later than now was emitted before all the same: while the clock was ahead that
// outbox.reset_clock() put back. Three queries, each with an index of its own.
bool AnyIsParked(int64 until, bool scheduled) {
  const int64 now = Guard([] { return outbox::pg::ClockNow(); });
  return RunSql(Access::kLatest,
                "SELECT EXISTS (SELECT FROM outbox_internal.waiting p JOIN outbox.route r ON p.route_id = r.id "
                "  WHERE p.created_at <= $1::timestamptz OR p.created_at > $3::timestamptz)"
                " OR EXISTS (SELECT FROM outbox_internal.due_shared p JOIN outbox.route r ON p.route_id = r.id "
                "  WHERE p.state = 'retrying' AND (p.created_at <= $1::timestamptz OR p.created_at > $3::timestamptz))"
                " OR EXISTS (SELECT FROM outbox_internal.parked p JOIN outbox.route r ON p.route_id = r.id "
                "  WHERE p.due_at <= $2::timestamptz AND (p.created_at <= $1::timestamptz OR p.created_at > "
                "$3::timestamptz))",
                {UnixMicrosCell(until), scheduled ? Cell("infinity") : UnixMicrosCell(outbox::pg::BelievedWall()),
                 UnixMicrosCell(now)},
                outbox::admin::Plan::kIndexOrder)[0][0] == "t";
}

// --- what was waited for, when the time is over ---

std::string Events(int64 count, bool capped, const char* what) {
  return ParkedCountText(count, capped) + (count == 1 ? " event " : " events ") + what;
}

// Topics that have left the lane, which itself is at its end; "": none has.
std::string TopicsApart(const LaneKey& lane, const Cell& route, const LaneViews& views) {
  const std::vector<Pause> pauses = LoadPauses(Access::kLatest);
  std::map<std::string, SideTrouble> topics;
  for (const LaneRecord& record : LoadLanes(route, Access::kLatest)) {
    for (const SideRecord& side : record.lane == lane.lane ? record.sides : std::vector<SideRecord>()) {
      const OwnedLaneView* view = views.Find(lane.route_id, lane.lane, side.side);
      for (const SideRecord::Topic& one : side.topics) {
        const std::string topic = FromUtf8(one.topic);
        topics[topic] = TroubleOf(record, side, topic, view, pauses);
      }
    }
  }
  if (topics.empty()) {
    return "";
  }
  const auto& [topic, trouble] = *topics.begin();
  const std::string first = "topic \"" + topic + "\"" +
                            (trouble.paused               ? " is paused"
                             : trouble.error_code.empty() ? " was paused, and is on its way back"
                                                          : " has left it: " + trouble.text());
  return topics.size() == 1 ? ": " + first
                            : ": " + std::to_string(topics.size()) + " topics wait apart, such as: " + first;
}

bool IsRestored(int64 route_id) {
  const std::vector<LaneRecord> lanes = LoadLanes(std::nullopt, Access::kLatest);
  return std::any_of(lanes.begin(), lanes.end(),
                     [&](const LaneRecord& lane) { return lane.route_id == route_id && lane.restored; });
}

// What a lane does that has not reached the barrier; one with nothing to do reaches it at once.
std::string Doing(const OwnedLaneView& view, const std::vector<WorkerView>& workers) {
  if (view.state != outbox::LaneState::kIdle) {
    return "which is " + std::string(LaneStateName(view.state));
  }
  const auto worker = std::find_if(workers.begin(), workers.end(),
                                   [&](const WorkerView& one) { return one.running && one.incarnation == view.owner; });
  return "whose relay worker" +
         (worker == workers.end() ? std::string() : ", process " + std::to_string(worker->pid) + ",") +
         " has not answered";
}

// Lanes that have not reached the barrier: how many, and the first with what is in its way.
std::string LanesBehind(const std::vector<LaneKey>& lanes, uint64 barrier) {
  const Reached reached;
  const std::set<std::pair<int64, int>> not_shown = LanesNotShown(Access::kLatest, reached.lanes);
  int64 behind = 0;
  std::string first;
  for (const LaneKey& lane : lanes) {
    if (reached.By(lane, barrier) || ++behind > 1) {
      continue;
    }
    std::vector<Row> route = RunSql(Access::kLatest, "SELECT name FROM outbox.route WHERE id = $1::bigint",
                                    {Cell(std::to_string(lane.route_id))});
    const OwnedLaneView* view = reached.lanes.Find(lane.route_id, lane.lane);
    const std::string apart = route.empty() ? "" : TopicsApart(lane, route[0][0], reached.lanes);
    const Cell nobody = WhyNobodyWorks();
    first = "lane " + std::to_string(lane.lane) + " of route \"" + (route.empty() ? "?" : route[0][0].value()) + "\"" +
            (IsRestored(lane.route_id) ? ", which came by a dump: outbox.adopt() has it go on here"
             : not_shown.contains({lane.route_id, lane.lane})
                 ? LanePlaceIsFree() ? ", whose relay worker has not shown yet what it does"
                                     : ", for which outbox.max_lanes has no place to show what its relay worker does"
             : view == nullptr || !view->owned ? ", which no relay worker has" + (nobody ? ": " + *nobody : "")
             : view->trouble.empty()           ? apart.empty() ? ", " + Doing(*view, reached.workers) : apart
                                     : (view->state == outbox::LaneState::kPaused ? ", which is paused: " : ": ") +
                                           std::string(view->trouble.code) + ": " + std::string(view->trouble.message));
  }
  return behind == 0   ? ""
         : behind == 1 ? "For " + first + "."
                       : "For " + std::to_string(behind) + " lanes, such as " + first + ".";
}

// Each once, under the state that status() gives it.
std::string ParkedLeft(bool scheduled) {
  ParkedCount all;
  for (const auto& [lane, parked] : CountParked(Access::kLatest)) {
    all.Add(parked);
  }
  int64 scheduled_due = 0;
  int64 turns = 0;  // in the table they are retrying
  bool more = all.capped;
  for (const Overdue& one : LoadOverdue(Access::kLatest)) {
    scheduled_due += one.scheduled;
    turns += one.turns;
    more = more || one.capped;
  }
  std::string text;
  for (const auto& [count, what] : {std::pair<int64, const char*>{all.retrying - turns, "retrying"},
                                    {all.blocked, "blocked behind another of the key or by a pause"},
                                    {scheduled ? all.scheduled - scheduled_due : 0, "scheduled"},
                                    {scheduled_due + turns, "due and not gone"}}) {
    if (count > 0) {
      text += (text.empty() ? "Parked: " : ", ") + Events(count, more, what);
    }
  }
  return text.empty() ? "" : text + ".";
}

// A destination that has lost what it had acknowledged, as a worker knows, and is about to be sent it again: what was
// delivered is not. Empty: none.
std::string Losing() {
  for (const OwnedDestinationView& view : ReadDestinationViews(MyDatabaseId)) {
    if (view.owned && !view.only_warning && view.state != outbox::BreakerState::kClosed &&
        strcmp(view.trouble.code, "LOST_WRITES") == 0) {
      return "Destination \"" + std::string(NameStr(view.name)) +
             "\" has lost what it had, and is asked what to send again.";
    }
  }
  return "";
}

void TellLeft(const std::vector<LaneKey>& lanes, uint64 barrier, bool scheduled) {
  std::string left = LanesBehind(lanes, barrier);
  for (const std::string& more : {ParkedLeft(scheduled), Losing()}) {
    left += (left.empty() || more.empty() ? "" : " ") + more;
  }
  Notice("the outbox is not idle within the timeout", left,
         "outbox.lag, outbox.blocked_key and outbox.doctor() show what is in the way.");
}

void TellLeft(const outbox::Uuid& id) {
  const std::string text = outbox::UuidText(id);
  std::string left;
  for (const Row& row : RunSql(
           Access::kLatest,
           "SELECT s.route, s.state, s.error_code, s.error_message FROM outbox.status($1::uuid) s WHERE s.state NOT IN "
           "('delivered', 'dead', 'skipped', 'discarded', 'passed over', 'not known', 'not routed') AND s.replay = 0 "
           "ORDER BY 1",
           {Cell(text)})) {
    left += (left.empty() ? "" : " ") + std::string("On route \"") + row[0].value_or("?") + "\" it is " +
            row[1].value_or("?") + (row[2] ? ": " + *row[2] + ": " + row[3].value_or("") : "") + ".";
  }
  Notice("event " + text + " is not delivered within the timeout", left,
         "outbox.status(id) says what becomes of it, outbox.lag and outbox.doctor() what is in the way.");
}

}  // namespace

OUTBOX_FUNCTION(outbox_wait_for) {
  if (PG_ARGISNULL(0)) {
    throw UserError{ERRCODE_NULL_VALUE_NOT_ALLOWED, "id must not be null", "", "emit() returns the id of its event."};
  }
  const int64 end = outbox::MonotonicMicros() + TimeoutMicros(fcinfo, 1);
  outbox::Uuid id;
  Guard([&] { memcpy(id.data(), PG_GETARG_UUID_P(0)->data, id.size()); });
  RequirePreload();
  if (!AwaitTables(end, true)) {
    PG_RETURN_BOOL(false);
  }
  FoundEvent event = EventToWaitFor(id);
  uint64 barrier = AskForBarrier();
  std::vector<LaneKey> waiting;
  bool parked = false;
  auto check_tables = [&] {
    parked = EventIsParked(event);
    const std::set<int64> without = RoutesWithout(event);
    waiting.clear();
    for (const LaneRecord& lane : LoadLanes(std::nullopt, Access::kLatest)) {
      // A route that cannot work may want the event: that is unknown until the route is repaired.
      if (!without.contains(lane.route_id) && (lane.spec == nullptr || Takes(lane, event)) &&
          !lane.Passed(FactsOf(event))) {
        waiting.push_back({lane.route_id, lane.lane, std::nullopt});
      }
    }
  };
  bool reached = WaitUntil(end, check_tables, [&] { return StillReached(waiting, barrier, check_tables) && !parked; });
  if (reached) {
    Settle(end, [&](int64) {
      check_tables();
      return waiting.empty();
    });
  }
  if (reached && !AnyDelivers(event)) {
    PG_RETURN_NULL();
  }
  if (!reached) {
    TellLeft(id);
  }
  PG_RETURN_BOOL(reached);
}

namespace {

// What is due by then is waited for.
int64 DueBy(bool delayed) {
  return delayed ? PG_INT64_MAX : Guard([] { return outbox::pg::BelievedWall(); });
}

// Which lanes have nothing left of what was committed before `asked`, as far as the log tells. Counting may take a
// while where much waits, and there may be many routes: so it is done seldom then, not at all before lanes had time to
// reach the barrier, and no longer than until `end`.
class EmptyLanes {
 public:
  // `delayed`: what is not due counts as left, too.
  EmptyLanes(const outbox::Snapshot& asked, bool delayed, int64 end)
      : asked_(asked), delayed_(delayed), end_(end), next_(outbox::MonotonicMicros() + kTableCheckMicros) {}

  // Takes those out of `waiting` that were found empty, now or before.
  void Remove(std::vector<LaneKey>* waiting, uint64 barrier) {
    const int64 begun = outbox::MonotonicMicros();
    if (begun >= next_ && !AllReached(*waiting, barrier)) {
      Find(*waiting, barrier);
      next_ = begun + std::max<int64>(kTableCheckMicros, 10 * (outbox::MonotonicMicros() - begun));
    }
    std::erase_if(*waiting, [this](const LaneKey& lane) { return empty_.contains({lane.route_id, lane.lane}); });
  }

 private:
  void Find(const std::vector<LaneKey>& waiting, uint64 barrier) {
    empty_.clear();
    const Reached reached;
    for (const std::vector<LaneRecord>& route : ByRoute(LoadLanes(std::nullopt, Access::kLatest))) {
      const bool behind = std::any_of(waiting.begin(), waiting.end(), [&](const LaneKey& lane) {
        return lane.route_id == route[0].route_id && !reached.By(lane, barrier);
      });
      if (!behind || route[0].spec == nullptr || route[0].restored) {
        continue;  // of a route that cannot work it is unknown what it wants, of one that came by a dump, what it has
      }
      OUTBOX_FAULT_POINT("wait_until_idle.count");
      if (outbox::MonotonicMicros() >= end_) {
        return;  // what is not counted counts as left
      }
      const std::vector<LaneBacklog> left =
          CountBacklog(route, Access::kLatest,
                       {.limit = kSettleScanLimit, .only = &asked_, .due_by = DueBy(delayed_), .parked = true});
      for (size_t i = 0; i < route.size(); i++) {
        if (left[i].pending == 0 && !left[i].capped) {
          empty_.insert({route[i].route_id, route[i].lane});
        }
      }
    }
  }

  const outbox::Snapshot& asked_;
  const bool delayed_;
  const int64 end_;
  int64 next_;
  std::set<std::pair<int64, int>> empty_;  // route and lane, as of the last count
};

}  // namespace

OUTBOX_FUNCTION(outbox_wait_until_idle) {
  const int64 end = outbox::MonotonicMicros() + TimeoutMicros(fcinfo, 0);
  bool delayed = false;
  if (PG_NARGS() > 1) {  // 0.1 has no such argument
    if (PG_ARGISNULL(1)) {
      throw UserError{ERRCODE_NULL_VALUE_NOT_ALLOWED, "include_delayed must not be null", "",
                      "Pass true to wait for what is scheduled for later, too."};
    }
    delayed = PG_GETARG_BOOL(1);
  }
  if (!AwaitTables(end, false)) {
    PG_RETURN_BOOL(false);
  }
  uint64 barrier = AskForBarrier();
  outbox::Snapshot asked = ParseSnapshot(RunSql(Access::kLatest, "SELECT pg_current_snapshot()")[0][0].value());
  int64 until = Guard([] { return outbox::pg::ClockNow(); });
  std::vector<LaneKey> waiting;
  EmptyLanes empty(asked, delayed, end);
  bool parked = false;
  auto check_tables = [&] {
    waiting.clear();
    for (const Row& row :
         RunSql(Access::kLatest, "SELECT route_id, lane, coalesce(owner, 0) FROM outbox_internal.lane")) {
      waiting.push_back({Number(row[0]), static_cast<int>(Number(row[1])), Number(row[2])});
    }
    empty.Remove(&waiting, barrier);
    parked = AnyIsParked(until, delayed);  // what has just left the log is there
  };
  bool reached = WaitUntil(end, check_tables,
                           [&] { return StillReached(waiting, barrier, check_tables) && !parked && Losing().empty(); });
  if (reached) {
    // A lane writes down within a quarter of a second that it has delivered something, and far later that it passed
    // what it does not want: where so much of that lies behind its position that it is not counted through, a second is
    // enough.
    const int64 enough = outbox::MonotonicMicros() + kShortestSettle;
    Settle(end, [&](int64 over) {
      for (const std::vector<LaneRecord>& route : ByRoute(LoadLanes(std::nullopt, Access::kLatest))) {
        if (outbox::MonotonicMicros() >= over) {
          return false;
        }
        for (const LaneBacklog& backlog :
             CountBacklog(route, Access::kLatest,
                          {.limit = kSettleScanLimit, .only = &asked, .due_by = DueBy(delayed), .parked = true})) {
          if (backlog.pending > 0 || (backlog.capped && outbox::MonotonicMicros() < enough)) {
            return false;
          }
        }
      }
      return true;
    });
  }
  if (!reached) {
    TellLeft(waiting, barrier, delayed);
  }
  PG_RETURN_BOOL(reached);
}
