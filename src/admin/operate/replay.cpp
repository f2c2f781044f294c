// outbox.replay() and outbox.cancel_replay() [P].
//
// A replay is a copy: what matches is looked up (replay_plan.h) and then copied batch by batch from the log into
// outbox_internal.parked, in created_at order, as scheduled events that fall due one after another. The workers deliver
// them like others that are due: events of one key in order, and later ones of the key from the log do not wait for
// them.
//
// Its row in outbox.replay says how far it has come; while a session copies it holds the replay's lock
// (log/progress/replays.h). One that was interrupted goes on where it stopped when it is called with its number.
#include <algorithm>
#include <cmath>
#include <utility>

#include "admin/common/batches.h"
#include "admin/common/operation.h"
#include "admin/common/procedure_arguments.h"
#include "admin/common/write_lock.h"
#include "admin/lookup/edited_events.h"
#include "admin/lookup/route_start.h"
#include "admin/operate/parked_rows.h"
#include "admin/operate/replay_copy.h"
#include "base/count_text.h"
#include "pg/entry.h"
#include "pg/list_argument.h"
#include "pg/transaction_end.h"

namespace {

using namespace outbox::admin;
using outbox::CountText;
using outbox::pg::UserError;

constexpr size_t kTopicsTold = 20;
constexpr double kDefaultRate = 100;  // per_second where nothing else was said, as the procedure declares it

UserError NoSuchReplay(const std::string& number) {
  return UserError{ERRCODE_UNDEFINED_OBJECT, "replay " + number + " does not exist", "",
                   "SELECT number, state FROM outbox.replay shows all replays."};
}

// The last argument, which an extension that is not updated yet does not declare.
bool GivenUpToo(FunctionCallInfo fcinfo) {
  return PG_NARGS() > 13 && BooleanArgument(fcinfo, 13, "include_given_up");
}

// Where it begins and ends. `until` is fixed, so that a session that resumes it ends at the same event.
void ReadTimes(FunctionCallInfo fcinfo, ReplayRequest* request) {
  const std::optional<int64> since = TimeArgument(fcinfo, 0), until = TimeArgument(fcinfo, 1);
  WalkFilter& filter = request->filter;
  if (filter.ids) {
    for (const Row& row : RunSql(Access::kWrite, "SELECT DISTINCT unnest($1::uuid[])", {filter.ids})) {
      if (row[0]) {
        request->ids.push_back(outbox::ParseUuid(*row[0]).value());
      }
    }
    if (request->ids.empty()) {
      throw UserError{ERRCODE_INVALID_PARAMETER_VALUE, "ids is empty", "No event would match.",
                      "Leave it out to take events by time."};
    }
  }
  if (!since && !filter.ids) {
    throw UserError{ERRCODE_NULL_VALUE_NOT_ALLOWED, "a replay needs since, or ids",
                    "It has to be known which days of the log to read.",
                    "since => '-infinity' takes everything that is still in the log."};
  }
  RequireOrder(fcinfo, 0, 1);
  filter.until = std::min(until.value_or(INT64_MAX), NewestTime() + kPgEpochMicros + 1);
  if (since && *since >= filter.until) {
    throw UserError{
        ERRCODE_INVALID_PARAMETER_VALUE, "since is in the future",
        "It is " + UnixMicrosText(*since) + ", and no event is newer than " + UnixMicrosText(filter.until - 1) + ".",
        "Pass a time in the past, such as since => now() - interval '1 hour'."};
  }
  filter.since = since.value_or(0);
  request->only_ids = !since;
}

void ReadRequest(FunctionCallInfo fcinfo, ReplayRequest* request) {
  WalkFilter& filter = request->filter;
  filter.aggregate_type = LikePattern(TextArgument(fcinfo, 2));
  filter.aggregate_id = TextArgument(fcinfo, 3);
  filter.event_type = LikePattern(TextArgument(fcinfo, 4));
  filter.ids = TextArgument(fcinfo, 5);
  if (filter.ids) {
    outbox::pg::Guard([fcinfo] { outbox::pg::RequireList(PG_GETARG_ARRAYTYPE_P(5), "ids"); });
  }
  JsonObject given;
  given.Add("since", TimeTextArgument(fcinfo, 0)).Add("until", TimeTextArgument(fcinfo, 1));
  given.Add("aggregate_type", TextArgument(fcinfo, 2)).Add("aggregate_id", filter.aggregate_id);
  given.Add("event_type", TextArgument(fcinfo, 4)).Add("ids", filter.ids);
  request->given_up = GivenUpToo(fcinfo);
  if (request->given_up) {
    given.AddRaw("include_given_up", "true");
  }
  request->given = given.Text();
  ReadTimes(fcinfo, request);
}

// Reads an interrupted replay: what was asked for then, from behind what has been copied. Unless it is a dry run, this
// session takes it over.
void ReadInterrupted(FunctionCallInfo fcinfo, bool dry_run, Replay* replay) {
  bool filtered = GivenUpToo(fcinfo);
  for (int argument = 0; argument <= 7; argument++) {
    filtered = filtered || !PG_ARGISNULL(argument);
  }
  const UserError as_begun{ERRCODE_INVALID_PARAMETER_VALUE, "number goes with no filter, no route and no per_second",
                           "A replay that goes on does so with what it was begun with.",
                           "CALL outbox.replay(number => " + *replay->number + ", dry_run => false)."};
  if (filtered) {
    throw as_begun;
  }
  if (!dry_run) {
    LockReplay(*replay);
    LockToWrite({"replay"});
  }
  std::string sql =
      "SELECT r.state, coalesce(f.name, r.route), coalesce(t.name, r.to_route), r.per_second, r.copied, "
      "r.filter::text, "
      "r.filter ->> 'aggregate_type', r.filter ->> 'aggregate_id', r.filter ->> 'event_type', r.filter ->> 'ids', "
      "(extract(epoch FROM coalesce(r.copied_to + interval '1 microsecond', r.from_time)) * 1000000)::bigint, "
      "(extract(epoch FROM r.to_time) * 1000000)::bigint, r.filter ->> 'include_given_up', "
      "(extract(epoch FROM r.at) * 1000000)::bigint FROM outbox.replay r "
      "LEFT JOIN LATERAL outbox_internal.route_of_name(r.route, r.at) fi ON true LEFT JOIN outbox.route f ON f.id = "
      "fi.route_id LEFT JOIN LATERAL outbox_internal.route_of_name(r.to_route, r.at) ti ON true "
      "LEFT JOIN outbox.route t ON t.id = ti.route_id "
      "WHERE r.number = $1::bigint";
  std::vector<Row> rows = RunSql(Access::kWrite, (sql + (dry_run ? "" : " FOR UPDATE OF r")).c_str(), {replay->number});
  if (rows.empty()) {
    throw NoSuchReplay(*replay->number);
  }
  const Row& row = rows[0];
  if (row[0] == "scheduled" || row[0] == "cancelled") {
    throw UserError{ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE,
                    "replay " + *replay->number + (row[0] == "scheduled" ? " is complete" : " was cancelled"),
                    row[0] == "scheduled" ? "All its events have been scheduled." : "", "Begin another one."};
  }
  if (!dry_run) {
    RunSql(Access::kWrite, "UPDATE outbox.replay SET state = 'copying' WHERE number = $1::bigint", {replay->number});
  }
  replay->plan.from = row[1].value();
  replay->plan.to = row[2].value();
  const double rate = std::exchange(replay->per_second, row[3] ? std::strtod(row[3]->c_str(), nullptr) : 0);
  if (rate != replay->per_second && rate != kDefaultRate) {
    throw as_begun;
  }
  replay->rate = row[3];
  replay->copied = Number(row[4]);
  ReplayRequest& request = replay->request;
  request.given = row[5].value();
  request.filter.aggregate_type = LikePattern(row[6]);
  request.filter.aggregate_id = row[7];
  request.filter.event_type = LikePattern(row[8]);
  request.filter.ids = row[9];
  request.filter.since = Number(row[10]);
  request.filter.until = Number(row[11]);
  request.given_up = row[12] == "true";
  request.begun = Number(row[13]);
}

// Reports what is no longer retained.
void TellRetained(const ReplayRequest& request) {
  std::optional<int64> oldest = OldestRetained();
  if (!request.only_ids && (!oldest || request.filter.since < *oldest)) {
    Notice(oldest ? "the log begins at " + UnixMicrosText(*oldest) : "the log is empty",
           "Older events are no longer kept.", "outbox.retention says how long days are kept.");
  }
}

void TellPlan(const Replay& replay, bool dry_run) {
  const ReplayPlan& plan = replay.plan;
  std::string detail;
  if (plan.matched > 0) {
    detail = "Created from " + UnixMicrosText(plan.first) + " to " + UnixMicrosText(plan.last) + ", " +
             CountText(plan.bytes, "byte") + " of payload.";
    if (replay.per_second > 0) {
      detail +=
          " At " + replay.rate.value() + " a second it takes " +
          CountText(static_cast<int64>(std::ceil(static_cast<double>(plan.matched) / replay.per_second)), "second") +
          ".";
    }
  }
  std::string hint = dry_run && plan.matched > 0 ? "dry_run => false sends them." : "";
  if (plan.matched == 0) {
    hint = StarInKeyHint(replay.request.filter.aggregate_id);
  }
  if (plan.more) {
    hint +=
        std::string(hint.empty() ? "" : " ") +
        "They do not fit into maintenance_work_mem and are looked up in several passes. Where it is all of a route, "
        "outbox.seek() needs no copies.";
  }
  Notice((dry_run ? "dry run: would send " : "sending ") + CountText(plan.matched, "event") + " of route \"" +
             plan.from + "\" again" + (plan.to == plan.from ? "" : " to route \"" + plan.to + "\""),
         detail, hint);
  if (plan.passed_over > 0) {
    Notice("of these for the first time: " + CountText(plan.passed_over, "event"),
           "outbox.seek() had moved the route behind what it had not delivered.");
  }
  if (plan.taken_up > 0) {
    Notice("of these given up before: " + CountText(plan.taken_up, "event"), "People had skipped or discarded them.");
  }
  TellEdited(plan.edited, "Leave them out, or emit the corrections as events of their own.");
  std::map<std::string, int64> by_topic;
  for (size_t topic = 0; topic < plan.topics.size(); topic++) {
    by_topic[plan.topics[topic]] = plan.of_topic[topic];
  }
  size_t told = 0;
  for (const auto& [topic, events] : by_topic) {
    if (dry_run && ++told <= kTopicsTold) {
      Notice("to topic \"" + topic + "\": " + CountText(events, "event"));
    }
  }
  if (dry_run && told > kTopicsTold) {
    Notice("and to " + CountText(told - kTopicsTold, "other topic"));
  }
  if (plan.pending + plan.parked + plan.given_up > 0) {
    Notice("left alone: " + CountText(plan.pending + plan.parked + plan.given_up, "event") +
               " that the route has not delivered",
           std::to_string(plan.pending) + " not sent yet, " + std::to_string(plan.parked) + " parked, " +
               std::to_string(plan.given_up) + " skipped or discarded.",
           plan.given_up > 0 ? "include_given_up => true sends those that were skipped or discarded, too." : "");
  }
  if (plan.since_begun > 0) {
    Notice("left alone: " + CountText(plan.since_begun, "event") +
               " that the route has delivered, or people gave up, since the replay was begun",
           "They were parked then, and are none of it.", "A replay of their keys, or of their ids, sends them.");
  }
  if (plan.unknown_ids > 0) {
    Notice("not found: " + CountText(plan.unknown_ids, "event") + " of those that ids names",
           "The log has no event of that id" + std::string(replay.request.only_ids ? "" : " in that time") + ".",
           "outbox.retention says how long days are kept; outbox.status(id) says what is known of one event.");
  }
  if (plan.of_others > 0) {
    Notice("left alone: " + CountText(plan.of_others, "event") + " of those that ids names, which route \"" +
           plan.from + "\" does not want");
  }
  if (plan.forgotten > 0) {
    Notice("left alone: " + CountText(plan.forgotten, "event") + " whose content outbox.forget() has erased",
           "Nothing is left of them that could be sent, whether the route had delivered them or not.");
  }
}

// Of what has been copied and is neither sent nor a dead letter; counts no more than `most`.
int64 CopiesLeft(const std::string& number, int64 most) {
  const std::vector<Row> rows =
      RunSql(Access::kWrite,
             "SELECT count(*) FROM (SELECT FROM outbox_internal.parked p WHERE p.replay = $1::bigint AND p.replay <> 0 "
             "AND p.state <> 'dead' LIMIT $2::bigint) x",
             {Cell(number), Cell(std::to_string(most))}, outbox::admin::Plan::kByKey);
  return Number(rows[0][0]);
}

}  // namespace

OUTBOX_FUNCTION(outbox_replay) {
  bool dry_run = BooleanArgument(fcinfo, 8, "dry_run");
  Cell route = TextArgument(fcinfo, 6);
  Cell to_route = TextArgument(fcinfo, 7);
  Cell reason = CheckReason(TextArgument(fcinfo, 10), false);
  Replay replay;
  replay.number = TextArgument(fcinfo, 11);
  replay.rate = TextArgument(fcinfo, 9);
  replay.per_second = RateArgument(fcinfo, 9);
  if (!route && !replay.number) {
    throw UserError{ERRCODE_NULL_VALUE_NOT_ALLOWED, "a replay needs a route",
                    "It sends again what one route has delivered.", "SELECT name FROM outbox.route shows all routes."};
  }
  if (!dry_run) {
    RequireWritable("outbox.replay()");
  }
  Batches batches(fcinfo, "outbox.replay()", !dry_run);
  if (replay.number) {
    ReadInterrupted(fcinfo, dry_run, &replay);
    if (!dry_run) {
      batches.Commit();  // what follows takes its time
    }
  } else {
    replay.plan.from = *route;
    replay.plan.to = to_route.value_or(*route);
  }
  if (!dry_run) {
    LockToWrite({"replay", "audit"});  // the audit has which events were edited
  }
  RouteEvents target(replay.plan.to);  // it has to exist, and to work
  if (!replay.number) {
    ReadRequest(fcinfo, &replay.request);
  }
  TellRetained(replay.request);
  MakePlan(&replay);
  if (!dry_run) {
    (void)KeepRoute(
        replay.plan.to);  // whoever drops it has come before anything is told, or comes behind the first batch
  }
  TellPlan(replay, dry_run);
  int64 events = replay.plan.matched;
  if (!dry_run) {
    int64 before = replay.copied;
    CopyReplay(&batches, &replay, reason);
    events = replay.copied - before;
  }
  return batches.Result({replay.number, Cell(std::to_string(events))});
}

OUTBOX_FUNCTION(outbox_cancel_replay) {
  RequireWritable("outbox.cancel_replay()");
  Cell number = TextArgument(fcinfo, 0);
  Cell reason = CheckReason(TextArgument(fcinfo, 1), false);
  if (!number) {
    throw UserError{ERRCODE_NULL_VALUE_NOT_ALLOWED, "number must not be null", "",
                    "SELECT number, state FROM outbox.replay shows all replays."};
  }
  LockToWrite({"replay", "parked"});
  std::vector<Row> rows =
      RunSql(Access::kWrite, "SELECT state, route FROM outbox.replay WHERE number = $1::bigint FOR UPDATE", {number});
  if (rows.empty()) {
    throw NoSuchReplay(*number);
  }
  const bool again = rows[0][0] == "cancelled";
  if ((again || rows[0][0] == "scheduled") && CopiesLeft(*number, 1) == 0) {
    Notice("replay " + *number + (again ? " is cancelled already" : " is over: nothing of it waits any more"));
    PG_RETURN_INT64(0);
  }
  RunSql(Access::kWrite, "UPDATE outbox.replay SET state = 'cancelled' WHERE number = $1::bigint", {number});
  outbox::pg::NoteParkedChange();
  std::vector<int64> routes;
  for (const Row& row :
       RunSql(Access::kWrite,
              "SELECT DISTINCT route_id FROM outbox_internal.parked WHERE replay = $1::bigint AND replay <> 0",
              {number}, outbox::admin::Plan::kByKey)) {
    routes.push_back(Number(row[0]));
  }
  KeepRoutes(routes);
  // Cancels all that would still be sent: due, being retried, or waiting for another one. Dead letters stay.
  int64 gone = 0;
  std::vector<RouteKey> keys;
  for (const Row& row : RunSql(
           Access::kWrite,
           "WITH locked AS MATERIALIZED (SELECT p.route_id, p.created_at, p.id, p.replay FROM outbox_internal.parked p "
           "WHERE p.replay = $1::bigint AND p.replay <> 0 AND p.state <> 'dead' "
           "AND p.route_id = ANY ($3::bigint[]) AND NOT coalesce(p.sender = ANY ($2::bigint[]), false) "
           "ORDER BY p.created_at, p.route_id, p.id FOR UPDATE), "
           "gone AS (DELETE FROM outbox_internal.parked p USING locked k WHERE p.route_id = k.route_id "
           "AND p.created_at = k.created_at AND p.id = k.id AND p.replay = k.replay "
           "RETURNING p.route_id, p.order_key, p.state) "
           "SELECT route_id, CASE WHEN state <> 'scheduled' THEN order_key END, count(*) FROM gone GROUP BY 1, 2",
           {number, LiveIncarnations(), Cell(ArrayLiteral(routes))}, outbox::admin::Plan::kByKey)) {
    keys.emplace_back(Number(row[0]), Number(row[1]));
    gone += Number(row[2]);
  }
  Promote(keys);
  JsonObject detail;
  detail.AddRaw("number", *number).Add("not_sent", gone);
  const int64 in_hand = CopiesLeft(*number, PG_INT64_MAX);
  if (in_hand > 0) {
    detail.Add("in_hand", in_hand);
    Notice(
        "of replay " + *number + " in hand just now: " + CountText(in_hand, "event"),
        "A relay worker has taken them, and may have sent them. What it gives back, or would have to try again, is not "
        "sent any more.");
  }
  if (!again || gone > 0) {
    WriteAudit("cancel_replay", rows[0][1], Cell(), detail, reason);
  }
  PG_RETURN_INT64(gone);
}
