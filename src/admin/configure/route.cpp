// create_route, alter_route, drop_route [P].
#include <cstdlib>

#include "admin/common/operation.h"
#include "admin/common/query.h"
#include "admin/common/route_audit.h"
#include "admin/common/route_name.h"
#include "admin/common/write_lock.h"
#include "admin/configure/route_check.h"
#include "admin/configure/test_server.h"
#include "admin/lookup/backlog.h"
#include "admin/lookup/open_emitters.h"
#include "admin/lookup/pauses.h"
#include "admin/lookup/processes.h"
#include "admin/lookup/route_lanes.h"
#include "admin/lookup/route_start.h"
#include "admin/lookup/server.h"
#include "admin/lookup/unreadable_log.h"
#include "admin/operate/parked_rows.h"
#include "format/route_spec.h"
#include "pg/entry.h"
#include "pg/identity.h"
#include "pg/settings.h"
#include "pg/shared.h"
#include "pg/transaction_end.h"

extern "C" {
#include "access/xact.h"
#include "nodes/value.h"
#include "utils/memutils.h"
}

namespace {

using namespace outbox::admin;
using outbox::pg::Guard;
using outbox::pg::UserError;

// A route as create_route and alter_route are given it.
struct Definition {
  Destination destination;
  std::string server;
  std::vector<std::string> aggregate_types;
  std::vector<std::string> event_types;
  std::string topic;
  std::string key;
  std::string format;
  std::string options;
  PolicyArguments policy;
};

// As the columns of outbox.route have it.
PolicyArguments DefaultPolicy() {
  return {"skip", "10", "1 second", "10 minutes"};
}

std::vector<std::string> Patterns(const char* name, const std::optional<std::vector<Cell>>& argument) {
  if (!argument) {
    throw UserError{ERRCODE_NULL_VALUE_NOT_ALLOWED, std::string(name) + " must not be null", "",
                    "'{*}' takes everything."};
  }
  return CheckPatterns(name, *argument);
}

std::string Options(const outbox::sink::SinkKind& kind, const outbox::format::Format& format, const Cell& options) {
  const Cell given = options.value_or("{}");
  if (RunSql(Access::kRead, "SELECT jsonb_typeof($1::jsonb)", {given})[0][0] != "object") {
    throw UserError{ERRCODE_INVALID_PARAMETER_VALUE, "options must be a JSON object", "",
                    "For example '{\"mode\": \"list\"}'."};
  }
  return CheckRouteOptions(
      kind, format,
      RunSql(Access::kRead, "SELECT key, jsonb_typeof(value), value #>> '{}', value::text FROM jsonb_each($1::jsonb)",
             {given}));
}

// What the route has, where nothing else was given: it may not suit the destination or the format that it gets now.
std::string KeptOptions(const outbox::sink::SinkKind& kind, const outbox::format::Format& format, const Cell& options,
                        const std::string& server, bool same_server, bool same_format) {
  try {
    return Options(kind, format, options);
  } catch (UserError& error) {
    if ((same_server && same_format) || options == "{}") {
      throw;
    }
    const bool both = !same_server && !same_format;
    error.detail = "The route has options " + options.value() + ", which " +
                   (same_server ? "" : "server \"" + server + "\"") + (both ? " or " : "") +
                   (same_format ? "" : "format " + std::string(format.name)) + " does not take.";
    error.hint = std::string("Pass options => '{}', or what the new ") + (same_server ? "format" : "server") +
                 " takes. " + error.hint;
    throw;
  }
}

std::string CallerName() {
  return Guard([]() -> const char* { return GetUserNameFromId(GetUserId(), false); });
}

// Once in a session: ten routes in a row want no ten warnings.
void WarnWithoutWorkers() {
  static bool told = false;
  if (outbox::pg::Shared() == nullptr && !told) {
    told = true;
    Guard([] {
      ereport(WARNING, (errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
                        errmsg("the route is kept, but nothing publishes its events"),
                        errdetail("The module is not in shared_preload_libraries."),
                        errhint("Add outbox to shared_preload_libraries in postgresql.conf, beside what is there, and "
                                "restart the server: shared_preload_libraries = 'outbox' where nothing is.")));
    });
  }
}

void InsertLanes(const std::string& route_id, const std::string& lanes, const RouteStart& start) {
  RunSql(Access::kWrite,
         "INSERT INTO outbox_internal.lane (route_id, lane, window_from, window_to, done_to, home) "
         "SELECT $1::bigint, n, $3::pg_snapshot, $4::pg_snapshot, "
         "timestamptz 'epoch' + $5::bigint * interval '1 microsecond', outbox_internal.home() FROM generate_series(0, "
         "$2::integer - 1) n",
         {route_id, lanes, start.window_from, start.window_to, start.done_to});
}

// The first route makes the outbox belong to this server and database (so does the first emit); in a copy it changes
// nothing.
void SettleIdentity() {
  Guard([] { AsOwner([] { outbox::pg::SettleIdentity(); }); });  // for its search_path
}

std::string InsertRoute(const std::string& name, const Definition& route, const std::string& lanes,
                        const RouteStart& start) {
  std::vector<Row> rows = RunSql(
      Access::kWrite,
      "INSERT INTO outbox.route (name, server, aggregate_types, event_types, topic, key, lanes, options, "
      "start_snapshot, start_time, created_by, on_failure, max_attempts, backoff_base, backoff_cap, format) VALUES "
      "($1, "
      "$2::name, $3::text[], $4::text[], $5, $6, $7::integer, "
      "$8::jsonb, $9::pg_snapshot, CASE WHEN $10 LIKE '%infinity' THEN $10::timestamptz "
      "ELSE timestamptz 'epoch' + $10::bigint * interval '1 microsecond' END, $11::name, $12, $13::integer, "
      "$14::interval, $15::interval, $16) "
      "ON CONFLICT (name) DO NOTHING RETURNING id",
      {name, route.server, TextArrayLiteral(route.aggregate_types), TextArrayLiteral(route.event_types), route.topic,
       route.key, lanes, route.options, start.start_snapshot, start.start_time, CallerName(), route.policy.on_failure,
       route.policy.max_attempts, route.policy.backoff_base, route.policy.backoff_cap, route.format});
  if (rows.empty()) {
    throw UserError{ERRCODE_DUPLICATE_OBJECT, "route \"" + name + "\" already exists", "",
                    "alter_route() changes it; drop_route() ends it."};
  }
  return rows[0][0].value();
}

// Names of routes that this transaction has dropped, while it lasts.
List* dropped_routes = NIL;
uint64 dropped_in = 0;

void NoteDropped(const char* name) {
  Guard([name] {
    const uint64 here = U64FromFullTransactionId(GetTopFullTransactionId());
    if (dropped_in != here) {
      dropped_routes = NIL;  // its memory went with its transaction
      dropped_in = here;
    }
    MemoryContext before = MemoryContextSwitchTo(TopTransactionContext);
    dropped_routes = lappend(dropped_routes, makeString(pstrdup(name)));
    MemoryContextSwitchTo(before);
  });
}

// The workers hear of both at commit: until then they go on with the route that was dropped, where it is not paused or
// behind.
void WarnOfBoth(const char* name) {
  Guard([name] {
    if (dropped_in != U64FromFullTransactionId(GetTopFullTransactionId()) ||
        !list_member(dropped_routes, makeString(pstrdup(name)))) {
      return;
    }
    ereport(
        WARNING,
        (errmsg("route \"%s\" was dropped in this transaction: some events may be sent by both routes, or by neither",
                name),
         errdetail(
             "Until it commits the workers go on with the route that was dropped, unless something holds it up, and "
             "the new one has started already: what others commit in between is for both. What was committed before "
             "and is not sent by then is for neither, unless the new one starts earlier."),
         errhint(
             "alter_route() changes a route, repeats nothing and leaves nothing out; else commit at once, and start "
             "the new one at a timestamp from before drop_route().")));
  });
}

// The lanes are exchanged by the keeper, once all have come to one snapshot: see log/progress/lane_change.h. A change
// that has begun serves any number; none is needed if the number is to stay as it is.
void WantLanes(const std::string& route, const std::string& lanes, const Cell& now, const Cell& wanted) {
  if (lanes == now) {
    if (wanted) {
      RunSql(Access::kWrite,
             "UPDATE outbox.route SET lanes_wanted = NULL, lanes_begun = NULL, common_snapshot = NULL "
             "WHERE name = $1",
             {route});
    }
    return;
  }
  if (lanes == wanted) {
    return;
  }
  RunSql(Access::kWrite, "UPDATE outbox.route SET lanes_wanted = $2::integer WHERE name = $1", {route, lanes});
  const std::string resume = ResumeCalls(Access::kWrite, route);
  const std::string paused = resume.empty() ? "" : " The route is paused: that waits for " + resume + ".";
  const char* name = route.c_str();
  const char* from = now.value().c_str();
  const char* to = lanes.c_str();
  const char* waits = paused.c_str();
  Guard([&] {
    ereport(NOTICE, (errmsg("the number of lanes of route \"%s\" will go from %s to %s", name, from, to),
                     errdetail("That happens after commit, as soon as relay workers have brought all its lanes to one "
                               "common point.%s",
                               waits),
                     errhint("outbox.route.lanes_wanted is NULL again when it has happened.")));
  });
}

// Under `block` dead letters hold their keys, under `skip` they do not.
void ChangeHolders(const std::string& route, int64 route_id, bool block) {
  outbox::pg::NoteParkedChange();
  if (!block) {
    PromoteRoute(route_id);
    return;
  }
  std::string keys = RunSql(Access::kWrite,
                            "SELECT count(DISTINCT order_key) FROM outbox_internal.parked "
                            "WHERE route_id = $1::bigint AND state = 'dead'",
                            {Cell(std::to_string(route_id))})[0][0]
                         .value();
  if (keys != "0") {
    Notice("dead letters of route \"" + route + "\" now hold " + keys + (keys == "1" ? " key" : " keys"),
           "Later events of these keys wait until an operator has acted on the dead letters.",
           "outbox.redrive() has them tried again, outbox.discard_dead_letters() gives them up.");
  }
}

int64 Pending(const std::vector<LaneRecord>& lanes, int64 limit) {
  int64 pending = 0;
  for (const LaneBacklog& backlog : CountBacklog(lanes, Access::kRead, {.limit = limit, .own = true})) {
    pending += backlog.pending;
  }
  return pending;
}

// Waiting events that the route wanted, and wants no more. `lanes`: as they were before the change, which is made.
int64 CountNoLongerWanted(const std::string& name, std::vector<LaneRecord> lanes) {
  const int64 before = Pending(lanes, kLagScanLimit);
  if (before == 0) {
    return 0;
  }
  const std::vector<LaneRecord> now = LoadLanes(name, Access::kWrite);
  for (LaneRecord& lane : lanes) {
    // Each lane has its own: a spec wants what is its lane's.
    const auto same =
        std::find_if(now.begin(), now.end(), [&lane](const LaneRecord& one) { return one.lane == lane.lane; });
    lane.spec = same == now.end() ? nullptr : same->spec;
  }
  return before - Pending(lanes, kLagScanLimit);
}

int64 NoLongerWanted(const std::string& name, const std::vector<LaneRecord>& lanes) {
  int64 left = 0;
  const std::string unknown = WhyUnread([&] { left = CountNoLongerWanted(name, lanes); });
  if (!unknown.empty()) {
    Notice("it is not known how many events that wait route \"" + name + "\" no longer wants",
           "Because " + unknown + ".");
  }
  if (left > 0) {
    const char* text = name.c_str();
    Guard([&] {
      ereport(NOTICE,
              (errmsg_plural("route \"%s\" no longer wants %lld event that waits",
                             "route \"%s\" no longer wants %lld events that wait", static_cast<unsigned long>(left),
                             text, static_cast<long long>(left)),
               errhint("They stay in the log until their day is dropped; a new route with start => 'earliest' or "
                       "a timestamp sends them.")));
    });
  }
  return std::max<int64>(left, 0);
}

// Events that no other transaction sees yet go by what the route is when they are committed.
void TellOpen(const std::string& name) {
  const int64 open = OpenEmitters();
  if (open > 0) {
    Notice(
        "route \"" + name + "\" is changed for events that are not committed yet, too",
        TellOpenEmitters(open) + (open == 1 ? "; what it commits" : "; what they commit") +
            " goes by the route as it is from now on, or not at all if that no longer wants it.",
        "pg_stat_activity and pg_prepared_xacts show them. To have them go by the old one, wait until they are over.");
  }
}

// Its destination remembers what it has acknowledged, and is asked for it (log/loss/rewind.h): of this route no longer.
void TellUnwatched(const std::string& name) {
  const std::vector<Row> rows = RunSql(
      Access::kWrite,
      "SELECT r.server, EXISTS (SELECT FROM outbox.destination d WHERE d.server = r.server AND d.state <> 'closed' AND "
      "d.error_code = 'LOST_WRITES') FROM outbox.route r WHERE r.name = $1 AND EXISTS (SELECT FROM "
      "outbox_internal.progress g "
      "WHERE g.route_id = r.id AND g.run IS NOT NULL)",
      {Cell(name)});
  if (!rows.empty()) {
    const std::string server = "\"" + rows[0][0].value() + "\"";
    Notice("what route \"" + name + "\" has delivered is not sent again if its destination loses it",
           rows[0][1] == "t" ? "Destination " + server + " lacks something just now, and is being looked at."
                             : "From now on nobody asks destination " + server + " whether it still has that.",
           "alter_route() changes a route and goes on asking. A new route with start => 'earliest' or a timestamp "
           "sends what the log still has, under whatever name.");
  }
}

// It is still asked, and what it has lost is sent by the route as it is now: see log/loss/lane_history.h, FindAltered.
void TellWatchedAsNow(const std::string& name, const std::string& before) {
  const std::vector<Row> rows = RunSql(
      Access::kWrite,
      "SELECT c.narrowed, c.moved FROM (SELECT NOT ((n.now -> 'aggregate_types' @> (n.was -> 'aggregate_types') OR "
      "n.now -> 'aggregate_types' ? '*') AND (n.now -> 'event_types' @> (n.was -> 'event_types') OR n.now -> "
      "'event_types' ? '*')) AS narrowed, n.now -> 'topic' <> n.was -> 'topic' OR coalesce(n.now #>> '{options,mode}', "
      "'stream') <> coalesce(n.was #>> '{options,mode}', 'stream') AS moved FROM (SELECT $2::jsonb AS was, $3::jsonb "
      "AS now) n) c WHERE (c.narrowed OR c.moved) AND EXISTS (SELECT FROM outbox.route r JOIN outbox_internal.progress "
      "g "
      "ON g.route_id = r.id WHERE r.name = $1 AND g.run IS NOT NULL)",
      {Cell(name), Cell(before), Cell(RouteFace(name))});
  if (rows.empty()) {
    return;
  }
  const bool narrowed = rows[0][0] == "t";
  const bool moved = rows[0][1] == "t";
  Notice(
      "what route \"" + name + "\" has delivered is sent again as the route is now if its destination loses it",
      std::string(narrowed ? "What it takes no more is not sent again." : "") + (narrowed && moved ? " " : "") +
          (moved ? "What went elsewhere goes where the route sends it now." : ""),
      "outbox.seek() of a route that takes it, or a new route with start => 'earliest' or a timestamp, sends what the "
      "log still has.");
}

void TellUnchanged(FunctionCallInfo fcinfo, const std::string& name) {
  bool given = false;
  for (int i = 1; i < PG_NARGS(); i++) {
    given = given || !PG_ARGISNULL(i);
  }
  Notice(
      "route \"" + name + "\" stays as it is",
      given ? "It is what was asked for already." : "Nothing was given but its name.",
      given ? ""
            : "For example outbox.alter_route(" + Literal(name) + ", max_attempts => 5). What is NULL stays as it is.");
}

}  // namespace

// 0.1's have an argument less, and there are its tables, too.
static void RequireSameVersion() {
  if (Guard([] { return OtherVersion(); }) != nullptr) {
    throw UserError{ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE,
                    "the extension of this database is not of the library's version",
                    "Routes are made, changed and dropped again once they are equal; outbox.version() shows both.",
                    "ALTER EXTENSION outbox UPDATE, or restart the server after installing the new library."};
  }
}

OUTBOX_FUNCTION(outbox_create_route) {
  RequireWritable("outbox.create_route()");
  RequireSameVersion();
  std::string name = CheckRouteName(TextArgument(fcinfo, 0));
  Cell server = TextArgument(fcinfo, 1);
  if (!server) {
    throw UserError{ERRCODE_NULL_VALUE_NOT_ALLOWED, "a route needs a server", "",
                    "create_route('name', server => 'the foreign server')."};
  }
  Definition route;
  route.server = *server;
  route.destination = KeptDestination(*server);
  route.aggregate_types = Patterns("aggregate_types", TextArrayArgument(fcinfo, 2, "aggregate_types"));
  route.event_types = Patterns("event_types", TextArrayArgument(fcinfo, 3, "event_types"));
  route.topic = TextArgument(fcinfo, 4).value_or(outbox::format::RouteConfig().topic);
  CheckTopicTemplate(*route.destination.kind, route.topic);
  route.key = TextArgument(fcinfo, 5).value_or(outbox::format::RouteConfig().key);
  CheckKeyTemplate(route.key);
  int64 lanes = PG_ARGISNULL(6) ? 1 : PG_GETARG_INT32(6);
  CheckLanes(lanes);
  RouteStart start = ParseStart(TextArgument(fcinfo, 7));
  const Cell wanted_format = TextArgument(fcinfo, 13);  // g++ 13 calls what is found by a temporary's words dangling
  const outbox::format::Format& format = CheckFormat(wanted_format);
  route.format = format.name;
  route.options = Options(*route.destination.kind, format, TextArgument(fcinfo, 8));
  route.policy = CheckPolicy(fcinfo, 9, DefaultPolicy());
  // Before anything is locked: it takes a second where no server answers.
  NoticeUnusable(route.destination, route.server, route.topic, route.options);
  SettleIdentity();
  std::string id = InsertRoute(name, route, std::to_string(lanes), start);
  InsertLanes(id, std::to_string(lanes), start);
  AuditCreatedRoute(name, TextArgument(fcinfo, 7).value_or("now"));
  outbox::pg::NoteConfigChange();
  if (start.start_time == "infinity") {
    WarnOfBoth(name.c_str());
  }
  WarnWithoutWorkers();
  WarnOfMissingProcesses(WantedHere(Access::kWrite));
  PG_RETURN_INT64(std::strtoll(id.c_str(), nullptr, 10));
}

OUTBOX_FUNCTION(outbox_alter_route) {
  RequireWritable("outbox.alter_route()");
  LockToWrite({"route", "parked"});
  RequireSameVersion();
  std::string name = CheckRouteName(TextArgument(fcinfo, 0));
  const Cell new_server = TextArgument(fcinfo, 1);
  std::optional<Destination> kept;
  if (new_server) {
    (void)RouteId(name);  // a route that is not there is told of first
    kept = KeptDestination(*new_server);
  }
  std::vector<Row> rows =
      RunSql(Access::kWrite,
             "SELECT server, topic, key, lanes, options, lanes_wanted, on_failure, max_attempts, "
             "backoff_base, backoff_cap, id, format FROM outbox.route WHERE name = $1 FOR NO KEY UPDATE",
             {name});
  if (rows.empty()) {
    throw NoSuchRoute(name);
  }
  const Row& old = rows[0];
  const std::string before = RouteFace(name);
  const bool other_events = !PG_ARGISNULL(2) || !PG_ARGISNULL(3);
  const std::vector<LaneRecord> lanes_before =
      other_events ? LoadLanes(name, Access::kWrite) : std::vector<LaneRecord>();
  std::string server = new_server.value_or(old[0].value());
  Destination destination = kept ? *kept : UsableDestination(server);
  Cell aggregate_types, event_types;
  if (auto patterns = TextArrayArgument(fcinfo, 2, "aggregate_types")) {
    aggregate_types = TextArrayLiteral(CheckPatterns("aggregate_types", *patterns));
  }
  if (auto patterns = TextArrayArgument(fcinfo, 3, "event_types")) {
    event_types = TextArrayLiteral(CheckPatterns("event_types", *patterns));
  }
  // Options that are kept are checked again: they may not suit the route's new destination.
  std::string topic = TextArgument(fcinfo, 4).value_or(old[1].value());
  CheckTopicTemplate(*destination.kind, topic);
  std::string key = TextArgument(fcinfo, 5).value_or(old[2].value());
  CheckKeyTemplate(key);
  if (!PG_ARGISNULL(6)) {
    int64 lanes = PG_GETARG_INT32(6);
    CheckLanes(lanes);
    WantLanes(name, std::to_string(lanes), old[3], old[5]);
  }
  const Cell wanted_format = PG_ARGISNULL(12) ? old[11] : TextArgument(fcinfo, 12);
  const outbox::format::Format& format = CheckFormat(wanted_format);
  const bool other_format = format.name != old[11].value();
  Cell given_options = TextArgument(fcinfo, 7);
  std::string options = given_options
                            ? Options(*destination.kind, format, given_options)
                            : KeptOptions(*destination.kind, format, old[4], server, server == old[0], !other_format);
  PolicyArguments policy = CheckPolicy(fcinfo, 8, {old[6], old[7], old[8], old[9]});
  RunSql(Access::kWrite,
         "UPDATE outbox.route SET server = $2::name, aggregate_types = coalesce($3::text[], aggregate_types), "
         "event_types = coalesce($4::text[], event_types), topic = $5, key = $6, options = $7::jsonb, on_failure = $8, "
         "max_attempts = $9::integer, backoff_base = $10::interval, backoff_cap = $11::interval, format = $12 WHERE "
         "name = $1",
         {name, server, aggregate_types, event_types, topic, key, options, policy.on_failure, policy.max_attempts,
          policy.backoff_base, policy.backoff_cap, std::string(format.name)});
  if (topic != old[1]) {
    Rename(Number(old[10]));
    outbox::pg::NoteParkedChange();
  }
  if (policy.on_failure != old[6]) {
    ChangeHolders(name, Number(old[10]), policy.on_failure == "block");
  }
  if (RouteFace(name) == before) {
    TellUnchanged(fcinfo, name);
  }
  const int64 left = other_events ? AtLatestSnapshot([&] { return NoLongerWanted(name, lanes_before); }) : 0;
  AuditAlteredRoute(name, before, left);
  outbox::pg::NoteConfigChange();
  TellWatchedAsNow(name, before);
  if (other_events || server != old[0] || topic != old[1] || key != old[2] || other_format) {
    TellOpen(name);
  }
  PG_RETURN_VOID();
}

namespace {

// What goes with a route by its foreign keys, unless session_replication_role is replica: then those are not looked at.
void DeleteBelongings(const Cell& route_id) {
  for (const char* sql : {"DELETE FROM outbox_internal.parked WHERE route_id = $1::bigint",
                          "DELETE FROM outbox.pause WHERE route_id = $1::bigint",
                          "DELETE FROM outbox_internal.side_topic WHERE route_id = $1::bigint",
                          "DELETE FROM outbox_internal.side_lane WHERE route_id = $1::bigint",
                          "DELETE FROM outbox_internal.lane_start WHERE route_id = $1::bigint",
                          "DELETE FROM outbox_internal.lane WHERE route_id = $1::bigint"}) {
    RunSql(Access::kWrite, sql, {route_id});
  }
}

}  // namespace

OUTBOX_FUNCTION(outbox_drop_route) {
  RequireWritable("outbox.drop_route()");
  LockToWrite({"route", "parked", "pause", "side_topic", "side_lane", "lane_start", "lane"});
  RequireSameVersion();
  std::string name = CheckRouteName(TextArgument(fcinfo, 0));
  // Counted before the route is locked: its workers go on meanwhile.
  std::string unknown;  // why it is not known what waits
  const int64 pending = AtLatestSnapshot([&] {
    const std::vector<LaneRecord> lanes = LoadLanes(name);
    int64 found = 0;
    unknown =
        !lanes.empty() && lanes[0].spec == nullptr ? lanes[0].trouble : WhyUnread([&] { found = Pending(lanes, 0); });
    return found;
  });
  std::vector<Row> counted =
      RunSql(Access::kLatest,
             "SELECT count(*) FROM outbox_internal.parked p JOIN outbox.route r ON r.id = p.route_id "
             "WHERE r.name = $1",
             {name});
  const std::string before = RouteFace(name);
  TellUnwatched(name);
  const std::vector<Row> deleted =
      RunSql(Access::kWrite, "DELETE FROM outbox.route WHERE name = $1 RETURNING id", {name});
  if (deleted.empty()) {
    throw NoSuchRoute(name);
  }
  DeleteBelongings(deleted[0][0]);
  NoteDropped(name.c_str());
  outbox::pg::NoteConfigChange();
  const int64 parked = Number(counted[0][0]);
  AuditDroppedRoute(name, before, unknown.empty() ? std::optional(pending) : std::nullopt, parked);
  if (!unknown.empty()) {
    Notice("it is not known how many events route \"" + name + "\" leaves unsent in the log",
           "Because " + unknown + ".");
  }
  int64 unsent = pending + parked;
  const int64 open = OpenEmitters();
  if (unsent > 0 || open > 0) {
    const char* text = name.c_str();
    const std::string told = open == 0 ? ""
                                       : " " + TellOpenEmitters(open) +
                                             (open == 1 ? "; what it commits" : "; what they commit") +
                                             " is not sent by it either.";
    const char* more = told.c_str();
    Guard([&] {
      ereport(NOTICE, (errmsg_plural("route \"%s\" leaves %lld event unsent", "route \"%s\" leaves %lld events unsent",
                                     static_cast<unsigned long>(unsent), text, static_cast<long long>(unsent)),
                       errdetail("In the log: %lld. Parked: %lld.%s", static_cast<long long>(pending),
                                 static_cast<long long>(parked), more),
                       errhint("Waiting events stay in the log until their day is dropped; a new route with start => "
                               "'earliest' or a timestamp sends them.")));
    });
  }
  if (!unknown.empty()) {
    PG_RETURN_NULL();
  }
  PG_RETURN_INT64(unsent);
}
