// What outbox.doctor() says of events that no route takes [P]: a misspelt type is nobody's trouble, so nothing else
// tells of it. A look at the newest rows of the log, and no more.
#include <algorithm>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "admin/common/text_encoding.h"
#include "admin/lookup/log_estimate.h"
#include "admin/lookup/route_lanes.h"
#include "admin/show/doctor.h"
#include "log/window/blank.h"
#include "log/window/snapshots.h"
#include "log/window/window_scan.h"
#include "pg/clock.h"
#include "pg/subtransaction.h"

namespace outbox::admin {

namespace {

constexpr size_t kPages = 64;                    // of the log, the newest ones
constexpr size_t kNamed = 3;                     // types
constexpr size_t kMostTypes = 1000;              // that are kept apart: types may be made of keys
constexpr int64 kLately = 3600 * USECS_PER_SEC;  // what is older was told of

using Specs = std::vector<std::shared_ptr<const format::RouteSpec>>;

// Rows are handed to it under pg::Guard: it calls nothing of PostgreSQL.
class Unrouted final : public log::RowVisitor {
 public:
  Unrouted(const Specs& specs, int64 since) : specs_(specs), since_(since) {}

  void Row(const log::RowView& row, uint64_t) override {
    if (row.created_at < since_ || log::RowForgotten(row)) {
      return;
    }
    looked++;
    const std::string_view aggregate_type = log::RowText(row, log::kAggregateType);
    const std::string_view event_type = log::RowText(row, log::kEventType);
    if (std::none_of(specs_.begin(), specs_.end(),
                     [&](const auto& spec) { return spec->WantsTypes(aggregate_type, event_type); })) {
      events++;
      if (types.size() < kMostTypes) {
        types.emplace(aggregate_type, event_type);
      }
    }
  }

  int64 looked = 0;
  int64 events = 0;                                     // that no route takes
  std::set<std::pair<std::string, std::string>> types;  // theirs, in UTF-8

 private:
  const Specs& specs_;
  const int64 since_;
};

void LookAtNewest(Unrouted* unrouted) {
  const LogEstimate* log = EstimateReadableLog();
  log::WindowBounds window;
  Snapshot now;
  pg::Guard([&now] { log::ReadActiveSnapshot(&now); });
  window.Set(Snapshot{3, 3, {}}, now);
  size_t left = kPages;
  for (int i = log->count; i-- > 0 && left > 0;) {
    const LogEstimate::Table& table = log->tables[i];
    if (!table.readable || table.blocks == 0) {
      continue;
    }
    std::vector<uint32_t> blocks;
    for (uint32 block = table.blocks; block-- > 0 && left > 0; left--) {
      blocks.push_back(block);
    }
    std::reverse(blocks.begin(), blocks.end());
    // Of what cannot be read other checks tell.
    (void)pg::TryPart(pg::IsUnreadable,
                      [&] { pg::Guard([&] { log::ScanPages(window, table.oid, blocks, unrouted); }); });
  }
}

// The call that has a route take events of the type from now on; `of`: a column of outbox.route.
std::string CallFor(const std::string& route, const char* of, const std::string& type) {
  const std::vector<Row> rows =
      RunSql(Access::kRead,
             "SELECT format('SELECT outbox.alter_route(%L, %s => %L)', r.name, $2::text, array_append("
             "CASE $2::text WHEN 'event_types' THEN r.event_types ELSE r.aggregate_types END, $3::text)) "
             "FROM outbox.route r WHERE r.name = $1",
             {Cell(route), Cell(of), Cell(type)});
  return rows.empty() ? "outbox.alter_route()" : rows[0][0].value();
}

}  // namespace

// Adds a row only where there is something to say, and that is a hint: what nobody is to have may be emitted.
void CheckUnrouted(Findings* findings) {
  Specs specs;
  std::vector<std::string> routes;
  for (const LaneRecord& lane : LoadLanes(std::nullopt)) {
    if (lane.spec == nullptr) {
      return;  // nobody knows what that route wants, and CheckRoutes tells of it
    }
    if (routes.empty() || routes.back() != lane.route) {
      routes.push_back(lane.route);
      specs.push_back(lane.spec);
    }
  }
  if (specs.empty()) {
    return;  // CheckRoutes tells of that
  }
  Unrouted unrouted(specs, pg::Guard([] { return pg::ClockNow(); }) - kLately);
  LookAtNewest(&unrouted);
  if (unrouted.types.empty()) {
    return;
  }
  // Where some route wants other events of the aggregate type, the event type is what nobody wants.
  std::set<std::string> names;
  std::string call;
  for (const auto& [aggregate_type, event_type] : unrouted.types) {
    const auto wants = std::find_if(specs.begin(), specs.end(),
                                    [&of = aggregate_type](const auto& spec) { return spec->WantsAggregateType(of); });
    const bool known = wants != specs.end();
    names.insert(known ? "event type \"" + FromUtf8(event_type) + "\" of \"" + FromUtf8(aggregate_type) + "\""
                       : "aggregate type \"" + FromUtf8(aggregate_type) + "\"");
    if (call.empty()) {
      call = known ? CallFor(routes[static_cast<size_t>(wants - specs.begin())], "event_types", FromUtf8(event_type))
                   : CallFor(routes[0], "aggregate_types", FromUtf8(aggregate_type));
    }
  }
  std::string named;
  size_t count = 0;
  for (const std::string& name : names) {
    if (count++ == kNamed) {
      named += ", ...";
      break;
    }
    named += (named.empty() ? "" : ", ") + name;
  }
  findings->Note("unrouted",
                 "No route takes " + std::to_string(unrouted.events) + " of the newest " +
                     std::to_string(unrouted.looked) + " events of the last hour: " + named + ".",
                 "If somebody is to have them: " + call +
                     " has that route take them from now on, and outbox.replay() sends it those that were emitted "
                     "before; or create_route(..., start => 'earliest') makes a route of their own. If a name is "
                     "misspelt, it is so where it is emitted or in outbox.route. Else all is well.");
}

}  // namespace outbox::admin
