#include "admin/lanes.h"

#include <cstdlib>
#include <map>

#include "admin/server.h"
#include "log/position_sql.h"

namespace outbox::admin {

namespace {

// Patterns cannot hold this character (CheckPatterns), so it separates them.
constexpr char kSeparator = '\x1f';

constexpr const char* kSelectLanes = R"(
SELECT r.id, r.name, r.server, array_to_string(r.aggregate_types, E'\x1f'), array_to_string(r.event_types, E'\x1f'),
       r.topic, r.key, r.lanes, coalesce(r.options ->> 'mode', 'stream'), l.lane,
       CASE WHEN p.at IS NULL THEN l.window_from ELSE p.window_from END,
       CASE WHEN p.at IS NULL THEN l.window_to ELSE p.window_to END,
       (extract(epoch FROM CASE WHEN p.at IS NULL THEN l.done_to ELSE p.done_to END) * 1000000)::bigint,
       r.start_snapshot,
       CASE r.start_time WHEN '-infinity' THEN '-9223372036854775808' WHEN 'infinity' THEN '9223372036854775807'
            ELSE (extract(epoch FROM r.start_time) * 1000000)::bigint::text END
FROM outbox.route r
JOIN outbox.lane l ON l.route_id = r.id
LEFT JOIN LATERAL )" OUTBOX_NEWEST_PROGRESS R"( p ON true
WHERE $1 IS NULL OR r.name = $1
ORDER BY r.name, l.lane)";

std::vector<std::string> Split(const std::string& joined) {
  std::vector<std::string> parts;
  size_t begin = 0;
  for (;;) {
    size_t end = joined.find(kSeparator, begin);
    parts.push_back(joined.substr(begin, end - begin));
    if (end == std::string::npos) {
      return parts;
    }
    begin = end + 1;
  }
}

int64 Number(const Cell& cell) {
  return std::strtoll(cell.value().c_str(), nullptr, 10);
}

// Servers are looked up once, however many lanes use them.
using Destinations = std::map<std::string, std::optional<Destination>>;

void Compile(const Row& row, Destinations* destinations, LaneRecord* lane) {
  std::string wrapper;
  auto known = destinations->find(lane->server);
  if (known == destinations->end()) {
    known = destinations->emplace(lane->server, FindDestination(lane->server, &wrapper)).first;
  }
  if (!known->second) {
    lane->trouble = "there is no server \"" + lane->server + "\" of a foreign-data wrapper of outbox";
    return;
  }
  format::RouteConfig config;
  config.kind = known->second->kind;
  config.aggregate_types = Split(row[3].value());
  config.event_types = Split(row[4].value());
  config.topic = row[5].value();
  config.key = row[6].value();
  config.lanes = static_cast<uint32_t>(Number(row[7]));
  config.lane = static_cast<uint32_t>(lane->lane);
  const std::string& mode = row[8].value();
  config.form = mode == "list"      ? sink::RecordForm::kList
                : mode == "publish" ? sink::RecordForm::kPublish
                                    : sink::RecordForm::kStream;
  format::TemplateError error;
  lane->spec = format::RouteSpec::Make(config, &error);
  if (lane->spec == nullptr) {
    lane->trouble = error.message;
  }
}

}  // namespace

bool LaneRecord::Passed(uint64 xid, int64 created_at) const {
  return position.base.Visible(xid) ||
         (position.target && position.target->Visible(xid) && created_at <= position.done_to);
}

bool LaneRecord::BeforeStart(uint64 xid, int64 created_at) const {
  return created_at < start_time && start_snapshot.Visible(xid);
}

Snapshot ParseSnapshot(const std::string& text) {
  std::optional<Snapshot> snapshot = Snapshot::FromText(text);
  if (!snapshot) {
    throw pg::UserError{ERRCODE_DATA_CORRUPTED, "cannot read snapshot \"" + text + "\"", "", ""};
  }
  return std::move(*snapshot);
}

std::vector<LaneRecord> LoadLanes(const Cell& route, Access access) {
  std::vector<LaneRecord> lanes;
  Destinations destinations;
  for (const Row& row : RunSql(access, kSelectLanes, {route})) {
    LaneRecord lane;
    lane.route_id = Number(row[0]);
    lane.route = row[1].value();
    lane.server = row[2].value();
    lane.lane = static_cast<int>(Number(row[9]));
    lane.position.base = ParseSnapshot(row[10].value());
    if (row[11]) {
      lane.position.target = ParseSnapshot(*row[11]);
    }
    if (row[12]) {
      lane.position.done_to = Number(row[12]);
    }
    lane.start_snapshot = ParseSnapshot(row[13].value());
    lane.start_time = Number(row[14]);
    Compile(row, &destinations, &lane);
    lanes.push_back(std::move(lane));
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
