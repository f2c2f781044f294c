// outbox.pause() and outbox.resume() [P].
#include "admin/common/operation.h"
#include "admin/common/text_encoding.h"
#include "admin/common/write_lock.h"
#include "admin/lookup/server.h"
#include "admin/operate/parked_rows.h"
#include "emit/check.h"
#include "format/pattern.h"
#include "pg/entry.h"
#include "pg/transaction_end.h"
#include "pg/wall.h"

namespace {

using namespace outbox::admin;
using outbox::pg::UserError;

struct Target {
  Cell route, server, topic, aggregate_type, aggregate_id;
  Cell route_id;

  std::string Name() const {
    if (server) {
      return "destination \"" + *server + "\"";
    }
    std::string of_route = "route \"" + *route + "\"";
    return topic            ? "topic \"" + *topic + "\" of " + of_route
           : aggregate_type ? "key \"" + *aggregate_type + "\" \"" + *aggregate_id + "\" of " + of_route
                            : of_route;
  }
  JsonObject Detail() const {
    return JsonObject()
        .Add("server", server)
        .Add("topic", topic)
        .Add("aggregate_type", aggregate_type)
        .Add("aggregate_id", aggregate_id);
  }
  std::vector<Cell> Columns() const { return {route_id, server, topic, aggregate_type, aggregate_id}; }
};

constexpr const char* kHowTo =
    "Pass route alone, server alone, route and topic, or route, aggregate_type and aggregate_id.";

// $1 to $5: Columns(). By outbox.pause_what_idx, so that it does not matter how much else is paused; topics and types
// are never empty.
#define OUTBOX_SAME_TARGET                                                                                         \
  "coalesce(route_id, 0) = coalesce($1::bigint, 0) AND coalesce(server, ''::name) = coalesce($2::name, ''::name) " \
  "AND coalesce(topic, '') = coalesce($3, '') AND coalesce(aggregate_type, '') = coalesce($4, '') "                \
  "AND coalesce(aggregate_id, '') = coalesce($5, '')"

// Rows of the key. $1 route, $2 aggregate type, $3 aggregate id.
#define OUTBOX_OF_KEY "route_id = $1::bigint AND aggregate_type = $2 AND aggregate_id = $3"

// Until the transaction ends. Of a server that is dropped meanwhile no pause is left, which a new one of its name would
// be born with.
void KeepServer(const std::string& name) {
  for (;;) {
    std::string wrapper;
    const std::optional<Destination> found = FindDestination(name, &wrapper);
    if (!found) {
      throw UserError{ERRCODE_UNDEFINED_OBJECT, "server \"" + name + "\" is no destination",
                      wrapper.empty() ? "There is no foreign server of that name."
                                      : "It belongs to the foreign-data wrapper \"" + wrapper + "\".",
                      "\\des in psql shows all foreign servers."};
    }
    if (KeepDestination(name, *found)) {
      return;
    }
  }
}

// A key that no event can have: nor would an index take it.
void CheckKeySize(const Target& target) {
  const auto check = [](const Cell& part, const char* name, size_t max) {
    if (part && part->size() > max) {
      throw UserError{
          ERRCODE_STRING_DATA_RIGHT_TRUNCATION, std::string(name) + " of the key is too long",
          "It has " + std::to_string(part->size()) + " bytes; at most " + std::to_string(max) + " are allowed.",
          "outbox.emit() takes no longer one either, so no event has that key."};
    }
  };
  check(target.aggregate_type, "aggregate type", outbox::emit::kMaxAggregateType);
  check(target.aggregate_id, "aggregate id", outbox::emit::kMaxAggregateId);
}

Target ReadTarget(FunctionCallInfo fcinfo, bool must_exist) {
  Target target{TextArgument(fcinfo, 0), TextArgument(fcinfo, 1), TextArgument(fcinfo, 2),
                TextArgument(fcinfo, 3), TextArgument(fcinfo, 4), Cell()};
  const char* wrong = nullptr;
  if (!target.route && !target.server) {
    wrong = "Neither route nor server is given.";
  } else if (target.route && target.server) {
    wrong = "Both route and server are given.";
  } else if (target.server && (target.topic || target.aggregate_type || target.aggregate_id)) {
    wrong = "Topics and keys are those of a route.";
  } else if (target.aggregate_type.has_value() != target.aggregate_id.has_value()) {
    wrong = "A key is an aggregate_type and an aggregate_id.";
  } else if (target.topic && target.aggregate_type) {
    wrong = "Both a topic and a key are given.";
  }
  for (const Cell& part : {target.topic, target.aggregate_type}) {
    if (part && part->empty()) {
      wrong = "A topic or an aggregate_type is empty; for the whole route they are left out.";
    }
  }
  if (wrong != nullptr) {
    throw UserError{ERRCODE_INVALID_PARAMETER_VALUE, "it is not clear what is meant", wrong, kHowTo};
  }
  if (must_exist) {
    CheckKeySize(target);
  }
  if (target.route) {
    target.route_id = must_exist ? KeepRoute(*target.route) : RouteId(*target.route);
  } else if (must_exist) {
    KeepServer(*target.server);
  }
  return target;
}

// A topic that cannot be is refused. A key of which the route wants nothing may be mistyped, or paused before
// alter_route(). Looks at the route's row only: LoadLanes() would read its lanes and what else is paused of it.
void CheckAgainstRoute(const Target& target) {
  if (!target.topic && !target.aggregate_type) {
    return;
  }
  const std::vector<Row> rows = RunSql(
      Access::kWrite, "SELECT r.server, r.topic, unnest(r.aggregate_types) FROM outbox.route r WHERE r.id = $1::bigint",
      {target.route_id});
  if (rows.empty()) {
    return;
  }
  if (target.topic) {
    const std::optional<Destination> destination = FindDestination(rows[0][0].value());
    const outbox::sink::SinkKind& kind = destination ? *destination->kind : outbox::sink::kUnknownKind;
    if (const char* bad = kind.bad_topic(Utf8(*target.topic)); bad != nullptr) {
      throw UserError{ERRCODE_INVALID_PARAMETER_VALUE, "there can be no such topic",
                      std::string("The topic name ") + bad + ".",
                      "outbox.lag and outbox.status(id) name the topics that events go to."};
    }
    const std::string& own = rows[0][1].value();
    if (target.topic->find('*') != std::string::npos) {
      Notice(target.Name() + ": only the topic of exactly that name is paused", "pause() takes names, not patterns.",
             "Leave the topic out to pause the whole route.");
    } else if (own.find('{') == std::string::npos && own != *target.topic) {
      Notice(target.Name() + ": that is not the topic of the route, which is \"" + own + "\"",
             "Only events that were emitted with a topic of their own go elsewhere.",
             "If it was mistyped, outbox.resume() with the same arguments takes it back.");
    }
    return;
  }
  std::vector<std::string> wanted;
  wanted.reserve(rows.size());
  for (const Row& row : rows) {
    wanted.push_back(Utf8(row[2].value_or("")));
  }
  if (!outbox::format::PatternList(wanted).Matches(Utf8(*target.aggregate_type))) {
    Notice(target.Name() + ": the route wants no events of that aggregate_type",
           "Nothing is held up by this before outbox.alter_route() has changed that.",
           "If it was mistyped, outbox.resume() with the same arguments takes it back.");
  }
}

// Nothing when it is made; else by whom it is paused already, and why. That row is locked, so that it still exists when
// this transaction commits; as for a change, because this transaction may go on to resume(), and two that had it shared
// would wait for each other. One that another has resumed meanwhile is made again.
std::optional<Row> MakePause(const Target& target, const Cell& reason) {
  const std::vector<Cell> columns = target.Columns();
  std::vector<Cell> params = columns;
  params.push_back(reason);
  constexpr int kTries = 10;
  for (int tries = 0; tries < kTries; tries++) {
    if (!RunSql(Access::kWrite,
                "INSERT INTO outbox.pause (route_id, server, topic, aggregate_type, aggregate_id, reason, paused_by) "
                "VALUES ($1::bigint, $2::name, $3, $4, $5, $6, session_user) ON CONFLICT DO NOTHING RETURNING id",
                params)
             .empty()) {
      return std::nullopt;
    }
    const std::vector<Row> known = RunSql(
        Access::kWrite, "SELECT paused_by, reason FROM outbox.pause WHERE " OUTBOX_SAME_TARGET " FOR NO KEY UPDATE",
        columns, outbox::admin::Plan::kByKey);
    if (!known.empty()) {
      return known[0];
    }
  }
  throw UserError{ERRCODE_OBJECT_IN_USE, "could not pause " + target.Name(),
                  "Others have resumed it each time, or a trigger on outbox.pause keeps the row away.",
                  "Call outbox.pause() again. outbox.doctor() names triggers that are not of outbox."};
}

// Refused copies of replays, which have no key, wait behind nothing: pause() of 0.1 has made them blocked.
void LetKeylessGo(const Target& target) {
  RunSql(Access::kWrite,
         "WITH locked AS MATERIALIZED (SELECT route_id, created_at, id, replay FROM outbox_internal.parked "
         "WHERE " OUTBOX_OF_KEY
         " AND state = 'blocked' AND order_key IS NULL ORDER BY created_at, id, replay FOR UPDATE) "
         "UPDATE outbox_internal.parked p SET state = 'retrying', due_at = $4::timestamptz FROM locked k "
         "WHERE p.route_id = k.route_id AND p.created_at = k.created_at AND p.id = k.id AND p.replay = k.replay",
         {target.route_id, target.aggregate_type, target.aggregate_id,
          UnixMicrosCell(outbox::pg::Guard([] { return outbox::pg::BelievedWall(); }))});
}

}  // namespace

OUTBOX_FUNCTION(outbox_pause) {
  RequireWritable("outbox.pause()");
  Target target = ReadTarget(fcinfo, true);
  CheckAgainstRoute(target);
  Cell reason = CheckReason(TextArgument(fcinfo, 5), true);
  if (const std::optional<Row> known = MakePause(target, reason)) {
    Notice(target.Name() + " is paused already", "By " + (*known)[0].value() + ", because: " + (*known)[1].value());
    PG_RETURN_BOOL(false);
  }
  WriteAudit("pause", target.route, Cell(), target.Detail(), reason);
  outbox::pg::NoteConfigChange();
  if (target.aggregate_type) {
    outbox::pg::NoteParkedChange();
    RunSql(Access::kWrite,
           // (Its route is kept by the row of outbox.pause.) A refused copy of a replay, which has no key, stays
           // retrying, and the lanes keep it back: blocked, it would be behind nothing.
           "WITH locked AS MATERIALIZED (SELECT route_id, created_at, id, replay FROM outbox_internal.parked "
           "WHERE " OUTBOX_OF_KEY
           " AND state = 'retrying' AND order_key IS NOT NULL AND NOT coalesce(sender = ANY ($4::bigint[]), false) "
           "ORDER BY created_at, id, replay FOR UPDATE) "
           "UPDATE outbox_internal.parked p SET state = 'blocked', due_at = NULL, sender = NULL FROM locked k "
           "WHERE p.route_id = k.route_id AND p.created_at = k.created_at AND p.id = k.id AND p.replay = k.replay",
           {target.route_id, target.aggregate_type, target.aggregate_id, LiveIncarnations()});
  }
  PG_RETURN_BOOL(true);
}

OUTBOX_FUNCTION(outbox_resume) {
  RequireWritable("outbox.resume()");
  Target target = ReadTarget(fcinfo, false);
  Cell reason = CheckReason(TextArgument(fcinfo, 5), false);
  std::vector<Row> rows =
      RunSql(Access::kWrite, "DELETE FROM outbox.pause WHERE " OUTBOX_SAME_TARGET " RETURNING paused_at, reason",
             target.Columns(), outbox::admin::Plan::kByKey);
  if (rows.empty()) {
    Notice(target.Name() + " is not paused", "", "SELECT * FROM outbox.pause shows what is.");
    PG_RETURN_BOOL(false);
  }
  WriteAudit("resume", target.route, Cell(),
             target.Detail().Add("paused_at", rows[0][0]).Add("paused_because", rows[0][1]), reason);
  outbox::pg::NoteConfigChange();
  if (target.aggregate_type) {
    outbox::pg::NoteParkedChange();
    LockToWrite({"parked"});
    std::vector<RouteKey> keys;
    bool keyless = false;
    for (const Row& row :
         RunSql(Access::kWrite,
                "SELECT DISTINCT order_key FROM outbox_internal.parked WHERE " OUTBOX_OF_KEY " AND state = 'blocked'",
                {target.route_id, target.aggregate_type, target.aggregate_id})) {
      keys.emplace_back(Number(target.route_id), Number(row[0]));
      keyless = keyless || !row[0];
    }
    Promote(keys);
    if (keyless) {
      LetKeylessGo(target);
    }
  }
  PG_RETURN_BOOL(true);
}
