#include "admin/operate/parked_rows.h"

#include <algorithm>
#include <set>

#include "admin/common/operation.h"
#include "admin/common/text_encoding.h"
#include "admin/common/write_lock.h"
#include "admin/lookup/find_event.h"
#include "admin/lookup/pauses.h"
#include "admin/lookup/shared_views.h"
#include "base/order_key.h"
#include "days/day_table_ddl.h"
#include "format/record_format.h"
#include "parked/statements.h"
#include "pg/clock.h"
#include "pg/key_secret.h"
#include "pg/wall.h"

namespace outbox::admin {

namespace {

// Of outbox_internal.parked p and its route r; $1: live incarnations.
#define OUTBOX_ROW_COLUMNS                                                                                      \
  "p.route_id, (extract(epoch FROM p.created_at) * 1000000)::bigint, p.id, p.replay, r.name, p.state, "         \
  "p.order_key, p.lane, p.aggregate_type, p.aggregate_id, p.event_type, p.own_topic, p.topic, p.content_type, " \
  "p.payload IS NULL, p.attempts, coalesce(p.sender = ANY ($1::bigint[]), false) "

#define OUTBOX_SAME_ROW(x, y)                                                                                          \
  x ".route_id = " y ".route_id AND " x ".created_at = " y ".created_at AND " x ".id = " y ".id AND " x ".replay = " y \
    ".replay "

std::vector<ParkedRow> RowsOf(const std::vector<Row>& found) {
  std::vector<ParkedRow> rows;
  rows.reserve(found.size());
  for (const Row& row : found) {
    ParkedRow parked;
    static_cast<ParkedKey&>(parked) = ReadParkedKey(row);
    parked.route = row[4].value();
    parked.state = row[5].value();
    parked.order_key = Number(row[6]);
    parked.lane = static_cast<int>(Number(row[7]));
    parked.aggregate_type = row[8].value();
    parked.aggregate_id = row[9];
    parked.event_type = row[10].value();
    parked.own_topic = row[11];
    parked.topic = row[12].value();
    parked.content_type = row[13];
    parked.tombstone = row[14] == "t";
    parked.attempts = Number(row[15]);
    parked.sending = row[16] == "t";
    rows.push_back(std::move(parked));
  }
  return rows;
}

// The four arrays of outbox_internal.parked_keys().
template <typename Keyed>
std::vector<Cell> KeyArrays(const std::vector<Keyed>& rows) {
  std::vector<int64> routes, times, replays;
  std::vector<Cell> ids;
  for (const ParkedKey& row : rows) {
    routes.push_back(row.route_id);
    times.push_back(row.created_at);
    ids.push_back(row.id);
    replays.push_back(row.replay);
  }
  return {ArrayLiteral(routes), ArrayLiteral(times), ArrayLiteral(ids), ArrayLiteral(replays)};
}

// The seven arrays of outbox_internal.placed_rows().
std::vector<Cell> PlacedArrays(const std::vector<ParkedRow>& rows) {
  std::vector<Cell> arrays = KeyArrays(rows);
  std::vector<Cell> topics, order_keys;
  std::vector<int64> lanes;
  for (const ParkedRow& row : rows) {
    topics.push_back(row.topic);
    order_keys.push_back(OrderKeyCell(row.order_key));
    lanes.push_back(row.lane);
  }
  arrays.insert(arrays.end(), {ArrayLiteral(topics), ArrayLiteral(order_keys), ArrayLiteral(lanes)});
  return arrays;
}

std::string NotParkedHint(const std::string& id) {
  return "SELECT * FROM outbox.status('" + id + "') tells what became of it; no row: there is no such event.";
}

// What its worker says of a lane, or side lane.
struct Told {
  std::string trouble;    // what is in its way; empty: nothing
  int64_t in_flight = 0;  // events that it has read and nobody has acknowledged, sent or not
};
Told ToldOf(int64_t route_id, int lane, int side) {
  const std::vector<OwnedLaneView> views = ReadLaneViews(MyDatabaseId);
  const OwnedLaneView* view = LaneViews(views).Find(route_id, lane, side);
  if (view == nullptr || !view->owned) {
    return {};
  }
  return {view->trouble.empty() ? "" : std::string(view->trouble.code) + ", " + view->trouble.message,
          view->inflight_count};
}

// The same of the lane that has still to read the event, or has it in flight.
Told ToldOfReader(const std::string& route, const FoundEvent& event) {
  for (const LaneRecord& lane : LoadLanes(route, Access::kWrite)) {
    if (lane.spec != nullptr && Takes(lane, event)) {
      const int side = lane.SideOf(FactsOf(event));
      return ToldOf(lane.route_id, lane.lane, side < 0 ? 0 : lane.sides[static_cast<size_t>(side)].side);
    }
  }
  return {};
}

// What gives up an event that waits in the log: it is its lane's until a pause of its key has it parked.
std::string InLogHint(const std::vector<FoundEvent>& events, int64 route_id, const std::string& server, bool paused,
                      bool stuck) {
  if (events.empty() || !events[0].aggregate_id) {
    return "An event without a key cannot be picked out of the log; it can when it is parked.";
  }
  const std::string type = FromUtf8(events[0].aggregate_type);
  const std::string key = FromUtf8(*events[0].aggregate_id);
  const std::vector<Pause> pauses = LoadPauses(Access::kWrite);
  const bool key_paused = std::any_of(pauses.begin(), pauses.end(), [&](const Pause& pause) {
    return pause.route_id == route_id && pause.aggregate_type == type && pause.aggregate_id == key;
  });
  const auto resumed = [held = FindRoutePause(pauses, route_id, server) != nullptr](const char* before) {
    return held ? std::string(before) + "outbox.resume() has let route and destination go" : "";
  };
  std::string then = " when outbox.status() says that it is blocked, outbox.skip() takes it.";
  if (stuck) {
    return std::string(key_paused ? "Its key is paused; leave it so" : "Pause its key with outbox.pause()") +
           ": the lane comes to it when that trouble is over, if not before" + resumed(", and ") + ", and parks it;" +
           then + " At once, with all of its key: outbox.forget(..., undelivered => true).";
  }
  if (key_paused) {
    return "Its key is paused, so it is parked when its lane comes to it" + resumed(", once ") + ";" + then;
  }
  return paused ? "To give it up, pause its key, too, with outbox.pause(), and resume what is paused;" + then
                : "It goes by itself. To give it up, pause its key with outbox.pause();" + then;
}

// What is wanted goes by itself.
std::string SentHint(bool paused, bool stuck) {
  if (paused) {
    return "It is sent when what is paused goes on: outbox.resume() with what outbox.pause shows.";
  }
  return stuck ? "It is sent by itself when that trouble is over." : "It is sent by itself.";
}

void RefuseInLog(const std::string& id, const Cell& route, Wanted wanted) {
  std::vector<Row> rows = RunSql(
      Access::kWrite,
      "SELECT s.route, s.state, r.id, r.server FROM outbox.status($1::uuid) s JOIN outbox.route r ON r.name = s.route "
      "WHERE s.state IN ('pending', 'paused') AND ($2 IS NULL OR s.route = $2) ORDER BY 1 LIMIT 1",
      {Cell(id), route});
  if (!rows.empty()) {
    const Row& row = rows[0];
    const std::vector<FoundEvent> events = FindEvents(Access::kWrite, ParseUuid(id).value());
    const Told told = events.empty() ? Told() : ToldOfReader(row[0].value(), events[0]);
    const bool paused = row[1] == "paused";
    const bool stuck = !told.trouble.empty();
    const std::string hint = wanted == Wanted::kSent ? SentHint(paused, stuck)
                                                     : InLogHint(events, Number(row[2]), row[3].value(), paused, stuck);
    // Which ones, nobody here knows: its worker does.
    const std::string read = told.in_flight == 0
                                 ? ""
                                 : ", or in its lane, which has read " + std::to_string(told.in_flight) +
                                       " that are not acknowledged: one that was sent before may arrive";
    throw pg::UserError{ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE, "event " + id + " is not parked",
                        "On route \"" + row[0].value() + "\" it is " + row[1].value() + ": it waits in the log" + read +
                            (stuck ? ", and its lane is in trouble: " + told.trouble + "." : "."),
                        hint};
  }
}

// An event waits where something of its key has to go first (outbox_internal.holding): a row before it that is blocked,
// or not due yet, or dead, and not in this very run of rows ($1 to $4). A pause of its key holds it too. $8: now, by
// the workers' clock. $9: from where the key of each row is looked at.
constexpr const char* kMakeDue =
    "WITH t AS MATERIALIZED (SELECT * FROM ROWS FROM (outbox_internal.placed_rows($1::bigint[], $2::bigint[], $3::uuid[], "
    "$4::bigint[], $5::text[], $6::bigint[], $7::integer[]), unnest($9::timestamptz[])) "
    "AS u (route_id, created_at, id, replay, topic, order_key, lane, passed)),"
    "w AS (SELECT t.*, t.order_key IS NOT NULL AND (z.reason IS NOT NULL"
    "  OR EXISTS (SELECT FROM outbox_internal.holding e WHERE e.route_id = t.route_id AND e.order_key = t.order_key "
    "   AND e.created_at >= t.passed AND (e.created_at, e.replay, e.id) < (t.created_at, t.replay, t.id) "
    "   AND (e.state <> 'retrying' OR e.due_at > $8::timestamptz) "
    "   AND NOT EXISTS (SELECT FROM t s WHERE " OUTBOX_SAME_ROW("s", "e") "))) AS waits FROM t "
    " LEFT JOIN LATERAL (SELECT k.reason FROM outbox_internal.parked p CROSS JOIN LATERAL outbox_internal.key_pause(p.route_id, "
    "  p.aggregate_type, p.aggregate_id) k WHERE " OUTBOX_SAME_ROW("p", "t") "LIMIT 1) z ON true),"
    "done AS (UPDATE outbox_internal.parked p SET topic = w.topic, order_key = w.order_key, lane = w.lane, sender = NULL,"
    "  attempts = CASE p.state WHEN 'dead' THEN 0 ELSE p.attempts END,"
    "  state = CASE WHEN p.state = 'scheduled' THEN p.state WHEN w.waits THEN 'blocked' ELSE 'retrying' END,"
    "  due_at = CASE WHEN p.state <> 'scheduled' AND w.waits THEN NULL ELSE $8::timestamptz END"
    " FROM w WHERE " OUTBOX_SAME_ROW("p", "w") " RETURNING p.state, p.order_key)"
    "SELECT order_key FROM done WHERE state = 'blocked'";

// Promotes keys of one route, each once.
void PromoteOf(int64 route_id, std::vector<uint64_t> keys) {
  std::vector<Row> route = RunSql(Access::kWrite, "SELECT on_failure = 'block' FROM outbox.route WHERE id = $1::bigint",
                                  {Cell(std::to_string(route_id))});
  if (route.empty()) {
    return;
  }
  std::sort(keys.begin(), keys.end());
  keys.erase(std::unique(keys.begin(), keys.end()), keys.end());
  const bool block = route[0][0] == "t";
  pg::Guard([&] {
    WithSpiAsOwner(Plan::kByKey,
                   [&] { parked::PromoteHeads(route_id, block, keys, pg::BelievedWall(), parked::kNoFronts); });
  });
}

// The rows of that event, whose routes are kept. They are found by the event's id alone: with the route beside it, the
// planner takes the index that has the route first, and reads all that the route has parked.
std::vector<ParkedKey> KeepRowsOf(const Cell& id, const Cell& route) {
  std::vector<ParkedKey> keys;
  std::vector<int64> routes;
  for (const Row& row :
       RunSql(Access::kWrite,
              "WITH p AS MATERIALIZED (SELECT o.* FROM outbox_internal.parked o WHERE o.id = $1::uuid) "
              "SELECT p.route_id, (extract(epoch FROM p.created_at) * 1000000)::bigint, p.id, p.replay "
              "FROM p JOIN outbox.route r ON r.id = p.route_id WHERE $2 IS NULL OR r.name = $2",
              {id, route}, Plan::kByKey)) {
    keys.push_back(ReadParkedKey(row));
    routes.push_back(keys.back().route_id);
  }
  KeepRoutes(std::move(routes));
  return keys;
}

// Those of them that are `wanted`.
std::vector<ParkedRow> LockRows(const std::vector<ParkedKey>& keys, const char* wanted, const char* lock) {
  std::vector<Cell> params = KeyArrays(keys);
  params.insert(params.begin(), LiveIncarnations());
  const std::string sql =
      std::string("SELECT " OUTBOX_ROW_COLUMNS
                  "FROM outbox_internal.parked p JOIN outbox.route r ON r.id = p.route_id "
                  "JOIN outbox_internal.parked_keys($2::bigint[], $3::bigint[], $4::uuid[], $5::bigint[]) k "
                  "ON " OUTBOX_SAME_ROW("p", "k") "WHERE ") +
      wanted + " ORDER BY p.created_at, p.route_id, p.id, p.replay " + lock;
  return RowsOf(RunSql(Access::kWrite, sql.c_str(), params, Plan::kByKey));
}

}  // namespace

ParkedKey ReadParkedKey(const Row& row) {
  return {Number(row[0]), Number(row[1]), row[2].value(), Number(row[3])};
}

Cell OrderKeyCell(int64 order_key) {
  return order_key == 0 ? Cell() : Cell(std::to_string(order_key));
}

void KeepRoutes(std::vector<int64> route_ids) {
  std::sort(route_ids.begin(), route_ids.end());
  route_ids.erase(std::unique(route_ids.begin(), route_ids.end()), route_ids.end());
  RunSql(Access::kWrite, "SELECT FROM outbox.route WHERE id = ANY ($1::bigint[]) ORDER BY id FOR KEY SHARE",
         {Cell(ArrayLiteral(route_ids))});
}

void RequireId(const Cell& id) {
  if (!id) {
    throw pg::UserError{ERRCODE_NULL_VALUE_NOT_ALLOWED, "id must not be null", "",
                        "The views outbox.dead_letter and outbox.blocked_key show the ids of events."};
  }
}

std::vector<ParkedRow> LockParked(const Cell& id, const Cell& route, Wanted wanted) {
  RequireId(id);
  LockToWrite({"parked"});
  if (route) {
    RouteId(*route);
  }
  std::vector<ParkedRow> rows = LockRows(KeepRowsOf(id, route), "true", "FOR UPDATE OF p");
  if (rows.empty()) {
    RefuseInLog(*id, route, wanted);
    throw pg::UserError{ERRCODE_UNDEFINED_OBJECT, "event " + *id + " is not parked",
                        route ? "It is not parked on route \"" + *route + "\"."
                              : "On no route is it retried, blocked, scheduled, due or dead.",
                        NotParkedHint(*id)};
  }
  for (const ParkedRow& row : rows) {
    if (row.sending) {
      const std::string trouble = ToldOf(row.route_id, row.lane, 0).trouble;
      throw pg::UserError{
          ERRCODE_OBJECT_IN_USE, "event " + *id + " is being sent just now",
          "A relay worker has it in hand for route \"" + row.route + "\"" +
              (trouble.empty() ? "."
                               : ", and the last that it heard is: " + trouble +
                                     ". What was sent and not answered may have arrived."),
          trouble.empty()
              ? "Look at its status in a moment, and call again if it is still parked."
              : "It is tried again and again. Pause the route with outbox.pause(): the worker gives it back "
                "within seconds and tries it no more. Then call again, and resume the route."};
    }
  }
  return rows;
}

std::vector<ParkedRow> LockDead(const std::vector<ParkedKey>& keys) {
  LockToWrite({"parked"});
  return LockRows(keys, "p.state = 'dead'", "FOR UPDATE OF p SKIP LOCKED");
}

std::vector<ParkedRow> LockNotSent(const std::vector<ParkedKey>& keys) {
  LockToWrite({"parked"});
  return LockRows(keys, "NOT coalesce(p.sender = ANY ($1::bigint[]), false)", "FOR UPDATE OF p");
}

bool HoldRoute(int64 route_id) {
  const std::vector<Row> rows =
      RunSql(Access::kWrite, "SELECT lanes_wanted IS NOT NULL FROM outbox.route WHERE id = $1::bigint FOR SHARE",
             {Cell(std::to_string(route_id))});
  return !rows.empty() && rows[0][0] == "t";
}

const format::RouteSpec* Resolver::Spec(const std::string& route) {
  auto known = specs_.find(route);
  if (known == specs_.end()) {
    pg::Guard([] { pg::LoadKeySecret(); });  // before any key is computed
    std::vector<LaneRecord> lanes = LoadLanes(route, Access::kWrite);
    known = specs_.emplace(route, lanes.empty() || !lanes[0].works() ? nullptr : lanes[0].spec).first;
  }
  return known->second.get();
}

void Resolver::Resolve(ParkedRow* row) {
  const format::RouteSpec* spec = Spec(row->route);
  if (spec == nullptr) {
    return;
  }
  // In UTF-8, as the lanes compute it.
  std::string type = Utf8(row->aggregate_type);
  std::string event_type = Utf8(row->event_type);
  Cell key = Utf8Cell(row->aggregate_id);
  Cell own = Utf8Cell(row->own_topic);
  std::string_view aggregate_id = key ? std::string_view(*key) : std::string_view();
  Event event;
  event.id = ParseUuid(row->id).value();
  event.aggregate_type = type;
  event.aggregate_id = aggregate_id;
  event.event_type = event_type;
  event.topic = own ? std::string_view(*own) : std::string_view();
  format::RecordFormat format(specs_.find(row->route)->second);
  std::string topic(format.Topic(event));
  row->topic = FromUtf8(topic);
  row->order_key = static_cast<int64>(OrderKey(topic, type, aggregate_id));
  row->lane = static_cast<int>(format::LaneOf(aggregate_id, event.id, spec->lanes()));
}

std::string PassedKeys::Of(const ParkedRow& row) const {
  const auto found = passed_.find({row.route_id, row.order_key});
  return TimeText(found == passed_.end() ? PG_INT64_MIN : found->second);
}

void PassedKeys::Pass(const std::vector<ParkedRow>& rows, const std::vector<int64>& waiting) {
  const std::set<int64> stopped(waiting.begin(), waiting.end());
  if (passed_.size() >= kMostKeys) {
    passed_.clear();
  }
  for (const ParkedRow& row : rows) {
    if (row.order_key != 0 && stopped.count(row.order_key) == 0) {
      passed_[{row.route_id, row.order_key}] = row.created_at;
    }
  }
}

int64 MakeDue(const std::vector<ParkedRow>& rows, PassedKeys* passed) {
  const PassedKeys none;
  std::vector<Cell> from;
  from.reserve(rows.size());
  for (const ParkedRow& row : rows) {
    from.push_back((passed == nullptr ? none : *passed).Of(row));
  }
  std::vector<Cell> params = PlacedArrays(rows);
  params.push_back(UnixMicrosCell(pg::Guard([] { return pg::BelievedWall(); })));
  params.push_back(ArrayLiteral(from));
  std::vector<int64> waiting;
  for (const Row& row : RunSql(Access::kWrite, kMakeDue, params, Plan::kByKey)) {
    waiting.push_back(Number(row[0]));
  }
  if (passed != nullptr) {
    passed->Pass(rows, waiting);
  }
  return static_cast<int64>(waiting.size());
}

JsonObject AuditedRow(const ParkedRow& row) {
  JsonObject detail;
  detail.Add("from", Cell(row.state)).Add("attempts", row.attempts);
  if (row.replay != 0) {
    detail.Add("replay", row.replay);
  }
  return detail;
}

void Remove(const std::vector<ParkedRow>& rows, const char* outcome) {
  int64 count = static_cast<int64>(rows.size());
  int64 at = 0;
  pg::Guard([&] {
    at = pg::TakeReadings(count);
    // The keeper, if there is one, makes it ahead of time.
    days::EnsureDayTables(days::DayTableKind::kOutcome, at, at + count - 1);
  });
  std::vector<Cell> params = KeyArrays(rows);
  params.insert(params.end(), {Cell(outcome), Cell(std::to_string(at))});
  RunSql(Access::kWrite,
         "WITH gone AS (DELETE FROM outbox_internal.parked p "
         "USING outbox_internal.parked_keys($1::bigint[], $2::bigint[], $3::uuid[], $4::bigint[]) k "
         "WHERE " OUTBOX_SAME_ROW("p", "k") "RETURNING p.*)"
         "INSERT INTO outbox_internal.outcome (at, route_id, created_at, id, replay, outcome, attempts, topic, error_class, "
         "error_code, error_message) "
         "SELECT timestamptz 'epoch' + ($6::bigint - 1 + row_number() OVER (ORDER BY g.created_at, g.route_id, g.replay)) "
         "* interval '1 microsecond', g.route_id, g.created_at, g.id, g.replay, $5, g.attempts, g.topic, "
         "g.error_class, g.error_code, g.error_message FROM gone g",
         params, Plan::kByKey);
}

void Promote(const std::vector<RouteKey>& keys) {
  std::map<int64, std::vector<uint64_t>> by_route;
  for (const auto& [route, key] : keys) {
    if (key != 0) {
      by_route[route].push_back(static_cast<uint64_t>(key));
    }
  }
  for (auto& [route, of_route] : by_route) {
    PromoteOf(route, std::move(of_route));
  }
}

void Rename(int64 route_id) {
  constexpr size_t kPage = 1000;
  Resolver resolver;
  ParkedKey last = {route_id, 0, "00000000-0000-0000-0000-000000000000", 0};
  for (size_t read = kPage; read == kPage;) {
    std::vector<ParkedRow> rows = RowsOf(
        RunSql(Access::kWrite,
               "SELECT " OUTBOX_ROW_COLUMNS "FROM outbox_internal.parked p JOIN outbox.route r ON r.id = p.route_id "
               "WHERE p.route_id = $2::bigint AND p.own_topic IS NULL AND (p.created_at, p.id, p.replay) > "
               "(timestamptz 'epoch' + $3::bigint * interval '1 microsecond', $4::uuid, $5::bigint) ORDER BY "
               "p.created_at, p.id, p.replay LIMIT $6::bigint "
               "FOR UPDATE OF p",
               {LiveIncarnations(), Cell(std::to_string(route_id)), Cell(std::to_string(last.created_at)),
                Cell(last.id), Cell(std::to_string(last.replay)), Cell(std::to_string(kPage))},
               Plan::kByKey));
    read = rows.size();
    if (rows.empty()) {
      break;
    }
    last = rows.back();
    std::vector<ParkedRow> renamed;
    for (ParkedRow& row : rows) {
      const std::string before = row.topic;
      const bool keyed = row.order_key != 0;
      resolver.Resolve(&row);
      if (row.topic == before) {
        continue;
      }
      if (!keyed) {
        row.order_key = 0;  // a copy of a replay holds nothing up
      }
      renamed.push_back(std::move(row));
    }
    if (renamed.empty()) {
      continue;
    }
    RunSql(Access::kWrite,
           "UPDATE outbox_internal.parked p SET topic = k.topic, order_key = k.order_key FROM "
           "outbox_internal.placed_rows($1::bigint[], "
           "$2::bigint[], $3::uuid[], $4::bigint[], $5::text[], $6::bigint[], $7::integer[]) k WHERE " OUTBOX_SAME_ROW(
               "p", "k"),
           PlacedArrays(renamed), Plan::kByKey);
    PromoteKeysOf(renamed);
  }
}

void PromoteKeysOf(const std::vector<ParkedRow>& rows) {
  std::vector<RouteKey> keys;
  keys.reserve(rows.size());
  for (const ParkedRow& row : rows) {
    keys.emplace_back(row.route_id, row.order_key);
  }
  Promote(keys);
}

void PromoteRoute(int64 route_id) {
  std::vector<RouteKey> keys;
  for (const Row& row : RunSql(
           Access::kWrite,
           "SELECT DISTINCT order_key FROM outbox_internal.waiting WHERE route_id = $1::bigint AND state = 'blocked'",
           {Cell(std::to_string(route_id))})) {
    keys.emplace_back(route_id, Number(row[0]));
  }
  Promote(keys);
}

}  // namespace outbox::admin
