#include "admin/lookup/log_days.h"

#include <sys/statvfs.h>

#include <algorithm>
#include <cstring>
#include <map>

#include "admin/lookup/log_estimate.h"
#include "admin/lookup/route_lanes.h"
#include "admin/lookup/survey.h"
#include "base/count_text.h"
#include "base/fault_point.h"
#include "days/day_table_ddl.h"
#include "days/drop.h"
#include "pg/clock.h"
#include "pg/schemas.h"
#include "pg/settings.h"
#include "pg/subtransaction.h"

extern "C" {
#include "common/relpath.h"
}

namespace outbox::admin {

namespace {

constexpr int64 kPaceMicros = 600 * USECS_PER_SEC;  // of a younger log the pace is not known

// Which routes have not passed all of a day, and how much of it they have still to deliver: a day is gone through once
// for all of them (survey.h), however many there are.
class DayHolders {
 public:
  DayHolders() : lanes_(LoadLanes(std::nullopt)), log_(EstimateReadableLog()) {}

  // Of the one table.
  LogEstimate Of(const std::string& table) const {
    const char* name = table.c_str();
    const Oid oid = pg::Guard([name] { return pg::FindOurRelation(name); });
    LogEstimate::Table* const found = std::find_if(log_->tables, log_->tables + log_->count,
                                                   [oid](const LogEstimate::Table& one) { return one.oid == oid; });
    LogEstimate one = *log_;
    one.tables = found;
    one.count = found == log_->tables + log_->count ? 0 : 1;
    return one;
  }

  void Find(const LogEstimate& one, size_t limit, LogDay* day) {
    const std::string name = "outbox_internal." + day->table;
    const std::vector<LaneWaiting> waiting = SurveyReadable(lanes_, one, {limit, 10 * limit, 8, 48, 5'000, true});
    known_.clear();
    unreadable_ = false;
    for (size_t i = 0; i < lanes_.size();) {
      LogDay::Holder holder;
      holder.route = lanes_[i].route;
      holder.trouble = lanes_[i].trouble;
      holder.known = lanes_[i].spec != nullptr;
      bool behind = false;
      for (const int64 route = lanes_[i].route_id; i < lanes_.size() && lanes_[i].route_id == route; i++) {
        const LaneRecord& lane = lanes_[i];
        behind = behind || lane.restored || IsBehind(one, name, lane.position.base);
        Add(waiting[i].own, &holder);
        for (size_t s = 0; s < lane.sides.size(); s++) {
          behind = behind || IsBehind(one, name, lane.sides[s].position.base);
          Add(waiting[i].sides[s], &holder);
        }
      }
      if (unreadable_ || holder.unreadable) {
        holder.known = false;
        holder.trouble += std::string(holder.trouble.empty() ? "" : "; ") + "not all of the day can be read";
      }
      if (holder.pending > 0 || behind || holder.unreadable) {
        day->oldest = Earliest(day->oldest, holder.oldest);
        day->holders.push_back(std::move(holder));
      }
    }
  }

 private:
  static int64 Earliest(int64 a, int64 b) { return a == 0 || (b != 0 && b < a) ? b : a; }
  // What is not due is not delivered either.
  static void Add(const Waiting& more, LogDay::Holder* holder) {
    holder->pending += more.count + static_cast<int64>(more.later.all());
    holder->capped = holder->capped || more.more;
    holder->unreadable = holder->unreadable || more.unreadable;
    holder->oldest = Earliest(holder->oldest, more.oldest);
  }

  // Whether a lane that stands there has not passed all of the day, be it that nothing of it is for the route: that
  // keeps the day as well, see Outstanding in log/progress/expired_days.cpp. Most lanes stand where others do.
  bool IsBehind(const LogEstimate& day, const std::string& table, const Snapshot& at) {
    if (day.count == 1 && (day.tables[0].indexed || day.tables[0].damaged) && day.tables[0].largest_xid < at.xmin) {
      return false;
    }
    const auto made = known_.try_emplace(at.ToText());
    bool& behind = made.first->second;
    if (made.second) {
      const std::string sql = "SELECT EXISTS (SELECT FROM " + table +
                              " l WHERE l.xid >= pg_snapshot_xmin($1::pg_snapshot) AND NOT "
                              "pg_visible_in_snapshot(l.xid, $1::pg_snapshot) LIMIT 1)";
      const Status looked = pg::TryPart(pg::IsUnreadable, [&] {
        behind = RunSql(Access::kRead, sql.c_str(), {made.first->first}, Plan::kIndexOrder)[0][0] == "t";
      });
      unreadable_ = unreadable_ || !looked.ok();
      behind = behind || !looked.ok();
    }
    return behind;
  }

  const std::vector<LaneRecord> lanes_;
  const LogEstimate* const log_;
  std::map<std::string, bool> known_;  // of the day that is looked at: by snapshot
  bool unreadable_ = false;            // in that day, where some lane stands or behind it
};

// About how many rows the table has: those of some hundred blocks, counted, as many times as there are more blocks.
// Statistics of the server do not tell: nobody analyzes a day table, and a crash forgets what was counted.
int64 EstimateRows(const std::string& table, int64 heap_bytes) {
  constexpr int64 kCountedBlocks = 200;
  const int64 blocks = heap_bytes / BLCKSZ;
  const std::string name = "outbox_internal." + table;
  if (blocks <= kCountedBlocks) {
    return std::stoll(RunSql(Access::kRead, ("SELECT count(*) FROM " + name).c_str())[0][0].value());
  }
  const Row row = RunSql(Access::kRead,
                         ("SELECT count(*), greatest(count(DISTINCT (l.ctid::text::point)[0]), 1) FROM " + name +
                          " AS l TABLESAMPLE SYSTEM ($1::float8) REPEATABLE (1)")
                             .c_str(),
                         {Cell(std::to_string(100.0 * kCountedBlocks / static_cast<double>(blocks)))})[0];
  return static_cast<int64>(std::stod(row[0].value()) / std::stod(row[1].value()) * static_cast<double>(blocks));
}

void SetState(int64 retention, LogDay* day) {
  if (day->begins == 0) {
    day->state = day->holders.empty() ? "kept" : "held";
    return;
  }
  const int64 now = pg::Guard([] { return pg::ExpiryNow(); });
  const int64 ends = day->begins + days::kDayMicros;
  day->goes_at = ends + retention;
  day->state = now < ends ? "open" : !day->holders.empty() ? "held" : now < day->goes_at ? "kept" : "expired";
}

// What keeps the keeper from the lock that a drop takes, on the day's table and on outbox_internal.log, and from the
// drop: it does not wait for any of them.
void FindInTheWay(int64 locked_since, LogDay* day) {
  for (const Row& row : RunSql(
           Access::kRead,
           "SELECT w.what || coalesce(' since ' || to_char(w.since AT TIME ZONE 'UTC', 'YYYY-MM-DD HH24:MI:SS+00'), "
           "'') "
           "FROM (SELECT DISTINCT CASE WHEN l.pid IS NULL THEN 'prepared transaction \"' || x.gid || '\"' ELSE "
           "'session ' || l.pid::text || coalesce(' (' || a.state || ')', '') END, coalesce(x.prepared, a.xact_start) "
           "FROM pg_locks l LEFT JOIN pg_stat_activity a ON a.pid = l.pid LEFT JOIN (pg_locks t JOIN "
           "pg_prepared_xacts x "
           "ON x.transaction = t.transactionid) ON l.pid IS NULL AND t.pid IS NULL AND t.locktype = 'transactionid' "
           "AND t.virtualtransaction = l.virtualtransaction "
           "WHERE l.locktype = 'relation' AND l.granted AND l.pid IS DISTINCT FROM pg_backend_pid() "
           "AND l.database = (SELECT oid FROM pg_database WHERE datname = current_database()) "
           "AND l.relation IN ('outbox_internal.log'::regclass, to_regclass('outbox_internal.' || $1)) "
           "AND coalesce(a.backend_type, '') NOT LIKE 'outbox %' "
           "UNION ALL SELECT DISTINCT 'view ' || r.ev_class::regclass::text, NULL::timestamptz FROM pg_depend d "
           "JOIN pg_rewrite r ON d.classid = 'pg_rewrite'::regclass AND r.oid = d.objid "
           "WHERE d.refclassid = 'pg_class'::regclass AND d.refobjid = to_regclass('outbox_internal.' || $1) "
           "AND r.ev_class <> d.refobjid) w (what, since) "
           "WHERE coalesce(w.since <= clock_timestamp() - $2::bigint * interval '1 microsecond', true) "
           "ORDER BY w.since NULLS LAST, w.what",
           {Cell(day->table), Cell(std::to_string(locked_since))})) {
    day->in_the_way.push_back(row[0].value_or("a transaction that has just ended"));
  }
}

// What is free where a new day of the log is made.
void FindFree(LogGrowth* growth) {
  const Oid tablespace = static_cast<Oid>(std::stoul(
      RunSql(Access::kRead, "SELECT reltablespace FROM pg_class WHERE oid = 'outbox_internal.log'::regclass")[0][0]
          .value()));
  const std::string path = pg::Guard([tablespace]() -> const char* {
    return GetDatabasePath(MyDatabaseId, OidIsValid(tablespace) ? tablespace : MyDatabaseTableSpace);
  });
  struct statvfs disk = {};
  // The database has no directory there before its first table.
  const bool found = statvfs(path.c_str(), &disk) == 0 || statvfs(path.substr(0, path.rfind('/')).c_str(), &disk) == 0;
  const int64 bytes = OUTBOX_FAULT_VALUE("log.disk_free");
  const int64 files = OUTBOX_FAULT_VALUE("log.disk_files");
  growth->disk_free = bytes > 0 ? bytes
                      : found   ? static_cast<int64>(disk.f_bavail) * static_cast<int64>(disk.f_frsize)
                                : -1;
  // A file system that makes inodes as they are needed says that it has none.
  growth->files_free = files > 0 ? files : found && disk.f_files > 0 ? static_cast<int64>(disk.f_favail) : -1;
}

// created_at of about the first event of the day; 0: none.
int64 FirstEvent(const LogDay& day) {
  const std::string sql = "SELECT (extract(epoch FROM created_at) * 1000000)::bigint FROM outbox_internal." +
                          day.table + " ORDER BY xid LIMIT 1";
  const std::vector<Row> rows = RunSql(Access::kRead, sql.c_str(), {}, Plan::kIndexOrder);
  return rows.empty() ? 0 : Number(rows[0][0]);
}

}  // namespace

bool LogDay::Is(const char* wanted) const {
  return std::strcmp(state, wanted) == 0;
}

int64 RetentionMicros() {
  return static_cast<int64>(pg::settings.retention_minutes) * 60 * USECS_PER_SEC;
}

std::string SizeText(int64 bytes) {
  return RunSql(Access::kRead, "SELECT pg_size_pretty($1::bigint)", {Cell(std::to_string(bytes))})[0][0].value();
}

std::vector<LogDay> LoadLogDays(const LogDaysQuery& query) {
  // A lock on the log, as every reader has it. Its files are looked for as well, of which one may not be there.
  static_cast<void>(
      pg::TryPart(pg::IsUnreadable, [] { RunSql(Access::kRead, "SELECT FROM outbox_internal.log LIMIT 0"); }));
  DayHolders holders;
  const int64 retention = query.retention < 0 ? RetentionMicros() : query.retention;
  std::vector<LogDay> found;
  for (const Row& row : RunSql(Access::kRead,
                               "SELECT g.name, pg_total_relation_size(g.relation), pg_relation_size(g.relation) FROM "
                               "outbox_internal.log_table g ORDER BY 1")) {
    LogDay day;
    day.table = row[0].value();
    day.bytes = std::stoll(row[1].value_or("0"));
    const int64 heap = std::stoll(row[2].value_or("0"));
    const LogEstimate estimate = holders.Of(day.table);
    day.used = heap != 0 || estimate.damaged_to() != 0;
    const char* name = day.table.c_str();
    if (pg::Guard([&] { return days::DayOfTableName(days::DayTableKind::kLog, name, &day.number); })) {
      day.begins = days::DayStartMicros(day.number);
    } else if (!day.used) {
      continue;
    }
    if (day.used) {
      if (query.rows &&
          (heap == 0 || !pg::TryPart(pg::IsUnreadable, [&] { day.rows = EstimateRows(day.table, heap); }).ok())) {
        day.rows = -1;
      }
      holders.Find(estimate, query.limit, &day);
    }
    SetState(retention, &day);
    if (day.Is("expired")) {
      FindInTheWay(query.locked_since, &day);
    }
    found.push_back(std::move(day));
  }
  return found;
}

std::string HoldersText(const LogDay& day) {
  std::string text;
  for (const LogDay::Holder& holder : day.holders) {
    text += (text.empty() ? "route \"" : ", route \"") + holder.route + "\" (";
    if (holder.known) {
      text += holder.pending == 0 ? (holder.capped ? "0 events as far as was counted" : "0 events") +
                                        std::string("; it has not read all of it")
                                  : (holder.capped ? "about " : "") + CountText(holder.pending, "event") +
                                        (holder.oldest == 0 ? "" : " since " + UnixMicrosText(holder.oldest));
    }
    text += (holder.known && !holder.trouble.empty() ? "; " : "") + holder.trouble + ")";
  }
  for (const std::string& what : day.in_the_way) {
    text += (text.empty() ? "" : ", ") + what;
  }
  return text;
}

LogGrowth MeasureGrowth(const std::vector<LogDay>& days) {
  LogGrowth growth;
  FindFree(&growth);
  const int64 now = pg::Guard([] { return pg::ClockNow(); });
  const int64 today = now - now % days::kDayMicros;
  int64 all = 0;
  int64 oldest = 0;
  double last_day = 0;
  bool without_end = false;
  for (const LogDay& day : days) {
    all += day.bytes;
    // It is not known when routes will have delivered what keeps a day that would have gone.
    without_end = without_end || (day.Is("held") && day.goes_at != 0 && day.goes_at <= now);
    if (!day.used || (day.begins != today && day.begins != today - days::kDayMicros)) {
      continue;
    }
    int64 first = 0;
    static_cast<void>(pg::TryPart(pg::IsUnreadable, [&] { first = FirstEvent(day); }));
    oldest = first != 0 && (oldest == 0 || first < oldest) ? first : oldest;
    const double of_it = static_cast<double>(day.bytes);
    const double left = 1 - static_cast<double>(now - today) / static_cast<double>(days::kDayMicros);
    last_day += day.begins == today ? of_it : of_it * left;
  }
  const int64 asked = OUTBOX_FAULT_VALUE("log.seen");
  const int64 seen = asked > 0 ? asked : std::min<int64>(now - oldest, days::kDayMicros);
  if (oldest == 0 || seen < kPaceMicros) {
    return growth;
  }
  growth.seen = seen;
  growth.grown = static_cast<int64>(last_day);
  growth.per_day = static_cast<int64>(last_day / static_cast<double>(seen) * static_cast<double>(days::kDayMicros));
  if (!without_end) {
    const double kept = static_cast<double>(RetentionMicros()) / static_cast<double>(days::kDayMicros) + 1;
    const int64 in_the_end = static_cast<int64>(static_cast<double>(growth.per_day) * kept);
    const int64 most = static_cast<int64>(pg::settings.max_log_size_mb) << 20;
    growth.to_come = std::max<int64>(0, (most == 0 ? in_the_end : std::min(in_the_end, most)) - all);
  }
  return growth;
}

}  // namespace outbox::admin
