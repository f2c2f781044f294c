// outbox.metrics() and outbox.metrics_text() [P]: what dashboards and alerts are made of. From shared memory, positions
// and statistics; nothing is counted in the log, and nothing waits for a lock that emit() or a worker holds. No label
// is a key, an id or free text.
#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <map>

#include "admin/common/query.h"
#include "admin/lookup/shared_views.h"
#include "admin/show/log_estimate.h"
#include "admin/show/samples.h"
#include "base/version.h"
#include "metrics/emitted.h"
#include "pg/entry.h"
#include "pg/settings.h"
#include "pg/wall.h"
#include "sink/kind.h"

extern "C" {
#include "utils/datetime.h"
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
              "events not yet acknowledged, estimated: rows of the log behind the route's position, of whatever kind");
OUTBOX_FAMILY(kAge, "outbox_oldest_pending_age_seconds", kGauge, "seconds",
              "age of the oldest of them; 0: nothing waits");
OUTBOX_FAMILY(kLanes, "outbox_lanes", kGauge, "", "lanes, by whether a relay worker has them");
OUTBOX_FAMILY(kParked, "outbox_parked_events", kGauge, "",
              "events in outbox_internal.parked, by state and class of the last error; 1000 of a state stand for as "
              "many or more");
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
OUTBOX_FAMILY(kClockAhead, "outbox_clock_ahead_seconds", kGauge, "seconds",
              "how far the clock of events is ahead of the server's");
OUTBOX_FAMILY(kAdopt, "outbox_adoption_needed", kGauge, "",
              "1: this outbox is a copy, and silent until outbox.adopt()");
OUTBOX_FAMILY(kMismatch, "outbox_version_mismatch", kGauge, "", "1: library and extension are of different versions");
OUTBOX_FAMILY(kEnabled, "outbox_enabled", kGauge, "", "0: outbox.enabled is off, and nothing is sent");
OUTBOX_FAMILY(kNotOwn, "outbox_routes_without_figures", kGauge, "",
              "routes counted as other: outbox.max_series is used up");

double Seconds(int64 micros) {
  return static_cast<double>(micros) / 1e6;
}

int64 Int(const Cell& cell) {
  return cell ? std::strtoll(cell->c_str(), nullptr, 10) : 0;
}

int64 Now() {
  return GetCurrentTimestamp() + kPgEpochMicros;
}

struct Route {
  int64 id = 0;
  std::string name;
  std::string server;
};

// What one answer is made from.
struct Sources {
  std::vector<Route> routes;                         // by id
  std::vector<std::pair<std::string, Oid>> servers;  // destinations, by name
  std::vector<OwnedLaneView> lanes;
  std::vector<OwnedDestinationView> destinations;
  Samples* samples = nullptr;

  const Route* Find(int64 id) const {
    auto found = std::lower_bound(routes.begin(), routes.end(), id,
                                  [](const Route& route, int64 value) { return route.id < value; });
    return found == routes.end() || found->id != id ? nullptr : &*found;
  }
  const std::string* ServerName(Oid server) const {
    for (const auto& [name, oid] : servers) {
      if (oid == server) {
        return &name;
      }
    }
    return nullptr;
  }
};

Labels LabelsOf(const Route& route) {
  return {{"route", route.name}, {"destination", route.server}};
}

// --- counters and histograms -------------------------------------------------------------------------------------

void AddRouteFigures(const Labels& labels, const outbox::RouteFigures& figures, Samples* samples) {
  samples->Add(kPublished, labels, static_cast<double>(ValueOf(figures.published)));
  samples->Add(kPublishedBytes, labels, static_cast<double>(ValueOf(figures.published_bytes)));
  samples->Add(kAttempts, labels, static_cast<double>(ValueOf(figures.attempts)));
  samples->Add(kRetries, labels, static_cast<double>(ValueOf(figures.retried)));
  samples->Add(kDuplicates, labels, static_cast<double>(ValueOf(figures.possible_duplicates)));
  samples->Add(kWindows, labels, static_cast<double>(ValueOf(figures.windows)));
  for (size_t i = 1; i < outbox::kErrorClasses; i++) {
    if (const uint64 failed = ValueOf(figures.failed[i]); failed > 0) {
      Labels with = labels;
      with.emplace_back("error_class", outbox::ErrorClassName(static_cast<outbox::ErrorClass>(i)));
      samples->Add(kFailures, with, static_cast<double>(failed));
    }
  }
  static constexpr const char* kStates[outbox::kParkedStates] = {"retrying", "blocked", "scheduled", kDeadState};
  for (size_t i = 0; i < outbox::kParkedStates; i++) {
    if (const uint64 parked = ValueOf(figures.parked[i]); parked > 0 || kStates[i] == kDeadState) {
      Labels with = labels;
      with.emplace_back("state", kStates[i]);
      samples->Add(kParkings, with, static_cast<double>(parked));
    }
  }
  if (ValueOf(figures.published) > 0) {  // else three dozen zeros for each
    samples->AddHistogram(kDelivery, labels, figures.delivery.all);
    samples->AddHistogram(kAck, labels, figures.acknowledgement.all);
  }
}

void AddFigures(const Sources& from) {
  const metrics::DatabaseFigures* own = Guard([] { return metrics::FindDatabase(MyDatabaseId, false); });
  const metrics::Store* store = metrics::Figures();
  Samples* samples = from.samples;
  if (store == nullptr) {
    return;
  }
  samples->Add(kReset, {}, Seconds(own == nullptr ? store->started_at : own->reset_at.load()));
  const metrics::Emitted emitted = own == nullptr ? metrics::Emitted() : own->TotalEmitted();
  samples->Add(kTransactions, {}, static_cast<double>(emitted.transactions));
  samples->Add(kEmitted, {}, static_cast<double>(emitted.events));
  samples->Add(kEmittedBytes, {}, static_cast<double>(emitted.bytes));
  samples->Add(kNotOwn, {}, own == nullptr ? 0 : own->not_own.load());
  for (size_t i = 0; i < 2; i++) {
    samples->Add(kRestarts, {{"kind", i == 0 ? "keeper" : "relay"}},
                 own == nullptr ? 0 : static_cast<double>(ValueOf(own->restarts[i])));
  }
  for (int i = 0; i < store->max_routes; i++) {
    const metrics::RouteSlot& slot = metrics::RouteSlots()[i];
    const Route* route = slot.database.load() == MyDatabaseId ? from.Find(slot.route_id) : nullptr;
    const std::string* server = route == nullptr ? nullptr : from.ServerName(slot.server);
    if (server != nullptr) {
      AddRouteFigures({{"route", route->name}, {"destination", *server}}, slot.figures, samples);
    }
  }
  if (own != nullptr && own->not_own.load() > 0) {
    AddRouteFigures({{"route", kOther}, {"destination", kOther}}, own->other, samples);
  }
  for (int i = 0; i < store->max_destinations; i++) {
    const metrics::DestinationFigures& slot = metrics::DestinationSlots()[i];
    const std::string* server = slot.database.load() == MyDatabaseId ? from.ServerName(slot.server) : nullptr;
    if (server != nullptr) {
      samples->Add(kTrips, {{"destination", *server}}, static_cast<double>(ValueOf(slot.trips)));
      samples->Add(kDeaths, {{"destination", *server}}, static_cast<double>(ValueOf(slot.deaths)));
    }
  }
}

// --- what waits --------------------------------------------------------------------------------------------------

// Where lanes stand that have more to read than is known, by route, lane and side.
struct Stand {
  int64 route_id;
  int lane;
  int side;
  uint64 next;  // the first transaction id not assigned yet when it had read all before
};

std::vector<Stand> LoadStands() {
  std::vector<Stand> stands;
  for (const Row& row :
       RunSql(Access::kRead,
              "SELECT p.route_id, p.lane, p.side, pg_snapshot_xmax(p.window_from) FROM outbox_internal.position p "
              "ORDER BY 1, 2, 3",
              {}, outbox::admin::Plan::kByKey)) {
    stands.push_back({Int(row[0]), static_cast<int>(Int(row[1])), static_cast<int>(Int(row[2])),
                      std::strtoull(row[3].value().c_str(), nullptr, 10)});
  }
  return stands;
}

struct Waiting {
  double rows = 0;
  int64 oldest = 0;  // Unix microseconds
  int64 inflight = 0;
  int owned = 0;
  int unowned = 0;

  void See(int64 created_at) {
    if (created_at != 0 && (oldest == 0 || created_at < oldest)) {
      oldest = created_at;
    }
  }
};

// Where many lanes stand at one place, one look is enough.
class Estimates {
 public:
  explicit Estimates(const LogEstimate* log) : log_(log) {}
  Behind At(uint64 xid) {
    auto [known, made] = known_.try_emplace(xid);
    if (made) {
      Behind* behind = &known->second;
      Guard([&] { *behind = EstimateBehind(*log_, xid); });
    }
    return known->second;
  }

 private:
  const LogEstimate* log_;
  std::map<uint64, Behind> known_;
};

void AddBacklog(const Sources& from, const LogEstimate* log) {
  std::map<int64, Waiting> waiting;
  Estimates estimates(log);
  std::map<std::pair<int64, int>, double> of_lane;  // the most of the lane and its side lanes: they share the rows
  for (const Stand& stand : LoadStands()) {
    Waiting& route = waiting[stand.route_id];
    const OwnedLaneView* view = FindLaneView(from.lanes, stand.route_id, stand.lane, stand.side);
    const bool owned = view != nullptr && view->owned;
    if (stand.side == 0) {
      (owned ? route.owned : route.unowned)++;
    }
    double rows = 0;
    if (owned) {
      route.inflight += view->inflight_count;
      route.See(view->oldest);
      rows = static_cast<double>(view->inflight_count);
    }
    if (!owned || !view->caught_up) {
      const Behind behind = estimates.At(stand.next);
      route.See(owned && view->oldest != 0 ? 0 : behind.created_at);
      rows = std::max(rows, behind.rows);
    }
    double& most = of_lane[{stand.route_id, stand.lane}];
    most = std::max(most, rows);
  }
  for (const auto& [lane, rows] : of_lane) {
    Waiting& route = waiting[lane.first];
    route.rows = std::max(route.rows, 0.0) + rows;
  }
  for (const Route& route : from.routes) {
    const Waiting& of = waiting[route.id];
    const Labels labels = LabelsOf(route);
    from.samples->Add(kInflight, labels, static_cast<double>(of.inflight));
    // Each lane stands before all rows of the log, of which a share is its own.
    const int lanes = std::max(of.owned + of.unowned, 1);
    from.samples->Add(kPending, labels, std::max(std::round(of.rows / lanes), static_cast<double>(of.inflight)));
    from.samples->Add(kAge, labels, of.oldest == 0 ? 0 : Seconds(std::max<int64>(Now() - of.oldest, 0)));
    for (const bool owned : {true, false}) {
      Labels with = labels;
      with.emplace_back("state", owned ? "owned" : "unowned");
      from.samples->Add(kLanes, with, owned ? of.owned : of.unowned);
    }
  }
}

void AddParked(const Sources& from) {
  for (const Row& row :
       RunSql(Access::kRead,
              "SELECT r.id, s.state, coalesce(c.n, 0), c.error_class FROM outbox.route r "
              "CROSS JOIN (VALUES ('retrying'), ('blocked'), ('scheduled'), ('dead')) s (state) "
              "LEFT JOIN LATERAL (SELECT x.error_class, count(*) AS n FROM (SELECT p.error_class FROM "
              "outbox_internal.parked p "
              "WHERE p.state = s.state AND p.route_id = r.id LIMIT $1::bigint) x GROUP BY 1) c ON true "
              "WHERE c.n > 0 OR s.state = 'dead' ORDER BY 1, 2, 4",
              {Cell(std::to_string(kParkedLimit))}, outbox::admin::Plan::kByKey)) {
    if (const Route* route = from.Find(Int(row[0]))) {
      Labels labels = LabelsOf(*route);
      labels.emplace_back("state", row[1].value());
      if (row[3]) {
        labels.emplace_back("error_class", *row[3]);
      }
      from.samples->Add(kParked, labels, static_cast<double>(Int(row[2])));
    }
  }
}

void AddTopics(const Sources& from) {
  std::map<int64, int64> away;
  int named = 0;
  for (const Row& row : RunSql(Access::kRead,
                               "SELECT t.route_id, t.topic, min(t.error_class) FROM outbox_internal.side_topic t GROUP "
                               "BY 1, 2 ORDER BY 1, 2")) {
    const Route* route = from.Find(Int(row[0]));
    away[Int(row[0])]++;
    if (route != nullptr && named++ < kTopicLimit) {
      Labels labels = LabelsOf(*route);
      labels.emplace_back("topic", row[1].value());
      labels.emplace_back("error_class", row[2].value());
      from.samples->Add(kTopicTrouble, labels, 1);
    }
  }
  for (const Route& route : from.routes) {
    from.samples->Add(kTopicsAway, LabelsOf(route), static_cast<double>(away[route.id]));
  }
}

// --- destinations, processes, the server -------------------------------------------------------------------------

void AddDestinations(const Sources& from) {
  std::map<std::string, int64> paused;  // by server: since when, of whole destinations
  int64 oldest[4] = {};                 // by kind
  static constexpr const char* kKinds[4] = {"destination", "route", "topic", "key"};
  for (const Row& row : RunSql(Access::kRead,
                               "SELECT p.server, p.topic IS NOT NULL, p.aggregate_type IS NOT NULL, "
                               "(extract(epoch FROM p.paused_at) * 1000000)::bigint FROM outbox.pause p")) {
    const int64 since = Int(row[3]);
    const int kind = row[0] ? 0 : row[1] == "t" ? 2 : row[2] == "t" ? 3 : 1;
    oldest[kind] = oldest[kind] == 0 ? since : std::min(oldest[kind], since);
    if (row[0]) {
      paused[*row[0]] = since;
    }
  }
  for (int kind = 0; kind < 4; kind++) {
    from.samples->Add(kPauseAge, {{"of", kKinds[kind]}},
                      oldest[kind] == 0 ? 0 : Seconds(std::max<int64>(Now() - oldest[kind], 0)));
  }
  for (const auto& [name, oid] : from.servers) {
    std::string state = "unused";
    for (const OwnedDestinationView& view : from.destinations) {
      if (view.owned && view.server == oid && (state == "unused" || strcmp(view.state, "closed") != 0) &&
          state != "open") {
        state = view.state;
      }
    }
    from.samples->AddStates(kState, {{"destination", name}}, {"closed", "half-open", "open", "paused", "unused"},
                            paused.contains(name) ? "paused" : state);
  }
}

void AddWorkers(const Sources& from) {
  const outbox::pg::DatabaseSlot* slot = Guard([] { return outbox::pg::FindDatabaseSlot(MyDatabaseId, false); });
  from.samples->Add(kWorkersWanted, {}, slot == nullptr || !slot->active ? 0 : slot->relay_demand);
  int running = 0;
  for (const WorkerView& worker : ReadWorkerViews()) {
    if (worker.database != MyDatabaseId || !worker.running) {
      continue;
    }
    const bool relay = worker.kind == outbox::pg::WorkerKind::kRelay;
    running += relay ? 1 : 0;
    const Labels labels = {{"worker", relay ? "relay " + std::to_string(worker.ordinal) : std::string("keeper")}};
    from.samples->Add(kWorkerUp, labels, 1);
    for (int i = 0; i < metrics::Figures()->max_workers; i++) {
      const metrics::WorkerFigures& figures = metrics::WorkerSlots()[i];
      if (figures.incarnation.load() == worker.incarnation) {
        from.samples->Add(kLastTurn, labels, Seconds(figures.last_turn.load()));
        from.samples->Add(kTurns, labels, static_cast<double>(ValueOf(figures.turns)));
        from.samples->Add(kWakes, labels, static_cast<double>(ValueOf(figures.wakes)));
      }
    }
  }
  from.samples->Add(kWorkersRunning, {}, running);
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
    from.samples->Add(kDayBytes, {{"day", day}}, size);
  }
}

void AddServer(const Sources& from, const LogEstimate* log) {
  const Row row =
      RunSql(Access::kRead,
             "SELECT (SELECT e.extversion FROM pg_extension e WHERE e.extname = 'outbox'), "
             "current_setting('server_version'), "
             "EXISTS (SELECT FROM outbox_internal.identity i, pg_control_system() s, pg_database d WHERE d.datname = "
             "current_database() "
             "  AND NOT (i.system_identifier = s.system_identifier AND i.database = d.oid AND i.instance = $1)), "
             "(extract(epoch FROM clock_timestamp() - least("
             "  (SELECT min(a.xact_start) FROM pg_stat_get_activity(NULL) a JOIN pg_database d ON d.oid = a.datid "
             "   WHERE d.datname = current_database() AND a.backend_xid IS NOT NULL AND a.pid <> pg_backend_pid()), "
             "  (SELECT min(x.prepared) FROM pg_prepared_xact() x JOIN pg_database d ON d.oid = x.dbid "
             "   WHERE d.datname = current_database()))) * 1000000)::bigint, "
             "pg_relation_size('outbox_internal.parked')",
             {Cell(outbox::pg::settings.instance == nullptr ? "" : outbox::pg::settings.instance)})[0];
  const std::string extension = row[0].value_or("?");
  Samples* samples = from.samples;
  samples->Add(kInfo,
               {{"version", outbox::kVersion}, {"extension_version", extension}, {"pg_version", row[1].value_or("?")}},
               1);
  samples->Add(kEnabled, {}, outbox::pg::settings.enabled ? 1 : 0);
  samples->Add(kMismatch, {}, extension == outbox::kVersion ? 0 : 1);
  samples->Add(kAdopt, {}, row[2] == "t" ? 1 : 0);
  samples->Add(kTransaction, {}, row[3] ? Seconds(std::max<int64>(Int(row[3]), 0)) : 0);
  samples->Add(kDaysAhead, {}, log->days_ahead());
  samples->Add(kStorage, {{"part", "log"}}, static_cast<double>(log->bytes()));
  samples->Add(kStorage, {{"part", "parked"}}, static_cast<double>(Int(row[4])));
  const outbox::pg::DatabaseSlot* slot = Guard([] { return outbox::pg::FindDatabaseSlot(MyDatabaseId, false); });
  const int64 clock =
      slot == nullptr ? 0 : static_cast<int64>(pg_atomic_read_u64(&const_cast<outbox::pg::DatabaseSlot*>(slot)->clock));
  samples->Add(kClockAhead, {}, clock == 0 ? 0 : Seconds(std::max<int64>(clock - Now(), 0)));
}

void Load(Sources* from) {
  for (const Row& row : RunSql(Access::kRead, "SELECT r.id, r.name, r.server FROM outbox.route r ORDER BY 1")) {
    from->routes.push_back({Int(row[0]), row[1].value(), row[2].value()});
  }
  std::vector<std::string> wrappers;
  for (const outbox::sink::SinkKind* kind : outbox::sink::Kinds()) {
    wrappers.emplace_back(kind->wrapper);
  }
  for (const Row& row : RunSql(Access::kRead,
                               "SELECT s.srvname, s.oid FROM pg_foreign_server s JOIN pg_foreign_data_wrapper w "
                               "ON w.oid = s.srvfdw WHERE w.fdwname = ANY ($1::name[]) ORDER BY 1",
                               {Cell(TextArrayLiteral(wrappers))})) {
    from->servers.emplace_back(row[0].value(), static_cast<Oid>(std::strtoul(row[1].value().c_str(), nullptr, 10)));
  }
  from->lanes = ReadLaneViews(MyDatabaseId);
  from->destinations = ReadDestinationViews(MyDatabaseId);
}

Samples Collect() {
  Samples samples;
  Sources from;
  from.samples = &samples;
  Load(&from);
  Guard([] { metrics::SettlePrepared(); });
  const LogEstimate* log = Guard([]() -> const LogEstimate* { return EstimateLog(); });
  AddServer(from, log);
  AddDays(from, log);
  AddFigures(from);
  AddBacklog(from, log);
  AddParked(from);
  AddTopics(from);
  AddDestinations(from);
  if (metrics::Figures() != nullptr) {
    AddWorkers(from);
  }
  return samples;
}

}  // namespace

OUTBOX_FUNCTION(outbox_metrics) {
  Collect().Return(fcinfo);
  return static_cast<Datum>(0);
}

OUTBOX_FUNCTION(outbox_metrics_text) {
  const std::string text = Collect().Text();
  const char* bytes = text.c_str();
  return Guard([&] { return CStringGetTextDatum(bytes); });
}

OUTBOX_FUNCTION(outbox_metrics_reset) {
  RequirePreload();
  Guard([] { metrics::Reset(MyDatabaseId); });
  PG_RETURN_VOID();
}
