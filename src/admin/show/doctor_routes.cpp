#include <algorithm>
#include <cmath>
#include <cstring>
#include <map>
#include <set>
#include <tuple>

#include "admin/common/text_encoding.h"
#include "admin/guard/user_mapping.h"
#include "admin/lookup/log_days.h"
#include "admin/lookup/parked_counts.h"
#include "admin/lookup/route_lanes.h"
#include "admin/lookup/server.h"
#include "admin/lookup/shared_views.h"
#include "admin/operate/adoption.h"
#include "admin/show/doctor.h"
#include "base/fault_point.h"
#include "days/day_tables.h"
#include "days/log_table.h"
#include "pg/clock.h"
#include "pg/entry.h"
#include "pg/settings.h"
#include "pg/shared.h"
#include "pg/wall.h"
#include "relay/side_lanes.h"

namespace outbox::admin {

namespace {

std::string Are(const std::string& count, const char* what, const char* is, const char* are) {
  return count + " " + what + (count == "1" ? "" : "s") + " " + (count == "1" ? is : are);
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
              "SELECT quote_ident(c.relname), c.relkind IN ('r', 'p', 'f'), regexp_replace(c.relname, '_.*', ''), CASE "
              "c.relkind WHEN 'v' THEN 'VIEW' WHEN 'm' THEN 'MATERIALIZED VIEW' WHEN 'S' THEN 'SEQUENCE' WHEN 'f' THEN "
              "'FOREIGN TABLE' ELSE 'TABLE' END FROM pg_class c WHERE c.relnamespace = ANY "
              "('{outbox,outbox_internal}'::regnamespace[]) AND "
              "c.relkind IN ('r', 'p', 'f', 'v', 'm', 'S') AND NOT c.relispartition AND c.relname ~ "
              "'^(log|progress|tick|outcome)_[0-9]{8}(_aside(_[0-9]+)?)?$' ORDER BY 1")) {
    const std::string name = "outbox_internal." + row[0].value();
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
  } else {
    findings->Warn("day tables", "There is no day table outbox_internal.log_" + missing[0][0].value() + " yet.",
                   "The keeper makes them ahead of time; without it emit() has each made at first use.");
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

std::string Pretty(int64 bytes) {
  return RunSql(Access::kRead, "SELECT pg_size_pretty($1::bigint)", {Cell(std::to_string(bytes))})[0][0].value();
}

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
  constexpr double kSoon = 7;  // days
  constexpr double kFar = 24;
  const LogGrowth growth = MeasureGrowth(days);
  const std::string room = growth.disk_free < 0 ? "It is not known how much room there is"
                                                : "The disk has " + Pretty(growth.disk_free) + " free";
  if (growth.per_day < 0 || growth.disk_free < 0) {
    findings->Ok("disk",
                 room + (growth.per_day < 0 ? ". How fast the log grows is known ten minutes after its first event."
                                            : ", and the log grows by " + Pretty(growth.per_day) + " a day."));
    return;
  }
  const double seen = static_cast<double>(growth.seen) / USECS_PER_DAY;
  const bool whole_day = growth.seen == USECS_PER_DAY;
  const std::string pace = room + ", and the log " +
                           (whole_day ? "grows by " + Pretty(growth.per_day) + " a day"
                                      : "grew by " + Pretty(growth.grown) + " in the last " + Span(seen));
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
        "disk", pace + (growth.to_come > 0 && whole_day ? ", until it has " + Pretty(growth.to_come) + " more." : "."));
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
                   Are(std::to_string(held), "day", "is", "are") + " kept beyond outbox.retention, " +
                       Pretty(held_bytes) + ", because routes have not delivered all of them; outbox_internal." +
                       first->table + " by " + HoldersText(*first) + ".",
                   "outbox.lag says what is in the way of the route. One that nobody wants any more: "
                   "outbox.drop_route(), or CALL outbox.seek(route, 'infinity').");
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
        "The log has " + Pretty(bytes) + ", " + std::to_string(bytes / (most / 100)) + " % of outbox.max_log_size.",
        "Beyond it delivered days are dropped before outbox.retention is over; what is undelivered, and a "
        "day that has not ended, are kept. See outbox.day.");
  }
  if (fine) {
    findings->Ok("log", "The log has " + Pretty(bytes) + " in " + std::to_string(days) +
                            (days == 1 ? " day" : " days") + "; see outbox.day.");
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
  if (names.empty()) {
    findings->Ok("index", "Each day table of the log has its index.");
  }
}

namespace {

// Mappings that nobody uses, which somebody may take for those that are.
void CheckUserMappings(const std::set<std::string>& servers, Findings* findings) {
  int64 with = 0;
  for (const std::string& server : servers) {
    const UserMappings mappings = FindUserMappings(Access::kRead, server);
    with += !mappings.used.empty();
    if (!mappings.ours || mappings.unused.empty()) {
      continue;
    }
    std::string names;
    for (const std::string& name : mappings.unused) {
      names += (names.empty() ? "" : ", ") + name;
    }
    findings->Warn("user mapping",
                   "Server \"" + server + "\" is used " +
                       (mappings.used.empty() ? "without a user mapping, and has"
                                              : "with the user mapping of " + mappings.used + ", and has another") +
                       (mappings.unused.size() == 1 ? " one of " : " of each of ") + names + ", which nobody uses.",
                   UserMappingRule(mappings) + " DROP USER MAPPING removes the others.");
  }
  if (with > 0) {
    findings->Ok("user mapping",
                 Are(std::to_string(with), "server", "is", "are") + " used with a user mapping; see pg_user_mappings.");
  }
}

}  // namespace

void CheckRoutes(Findings* findings) {
  std::set<std::string> seen;
  std::set<std::string> servers;
  size_t good = 0;
  for (const LaneRecord& lane : LoadLanes(std::nullopt)) {
    if (!seen.insert(lane.route).second) {
      continue;
    }
    servers.insert(lane.server);
    const sink::RequiredOption* missing = nullptr;
    if (lane.spec != nullptr) {
      std::string wrapper;
      std::optional<Destination> destination = FindDestination(lane.server, &wrapper);
      missing = destination ? MissingOption(*destination) : nullptr;
    }
    if (lane.spec == nullptr) {
      findings->Problem("route", "Route \"" + lane.route + "\": " + lane.trouble + ".",
                        "Use alter_route(..., server => ...), or make the server again.");
    } else if (missing != nullptr) {
      findings->Problem(
          "route",
          "Route \"" + lane.route + "\": server \"" + lane.server + "\" has no option \"" + missing->name + "\".",
          "ALTER SERVER ... OPTIONS (ADD ...).");
    } else {
      good++;
    }
  }
  for (const Row& row :
       RunSql(Access::kRead,
              "SELECT r.name FROM outbox.route r WHERE NOT EXISTS (SELECT FROM outbox_internal.lane l WHERE "
              "l.route_id = r.id) ORDER BY r.name")) {
    seen.insert(row[0].value());
    findings->Problem(
        "route", "Route \"" + row[0].value() + "\" has no lanes: nothing of it is delivered.",
        "Somebody has deleted them. drop_route() and create_route(..., start => 'earliest') make it again, "
        "with what the log still has.");
  }
  if (seen.empty()) {
    findings->Warn("route", "There is no route: events are kept for outbox.retention and go nowhere.",
                   "SELECT outbox.create_route('everything', server => '...').");
  } else if (good > 0) {
    findings->Ok("route", std::to_string(good) + (good == 1 ? " route is" : " routes are") + " in order.");
  }
  CheckUserMappings(servers, findings);
}

namespace {

bool IsLive(const std::vector<WorkerView>& workers, uint64 incarnation) {
  return incarnation != 0 && std::any_of(workers.begin(), workers.end(), [&](const WorkerView& worker) {
           return worker.running && worker.incarnation == incarnation;
         });
}

// Topics that have left their lane, because something is wrong with them or somebody has paused them.
void CheckSide(const std::string& lane, const SideRecord& side, Findings* findings) {
  const size_t count = side.topics.size();
  const std::string topics =
      count == 1 ? "topic \"" + FromUtf8(side.topics[0].topic) + "\"" : std::to_string(count) + " topics";
  if (side.error_code == relay::kPausedCode) {
    findings->Warn("topic", lane + ": " + topics + (count == 1 ? " is" : " are") + " paused; other topics flow.",
                   "outbox.pause says by whom and why; outbox.resume() with the same arguments lets it go.");
  } else {
    findings->Warn("topic",
                   lane + ": " + topics + (count == 1 ? " has" : " have") + " left it: " + side.error_code + ": " +
                       side.error_message,
                   "Other topics flow; its events wait in the log. Create it, give its rights back, or move away what "
                   "stands in its place, whichever the error asks for: they follow by themselves.");
  }
}

// Routes that are on their way to another number of lanes.
void CheckLaneChanges(Findings* findings) {
  for (const Row& row : RunSql(
           Access::kRead,
           "SELECT r.name, r.lanes, r.lanes_wanted, (SELECT count(*) FROM outbox_internal.side_topic t "
           "WHERE t.route_id = r.id), r.lanes_begun IS NOT NULL FROM outbox.route r WHERE r.lanes_wanted IS NOT NULL "
           "ORDER BY r.name")) {
    findings->Warn("lanes",
                   "Route \"" + row[0].value() + "\" goes from " + row[1].value() + " to " + row[2].value() +
                       " lanes: all of them come to one position first.",
                   row[3] != "0" ? "It waits for the topics that have left their lanes; meanwhile all lanes work."
                   : row[4] == "t"
                       ? "That takes as long as what was under way."
                       : "It begins as soon as every lane is within seconds of the end of the log (delay in "
                         "outbox.lag says how far each has to go) and no session has a parked event of the "
                         "route in an open transaction; all lanes work meanwhile.");
  }
}

}  // namespace

namespace {

// Lanes with the same trouble: one destination that is down is one finding, however many routes go there.
struct SharedTrouble {
  int64 lanes = 0;
  std::set<std::string> routes;
  std::string first;  // lane, for people
  std::string what;
  std::string hint;
  bool person = false;
};

void TellTrouble(const std::string& server, const SharedTrouble& trouble, Findings* findings) {
  const std::string who = trouble.lanes == 1 ? trouble.first
                                             : Are(std::to_string(trouble.lanes), "lane", "of", "of") + " " +
                                                   std::to_string(trouble.routes.size()) +
                                                   (trouble.routes.size() == 1 ? " route to \"" : " routes to \"") +
                                                   server + "\" (such as l" + trouble.first.substr(1) + ")";
  const std::string detail = who + (trouble.what.starts_with(' ') ? "" : ": ") + trouble.what;
  trouble.person ? findings->Problem("lane", detail, trouble.hint) : findings->Warn("lane", detail, trouble.hint);
}

}  // namespace

void CheckLanes(Findings* findings) {
  std::map<std::tuple<std::string, std::string, std::string>, SharedTrouble> troubles;  // by server, class and code
  const auto note = [&troubles](const LaneRecord& lane, const std::string& name, const char* error_class,
                                const char* code) {
    SharedTrouble& trouble = troubles[{lane.server, error_class, code}];
    trouble.lanes++;
    trouble.routes.insert(lane.route);
    trouble.first = trouble.first.empty() ? name : trouble.first;
    return &trouble;
  };
  std::vector<OwnedLaneView> views = ReadLaneViews(MyDatabaseId);
  const std::vector<WorkerView> workers = ReadWorkerViews();
  const bool in_turn = pg::Shared() != nullptr && pg_atomic_read_u32(&pg::Shared()->in_turn) != 0;
  std::map<std::pair<int64, int>, uint64> owners;
  for (const Row& row :
       RunSql(Access::kRead, "SELECT route_id, lane, owner FROM outbox_internal.lane WHERE owner IS NOT NULL")) {
    owners[{std::stoll(row[0].value()), std::stoi(row[1].value())}] = static_cast<uint64>(std::stoll(row[2].value()));
  }
  int64 good = 0;
  int64 unseen = 0;
  int64 waiting = 0;
  int64 paused = 0;
  for (const LaneRecord& lane : LoadLanes(std::nullopt)) {
    const OwnedLaneView* view = FindLaneView(views, lane.route_id, lane.lane);
    std::string name = "Lane " + std::to_string(lane.lane) + " of route \"" + lane.route + "\"";
    if (view == nullptr && IsLive(workers, owners[{lane.route_id, lane.lane}])) {
      unseen++;
    } else if ((view == nullptr || !view->owned) && in_turn) {
      waiting++;
    } else if (view == nullptr || !view->owned) {
      SharedTrouble* trouble = note(lane, name, "", "");
      trouble->what = trouble->lanes == 1 ? " has no relay worker." : " have no relay worker.";
      trouble->hint = "A free lane is claimed within a second or two where a relay worker runs.";
    } else if (!view->trouble.empty()) {
      SharedTrouble* trouble = note(lane, name, view->trouble.error_class, view->trouble.code);
      trouble->person = std::strcmp(view->trouble.error_class, "config") == 0;
      trouble->what =
          std::string(view->trouble.error_class) + " trouble, " + view->trouble.code + ": " + view->trouble.message;
      trouble->hint = trouble->person ? "An option or a credential has to be changed."
                      : view->next_try_unix == 0
                          ? "It is being tried again by itself, right now; see outbox.destination."
                          : "It is tried again by itself; outbox.lag says when.";
    } else if (std::strcmp(view->state, "paused") == 0) {
      paused++;
    } else {
      good++;
    }
    for (const SideRecord& side : lane.sides) {
      CheckSide(name, side, findings);
    }
  }
  for (const auto& [of, trouble] : troubles) {
    TellTrouble(std::get<0>(of), trouble, findings);
  }
  CheckLaneChanges(findings);
  if (unseen > 0) {
    findings->Ok("lane", std::to_string(unseen) + (unseen == 1 ? " lane has" : " lanes have") +
                             " a relay worker and no place to show what it does: outbox.max_lanes is " +
                             std::to_string(pg::Shared()->max_lanes) + ".");
  }
  if (waiting > 0) {
    findings->Ok("lane", std::to_string(waiting) + (waiting == 1 ? " lane waits" : " lanes wait") +
                             " for the turn of this database's relay worker.");
  }
  if (paused > 0) {
    findings->Ok("lane", Are(std::to_string(paused), "lane", "is", "are") + " paused, see outbox.pause.");
  }
  if (good > 0) {
    findings->Ok("lane", std::to_string(good) + (good == 1 ? " lane works." : " lanes work."));
  }
}

namespace {

// Parked events that are due and have not gone, by route and topic. True when there are any.
bool CheckOverdue(Findings* findings) {
  const std::vector<LaneRecord> lanes = LoadLanes(std::nullopt);
  const std::vector<OwnedLaneView> views = ReadLaneViews(MyDatabaseId);
  struct Wait {
    Overdue all;
    std::string why;
  };
  std::map<std::pair<std::string, std::string>, Wait> waits;  // by route and topic
  for (const Overdue& one : LoadOverdue(Access::kRead)) {
    const auto lane = std::find_if(lanes.begin(), lanes.end(), [&](const LaneRecord& record) {
      return record.route_id == one.route_id && record.lane == one.lane;
    });
    if (lane == lanes.end()) {
      continue;
    }
    Wait& wait = waits[{lane->route, one.topic}];
    wait.all.since = wait.all.count == 0 ? one.since : std::min(wait.all.since, one.since);
    wait.all.count += one.count;
    wait.all.capped = wait.all.capped || one.capped;
    const int side = lane->SideOfTopic(one.topic);
    const OwnedLaneView* view = FindLaneView(views, lane->route_id, lane->lane);
    if (side >= 0) {
      const SideRecord& left = lane->sides[static_cast<size_t>(side)];
      wait.why = left.error_code + ": " + left.error_message;
    } else if (one.error_code) {
      wait.why = *one.error_code + ": " + one.error_message.value_or("");
    } else if (view != nullptr && view->owned && !view->trouble.empty() && wait.why.empty()) {
      wait.why = std::string(view->trouble.code) + ": " + view->trouble.message;
    }
  }
  bool any = false;
  const int64 until = pg::BelievedWall() - kOverdueGrace;
  for (const auto& [name, wait] : waits) {
    if (wait.all.since > until) {
      continue;
    }
    any = true;
    findings->Warn("overdue",
                   std::string(wait.all.capped ? "At least " : "") +
                       Are(std::to_string(wait.all.count), "parked event", "is", "are") + " due, since " +
                       UnixMicrosText(wait.all.since) + ", and not delivered: topic \"" + name.second +
                       "\" of route \"" + name.first + "\"" + (wait.why.empty() ? "." : ": " + wait.why),
                   "They follow by themselves once topic and destination take events, and nobody pauses them; "
                   "outbox.lag shows what is in the way.");
  }
  return any;
}

}  // namespace

void CheckParked(Findings* findings) {
  const bool overdue = CheckOverdue(findings);
  ParkedCount all;
  for (const auto& [lane, parked] : CountParked(Access::kRead)) {
    all.Add(parked);
  }
  Row count = {std::to_string(all.dead), std::to_string(all.retrying), std::to_string(all.blocked),
               std::to_string(all.scheduled)};
  if (all.capped) {
    findings->Warn(
        "parked",
        "More events are parked than are counted here: " + std::to_string(kParkedCountLimit) + " of a lane and state.",
        "SELECT count(*) FROM outbox_internal.parked counts all of them.");
  }
  if (count[0] != "0") {
    findings->Warn("dead letters", Are(*count[0], "event", "was", "were") + " refused and will not be tried again.",
                   "outbox.dead_letter_summary says why; outbox.redrive(), retry() and discard() act on them.");
  }
  if (count[1] != "0" || count[2] != "0") {
    findings->Warn("parked",
                   Are(*count[1], "event", "is", "are") + " being retried, " + *count[2] + " " +
                       (count[2] == "1" ? "waits" : "wait") + " behind another one or a pause.",
                   "outbox.blocked_key shows who waits for whom; outbox.status(id) says when it is tried next.");
  }
  if (count[0] == "0" && count[1] == "0" && count[2] == "0" && !overdue) {
    findings->Ok("parked", count[3] == "0" ? "No event is parked."
                                           : Are(*count[3], "event", "is", "are") + " scheduled, no other is parked.");
  }
}

void CheckReplays(Findings* findings) {
  for (const Row& row : RunSql(Access::kRead,
                               "SELECT number, copied, matched FROM outbox.replay WHERE state = 'interrupted' "
                               "ORDER BY number")) {
    findings->Warn("replay",
                   "Replay " + row[0].value() + " was interrupted: " + row[1].value() + " of " + row[2].value() +
                       " events are scheduled.",
                   "CALL outbox.replay(number => " + row[0].value() +
                       ", dry_run => false) goes on; SELECT outbox.cancel_replay(" + row[0].value() + ") ends it.");
  }
}

void CheckPauses(Findings* findings) {
  for (const Row& row : RunSql(Access::kRead,
                               "SELECT r.name, p.server, p.topic, p.aggregate_type, p.aggregate_id, p.reason, "
                               "p.paused_by FROM outbox.pause p LEFT JOIN outbox.route r ON r.id = p.route_id "
                               "ORDER BY p.id")) {
    std::string of_route = row[0] ? "route \"" + *row[0] + "\"" : "";
    std::string what = row[1]   ? "Destination \"" + *row[1] + "\""
                       : row[2] ? "Topic \"" + *row[2] + "\" of " + of_route
                       : row[3] ? "Key \"" + *row[3] + "\" \"" + row[4].value() + "\" of " + of_route
                                : "R" + of_route.substr(1);
    findings->Warn("pause", what + " was paused by " + row[6].value() + ": " + row[5].value(),
                   "outbox.resume() with the same arguments lets it go.");
  }
}

void CheckDestinations(Findings* findings) {
  for (const OwnedDestinationView& view : ReadDestinationViews(MyDatabaseId)) {
    if (!view.owned || (strcmp(view.state, "closed") == 0 && !view.only_warning)) {
      continue;
    }
    std::string detail = std::string("Destination \"") + NameStr(view.name) + "\" ";
    if (strcmp(view.state, "paused") == 0 && view.trouble.empty()) {
      continue;  // CheckPauses says so
    }
    detail += view.only_warning ? "works, but " : std::string("gets nothing (") + view.state + "): ";
    detail += std::string(view.trouble.code) + ": " + view.trouble.message;
    if (strcmp(view.trouble.error_class, "config") == 0) {
      findings->Problem("destination", detail, "An option or a credential has to be changed.");
    } else {
      findings->Warn("destination", detail,
                     view.only_warning ? "It goes when its cause has gone and the connection is made anew, as ALTER "
                                         "SERVER does it; what is said of lost events goes after an hour."
                                       : "It is tried again by itself; outbox.destination says when.");
    }
  }
}

// Checks a restored dump that is being adopted.
void CheckAdoption(Findings* findings) {
  std::vector<Row> adoption =
      RunSql(Access::kRead, "SELECT phase = 'pending', sent, kept, done_to, begun_at FROM outbox_internal.adoption");
  if (!adoption.empty()) {
    const Row& row = adoption[0];
    findings->Warn("adoption",
                   std::string(row[0] == "t" ? "What the restored dump had not delivered is being moved into the log: "
                                             : "What the restored dump had delivered is being moved into the log: ") +
                       Are(row[0] == "t" ? row[1].value() : row[2].value(), "event", "is", "are") + " there" +
                       (row[3] == "-infinity" ? "" : ", up to " + row[3].value()) + ".",
                   row[0] == "t" ? "The keeper does it, in batches; then its routes begin. SELECT outbox.adopt() helps."
                                 : "The keeper does it, in batches, beside the routes, which work. Until then "
                                   "outbox.replay() and outbox.status() do not know all of it.");
    return;
  }
  Cell routes = RunSql(
      Access::kRead,
      "SELECT string_agg(DISTINCT quote_literal(r.name), ', ') FROM outbox.route r JOIN outbox_internal.lane l "
      "ON l.route_id = r.id WHERE coalesce(l.home <> outbox_internal.home() AND NOT EXISTS (SELECT FROM "
      "outbox_internal.origin o WHERE l.home = o.system_identifier || '/' || o.database), l.home IS NULL)")[0][0];
  if (routes) {
    findings->Problem(
        "adoption", "A dump has brought lanes, whose positions mean nothing here: no worker reads for " + *routes + ".",
        "SELECT outbox.adopt() has them go on where they were.");
  } else {
    findings->Ok("adoption", "Nothing of a restored dump waits to be adopted.");
  }
}

// Checks the triggers that keep foreign rows out of the tables.
void CheckGuards(Findings* findings) {
  const int64 wrong = WrongGuards(Access::kRead);
  // Triggers whose function does something else since CREATE OR REPLACE.
  const std::vector<Row> replaced =
      RunSql(Access::kRead,
             "SELECT p.proname, quote_literal(v.probin) FROM pg_proc p JOIN pg_proc v ON v.proname = 'version' AND "
             "v.pronamespace = 'outbox'::regnamespace WHERE p.pronamespace = 'outbox_internal'::regnamespace AND "
             "p.proname IN "
             "('refuse_loss', 'refuse_change', 'note_route', 'ignore_replicated', 'emit_rights_changed') AND "
             "(p.prosrc <> 'outbox_' || "
             "p.proname OR p.probin IS DISTINCT FROM v.probin OR p.proconfig IS NOT NULL) ORDER BY 1");
  for (const Row& row : replaced) {
    const std::string name = row[0].value();
    findings->Problem(
        "guards",
        "The function outbox_internal." + name + "() was replaced: triggers that call it guard nothing any more.",
        "SET outbox.allow_loss = on; CREATE OR REPLACE FUNCTION outbox_internal." + name +
            "() RETURNS trigger LANGUAGE c VOLATILE PARALLEL UNSAFE AS " + row[1].value() + ", 'outbox_" + name +
            "'; ALTER FUNCTION outbox_internal." + name + "() RESET ALL;");
  }
  if (wrong == 0 && replaced.empty()) {
    findings->Ok("guards", "The triggers that keep rows of other servers apart are on.");
  } else if (wrong > 0) {
    findings->Problem("guards",
                      std::to_string(wrong) + (wrong == 1 ? " trigger that keeps" : " triggers that keep") +
                          " rows of other servers apart " + (wrong == 1 ? "was" : "were") +
                          " switched off or changed, as pg_restore --disable-triggers does it.",
                      "The keeper mends it within a minute, in a copy outbox.adopt() does; what came past them is "
                      "moved to outbox_internal.foreign_event.");
  }
}

void CheckForeignRows(Findings* findings) {
  constexpr int64 kCounted = 100'000;
  std::string count =
      RunSql(Access::kRead, "SELECT count(*) FROM (SELECT FROM outbox_internal.foreign_event LIMIT $1::bigint) f",
             {Cell(std::to_string(kCounted))})[0][0]
          .value();
  if (count == std::to_string(kCounted)) {
    count = "At least " + count;
  }
  if (count == "0") {
    findings->Ok("foreign rows", "Nothing but emit() wrote to the log.");
  } else {
    findings->Warn("foreign rows",
                   count + (count == "1" ? " row" : " rows") + " came into the log another way than by emit().",
                   "They wait in outbox_internal.foreign_event and are not published before outbox.adopt().");
  }
}

void CheckPublications(Findings* findings) {
  Row row = RunSql(Access::kRead,
                   "SELECT string_agg(quote_ident(p.pubname), ', ' ORDER BY p.pubname) FROM pg_publication p "
                   "WHERE p.puballtables OR EXISTS (SELECT FROM pg_publication_namespace n WHERE n.pnpubid = p.oid "
                   "AND n.pnnspid = ANY ('{outbox,outbox_internal}'::regnamespace[])) OR EXISTS (SELECT FROM "
                   "pg_publication_rel r, pg_class c "
                   "WHERE r.prpubid = p.oid AND c.oid = r.prrelid AND c.relnamespace = ANY "
                   "('{outbox,outbox_internal}'::regnamespace[]))")[0];
  if (row[0]) {
    findings->Warn(
        "publications", "The log is published to other servers, by " + *row[0] + ".",
        "Subscribers need the extension, preloaded: their keepers make the day tables without which the "
        "subscription stops, for all tables. They keep the events in outbox_internal.foreign_event and send nothing. "
        "Publish your schemas by name, without outbox and outbox_internal, if you do not want that.");
  } else {
    findings->Ok("publications", "No publication carries the log.");
  }
}

// A subscription needs tables with the publisher's names, and stops for all of them if one is missing.
void CheckSubscriptions(Findings* findings) {
  Row row = RunSql(Access::kRead,
                   "SELECT string_agg(quote_ident(s.subname), ', ' ORDER BY s.subname) FROM pg_subscription s WHERE "
                   "s.subenabled AND s.subdbid = (SELECT oid FROM pg_database WHERE datname = current_database()) "
                   "AND EXISTS (SELECT FROM pg_subscription_rel r, pg_class c WHERE r.srsubid = s.oid "
                   "AND c.oid = r.srrelid AND c.relnamespace = ANY ('{outbox,outbox_internal}'::regnamespace[]))")[0];
  if (!row[0]) {
    findings->Ok("subscriptions", "No subscription brings the outbox of another server.");
    return;
  }
  std::vector<Row> missing =
      RunSql(Access::kRead,
             "SELECT 'outbox_internal.' || k.kind || to_char(d, '_YYYYMMDD') FROM generate_series(0, 1) n, "
             "LATERAL (SELECT (now() AT TIME ZONE 'UTC')::date + n) t (d), "
             "unnest('{log,progress,tick,outcome}'::text[]) k (kind) "
             "WHERE to_regclass('outbox_internal.' || k.kind || to_char(d, '_YYYYMMDD')) IS NULL ORDER BY d, 1");
  if (!missing.empty()) {
    findings->Problem("subscriptions",
                      "Subscription " + *row[0] + " brings the outbox of another server, and there is no table " +
                          missing[0][0].value() + ": it stops, for all tables, when the publisher writes to its own.",
                      "The keeper makes them ahead, where outbox is in shared_preload_libraries and "
                      "max_worker_processes has room. Or publish your schemas by name, without outbox.");
  } else {
    findings->Ok("subscriptions", "Subscription " + *row[0] +
                                      " brings the outbox of another server; the day tables that it needs are there.");
  }
}

}  // namespace outbox::admin
