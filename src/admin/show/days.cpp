#include "admin/show/days.h"

#include <algorithm>

#include "admin/lookup/backlog.h"
#include "admin/lookup/route_lanes.h"
#include "days/day_table_ddl.h"
#include "days/drop.h"
#include "pg/clock.h"
#include "pg/entry.h"
#include "pg/settings.h"

namespace outbox::admin {

namespace {

// Whether a lane of the route has not passed all of the day, be it that nothing of it is for the route: that keeps the
// day as well, see Outstanding in log/expired.cpp.
bool IsBehind(const LaneRecord& lane, const std::string& table) {
  const std::string sql = "SELECT EXISTS (SELECT FROM outbox_internal.position p, LATERAL (SELECT FROM " + table +
                          " l WHERE l.xid >= pg_snapshot_xmin(p.window_from) AND NOT pg_visible_in_snapshot(l.xid, "
                          "p.window_from) LIMIT 1) x "
                          "WHERE p.route_id = $1::bigint)";
  return lane.restored ||
         RunSql(Access::kRead, sql.c_str(), {Cell(std::to_string(lane.route_id))}, Plan::kIndexOrder)[0][0] == "t";
}

void FindHolders(const std::vector<std::vector<LaneRecord>>& routes, int64 limit, LogDay* day) {
  const std::string table = "outbox_internal." + day->table;
  for (const std::vector<LaneRecord>& lanes : routes) {
    LogDay::Holder holder;
    holder.route = lanes[0].route;
    holder.trouble = lanes[0].spec == nullptr ? lanes[0].trouble : "";
    for (const LaneBacklog& backlog : CountBacklog(lanes, {.limit = limit, .table = table.c_str()})) {
      holder.pending += backlog.pending;
      holder.capped = holder.capped || backlog.capped;
      if (backlog.oldest != 0 && (day->oldest == 0 || backlog.oldest < day->oldest)) {
        day->oldest = backlog.oldest;
      }
    }
    if (holder.pending > 0 || holder.capped || IsBehind(lanes[0], table)) {
      day->holders.push_back(std::move(holder));
    }
  }
}

void SetState(LogDay* day) {
  if (day->begins == 0) {
    day->state = day->holders.empty() ? "kept" : "held";
    return;
  }
  const int64 now = pg::Guard([] { return pg::ExpiryNow(); });
  const int64 ends = day->begins + days::kDayMicros;
  day->goes_at = ends + static_cast<int64>(pg::settings.retention_minutes) * 60 * USECS_PER_SEC;
  day->state = now < ends ? "open" : !day->holders.empty() ? "held" : now < day->goes_at ? "kept" : "expired";
}

}  // namespace

std::vector<LogDay> LoadLogDays(int64 limit) {
  // A lock on the log, as every reader has it.
  RunSql(Access::kRead, "SELECT FROM outbox_internal.log LIMIT 0");
  const std::vector<std::vector<LaneRecord>> routes = ByRoute(LoadLanes(std::nullopt));
  std::vector<LogDay> found;
  for (const Row& row : RunSql(
           Access::kRead,
           "SELECT c.relname, pg_total_relation_size(c.oid), pg_relation_size(c.oid) FROM pg_class c WHERE "
           "c.relnamespace = ANY ('{outbox,outbox_internal}'::regnamespace[]) AND (c.oid = "
           "'outbox_internal.log_spare'::regclass OR c.oid IN "
           "(SELECT i.inhrelid FROM pg_inherits i WHERE i.inhparent = 'outbox_internal.log'::regclass)) ORDER BY 1")) {
    LogDay day;
    day.table = row[0].value();
    day.bytes = std::stoll(row[1].value_or("0"));
    const char* name = day.table.c_str();
    int32 number = 0;
    if (pg::Guard([&] { return days::DayOfTableName(days::DayTableKind::kLog, name, &number); })) {
      day.begins = days::DayStartMicros(number);
    } else if (row[2] == "0") {
      continue;
    }
    if (row[2] != "0") {
      FindHolders(routes, limit, &day);
    }
    SetState(&day);
    found.push_back(std::move(day));
  }
  return found;
}

std::string HoldersText(const LogDay& day) {
  std::string text;
  for (const LogDay::Holder& holder : day.holders) {
    text += (text.empty() ? "route \"" : ", route \"") + holder.route + "\" (";
    text += !holder.trouble.empty() ? holder.trouble
            : holder.pending == 0   ? "it has not read all of it"
                                    : (holder.capped ? "at least " : "") + std::to_string(holder.pending) +
                                        (holder.pending == 1 ? " event" : " events");
    text += ")";
  }
  return text;
}

}  // namespace outbox::admin

OUTBOX_FUNCTION(outbox_day) {
  using namespace outbox::admin;  // NOLINT: the body of one SQL function
  ResultSet result(fcinfo);
  result.Begin();
  for (const LogDay& day : LoadLogDays(kDayScanLimit)) {
    int64 pending = 0;
    bool capped = false;
    for (const LogDay::Holder& holder : day.holders) {
      pending = std::max(pending, holder.pending);
      capped = capped || holder.capped;
    }
    const std::string holders = HoldersText(day);
    result.Add({day.begins == 0 ? Cell() : Cell(day.table.substr(sizeof("log_") - 1)),
                Cell("outbox_internal." + day.table), Cell(day.state), Cell(std::to_string(day.bytes)),
                Cell(std::to_string(pending)), Cell(capped ? "true" : "false"), UnixMicrosCell(day.oldest),
                TextCell(holders.c_str()), UnixMicrosCell(day.goes_at)});
  }
  return static_cast<Datum>(0);
}
