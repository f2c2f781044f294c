#include "admin/lookup/route_lanes.h"

#include <algorithm>
#include <map>

#include "admin/common/text_encoding.h"
#include "admin/lookup/server.h"
#include "log/progress/routes.h"
#include "pg/schemas.h"
#include "pg/statement.h"

extern "C" {
#include "access/xact.h"
#include "catalog/namespace.h"
#include "common/hashfn.h"
#include "utils/snapmgr.h"
}

namespace outbox::admin {

namespace {

// Of all routes, and of one: whoever asks for one after the other reads no others, because that is planned by itself,
// by index.
struct RouteQuery {
  const char* select;
  const char* of_one;  // a WHERE, with $1
  const char* order;
  const char* rows_of = nullptr;  // see PlannedQuery
  struct Planned {
    std::string sql;
    PlannedQuery query = {};
  };
  Planned all = {};
  Planned one = {};
};

constexpr const char* kOfOne = " WHERE r.id = $1::bigint ";

RouteQuery select_sides = {R"(
SELECT s.route_id, s.lane, s.side, s.topic_template, t.topic,
       s.window_from, s.window_to, (extract(epoch FROM s.done_to) * 1000000)::bigint,
       t.start_from, t.start_to, (extract(epoch FROM t.start_done_to) * 1000000)::bigint,
       t.error_class, t.error_code, t.error_message, (extract(epoch FROM t.forked_at) * 1000000)::bigint
FROM outbox_internal.side_lane_position s JOIN outbox.route r ON r.id = s.route_id
JOIN outbox_internal.side_topic t ON t.route_id = s.route_id AND t.lane = s.lane AND t.side = s.side)",
                           kOfOne, "ORDER BY s.route_id, s.lane, s.side, t.topic", "side_topic"};

// Of all lanes, often: times as they are, not as numbers in text.
RouteQuery select_lanes = {R"(
SELECT r.id, r.name, r.server::text, l.lane, l.window_from::text, l.window_to::text, l.done_to, r.start_snapshot::text,
       r.start_time, l.since, l.saved_at, greatest(l.since, r.created_at),
       coalesce(l.home <> outbox_internal.home() AND NOT EXISTS (SELECT FROM outbox_internal.origin o
         WHERE l.home = o.system_identifier::text || '/' || o.database::text), l.home IS NULL)
FROM outbox.route r
JOIN outbox_internal.lane_position l ON l.route_id = r.id)",
                           " WHERE r.name = $1 ", "ORDER BY r.name, l.lane"};

RouteQuery select_starts = {R"(
SELECT s.route_id, (extract(epoch FROM s.at) * 1000000)::bigint, s.lane, s.topic, s.reason, s.lanes,
       CASE s.start_time WHEN '-infinity' THEN '-9223372036854775808' WHEN 'infinity' THEN '9223372036854775807'
            ELSE (extract(epoch FROM s.start_time) * 1000000)::bigint::text END,
       s.start_from, s.start_to, (extract(epoch FROM s.start_done_to) * 1000000)::bigint,
       s.stood_from, s.stood_to, (extract(epoch FROM s.stood_done_to) * 1000000)::bigint,
       coalesce(s.fork_from, s.stood_from), s.fork_to, (extract(epoch FROM s.fork_done_to) * 1000000)::bigint
FROM outbox_internal.lane_start s JOIN outbox.route r ON r.id = s.route_id)",
                            kOfOne, "ORDER BY s.route_id, s.at, s.lane, s.topic", "lane_start"};

RouteQuery select_routes = {log::kSelectRoutes, kOfOne, ""};

// `which`: nothing for all.
PlannedQuery* For(const Cell& which, RouteQuery* query) {
  auto& planned = which ? query->one : query->all;
  if (planned.sql.empty()) {
    planned.sql = std::string(query->select) + (which ? query->of_one : " ") + query->order;
    planned.query = {planned.sql.c_str(), which ? Plan::kByKey : Plan::kUsual, query->rows_of};
  }
  return &planned.query;
}

std::vector<Cell> Parameters(const Cell& which) {
  return which ? std::vector<Cell>{which} : std::vector<Cell>();
}

Position PositionOf(const Row& row, size_t column) {
  Position position;
  position.base = ParseSnapshot(row[column].value());
  if (row[column + 1]) {
    position.target = ParseSnapshot(*row[column + 1]);
  }
  if (row[column + 2]) {
    position.done_to = Number(row[column + 2]);
  }
  return position;
}

// Unix microseconds; those without an end are the least and the greatest number.
int64 Micros(TimestampTz time) {
  return TIMESTAMP_NOT_FINITE(time) ? time : time + kPgEpochMicros;
}

// As the query has it, before its texts are understood.
struct RawLane {
  int64 route_id = 0;
  std::string route;
  std::string server;
  int lane = 0;
  std::string window_from;
  Cell window_to;
  std::optional<int64> done_to;
  std::string start_snapshot;
  int64 start_time = 0;
  int64 since = 0;
  std::optional<int64> saved_at;
  int64 there_since = 0;
  bool restored = false;
};

void ReadRawLane(const pg::ResultRow& row, RawLane* lane) {
  const auto time = [&row](int column) {
    return row.nulls[column] ? std::optional<int64>() : Micros(DatumGetTimestampTz(row.values[column]));
  };
  const auto text = [&row](int column) { return row.nulls[column] ? "" : pg::ResultText(row, column); };
  lane->route_id = pg::ResultInt64(row, 0);
  lane->route = text(1);
  lane->server = text(2);
  lane->lane = pg::ResultInt32(row, 3);
  lane->window_from = text(4);
  if (const char* to = pg::ResultText(row, 5); to != nullptr) {
    lane->window_to = to;
  }
  lane->done_to = time(6);
  lane->start_snapshot = text(7);
  lane->start_time = time(8).value_or(0);
  lane->since = time(9).value_or(PG_INT64_MIN);
  lane->saved_at = time(10);
  lane->there_since = time(11).value_or(0);
  lane->restored = pg::ResultBool(row, 12);
}

std::vector<RawLane> LoadRawLanes(const Cell& route) {
  std::vector<RawLane> rows;
  RunPlanned(For(route, &select_lanes), Parameters(route), [&rows] {
    for (uint64 row = 0; row < SPI_processed; row++) {
      ReadRawLane(pg::TakeRow(row), &rows.emplace_back());
    }
  });
  return rows;
}

void Fold(const std::string& text, uint64* number) {
  *number =
      hash_bytes_extended(reinterpret_cast<const unsigned char*>(text.data()), static_cast<int>(text.size()), *number);
}

uint64 NumberOf(const format::RouteConfig& config) {
  uint64 number = config.lanes;
  for (const std::vector<std::string>* patterns : {&config.aggregate_types, &config.event_types}) {
    Fold(std::to_string(patterns->size()), &number);
    for (const std::string& pattern : *patterns) {
      Fold(pattern, &number);
    }
  }
  return number;
}

// As the lanes see it: the template of the fork, else the spec's.
std::shared_ptr<format::TopicOf> MakeTopicOf(const LaneRecord& lane, const std::string& text) {
  if (lane.spec == nullptr) {
    return nullptr;
  }
  return std::make_shared<format::TopicOf>(lane.spec->FormerTopic(text));
}

void AddSides(const Cell& route_id, Positions positions, std::vector<LaneRecord>* lanes) {
  for (const Row& row : RunPlanned(For(route_id, &select_sides), Parameters(route_id))) {
    for (LaneRecord& lane : *lanes) {
      if (lane.route_id != Number(row[0]) || lane.lane != Number(row[1]) ||
          (lane.restored && positions == Positions::kOfThisLog)) {
        continue;
      }
      if (lane.topic_of == nullptr) {
        lane.topic_of = MakeTopicOf(lane, Utf8(row[3].value()));
      }
      int number = static_cast<int>(Number(row[2]));
      if (lane.sides.empty() || lane.sides.back().side != number) {
        SideRecord& side = lane.sides.emplace_back();
        side.side = number;
        side.position = PositionOf(row, 5);
        side.error_class = row[11].value();
        side.error_code = row[12].value();
        side.error_message = row[13].value();
        side.since = UnixMicrosCell(Number(row[14]));
      }
      for (const size_t column : {2, 3, 4, 8, 9, 10}) {
        Fold(row[column].value_or(""), &lane.wants);
      }
      lane.sides.back().topics.push_back({Utf8(row[4].value()), PositionOf(row, 8)});
    }
  }
}

void AddStarts(const Cell& route_id, std::vector<LaneRecord>* lanes) {
  // An extension that is not updated yet has none.
  if (!pg::Guard([] { return OidIsValid(pg::FindOurRelation("lane_start")); })) {
    return;
  }
  std::map<int64, std::shared_ptr<std::vector<LaneStart>>> starts;
  for (const Row& row : RunPlanned(For(route_id, &select_starts), Parameters(route_id))) {
    std::shared_ptr<std::vector<LaneStart>>& of_route = starts[Number(row[0])];
    if (of_route == nullptr) {
      of_route = std::make_shared<std::vector<LaneStart>>();
    }
    if (of_route->empty() || of_route->back().at != Number(row[1])) {
      LaneStart& start = of_route->emplace_back();
      start.at = Number(row[1]);
      start.reason = row[4].value();
      start.lanes = static_cast<uint32>(Number(row[5]));
      start.start_time = Number(row[6]);
      start.start = PositionOf(row, 7);
    }
    of_route->back().stood.push_back(
        {static_cast<int>(Number(row[2])), Utf8(row[3].value()), PositionOf(row, 10), PositionOf(row, 13)});
  }
  for (LaneRecord& lane : *lanes) {
    auto found = starts.find(lane.route_id);
    if (found != starts.end()) {
      lane.starts = found->second;
      lane.topic_then = lane.spec != nullptr ? std::make_shared<format::TopicOf>(lane.spec->topic()) : nullptr;
    }
  }
}

std::map<int64, log::Route> LoadRoutes(const Cell& route_id) {
  std::vector<log::Route> rows;
  RunPlanned(For(route_id, &select_routes), Parameters(route_id), [&rows] { log::ReadRoutes(&rows); });
  std::map<int64, log::Route> routes;
  for (log::Route& one : rows) {
    const int64 id = one.id;
    routes.emplace(id, std::move(one));
  }
  return routes;
}

// Servers are looked up once, however many lanes use them.
using Destinations = std::map<std::string, std::optional<Destination>>;

// What the route wants, whatever its destination is and its records are like: so much waits for it, also while it
// cannot work. Its topic template stays if it can be read.
void CompileFilter(log::Route route, LaneRecord* lane) {
  const format::RouteConfig usual;
  route.config.format = usual.format;
  route.config.key = usual.key;
  route.options.clear();
  std::string problem;
  lane->spec = log::CompileRoute(route, sink::kUnknownKind, lane->lane, &problem);
  if (lane->spec == nullptr) {
    lane->knows_topic = false;
    route.config.topic = usual.topic;
    lane->spec = log::CompileRoute(route, sink::kUnknownKind, lane->lane, &problem);
  }
}

void Compile(const log::Route& route, Destinations* destinations, LaneRecord* lane) {
  std::string problem;
  auto known = destinations->find(lane->server);
  if (known == destinations->end()) {
    known = destinations->emplace(lane->server, FindDestination(lane->server)).first;
  }
  if (known->second) {
    lane->spec = log::CompileRoute(route, *known->second->kind, lane->lane, &problem);
    lane->edited = lane->spec == nullptr;
  } else {
    problem = "there is no server \"" + Utf8(lane->server) + "\" of a foreign-data wrapper of outbox";
  }
  if (lane->spec == nullptr) {
    lane->trouble = FromUtf8(problem);
    CompileFilter(route, lane);
  }
}

bool Covers(const Position& position, const EventFacts& event) {
  return position.Covers(event.xid, event.created_at);
}

// Whether the lane that had the event before a start had passed it.
bool Stood(const LaneStart& start, int lane, std::string_view topic, const EventFacts& event) {
  const LaneStart::Stood* own = nullptr;
  for (const LaneStart::Stood& stood : start.stood) {
    if (stood.lane != lane) {
      continue;
    }
    if (stood.topic.empty()) {
      own = &stood;
    } else if (stood.topic == topic) {
      return Covers(stood.position, event) || Covers(stood.fork, event);
    }
  }
  return own != nullptr && Covers(own->position, event);
}

std::vector<LaneRecord> ReadLanes(const Cell& route, Positions positions) {
  std::vector<LaneRecord> lanes;
  const std::vector<RawLane> rows = LoadRawLanes(route);
  if (rows.empty()) {
    return lanes;
  }
  const Cell route_id = route ? Cell(std::to_string(rows[0].route_id)) : Cell();
  Destinations destinations;
  const std::map<int64, log::Route> routes = LoadRoutes(route_id);
  for (const RawLane& row : rows) {
    auto of_route = routes.find(row.route_id);
    if (of_route == routes.end()) {
      continue;  // dropped since
    }
    LaneRecord lane;
    lane.route_id = of_route->first;
    lane.route = row.route;
    lane.server = row.server;
    lane.lane = row.lane;
    lane.position.base = ParseSnapshot(row.window_from);
    if (row.window_to) {
      lane.position.target = ParseSnapshot(*row.window_to);
    }
    lane.position.done_to = row.done_to.value_or(lane.position.done_to);
    lane.wants = NumberOf(of_route->second.config);
    lane.start_snapshot = ParseSnapshot(row.start_snapshot);
    lane.start_time = row.start_time;
    lane.since = row.since;
    lane.restored = row.restored;
    lane.saved_at = row.saved_at ? *row.saved_at : row.since == PG_INT64_MIN ? 0 : row.since;
    lane.there_since = row.there_since;
    if (lane.restored && positions == Positions::kOfThisLog) {
      lane.position = {ParseSnapshot(kNothingVisible), std::nullopt, kBeforeAllTime};
      lane.start_time = INT64_MIN;
    }
    Compile(of_route->second, &destinations, &lane);
    lanes.push_back(std::move(lane));
  }
  AddSides(route_id, positions, &lanes);
  AddStarts(route_id, &lanes);
  return lanes;
}

}  // namespace

std::string CoversSql(const std::string& row, const std::string& xid, const std::string& created_at) {
  return "(pg_visible_in_snapshot(" + xid + "::xid8, " + row + ".window_from) OR (" + row +
         ".window_to IS NOT NULL AND pg_visible_in_snapshot(" + xid + "::xid8, " + row + ".window_to) AND " + row +
         ".done_to IS NOT NULL AND " + row + ".done_to >= timestamptz 'epoch' + " + created_at +
         "::bigint * interval '1 microsecond'))";
}

Passage LaneRecord::PassageOf(const EventFacts& event, const Uuid& id) const {
  Passage passage;
  if (!Passed(event)) {
    return passage;
  }
  const size_t count = starts != nullptr ? starts->size() : 0;
  std::string_view topic;
  if (count > 0 && topic_then != nullptr) {
    topic = topic_then->Resolve(event.aggregate_type, event.aggregate_id, event.event_type, event.topic);
  }
  // From the last beginning of the lanes back to the first: finds the one in which a lane passed the event.
  for (size_t i = count + 1; i-- > 0;) {
    const LaneStart* begin = i > 0 ? &(*starts)[i - 1] : nullptr;
    const LaneStart* end = i < count ? &(*starts)[i] : nullptr;
    if (begin != nullptr ? Covers(begin->start, event)
                         : end != nullptr && event.created_at < end->start_time && start_snapshot.Visible(event.xid)) {
      continue;
    }
    passage.lane = end == nullptr ? lane : static_cast<int>(format::LaneOf(event.aggregate_id, id, end->lanes));
    if (end == nullptr || Stood(*end, passage.lane, topic, event)) {
      passage.kind = Passage::Kind::kDelivered;
      // A beginning without a row (an older version wrote none) counts all the same.
      passage.after = end == nullptr ? since : begin != nullptr ? begin->at : PG_INT64_MIN;
      passage.until = end == nullptr ? PG_INT64_MAX : end->at;
      return passage;
    }
  }
  passage.kind = count > 0 ? Passage::Kind::kPassedOver : Passage::Kind::kDelivered;
  for (size_t i = count; i-- > 0 && passage.by == nullptr;) {
    passage.by = Covers((*starts)[i].start, event) ? &(*starts)[i] : nullptr;
  }
  return passage;
}

int LaneRecord::SideOf(const EventFacts& event) const {
  if (topic_of == nullptr) {
    return -1;
  }
  std::string_view topic = topic_of->Resolve(event.aggregate_type, event.aggregate_id, event.event_type, event.topic);
  for (size_t i = 0; i < sides.size(); i++) {
    for (const SideRecord::Topic& one : sides[i].topics) {
      if (one.topic == topic) {
        return static_cast<int>(i);
      }
    }
  }
  return -1;
}

int LaneRecord::SideOfTopic(const std::string& topic) const {
  for (size_t i = 0; i < sides.size(); i++) {
    for (const SideRecord::Topic& one : sides[i].topics) {
      if (FromUtf8(one.topic) == topic) {
        return static_cast<int>(i);
      }
    }
  }
  return -1;
}

bool LaneRecord::PassedBy(const EventFacts& event, int side) const {
  if (side < 0) {
    return Covers(position, event);
  }
  const SideRecord& record = sides[static_cast<size_t>(side)];
  if (Covers(record.position, event)) {
    return true;
  }
  if (record.topics.size() == 1) {
    return Covers(record.topics[0].start, event);
  }
  std::string_view topic = topic_of->Resolve(event.aggregate_type, event.aggregate_id, event.event_type, event.topic);
  return std::any_of(record.topics.begin(), record.topics.end(),
                     [&](const SideRecord::Topic& one) { return one.topic == topic && Covers(one.start, event); });
}

bool LaneRecord::BeforeStart(uint64 xid, int64 created_at) const {
  return created_at < start_time && start_snapshot.Visible(xid);
}

pg::UserError CannotWork(const std::string& route, const std::string& why) {
  return {ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE, "route \"" + route + "\" cannot work", why,
          "outbox.doctor() tells what to do."};
}

Snapshot ParseSnapshot(const std::string& text) {
  std::optional<Snapshot> snapshot = Snapshot::FromText(text);
  if (!snapshot) {
    throw pg::UserError{ERRCODE_DATA_CORRUPTED, "cannot read snapshot \"" + text + "\"", "", ""};
  }
  return std::move(*snapshot);
}

std::vector<LaneRecord> LoadLanes(const Cell& route, Access access, Positions positions) {
  // Routes, lanes and where they began, as they stood at one moment: each statement that may write takes a snapshot of
  // its own, and between two of them the lanes of a route may have been exchanged.
  if (access == Access::kLatest) {
    return AtLatestSnapshot([&] { return ReadLanes(route, positions); });
  }
  if (access == Access::kWrite) {
    pg::Guard([] {
      CommandCounterIncrement();
      PushActiveSnapshot(GetTransactionSnapshot());
    });
  }
  std::vector<LaneRecord> lanes = ReadLanes(route, positions);
  if (access == Access::kWrite) {
    pg::Guard([] { PopActiveSnapshot(); });
  }
  return lanes;
}

std::vector<std::vector<LaneRecord>> ByRoute(std::vector<LaneRecord> lanes) {
  std::vector<std::vector<LaneRecord>> routes;
  for (LaneRecord& lane : lanes) {
    if (routes.empty() || routes.back()[0].route_id != lane.route_id) {
      routes.emplace_back();
    }
    routes.back().push_back(std::move(lane));
  }
  return routes;
}

}  // namespace outbox::admin
