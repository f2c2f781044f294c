// outbox.replay() and outbox.cancel_replay() [P].
//
// A replay is a copy: what matches is looked up once, by one walk through the days in question, and then copied batch
// by batch from the log into outbox.parked, in created_at order, as scheduled events that fall due one after another.
// The workers deliver them like others that are due: events of one key in order, and later ones of the key from the log
// do not wait for them.
#include <algorithm>
#include <map>
#include <set>

#include "admin/act.h"
#include "admin/batches.h"
#include "admin/changes.h"
#include "admin/event_walk.h"
#include "admin/parked_rows.h"
#include "admin/procedure_arguments.h"
#include "admin/shared_look.h"
#include "admin/start.h"
#include "pg/entry.h"

namespace {

using namespace outbox::admin;
using outbox::pg::UserError;

constexpr size_t kMostEvents = 2000000;  // 64 MB here
constexpr size_t kBatch = 500;
constexpr size_t kTopicsTold = 20;

struct Found {
  int64 created_at;
  int64 order_key;  // 0: no key
  uint32 block;
  Oid table;
  uint32 topic;  // into ReplayPlan::topics
  uint16 offset;
  uint16 lane;
};

struct ReplayPlan {
  std::string from, to;
  std::string filter;  // as given, JSON
  std::vector<Found> events;
  std::vector<std::string> topics;
  std::map<std::string, uint32> topic_numbers;
  int64 bytes = 0;
  int64 pending = 0, parked = 0, given_up = 0;  // that match, and are left alone
  double per_second = 0;
};

struct Request {
  WalkFilter filter;
  std::optional<int64> since;
  std::vector<outbox::Uuid> ids;
  std::string given;
};

std::string Count(int64 count, const char* what) {
  return std::to_string(count) + " " + what + (count == 1 ? "" : "s");
}

Request ReadRequest(FunctionCallInfo fcinfo) {
  Request request;
  request.since = TimeArgument(fcinfo, 0);
  std::optional<int64> until = TimeArgument(fcinfo, 1);
  WalkFilter& filter = request.filter;
  filter.aggregate_type = LikePattern(TextArgument(fcinfo, 2));
  filter.aggregate_id = TextArgument(fcinfo, 3);
  filter.event_type = LikePattern(TextArgument(fcinfo, 4));
  filter.ids = TextArgument(fcinfo, 5);
  JsonObject given;
  given.Add("since", TextArgument(fcinfo, 0)).Add("until", TextArgument(fcinfo, 1));
  given.Add("aggregate_type", TextArgument(fcinfo, 2)).Add("aggregate_id", filter.aggregate_id);
  given.Add("event_type", TextArgument(fcinfo, 4)).Add("ids", filter.ids);
  request.given = given.Text();
  if (filter.ids) {
    for (const Row& row : RunSql(Access::kWrite, "SELECT DISTINCT unnest($1::uuid[])", {filter.ids})) {
      if (row[0]) {
        request.ids.push_back(outbox::ParseUuid(*row[0]).value());
      }
    }
    if (request.ids.empty()) {
      throw UserError{ERRCODE_INVALID_PARAMETER_VALUE, "ids is empty", "No event would match.",
                      "Leave it out to take events by time."};
    }
  }
  if (!request.since && !filter.ids) {
    throw UserError{ERRCODE_NULL_VALUE_NOT_ALLOWED, "a replay needs since, or ids",
                    "It has to be known which days of the log to read.",
                    "since => '-infinity' takes everything that is still in the log."};
  }
  filter.until = until.value_or(NewestTime() + kPgEpochMicros + 1);
  if (request.since && *request.since >= filter.until) {
    throw UserError{ERRCODE_INVALID_PARAMETER_VALUE, "since must be before until",
                    "It is " + UnixMicrosText(*request.since) + ", and until is " + UnixMicrosText(filter.until) + ".",
                    ""};
  }
  filter.since = request.since.value_or(0);
  return request;
}

// What cannot be had any more.
void TellRetained(const Request& request) {
  std::optional<int64> oldest = OldestRetained();
  if (request.since && (!oldest || *request.since < *oldest)) {
    Notice(oldest ? "the log begins at " + UnixMicrosText(*oldest) : "the log is empty",
           "Events of before are no longer kept.", "outbox.retention says how long days are kept.");
  }
}

class Planner {
 public:
  explicit Planner(ReplayPlan* plan) : plan_(plan), from_(plan->from) {}

  void Walk(const WalkFilter& filter) {
    WalkLog(filter, [this](const WalkedEvent& event) { Visit(event); });
  }
  size_t seen() const { return seen_.size(); }
  void Forget() {
    seen_.clear();
    plan_->events.clear();
    plan_->bytes = plan_->pending = plan_->parked = plan_->given_up = 0;
  }

 private:
  void Visit(const WalkedEvent& event) {
    seen_.insert(event.id);
    if (seen_.size() > kMostEvents) {
      seen_.clear();  // only ids, which are few, are counted
    }
    switch (from_.FateOf(event)) {
      case RouteEvents::Fate::kNotOurs:
        return;
      case RouteEvents::Fate::kPending:
        plan_->pending++;
        return;
      case RouteEvents::Fate::kParked:
        plan_->parked++;
        return;
      case RouteEvents::Fate::kGivenUp:
        plan_->given_up++;
        return;
      case RouteEvents::Fate::kDelivered:
        break;
    }
    if (plan_->events.size() >= kMostEvents) {
      throw UserError{ERRCODE_PROGRAM_LIMIT_EXCEEDED, "too many events for one replay",
                      "More than " + std::to_string(kMostEvents) + " match.",
                      "Narrow it by time, or move the whole route with outbox.seek()."};
    }
    ParkedRow row;
    row.route = plan_->to;
    row.id.resize(outbox::kUuidTextLength);
    outbox::FormatUuid(event.id, row.id.data());
    row.aggregate_type = std::string(event.aggregate_type);
    row.event_type = std::string(event.event_type);
    if (!outbox::IsNull(event.aggregate_id)) {
      row.aggregate_id = std::string(event.aggregate_id);
    }
    if (!outbox::IsNull(event.topic)) {
      row.own_topic = std::string(event.topic);
    }
    resolver_.Resolve(&row);
    auto [at, fresh] = plan_->topic_numbers.emplace(row.topic, static_cast<uint32>(plan_->topics.size()));
    if (fresh) {
      plan_->topics.push_back(row.topic);
    }
    int64 key = row.order_key ? std::strtoll(row.order_key->c_str(), nullptr, 10) : 0;
    plan_->events.push_back({event.created_at, key, event.block, event.table, at->second, event.offset,
                             static_cast<uint16>(std::strtol(row.lane.c_str(), nullptr, 10))});
    plan_->bytes += event.payload_bytes;
  }

  ReplayPlan* plan_;
  RouteEvents from_;
  Resolver resolver_;
  std::set<outbox::Uuid> seen_;
};

// Fills plan->events, in created_at order.
void FindEvents(const Request& request, ReplayPlan* plan) {
  Planner planner(plan);
  WalkFilter filter = request.filter;
  bool narrowed = false;
  if (!request.since) {
    // Ids of ours say when they were made; those of a client may lie.
    int64 first = filter.until, last = 0;
    narrowed = true;
    for (const outbox::Uuid& id : request.ids) {
      std::optional<int64_t> micros = outbox::Uuid7Micros(id);
      narrowed = narrowed && micros.has_value();
      first = std::min<int64>(first, micros.value_or(first));
      last = std::max<int64>(last, micros.value_or(last));
    }
    if (narrowed) {
      filter.since = first;
      filter.until = std::min(filter.until, last + 1);
    }
  }
  if (filter.since < filter.until) {
    planner.Walk(filter);
  }
  if (narrowed && planner.seen() < request.ids.size()) {
    planner.Forget();
    planner.Walk(request.filter);
  }
  std::sort(plan->events.begin(), plan->events.end(),
            [](const Found& a, const Found& b) { return a.created_at < b.created_at; });
}

void TellPlan(const ReplayPlan& plan, bool dry_run) {
  int64 count = static_cast<int64>(plan.events.size());
  std::string detail;
  if (count > 0) {
    detail = "Created from " + UnixMicrosText(plan.events.front().created_at) + " to " +
             UnixMicrosText(plan.events.back().created_at) + ", " + Count(plan.bytes, "byte") + " of payload.";
    if (plan.per_second > 0) {
      detail += " At " + Cell(std::to_string(static_cast<int64>(plan.per_second))).value() + " a second it takes " +
                Count(static_cast<int64>(static_cast<double>(count) / plan.per_second), "second") + ".";
    }
  }
  Notice((dry_run ? "dry run: would send " : "sending ") + Count(count, "event") + " of route \"" + plan.from +
             "\" again" + (plan.to == plan.from ? "" : " to route \"" + plan.to + "\""),
         detail);
  std::map<std::string, int64> by_topic;
  for (const Found& event : plan.events) {
    by_topic[plan.topics[event.topic]]++;
  }
  size_t told = 0;
  for (const auto& [topic, events] : by_topic) {
    if (dry_run && ++told <= kTopicsTold) {
      Notice("to topic \"" + topic + "\": " + Count(events, "event"));
    }
  }
  if (plan.pending + plan.parked + plan.given_up > 0) {
    Notice("left alone: " + Count(plan.pending + plan.parked + plan.given_up, "event") +
               " that the route has not delivered",
           std::to_string(plan.pending) + " not sent yet, " + std::to_string(plan.parked) + " parked, " +
               std::to_string(plan.given_up) + " skipped or discarded.");
  }
}

std::string TableName(Oid table) {
  std::vector<Row> rows =
      RunSql(Access::kWrite,
             "SELECT relname FROM pg_class WHERE oid = $1::oid AND relnamespace = 'outbox'::regnamespace "
             "AND relname ~ '^log_[0-9]{8}$'",
             {Cell(std::to_string(table))});
  if (rows.empty()) {
    throw UserError{ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE, "a day of the log went while it was copied",
                    "Its retention was over.", "What was copied until then is sent; see outbox.replay."};
  }
  return rows[0][0].value();
}

// Events of one day table; their number.
int64 CopyRun(const ReplayPlan& plan, size_t begin, size_t end, const std::string& number, int64 due_base) {
  std::vector<Cell> places, times, lanes, keys, topics, dues;
  for (size_t i = begin; i < end; i++) {
    const Found& event = plan.events[i];
    places.push_back("(" + std::to_string(event.block) + "," + std::to_string(event.offset) + ")");
    times.push_back(std::to_string(event.created_at));
    lanes.push_back(std::to_string(event.lane));
    keys.push_back(event.order_key == 0 ? Cell() : Cell(std::to_string(event.order_key)));
    topics.push_back(plan.topics[event.topic]);
    double wait = plan.per_second > 0 ? static_cast<double>(i) / plan.per_second : 0;
    dues.push_back(std::to_string(due_base + static_cast<int64>(wait * USECS_PER_SEC)));
  }
  std::string sql =
      "INSERT INTO outbox.parked (route_id, lane, created_at, id, replay, state, order_key, due_at, aggregate_type, "
      "aggregate_id, event_type, payload, content_type, headers, own_topic, topic) "
      "SELECT r.id, u.lane, l.created_at, l.id, $2::bigint, 'scheduled', u.order_key, "
      "timestamptz 'epoch' + u.due * interval '1 microsecond', l.aggregate_type, l.aggregate_id, l.event_type, "
      "l.payload, "
      "l.content_type, coalesce(l.headers, '{}') || jsonb_build_object('outbox-replay', $2), l.topic, u.topic "
      "FROM outbox." +
      TableName(plan.events[begin].table) +
      " l JOIN unnest($4::bigint[], $5::integer[], $6::bigint[], $7::text[], $8::bigint[]) "
      "AS u (micros, lane, order_key, topic, due) "
      "ON l.created_at = timestamptz 'epoch' + u.micros * interval '1 microsecond' "
      "JOIN outbox.route r ON r.name = $1 WHERE l.ctid = ANY ($3::tid[]) RETURNING 1";
  return static_cast<int64>(RunSql(Access::kWrite, sql.c_str(),
                                   {Cell(plan.to), Cell(number), ArrayLiteral(places), ArrayLiteral(times),
                                    ArrayLiteral(lanes), ArrayLiteral(keys), ArrayLiteral(topics), ArrayLiteral(dues)})
                                .size());
}

// False: somebody has cancelled it.
bool CopyBatch(const ReplayPlan& plan, size_t begin, size_t end, const std::string& number, int64 due_base) {
  if (RunSql(Access::kWrite, "SELECT FROM outbox.replay WHERE number = $1::bigint AND state = 'copying' FOR UPDATE",
             {Cell(number)})
          .empty()) {
    return false;
  }
  int64 copied = 0;
  for (size_t at = begin; at < end;) {
    size_t run = at;
    while (run < end && plan.events[run].table == plan.events[at].table) {
      run++;
    }
    copied += CopyRun(plan, at, run, number, due_base);
    at = run;
  }
  RunSql(Access::kWrite,
         "UPDATE outbox.replay SET copied = copied + $2::bigint, state = CASE WHEN $3::boolean THEN 'scheduled' ELSE "
         "state END WHERE number = $1::bigint",
         {Cell(number), Cell(std::to_string(copied)), Cell(end == plan.events.size() ? "true" : "false")});
  NoteParkedChange();
  return true;
}

// Its number.
std::string Copy(Batches* batches, const ReplayPlan& plan, const Cell& rate, const Cell& reason) {
  std::string number =
      RunSql(Access::kWrite,
             "INSERT INTO outbox.replay (who, route, to_route, filter, per_second, matched, reason, state) "
             "VALUES (session_user, $1, $2, $3::jsonb, $4::numeric, $5::bigint, $6, "
             "CASE $5 WHEN '0' THEN 'scheduled' ELSE 'copying' END) RETURNING number",
             {Cell(plan.from), Cell(plan.to), Cell(plan.filter), rate, Cell(std::to_string(plan.events.size())),
              reason})[0][0]
          .value();
  WriteAudit("replay", plan.from, Cell(),
             JsonObject()
                 .AddRaw("number", number)
                 .Add("to_route", Cell(plan.to))
                 .AddRaw("filter", plan.filter)
                 .Add("per_second", rate)
                 .Add("events", static_cast<int64>(plan.events.size())),
             reason);
  batches->Commit();
  int64 due_base = GetCurrentTimestamp() + kPgEpochMicros;
  int64 told = due_base;
  for (size_t at = 0; at < plan.events.size(); at += kBatch) {
    size_t end = std::min(plan.events.size(), at + kBatch);
    if (!CopyBatch(plan, at, end, number, due_base)) {
      Notice("replay " + number + " was cancelled");
      return number;
    }
    batches->Commit();
    int64 now = GetCurrentTimestamp() + kPgEpochMicros;
    if (end < plan.events.size() && now - told > 2 * USECS_PER_SEC) {
      told = now;
      Notice(std::to_string(end) + " of " + Count(static_cast<int64>(plan.events.size()), "event") + " scheduled");
    }
  }
  Notice("replay " + number + ": " + Count(static_cast<int64>(plan.events.size()), "event") + " scheduled", "",
         "SELECT outbox.cancel_replay(" + number + ") ends it.");
  return number;
}

}  // namespace

OUTBOX_FUNCTION(outbox_replay) {
  bool dry_run = BooleanArgument(fcinfo, 8, "dry_run");
  Cell route = TextArgument(fcinfo, 6);
  Cell to_route = TextArgument(fcinfo, 7);
  Cell reason = CheckReason(TextArgument(fcinfo, 10), false);
  Cell rate = TextArgument(fcinfo, 9);
  ReplayPlan plan;
  plan.per_second = RateArgument(fcinfo, 9);
  if (!route) {
    throw UserError{ERRCODE_NULL_VALUE_NOT_ALLOWED, "a replay needs a route",
                    "It sends again what one route has delivered.", "SELECT name FROM outbox.route shows all routes."};
  }
  if (!dry_run) {
    RequireWritable("outbox.replay()");
  }
  Batches batches(fcinfo, "outbox.replay()", !dry_run);
  plan.from = *route;
  plan.to = to_route.value_or(*route);
  RouteEvents target(plan.to);  // it has to be there, and to work
  Request request = ReadRequest(fcinfo);
  plan.filter = request.given;
  TellRetained(request);
  FindEvents(request, &plan);
  TellPlan(plan, dry_run);
  Cell number;
  if (!dry_run) {
    number = Copy(&batches, plan, rate, reason);
  }
  return batches.Result({number, Cell(std::to_string(plan.events.size()))});
}

OUTBOX_FUNCTION(outbox_cancel_replay) {
  RequireWritable("outbox.cancel_replay()");
  Cell number = TextArgument(fcinfo, 0);
  Cell reason = CheckReason(TextArgument(fcinfo, 1), false);
  if (!number) {
    throw UserError{ERRCODE_NULL_VALUE_NOT_ALLOWED, "number must not be null", "",
                    "SELECT number, state FROM outbox.replay shows all replays."};
  }
  std::vector<Row> rows =
      RunSql(Access::kWrite, "SELECT state, route FROM outbox.replay WHERE number = $1::bigint FOR UPDATE", {number});
  if (rows.empty()) {
    throw UserError{ERRCODE_UNDEFINED_OBJECT, "replay " + *number + " does not exist", "",
                    "SELECT number, state FROM outbox.replay shows all replays."};
  }
  if (rows[0][0] == "cancelled") {
    Notice("replay " + *number + " is cancelled already");
    PG_RETURN_INT64(0);
  }
  RunSql(Access::kWrite, "UPDATE outbox.replay SET state = 'cancelled' WHERE number = $1::bigint", {number});
  int64 gone =
      std::strtoll(RunSql(Access::kWrite,
                          "WITH gone AS (DELETE FROM outbox.parked WHERE replay = $1::bigint AND state = 'scheduled' "
                          "AND NOT coalesce(sender = ANY ($2::bigint[]), false) RETURNING 1) SELECT count(*) FROM gone",
                          {number, LiveIncarnations()})[0][0]
                       .value()
                       .c_str(),
                   nullptr, 10);
  WriteAudit("cancel_replay", rows[0][1], Cell(), JsonObject().AddRaw("number", *number).Add("not_sent", gone), reason);
  NoteParkedChange();
  PG_RETURN_INT64(gone);
}
