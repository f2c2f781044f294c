// outbox.metrics() and outbox.metrics_text() [P]: what dashboards and alerts are made of. From shared memory, positions
// and statistics; nothing is counted in the log, and nothing waits for a lock, whoever holds it: what is locked is left
// out, and that is a figure as well. No label is a key, an id or free text.
#include <algorithm>
#include <cstdlib>
#include <initializer_list>
#include <map>
#include <set>

#include "admin/common/query.h"
#include "admin/lookup/log_estimate.h"
#include "admin/lookup/parked_counts.h"
#include "admin/lookup/processes.h"
#include "admin/lookup/route_waiting.h"
#include "admin/lookup/shared_views.h"
#include "admin/lookup/try_lock.h"
#include "admin/show/samples.h"
#include "base/version.h"
#include "metrics/emitted.h"
#include "pg/clock.h"
#include "pg/entry.h"
#include "pg/schemas.h"
#include "pg/settings.h"
#include "pg/subtransaction.h"
#include "pg/wall.h"
#include "sink/kind.h"

extern "C" {
#include "access/xlog.h"
#include "utils/datetime.h"
#include "utils/fmgrprotos.h"
}

namespace {

using namespace outbox::admin;
using outbox::ValueOf;
using outbox::pg::Guard;
namespace metrics = outbox::metrics;

// What a route counts that has no figures of its own.
constexpr const char* kOther = "other";
// The state of parked events that is always told, so that alerts see it rise from 0. Of the others what there is.
constexpr const char* kDeadState = "dead";
// Events of one route and state, and topics, that are counted, or named, at most.
constexpr int kParkedLimit = 1000;
constexpr int kTopicLimit = 50;
// Days that have a sample of their own.
constexpr int kDayLimit = 31;
constexpr const char* kOlder = "older";
constexpr const char* kSpare = "spare";

#define OUTBOX_FAMILY(variable, name, kind, unit, help) constexpr Family variable = {name, SampleKind::kind, unit, help}

OUTBOX_FAMILY(kInfo, "outbox", kInfo, "", "versions: of the library, the extension and the server");
OUTBOX_FAMILY(kReset, "outbox_stats_reset_timestamp_seconds", kGauge, "seconds",
              "since when counters and histograms count: a crash of the server or metrics_reset() sets them to zero");
OUTBOX_FAMILY(kTransactions, "outbox_emitting_transactions", kCounter, "", "committed transactions that emitted");
OUTBOX_FAMILY(kEmitted, "outbox_events_emitted", kCounter, "", "events emitted, counted when they are committed");
OUTBOX_FAMILY(kDeduplicated, "outbox_events_deduplicated", kCounter, "",
              "calls of emit() that wrote nothing, because their dedupe_key had emitted before");
OUTBOX_FAMILY(kEmittedBytes, "outbox_emitted_bytes", kCounter, "bytes", "bytes of their payloads");
OUTBOX_FAMILY(kPublished, "outbox_events_published", kCounter, "", "events that the destination acknowledged");
OUTBOX_FAMILY(kPublishedBytes, "outbox_published_bytes", kCounter, "bytes", "bytes of their payloads");
OUTBOX_FAMILY(kAttempts, "outbox_publish_attempts", kCounter, "",
              "events handed to the destination's client, each time");
OUTBOX_FAMILY(kFailures, "outbox_publish_failures", kCounter, "",
              "events that the destination refused, by the class of the error");
OUTBOX_FAMILY(kRetries, "outbox_publish_retries", kCounter, "", "outcomes after which an event is sent again");
OUTBOX_FAMILY(kDuplicates, "outbox_possible_duplicates", kCounter, "",
              "events sent again because nobody knows whether they arrived: each may arrive twice, under the same id");
OUTBOX_FAMILY(kWindows, "outbox_windows_opened", kCounter, "", "windows of the log that lanes opened");
OUTBOX_FAMILY(kParkings, "outbox_events_parked", kCounter, "", "events parked, by the state in which");
OUTBOX_FAMILY(
    kDelivery, "outbox_commit_to_ack_seconds", kHistogram, "seconds",
    "time from commit to acknowledgement; from emit() where the commit is not known any more, and from deliver_at");
OUTBOX_FAMILY(kAck, "outbox_destination_ack_seconds", kHistogram, "seconds",
              "time from submission to acknowledgement: the destination alone, with its client library");
OUTBOX_FAMILY(kInflight, "outbox_inflight_events", kGauge, "",
              "events read from the log and not yet acknowledged or parked");
OUTBOX_FAMILY(kPending, "outbox_pending_events", kGauge, "",
              "events that the route wants and has not delivered or parked; see outbox_pending_estimated");
OUTBOX_FAMILY(
    kEstimated, "outbox_pending_estimated", kGauge, "",
    "1: not all of the log behind the route was looked at, and outbox_pending_events is estimated from samples");
OUTBOX_FAMILY(
    kAge, "outbox_oldest_pending_age_seconds", kGauge, "seconds",
    "age of the oldest of them that is known of, or of a parked event that was never refused and whose turn has "
    "come, if that is older; 0: nothing waits");
OUTBOX_FAMILY(kLanes, "outbox_lanes", kGauge, "", "lanes, by whether a relay worker has them");
OUTBOX_FAMILY(kParked, "outbox_parked_events", kGauge, "",
              "events in outbox_internal.parked, by state and class of the last error; 1000 of a state stand for as "
              "many or more");
OUTBOX_FAMILY(
    kOverdue, "outbox_parked_overdue_events", kGauge, "",
    "of these, events that are due (deliver_at, or the next try) and have not gone; 1000 of a lane stand for as "
    "many or more");
OUTBOX_FAMILY(
    kOverdueAge, "outbox_parked_overdue_age_seconds", kGauge, "seconds",
    "how long the first of them has waited: since it was due, or, if it was never refused and has waited for its "
    "turn, since it was emitted; 0: none is");
OUTBOX_FAMILY(kTopicTrouble, "outbox_topic_trouble", kGauge, "",
              "1 for each topic that has left its lane: 50 of them at most");
OUTBOX_FAMILY(kTopicsAway, "outbox_topics_away", kGauge, "", "topics that have left their lane: in trouble, or paused");
OUTBOX_FAMILY(kPauseAge, "outbox_pause_age_seconds", kGauge, "seconds",
              "how long the oldest pause has lasted; 0: none");
OUTBOX_FAMILY(kState, "outbox_destination_state", kStateSet, "",
              "closed: takes events; open: is left alone for a while");
OUTBOX_FAMILY(kTrips, "outbox_destination_trips", kCounter, "", "how often a destination was left alone");
OUTBOX_FAMILY(kDeaths, "outbox_sink_deaths", kCounter, "", "sink processes that ended unasked");
OUTBOX_FAMILY(kWorkerUp, "outbox_worker_up", kGauge, "", "1 for each background process of this database that runs");
OUTBOX_FAMILY(kWorkersWanted, "outbox_workers_wanted", kGauge, "", "relay workers that should run");
OUTBOX_FAMILY(kWorkersRunning, "outbox_workers_running", kGauge, "", "relay workers that do");
OUTBOX_FAMILY(kLastTurn, "outbox_worker_last_turn_timestamp_seconds", kGauge, "seconds", "when it last ended a turn");
OUTBOX_FAMILY(kTurns, "outbox_worker_turns", kCounter, "", "turns of a worker process, since it was started");
OUTBOX_FAMILY(kWakes, "outbox_worker_wakes", kCounter, "", "turns that a commit asked for");
OUTBOX_FAMILY(kRestarts, "outbox_worker_restarts", kCounter, "",
              "background processes that ended unasked and were started again");
OUTBOX_FAMILY(kTransaction, "outbox_oldest_transaction_age_seconds", kGauge, "seconds",
              "age of the oldest open or prepared transaction that writes: its events wait, and it holds their day");
OUTBOX_FAMILY(kDaysAhead, "outbox_days_ahead", kGauge, "", "day tables made in advance, without a gap");
OUTBOX_FAMILY(kStorage, "outbox_storage_bytes", kGauge, "bytes", "size on disk, with indexes and TOAST");
OUTBOX_FAMILY(
    kDayBytes, "outbox_log_day_bytes", kGauge, "bytes",
    "size of the log by days (UTC): what is older than a month together, and spare: events whose day had no table");
OUTBOX_FAMILY(kLogLimit, "outbox_log_limit_bytes", kGauge, "bytes",
              "outbox.max_log_size: above it delivered days are dropped before their time; 0: none");
OUTBOX_FAMILY(kClockAhead, "outbox_clock_ahead_seconds", kGauge, "seconds",
              "how far the clock of events is ahead of the server's");
OUTBOX_FAMILY(kAdopt, "outbox_adoption_needed", kGauge, "",
              "1: this outbox is a copy, and silent until outbox.adopt()");
OUTBOX_FAMILY(kMismatch, "outbox_version_mismatch", kGauge, "", "1: library and extension are of different versions");
OUTBOX_FAMILY(kEnabled, "outbox_enabled", kGauge, "", "0: outbox.enabled is off, and nothing is sent");
OUTBOX_FAMILY(kInRecovery, "outbox_in_recovery", kGauge, "", "1: a standby, which sends nothing: its primary does");
OUTBOX_FAMILY(kNotOwn, "outbox_routes_without_figures", kGauge, "",
              "routes counted as other: outbox.max_series is used up");
OUTBOX_FAMILY(kNotOwnDestinations, "outbox_destinations_without_figures", kGauge, "",
              "destinations counted as other: outbox.max_destinations is used up");
OUTBOX_FAMILY(
    kLeftOut, "outbox_figures_left_out", kGauge, "",
    "1 for each table that was locked and not waited for, or cannot be read: what it would have told is left out");

double Seconds(int64 micros) {
  return static_cast<double>(micros) / 1e6;
}

struct Route {
  int64 id = 0;
  std::string name;
  std::string server;
  const Labels* labels = nullptr;
};

struct Destination {
  std::string name;
  Oid server = InvalidOid;
  const Labels* labels = nullptr;
};

// What one answer is made from.
struct Sources {
  std::vector<Route> routes;              // by id
  std::vector<Destination> destinations;  // by name
  SharedView view;
  bool same_version = true;  // library and extension: else the tables may be others than those asked for here
  Samples* samples = nullptr;
  mutable std::set<std::string> left_out;  // tables

  const Route* Find(int64 id) const {
    auto found = std::lower_bound(routes.begin(), routes.end(), id,
                                  [](const Route& route, int64 value) { return route.id < value; });
    return found == routes.end() || found->id != id ? nullptr : &*found;
  }
  const Destination* FindServer(Oid server) const {
    for (const Destination& destination : destinations) {
      if (destination.server == server) {
        return &destination;
      }
    }
    return nullptr;
  }
  bool HasDestination(const char* name) const {
    return std::any_of(destinations.begin(), destinations.end(), [name](const auto& one) { return one.name == name; });
  }
  // Whether all these tables may be read now; each that may not is told of.
  bool MayRead(std::initializer_list<const char*> tables) const {
    if (!same_version) {
      return false;
    }
    bool all = true;
    for (const char* table : tables) {
      if (!Guard([table] { return LockToLook(table); })) {
        LeaveOut(table);
        all = false;
      }
    }
    return all;
  }
  // Has what a page or a file that cannot be read ends be no more than what needed that.
  template <typename Add>
  void AddReadable(const char* part, const Add& add) const {
    if (!outbox::pg::TryPart(outbox::pg::IsUnreadable, add).ok()) {
      LeaveOut(part);
    }
  }
  void LeaveOut(const char* part) const {
    if (left_out.insert(part).second) {
      samples->Add(kLeftOut, samples->none(), "part", part, 1);
    }
  }
};

// --- counters and histograms -------------------------------------------------------------------------------------

void AddRouteFigures(const Labels* labels, const outbox::RouteFigures& figures, Samples* samples) {
  samples->Add(kPublished, labels, static_cast<double>(ValueOf(figures.published)));
  samples->Add(kPublishedBytes, labels, static_cast<double>(ValueOf(figures.published_bytes)));
  samples->Add(kAttempts, labels, static_cast<double>(ValueOf(figures.attempts)));
  samples->Add(kRetries, labels, static_cast<double>(ValueOf(figures.retried)));
  samples->Add(kDuplicates, labels, static_cast<double>(ValueOf(figures.possible_duplicates)));
  samples->Add(kWindows, labels, static_cast<double>(ValueOf(figures.windows)));
  for (size_t i = 1; i < outbox::kErrorClasses; i++) {
    if (const uint64 failed = ValueOf(figures.failed[i]); failed > 0) {
      samples->Add(kFailures, labels, "error_class", outbox::ErrorClassName(static_cast<outbox::ErrorClass>(i)),
                   static_cast<double>(failed));
    }
  }
  static constexpr const char* kStates[outbox::kParkedStates] = {"retrying", "blocked", "scheduled",
                                                                 kDeadState};  // as ParkedState
  for (size_t i = 0; i < outbox::kParkedStates; i++) {
    if (const uint64 parked = ValueOf(figures.parked[i]); parked > 0 || kStates[i] == kDeadState) {
      samples->Add(kParkings, labels, "state", kStates[i], static_cast<double>(parked));
    }
  }
  if (ValueOf(figures.published) > 0) {  // else three dozen zeros for each
    samples->AddHistogram(kDelivery, labels, figures.delivery.all);
    samples->AddHistogram(kAck, labels, figures.acknowledgement.all);
  }
}

void AddDestinationFigures(const Labels* labels, const metrics::DestinationCounters& figures, Samples* samples) {
  samples->Add(kTrips, labels, static_cast<double>(ValueOf(figures.trips)));
  samples->Add(kDeaths, labels, static_cast<double>(ValueOf(figures.deaths)));
}

// Routes and destinations that a worker has and that count together, and what they have counted.
void AddOthers(const Sources& from, const metrics::DatabaseFigures* own, const Labels* other,
               const Labels* other_destination) {
  Samples* samples = from.samples;
  int routes = 0;
  std::set<Oid> destinations;
  for (const Route& route : from.routes) {
    for (const Destination& destination : from.destinations) {
      if (destination.name == route.server && SendsTo(from.view.lanes, route.id, destination.server)) {
        routes += metrics::HasSlot(MyDatabaseId, route.id, destination.server) ? 0 : 1;
        if (!metrics::HasSlot(MyDatabaseId, destination.server)) {
          destinations.insert(destination.server);
        }
      }
    }
  }
  samples->Add(kNotOwn, samples->none(), routes);
  samples->Add(kNotOwnDestinations, samples->none(), static_cast<double>(destinations.size()));
  if (own != nullptr && (routes > 0 || ValueOf(own->other.attempts) > 0)) {
    AddRouteFigures(other, own->other, samples);
  }
  if (own != nullptr && (!destinations.empty() || ValueOf(own->other_destinations.trips) > 0)) {
    AddDestinationFigures(other_destination, own->other_destinations, samples);
  }
}

void AddFigures(const Sources& from) {
  const metrics::DatabaseFigures* own = Guard([] { return metrics::FindDatabase(MyDatabaseId, false); });
  const metrics::Store* store = metrics::Figures();
  Samples* samples = from.samples;
  if (store == nullptr) {
    return;
  }
  const Labels* none = samples->none();
  samples->Add(kReset, none, Seconds(own == nullptr ? store->started_at : own->reset_at.load()));
  const metrics::Emitted emitted = own == nullptr ? metrics::Emitted() : own->TotalEmitted();
  samples->Add(kTransactions, none, static_cast<double>(emitted.transactions));
  samples->Add(kEmitted, none, static_cast<double>(emitted.events));
  samples->Add(kEmittedBytes, none, static_cast<double>(emitted.bytes));
  samples->Add(kDeduplicated, none, static_cast<double>(emitted.repeated));
  for (size_t i = 0; i < 2; i++) {
    samples->Add(kRestarts, none, "kind", i == 0 ? "keeper" : "relay",
                 own == nullptr ? 0 : static_cast<double>(ValueOf(own->restarts[i])));
  }
  // There may be a route, and a server, of that name. They keep their names here, so what they count is a part of the
  // sum.
  const Labels* other = samples->Keep({{"route", kOther}, {"destination", kOther}});
  const Labels* other_destination = samples->Keep({{"destination", kOther}});
  for (int i = 0; i < store->max_routes; i++) {
    const metrics::RouteSlot& slot = metrics::RouteSlots()[i];
    const Route* route = slot.database.load() == MyDatabaseId ? from.Find(slot.route_id) : nullptr;
    const Destination* destination = route == nullptr ? nullptr : from.FindServer(slot.server);
    if (destination != nullptr) {
      const Labels* labels = route->name == kOther && destination->name == kOther ? other
                             : destination->name == route->server
                                 ? route->labels
                                 : samples->Keep({{"route", route->name}, {"destination", destination->name}});
      AddRouteFigures(labels, slot.figures, samples);
    }
  }
  for (int i = 0; i < store->max_destinations; i++) {
    const metrics::DestinationFigures& slot = metrics::DestinationSlots()[i];
    const Destination* destination = slot.database.load() == MyDatabaseId ? from.FindServer(slot.server) : nullptr;
    if (destination != nullptr) {
      AddDestinationFigures(destination->name == kOther ? other_destination : destination->labels, slot.figures,
                            samples);
    }
  }
  AddOthers(from, own, other, other_destination);
  if (from.HasDestination(kOther)) {
    samples->SumUp(other);
    samples->SumUp(other_destination);
  }
}

// --- what waits --------------------------------------------------------------------------------------------------

// `parked`: since when events whose turn has come wait, by route.
void AddBacklog(const Sources& from, const LogEstimate* log, const std::map<int64, int64>& parked) {
  SurveyTables readable;
  readable.lanes = from.MayRead({"route", "lane", "side_lane", "side_topic", "pause"});
  readable.positions = Guard([] {
    return LockToLook("progress") && LockToLook("lane_start") && LockToLook("identity") && LockToLook("origin");
  });
  readable.parked = Guard([] { return LockToLook("parked"); });
  const std::map<int64, RouteWaiting> waiting = WaitingByRoute(from.view.lanes, from.view.standing, *log, readable);
  const int64 now = Guard([] { return outbox::pg::ClockNow(); });  // what dated the events
  if (log->whole() &&
      std::any_of(waiting.begin(), waiting.end(), [](const auto& one) { return one.second.unreadable; })) {
    from.samples->Add(kLeftOut, from.samples->none(), "part", "log", 1);  // else AddLog() has told it
  }
  for (const Route& route : from.routes) {
    const auto found = waiting.find(route.id);
    const RouteWaiting of = found == waiting.end() ? RouteWaiting() : found->second;
    if (of.unowned > 0 && !readable.positions) {
      static_cast<void>(from.MayRead({"progress", "lane_start"}));  // which is told
    }
    from.samples->Add(kInflight, route.labels, static_cast<double>(of.inflight));
    from.samples->Add(kPending, route.labels, static_cast<double>(of.count));
    from.samples->Add(kEstimated, route.labels, of.more ? 1 : 0);
    const auto turn = parked.find(route.id);
    const int64 oldest = std::min(of.oldest == 0 ? now : of.oldest, turn == parked.end() ? now : turn->second);
    from.samples->Add(kAge, route.labels, Seconds(now - oldest));
    from.samples->Add(kLanes, route.labels, "state", "owned", of.owned);
    from.samples->Add(kLanes, route.labels, "state", "unowned", of.unowned);
  }
}

// Parked events that are due and have not gone. Returns since when the first whose turn it is waits, by route.
std::map<int64, int64> AddOverdue(const Sources& from, bool any) {
  std::map<int64, OverdueOfRoute> overdue;
  if (any) {
    overdue = OverdueByRoute(kOverdueOften);
  }
  const int64 now = outbox::pg::BelievedWall();
  std::map<int64, int64> turns;
  for (const Route& route : from.routes) {
    const OverdueOfRoute of = overdue[route.id];
    if (of.turns > 0) {
      turns[route.id] = of.turn_since;
    }
    from.samples->Add(kOverdue, route.labels, static_cast<double>(of.count));
    from.samples->Add(kOverdueAge, route.labels, of.count == 0 ? 0 : Seconds(std::max<int64>(now - of.since, 0)));
  }
  return turns;
}

// One step through the index for each route and state that there is, and a bounded count of each. Returns what
// AddOverdue() does.
std::map<int64, int64> AddParked(const Sources& from) {
  static PlannedQuery counts = {
      "WITH RECURSIVE there AS ("
      "(SELECT p.state, p.route_id FROM outbox_internal.parked p ORDER BY p.state, p.route_id LIMIT 1) "
      "UNION ALL SELECT n.state, n.route_id FROM there t CROSS JOIN LATERAL ("
      "SELECT p.state, p.route_id FROM outbox_internal.parked p WHERE (p.state, p.route_id) > (t.state, t.route_id) "
      "ORDER BY p.state, p.route_id LIMIT 1) n) "
      "SELECT t.route_id, t.state, c.n, c.error_class FROM there t CROSS JOIN LATERAL ("
      "SELECT x.error_class, count(*) AS n FROM (SELECT p.error_class FROM outbox_internal.parked p "
      "WHERE p.state = t.state AND p.route_id = t.route_id LIMIT 1000) x GROUP BY 1) c ORDER BY 1, 2, 4",
      outbox::admin::Plan::kByKey, "parked"};
  static_assert(kParkedLimit == 1000);
  if (!from.MayRead({"parked"})) {
    return {};
  }
  from.samples->Add(
      kStorage, from.samples->none(), "part", "parked", Guard([] {
        const Oid table = outbox::pg::FindOurRelation("parked");
        return static_cast<double>(DatumGetInt64(DirectFunctionCall1(pg_total_relation_size, ObjectIdGetDatum(table))));
      }));
  std::set<int64> dead;
  bool tried = false;  // some are tried again, or go at their time
  for (const Row& row : RunPlanned(&counts)) {
    tried = tried || row[1] == "retrying" || row[1] == "scheduled";
    if (const Route* route = from.Find(Number(row[0]))) {
      Labels labels = *route->labels;
      labels.emplace_back("state", row[1].value());
      if (row[3]) {
        labels.emplace_back("error_class", *row[3]);
      }
      from.samples->Add(kParked, from.samples->Keep(std::move(labels)), static_cast<double>(Number(row[2])));
      if (row[1] == kDeadState) {
        dead.insert(route->id);
      }
    }
  }
  for (const Route& route : from.routes) {
    if (!dead.contains(route.id)) {
      from.samples->Add(kParked, route.labels, "state", kDeadState, 0);
    }
  }
  // It goes through the routes and lanes, too, which somebody may have locked.
  return AddOverdue(from, tried && from.MayRead({"route", "lane"}));
}

void AddTopics(const Sources& from) {
  static PlannedQuery topics = {
      "SELECT t.route_id, t.topic, min(t.error_class) FROM outbox_internal.side_topic t GROUP BY 1, 2 ORDER BY 1, 2",
      outbox::admin::Plan::kUsual, "side_topic"};
  if (!from.MayRead({"side_topic"})) {
    return;
  }
  std::map<int64, int64> away;
  int named = 0;
  for (const Row& row : RunPlanned(&topics)) {
    const Route* route = from.Find(Number(row[0]));
    away[Number(row[0])]++;
    if (route != nullptr && named++ < kTopicLimit) {
      Labels labels = *route->labels;
      labels.emplace_back("topic", row[1].value());
      labels.emplace_back("error_class", row[2].value());
      from.samples->Add(kTopicTrouble, from.samples->Keep(std::move(labels)), 1);
    }
  }
  for (const Route& route : from.routes) {
    from.samples->Add(kTopicsAway, route.labels, static_cast<double>(away[route.id]));
  }
}

// --- destinations, processes, the server -------------------------------------------------------------------------

void AddDestinations(const Sources& from) {
  static PlannedQuery pauses = {
      "SELECT p.server, p.topic IS NOT NULL, p.aggregate_type IS NOT NULL, "
      "(extract(epoch FROM p.paused_at) * 1000000)::bigint FROM outbox.pause p",
      outbox::admin::Plan::kUsual, "pause"};
  std::map<std::string, int64> paused;  // by server: since when, of whole destinations
  int64 oldest[4] = {};                 // by kind
  static constexpr const char* kKinds[4] = {"destination", "route", "topic", "key"};
  if (from.MayRead({"pause"})) {
    for (const Row& row : RunPlanned(&pauses)) {
      const int64 since = Number(row[3]);
      const int kind = row[0] ? 0 : row[1] == "t" ? 2 : row[2] == "t" ? 3 : 1;
      oldest[kind] = oldest[kind] == 0 ? since : std::min(oldest[kind], since);
      if (row[0]) {
        paused[*row[0]] = since;
      }
    }
    for (int kind = 0; kind < 4; kind++) {
      from.samples->Add(kPauseAge, from.samples->none(), "of", kKinds[kind],
                        oldest[kind] == 0 ? 0 : Seconds(std::max<int64>(outbox::pg::UnixNow() - oldest[kind], 0)));
    }
  }
  for (const Destination& destination : from.destinations) {
    std::string state = "unused";
    for (const OwnedDestinationView& view : from.view.destinations) {
      if (view.owned && view.server == destination.server &&
          (state == "unused" || view.state != outbox::BreakerState::kClosed) && state != "open") {
        state = BreakerStateName(view.state);
      }
    }
    // A worker has it, and there was no place to show it in.
    const bool used =
        state == "unused" && std::any_of(from.routes.begin(), from.routes.end(), [&](const Route& route) {
          return route.server == destination.name && SendsTo(from.view.lanes, route.id, destination.server);
        });
    state = used ? kNotShown : state;
    from.samples->AddStates(kState, destination.labels, {"closed", "half-open", "open", "paused", "unused", kNotShown},
                            paused.contains(destination.name) ? "paused" : state);
  }
}

void AddWorkers(const Sources& from) {
  Samples* samples = from.samples;
  samples->Add(kWorkersWanted, samples->none(),
               from.view.no_slot ? RelaysWithoutPlace(!from.routes.empty()) : from.view.relays_wanted);
  for (const WorkerView& worker : from.view.workers) {
    if (worker.database != MyDatabaseId || !worker.running) {
      continue;
    }
    const bool relay = worker.kind == outbox::pg::WorkerKind::kRelay;
    const Labels* labels =
        samples->Keep({{"worker", relay ? "relay " + std::to_string(worker.ordinal) : std::string("keeper")}});
    samples->Add(kWorkerUp, labels, 1);
    if (const metrics::WorkerFigures* figures = metrics::FindWorker(worker.incarnation)) {
      samples->Add(kLastTurn, labels, Seconds(figures->last_turn.load()));
      samples->Add(kTurns, labels, static_cast<double>(ValueOf(figures->turns)));
      samples->Add(kWakes, labels, static_cast<double>(ValueOf(figures->wakes)));
    }
  }
  samples->Add(kWorkersRunning, samples->none(), CountRelays(from.view.workers));
}

void AddServer(Sources* from) {
  static PlannedQuery server = {
      "SELECT (SELECT e.extversion FROM pg_extension e WHERE e.extname = 'outbox'), current_setting('server_version'), "
      "(extract(epoch FROM clock_timestamp() - least("
      "  (SELECT min(a.xact_start) FROM pg_stat_get_activity(NULL) a JOIN pg_database d ON d.oid = a.datid "
      "   WHERE d.datname = current_database() AND a.backend_xid IS NOT NULL AND a.pid <> pg_backend_pid()), "
      "  (SELECT min(x.prepared) FROM pg_prepared_xact() x JOIN pg_database d ON d.oid = x.dbid "
      "   WHERE d.datname = current_database()))) * 1000000)::bigint"};
  const Row row = RunPlanned(&server)[0];
  const std::string extension = row[0].value_or("?");
  Samples* samples = from->samples;
  const Labels* none = samples->none();
  from->same_version = extension == outbox::kVersion;
  samples->Add(
      kInfo,
      samples->Keep(
          {{"version", outbox::kVersion}, {"extension_version", extension}, {"pg_version", row[1].value_or("?")}}),
      1);
  samples->Add(kEnabled, none, outbox::pg::settings.enabled ? 1 : 0);
  samples->Add(kInRecovery, none, RecoveryInProgress() ? 1 : 0);
  samples->Add(kLogLimit, none, static_cast<double>(outbox::pg::settings.max_log_size_mb) * 1024 * 1024);
  samples->Add(kMismatch, none, from->same_version ? 0 : 1);
  samples->Add(kTransaction, none, row[2] ? Seconds(std::max<int64>(Number(row[2]), 0)) : 0);
  const int64 clock = static_cast<int64>(from->view.clock);
  samples->Add(kClockAhead, none, clock == 0 ? 0 : Seconds(std::max<int64>(clock - outbox::pg::UnixNow(), 0)));
}

void AddIdentity(const Sources& from) {
  if (from.MayRead({"identity"})) {
    from.samples->Add(kAdopt, from.samples->none(), CountIdentities().IsCopy() ? 1 : 0);
  }
}

void AddLog(const Sources& from, const LogEstimate* log) {
  Samples* samples = from.samples;
  samples->Add(kDaysAhead, samples->none(), log->days_ahead());
  if (log->whole()) {
    samples->Add(kStorage, samples->none(), "part", "log", static_cast<double>(log->bytes()));
  } else {
    samples->Add(kLeftOut, samples->none(), "part", "log", 1);
  }
}

// Of every day that could be looked at. A day that somebody has locked has no sample just now.
void AddDays(const Sources& from, const LogEstimate* log) {
  std::map<std::string, double> bytes;
  for (int i = 0; i < log->count; i++) {
    const LogEstimate::Table& table = log->tables[i];
    if (!table.readable) {
      continue;
    }
    std::string day = table.day_from_today == PG_INT32_MIN ? kSpare : kOlder;
    if (table.day_from_today > -kDayLimit) {
      int year = 0, month = 0, of_month = 0;
      j2date(log->today + table.day_from_today + UNIX_EPOCH_JDATE, &year, &month, &of_month);
      char text[32];
      snprintf(text, sizeof(text), "%04d-%02d-%02d", year, month, of_month);
      day = text;
    }
    bytes[day] += static_cast<double>(table.bytes);
  }
  for (const auto& [day, size] : bytes) {
    from.samples->Add(kDayBytes, from.samples->Keep({{"day", day}}), size);
  }
}

void Load(Sources* from) {
  static PlannedQuery routes = {"SELECT r.id, r.name, r.server FROM outbox.route r ORDER BY 1"};
  static PlannedQuery servers = {
      "SELECT s.srvname, s.oid, w.fdwname FROM pg_foreign_server s JOIN pg_foreign_data_wrapper w ON w.oid = s.srvfdw "
      "ORDER BY 1"};
  if (from->MayRead({"route"})) {
    for (const Row& row : RunPlanned(&routes)) {
      from->routes.push_back({Number(row[0]), row[1].value(), row[2].value()});
      Route* route = &from->routes.back();
      route->labels = from->samples->Keep({{"route", route->name}, {"destination", route->server}});
    }
  }
  for (const Row& row : RunPlanned(&servers)) {
    for (const outbox::sink::SinkKind* kind : outbox::sink::Kinds()) {
      if (row[2] == kind->wrapper) {
        from->destinations.push_back({row[0].value(), static_cast<Oid>(std::strtoul(row[1]->c_str(), nullptr, 10)),
                                      from->samples->Keep({{"destination", row[0].value()}})});
      }
    }
  }
}

void Collect(Samples* samples) {
  Sources from;
  from.samples = samples;
  const bool seen = TryReadSharedView(MyDatabaseId, &from.view);
  Guard([] { metrics::SettlePrepared(); });
  AddServer(&from);
  from.AddReadable("identity", [&] { AddIdentity(from); });
  Load(&from);
  const LogEstimate* log = EstimateReadableLog();
  AddLog(from, log);
  AddDays(from, log);
  AddFigures(from);
  std::map<int64, int64> turns;
  from.AddReadable("parked", [&] { turns = AddParked(from); });
  if (seen) {
    from.AddReadable("progress", [&] { AddBacklog(from, log, turns); });
  } else {
    samples->Add(kLeftOut, samples->none(), "part", "(shared memory)", 1);
  }
  from.AddReadable("side_topic", [&] { AddTopics(from); });
  AddDestinations(from);
  if (metrics::Figures() != nullptr && seen) {
    AddWorkers(from);
  }
}

TextFormat FormatArgument(FunctionCallInfo fcinfo) {
  const Cell format = PG_NARGS() > 0 ? TextArgument(fcinfo, 0) : Cell("openmetrics");
  if (format == "openmetrics") {
    return TextFormat::kOpenMetrics;
  }
  if (format == "prometheus") {
    return TextFormat::kPrometheus;
  }
  throw outbox::pg::UserError{ERRCODE_INVALID_PARAMETER_VALUE, "format must be openmetrics or prometheus",
                              format ? "It is \"" + *format + "\"." : "It is null.",
                              "prometheus is the older text format, which node_exporter reads from files."};
}

}  // namespace

OUTBOX_FUNCTION(outbox_metrics) {
  Samples samples;
  Collect(&samples);
  samples.Return(fcinfo);
  return static_cast<Datum>(0);
}

OUTBOX_FUNCTION(outbox_metrics_text) {
  const TextFormat format = FormatArgument(fcinfo);
  Samples samples;
  Collect(&samples);
  const std::string text = samples.Text(format);
  const char* bytes = text.c_str();
  return Guard([&] { return CStringGetTextDatum(bytes); });
}

OUTBOX_FUNCTION(outbox_metrics_reset) {
  RequirePreload();
  Guard([] { metrics::Reset(MyDatabaseId); });
  PG_RETURN_VOID();
}
