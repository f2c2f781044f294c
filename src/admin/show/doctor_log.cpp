// What outbox.doctor() says of the log: its days, their indexes, its size, the disk [P].
#include <algorithm>
#include <cmath>

#include "admin/lookup/log_days.h"
#include "admin/show/doctor.h"
#include "base/count_text.h"
#include "base/fault_point.h"
#include "days/day_tables.h"
#include "days/log_table.h"
#include "pg/clock.h"
#include "pg/entry.h"
#include "pg/process_slots.h"
#include "pg/settings.h"

namespace outbox::admin {

namespace {

// The keeper does, or a process that emit() asks for.
bool CanMakeDays() {
  return (pg::Shared() != nullptr ? pg::ProcessSlots() : max_worker_processes - (pg::ServersOwn() - 1)) > 0;
}

}  // namespace

void CheckDayTables(Findings* findings) {
  std::vector<Row> missing =
      RunSql(Access::kRead,
             "SELECT to_char(d, 'YYYYMMDD') FROM generate_series(0, 1) n, "
             "LATERAL (SELECT ($1::timestamptz AT TIME ZONE 'UTC')::date + n) t (d) "
             "WHERE to_regclass('outbox_internal.log_' || to_char(d, 'YYYYMMDD')) IS NULL ORDER BY 1",
             {UnixMicrosCell(pg::Guard([] { return pg::ClockNow(); }))});
  if (RunSql(Access::kRead, "SELECT pg_relation_size('outbox_internal.log_spare') > 0")[0][0] == "t") {
    findings->Ok("spare table",
                 "Events went to outbox_internal.log_spare, because a day had no table and no background worker was "
                 "free to make "
                 "it. They are published like all others, and the table is emptied when they have expired.");
  }
  // Detached by hand, or made by somebody: their names are those of days, or were.
  for (const Row& row :
       RunSql(Access::kRead,
              "SELECT format('%I.%I', c.relnamespace::regnamespace::name, c.relname), c.relkind IN ('r', 'p', 'f'), "
              "regexp_replace(c.relname, '_.*', ''), CASE "
              "c.relkind WHEN 'v' THEN 'VIEW' WHEN 'm' THEN 'MATERIALIZED VIEW' WHEN 'S' THEN 'SEQUENCE' WHEN 'f' THEN "
              "'FOREIGN TABLE' ELSE 'TABLE' END FROM pg_class c WHERE c.relnamespace = ANY "
              "('{outbox,outbox_internal}'::regnamespace[]) AND "
              "c.relkind IN ('r', 'p', 'f', 'v', 'm', 'S') AND NOT c.relispartition AND c.relname ~ "
              "'^(log|progress|tick|outcome|emit_key)_[0-9]{8}(_aside(_[0-9]+)?)?$' ORDER BY 1")) {
    const std::string name = row[0].value();
    const bool events = row[1] == "t" && row[2] == "log";
    findings->Warn("day tables",
                   name + " is no part of outbox_internal." + row[2].value() + ", though it has the name of a day" +
                       (events ? ": what it holds is not sent." : "."),
                   (events ? "To send it once more: INSERT INTO outbox_internal.log SELECT * FROM " + name +
                                 "; SELECT outbox.adopt(); then "
                           : std::string()) +
                       "DROP " + row[3].value() + " " + name + ";");
  }
  if (missing.empty()) {
    findings->Ok("day tables", "The day tables of today and tomorrow are there.");
  } else if (NothingButInbox()) {
    findings->Ok("day tables",
                 "There is no day table, and need not be: consumers receive here, and the log has no events.");
  } else {
    findings->Warn("day tables", "There is no day table outbox_internal.log_" + missing[0][0].value() + " yet.",
                   CanMakeDays() ? "The keeper makes them ahead of time; without it emit() has each made at first use."
                                 : "max_worker_processes = " + std::to_string(max_worker_processes) +
                                       " has no room for a process that could make it: until it has, events go to "
                                       "outbox_internal.log_spare, and none is lost.");
  }
}

// A bare number counts minutes, which has been taken for days.
void CheckRetention(Findings* findings) {
  constexpr int kHour = 60;
  const std::string value = RunSql(Access::kRead, "SELECT current_setting('outbox.retention')")[0][0].value();
  if (pg::settings.retention_minutes < kHour) {
    findings->Warn("retention",
                   "outbox.retention is " + value +
                       ": replay(), seek() and status() know of a day no more once it is over and delivered.",
                   "A number without a unit counts minutes. For a week: ALTER SYSTEM SET outbox.retention = '7d'; "
                   "SELECT pg_reload_conf();");
  } else {
    findings->Ok("retention", "Days are kept for " + value + " after they are delivered.");
  }
}

namespace {

std::string Span(double days) {
  const auto minutes = static_cast<int64>(std::lround(days * 24 * 60));
  return minutes < 2          ? "a minute"
         : minutes >= 48 * 60 ? std::to_string(minutes / (24 * 60)) + " days"
         : minutes >= 2 * 60  ? std::to_string(minutes / 60) + " hours"
                              : std::to_string(minutes) + " minutes";
}

// How soon the disk is full at the pace of the last day. A shorter time is told, and nothing is foreseen for more than
// kFar times as long: an hour in which a bulk load ran says little of the week.
void CheckDisk(const std::vector<LogDay>& days, Findings* findings) {
  constexpr int64 kNothing = int64{64} << 20;  // four segments of the WAL
  const int64 asked = OUTBOX_FAULT_VALUE("doctor.disk_nothing");
  constexpr double kSoon = 7;  // days
  constexpr double kFar = 24;
  const LogGrowth growth = MeasureGrowth(days);
  const std::string room = growth.disk_free < 0 ? "It is not known how much room there is"
                                                : "The disk has " + SizeText(growth.disk_free) + " free";
  if (growth.disk_free >= 0 && growth.disk_free < (asked > 0 ? asked : kNothing)) {
    findings->Problem("disk", room + ": emit() fails when that is used up, and with it every transaction that emits.",
                      "Make room there. CALL outbox.drop_expired(keep => '1 day') says which days of the log would go; "
                      "outbox.lag says which routes hold them.");
    return;
  }
  // A day of outbox takes some dozens of files.
  constexpr int64 kFewFiles = 1000;
  if (growth.files_free >= 0 && growth.files_free < kFewFiles) {
    findings->Problem(
        "disk",
        room + ", and " +
            (growth.files_free == 0 ? std::string("no file can be made there any more")
                                    : "only " + std::to_string(growth.files_free) + " more files can be made there") +
            ": its file system has too few inodes. When there are none the keeper makes no day table, and "
            "tables that grow beyond a gigabyte cannot.",
        "df -i says how many there are. Remove files there, or give the log a disk of its own: ALTER TABLE "
        "outbox_internal.log SET TABLESPACE ...");
    return;
  }
  if (growth.per_day < 0 || growth.disk_free < 0) {
    findings->Ok("disk",
                 room + (growth.per_day < 0 ? ". How fast the log grows is known ten minutes after its first event."
                                            : ", and the log grows by " + SizeText(growth.per_day) + " a day."));
    return;
  }
  const double seen = static_cast<double>(growth.seen) / USECS_PER_DAY;
  const bool whole_day = growth.seen == USECS_PER_DAY;
  const std::string pace = room + ", and the log " +
                           (whole_day ? "grows by " + SizeText(growth.per_day) + " a day"
                                      : "grew by " + SizeText(growth.grown) + " in the last " + Span(seen));
  const double left = growth.per_day == 0 ? kSoon : static_cast<double>(growth.disk_free) / growth.per_day;
  const bool ends = growth.to_come >= 0 && growth.to_come < growth.disk_free;
  if (left < std::min(kSoon, kFar * seen) && !ends) {
    findings->Warn("disk",
                   pace + ": at that pace it is full in " + Span(left) + "." +
                       (whole_day ? "" : " So short a time may be one load and no pace: look again later."),
                   growth.to_come < 0
                       ? "Routes hold days that would have gone, see the check \"log\": mend or drop them. A full disk "
                         "fails every transaction that emits."
                       : "Days go " +
                             RunSql(Access::kRead, "SELECT current_setting('outbox.retention')")[0][0].value() +
                             " after their end: lower outbox.retention, or set outbox.max_log_size; CALL "
                             "outbox.drop_expired(keep => '1 day') says what would go now. A full disk fails every "
                             "transaction that emits.");
  } else {
    findings->Ok(
        "disk",
        pace + (growth.to_come > 0 && whole_day ? ", until it has " + SizeText(growth.to_come) + " more." : "."));
  }
}

}  // namespace

// How large the log is, days that would have gone if routes had delivered them or nobody had them locked, and its disk.
void CheckLog(Findings* findings) {
  const int64 most = static_cast<int64>(pg::settings.max_log_size_mb) << 20;
  int64 bytes = 0;
  int64 held_bytes = 0;
  int64 days = 0;
  int64 held = 0;
  const LogDay* first = nullptr;
  const LogDay* locked = nullptr;
  bool fine = true;
  constexpr int64 kEnough = 1000;                        // to see whether a route holds a day
  constexpr int64 kLockedForLong = 600 * USECS_PER_SEC;  // a dump of the database takes its time
  const int64 asked = OUTBOX_FAULT_VALUE("doctor.locked_for");
  const std::vector<LogDay> all = LoadLogDays({.limit = kEnough, .locked_since = asked > 0 ? asked : kLockedForLong});
  const int64 now = pg::Guard([] { return pg::ExpiryNow(); });
  for (const LogDay& day : all) {
    bytes += day.bytes;
    days += day.begins != 0;
    locked = locked == nullptr && !day.in_the_way.empty() ? &day : locked;
    if (day.Is("held") && day.goes_at != 0 && day.goes_at <= now) {
      held++;
      held_bytes += day.bytes;
      first = first == nullptr ? &day : first;
    }
  }
  if (first != nullptr) {
    fine = false;
    findings->Warn("log",
                   CountText(held, "day is", "days are") + " kept beyond outbox.retention, " + SizeText(held_bytes) +
                       ", because routes have not delivered all of them; outbox_internal." + first->table + " by " +
                       HoldersText(*first) + ".",
                   "outbox.lag says what is in the way of the route. One that nobody wants any more: "
                   "outbox.drop_route(), or CALL outbox.seek(route, 'infinity', dry_run => false).");
  }
  if (locked != nullptr) {
    fine = false;
    findings->Warn(
        "log",
        "outbox_internal." + locked->table + " is delivered and over, and cannot be dropped: in the way is " +
            HoldersText(*locked) + ".",
        "It is dropped as soon as that has gone: end the transaction, or drop the view. Nobody waits for it.");
  }
  if (most != 0 && bytes > most / 10 * 8) {
    fine = false;
    findings->Warn(
        "log",
        "The log has " + SizeText(bytes) + ", " + std::to_string(bytes / (most / 100)) + " % of outbox.max_log_size.",
        "Beyond it delivered days are dropped before outbox.retention is over; what is undelivered, and a "
        "day that has not ended, are kept. See outbox.day.");
  }
  if (fine) {
    findings->Ok("log", "The log has " + SizeText(bytes) + " in " + CountText(days, "day table") +
                            ", of days to come, too; see outbox.day.");
  }
  CheckDisk(all, findings);
}

namespace {

// Names of day tables of the log that have no index to read by. Plain; no lock stays.
void FindUnindexed(std::vector<std::string>* names) {
  std::vector<days::DayTable> tables;
  days::ReadDayTables(days::DayTableKind::kLog, &tables);
  for (const days::DayTable& table : tables) {
    Relation relation = try_relation_open(table.oid, AccessShareLock);
    if (relation == nullptr) {
      continue;
    }
    Relation index = days::OpenXidIndex(relation);
    if (index != nullptr) {
      index_close(index, AccessShareLock);
    } else {
      names->emplace_back(RelationGetRelationName(relation));
    }
    relation_close(relation, AccessShareLock);
  }
}

// Others' are let be made of narrow columns only, and not on all days at once (table_commands.cpp), but one may have
// been there before. A part of a larger one goes with that. How many are told of.
size_t TellOfOthersIndexes(Findings* findings) {
  const std::vector<Row> rows = RunSql(
      Access::kRead,
      "SELECT o.name, o.of, o.parked, o.refuses FROM (SELECT i.indexrelid::regclass::text AS name, "
      "i.indrelid::regclass::text AS of, i.indrelid = 'outbox_internal.parked'::regclass AS parked, i.indrelid = ANY "
      "('{outbox_internal.log,outbox_internal.progress,outbox_internal.tick,outbox_internal.outcome,"
      "outbox_internal.emit_key}'::regclass[]) AS all_days, i.indrelid IN (SELECT unnest("
      "'{outbox_internal.log,outbox_internal.log_spare,outbox_internal.parked}'::regclass[]) UNION ALL "
      "SELECT inhrelid FROM pg_inherits WHERE inhparent = 'outbox_internal.log'::regclass) "
      "AND (i.indexprs IS NOT NULL OR i.indpred IS NOT NULL OR EXISTS (SELECT FROM pg_attribute a WHERE a.attrelid = "
      "i.indrelid AND a.attnum = ANY (i.indkey) AND a.attlen < 0)) "
      "AND c.relname !~ '^parked_(due|shared|key|dead|count|replay)_idx$' AS refuses FROM pg_index i JOIN pg_class c "
      "ON c.oid = i.indexrelid WHERE NOT c.relispartition) o WHERE o.refuses OR o.all_days ORDER BY 2, 1 LIMIT 20");
  for (const Row& row : rows) {
    const std::string index = row[0].value();
    if (row[3] == "f") {
      findings->Warn("index",
                     "Index " + index + " on " + row[1].value() +
                         " is not one of outbox, and of all its days: a dump of this database cannot be restored, for "
                         "pg_restore ends where it would make the days' indexes parts of it.",
                     "DROP INDEX " + index + "; day tables may have one.");
      continue;
    }
    findings->Warn("index",
                   "Index " + index + " on " + row[1].value() +
                       " is not one of outbox, and has a column of variable length, an expression or a condition: " +
                       (row[2] == "t" ? "an event that does not fit into it stops its lane."
                                      : "emit() of an event that does not fit into it fails."),
                   "DROP INDEX " + index + ";");
  }
  return rows.size();
}

}  // namespace

void CheckIndexes(Findings* findings) {
  std::vector<std::string> names;
  pg::Guard([&] { FindUnindexed(&names); });
  for (const std::string& name : names) {
    findings->Warn("index",
                   "Day table outbox_internal." + name +
                       " has no valid index on (xid): relay workers read the whole table for each few events.",
                   "CREATE INDEX CONCURRENTLY " + name + "_xid ON outbox_internal." + name +
                       " (xid); an index of that name " + "that is not valid has to be dropped before.");
  }
  if (TellOfOthersIndexes(findings) + names.size() == 0) {
    findings->Ok("index", "Each day table of the log has its index.");
  }
}

}  // namespace outbox::admin
