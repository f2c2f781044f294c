#include <algorithm>
#include <cstdlib>
#include <map>
#include <set>

#include "admin/lookup/processes.h"
#include "admin/lookup/shared_views.h"
#include "admin/operate/adoption.h"
#include "admin/show/doctor.h"
#include "base/count_text.h"
#include "base/version.h"
#include "metrics/store.h"
#include "pg/clock.h"
#include "pg/own_extension.h"
#include "pg/process_slots.h"
#include "pg/settings.h"
#include "pg/subtransaction.h"
#include "pg/trouble_hints.h"
#include "pg/wait.h"
#include "pg/wall.h"

extern "C" {
#include "access/xlog.h"
}

namespace outbox::admin {

namespace {

constexpr int64 kFarAheadMicros = 60 * USECS_PER_SEC;
constexpr int64 kTooFarAheadMicros = 600 * USECS_PER_SEC;

int CountLanes() {
  const Row row = RunSql(Access::kRead, "SELECT count(*) FROM outbox_internal.lane")[0];
  return std::atoi(row[0].value_or("0").c_str());
}

bool Used() {
  return RunSql(Access::kRead, "SELECT FROM outbox_internal.identity LIMIT 1").size() == 1;
}

constexpr const char* kHeldHint =
    "The server log says what of. SELECT pg_reload_conf() has it tried at once, outbox.enabled = off keeps relay "
    "workers from being started.";

void TellHeld(const char* who, const pg::HeldBack& held, Findings* findings) {
  if (!pg::IsHeld(held)) {
    return;
  }
  const bool crashes = held.crashes > 0;
  const std::string check = crashes ? "crashes" : "starts";
  findings->Problem(check.c_str(),
                    std::string(who) +
                        (crashes ? " of this database crashed the server " + std::to_string(held.crashes) +
                                       " times in a row just after its start"
                                 : " of this database failed just after each of its last starts") +
                        "; it is not started again before " + UnixMicrosText(held.until + kPgEpochMicros) + ".",
                    kHeldHint);
  findings->Before("A process of this database has to stay up first, see the check \"" + check +
                   "\". If it is still said then: ");
}

// Processes that crash or fail at every start, and are held back so that they do not restart all sessions, or fill the
// log, over and over.
void CheckHeld(Findings* findings) {
  if (pg::Shared()->launcher_delayed_until != 0) {
    findings->Problem("crashes",
                      "The launcher crashed the server at each of its last starts; it waits until " +
                          UnixMicrosText(pg::Shared()->launcher_delayed_until + kPgEpochMicros) + ".",
                      kHeldHint);
  } else if (const pg::DatabaseSlot* slot = pg::Guard([] { return pg::FindDatabaseSlot(MyDatabaseId, false); })) {
    TellHeld("The keeper", slot->held.keeper, findings);
    TellHeld("A relay worker", slot->held.relay, findings);
  }
}

// The first relay worker is started within a second or two: nothing is wrong before.
bool JustBegun() {
  const Row row = RunSql(Access::kRead,
                         "SELECT greatest(pg_postmaster_start_time(), (SELECT min(r.created_at) FROM outbox.route r)) "
                         "BETWEEN clock_timestamp() - interval '10 s' AND clock_timestamp()")[0];
  return row[0] == "t";
}

constexpr const char* kSwitchOn = "ALTER SYSTEM SET outbox.enabled = on; SELECT pg_reload_conf();";
constexpr const char* kGiveWorkers = "ALTER SYSTEM SET outbox.workers = 1; SELECT pg_reload_conf();";

// Relay workers are switched off: on purpose, as a pause is, and told as one, where a route has something to say.
void TellOff(int lanes, const std::string& setting, const char* switch_on, Findings* findings) {
  if (lanes == 0) {
    findings->Ok("workers", setting + "; there is no route, and no relay worker is needed.");
  } else {
    findings->Warn("workers", setting + ": events are kept, and none is published until that is changed.",
                   std::string("If it is not on purpose: ") + switch_on + " What is kept is published then.");
  }
}

// `stand`: some of those that run do nothing, which is said apart.
void CheckRelays(int running, bool stand, Findings* findings) {
  const int lanes = CountLanes();
  const int wanted = std::min(lanes, pg::settings.workers);
  const Processes processes = CountProcesses();
  if (!pg::settings.enabled) {
    TellOff(lanes, "outbox.enabled is off", kSwitchOn, findings);
  } else if (pg::settings.workers == 0) {
    TellOff(lanes, "outbox.workers is 0", kGiveWorkers, findings);
  } else if (processes.places == 0 || (processes.none() && running == 0 && wanted > 0)) {
    findings->Problem("workers", FewSlotsText(processes) + " Events are kept, and not published.",
                      FewSlotsHint(processes));
  } else if (wanted > 0 && !processes.enough()) {
    findings->Warn("workers",
                   "Keepers and relay workers run in turn, or fewer of them: " + FewSlotsText(processes) +
                       " Events of this database may wait for seconds.",
                   FewSlotsHint(processes) + " SELECT * FROM outbox.process shows who has a place.");
  } else if (running == 0 && wanted > 0 && IsTemplate()) {
    findings->Problem("workers", "There are routes, and nothing is sent: a template has no relay workers.",
                      kTemplateHint);
  } else if (running == 0 && wanted > 0 && JustBegun()) {
    findings->Warn("workers",
                   "No relay worker runs for this database yet: the server or the first route is seconds old.",
                   "One is started within a second or two.");
  } else if (running == 0 && wanted > 0) {
    findings->Problem(
        "workers", "There are routes and no relay worker runs for this database.",
        "One is started within a second or two. If none is, look for messages of outbox in the server log, "
        "and into outbox.process.");
  } else if (running < wanted) {
    findings->Warn("workers", std::to_string(running) + " of " + std::to_string(wanted) + " relay workers run.",
                   "If this lasts, look into outbox.process.");
  } else if (!stand) {
    findings->Ok("workers", CountText(running, "relay worker runs", "relay workers run") + " for this database.");
  }
}

// Workers of this database that are there and do nothing, by process id.
std::map<int, WorkerView> ReadStandstills() {
  std::map<int, WorkerView> standing;
  for (WorkerView& worker : ReadWorkerViews()) {
    if (worker.database == MyDatabaseId && worker.stands_since != 0) {
      standing.emplace(worker.pid, worker);
    }
  }
  return standing;
}

std::string MendStanding(int pid) {
  return "It was stopped (kill -CONT " + std::to_string(pid) +
         " lets it go on, and is needed before it can end), or waits for the disk or for another process: see its row "
         "of "
         "pg_stat_activity. If it may end, SELECT pg_terminate_backend(" +
         std::to_string(pid) + "): another one takes its place.";
}

// Looked at twice, since the whole machine may have been stopped, and gone on just now.
std::map<int, WorkerView> FindStandstills() {
  constexpr long kLookAgain = 500;  // milliseconds
  std::map<int, WorkerView> before = ReadStandstills();
  if (before.empty()) {
    return before;
  }
  pg::Guard([] { pg::WaitWhole(kLookAgain, pg::WaitEventFor("OutboxLook")); });
  std::map<int, WorkerView> still = ReadStandstills();
  std::erase_if(still, [&before](const auto& one) {
    const auto found = before.find(one.first);
    return found == before.end() || found->second.incarnation != one.second.incarnation;
  });
  return still;
}

bool HasStandstill(const std::map<int, WorkerView>& standing, pg::WorkerKind kind) {
  return std::any_of(standing.begin(), standing.end(), [kind](const auto& one) { return one.second.kind == kind; });
}

// `more`: places that this database would take besides those that there are, at most.
void TellTogether(const char* what, int places, int64 more, const std::string& setting, Findings* findings) {
  constexpr int64 kMost = 65536;  // of both settings
  int64 enough = 2 * static_cast<int64>(places);
  while (enough < places + more) {
    enough *= 2;
  }
  enough = std::min(enough, kMost);
  findings->Warn(
      "figures",
      std::string("outbox.metrics() counts some ") + what + " of this database together, as \"other\": all " +
          std::to_string(places) + " places of the server are taken.",
      places >= kMost ? setting + " is as large as it can be; routes of the same events can be one."
                      : "ALTER SYSTEM SET " + setting + " = " + std::to_string(enough) + "; then restart the server.");
}

}  // namespace

void CheckFigures(Findings* findings) {
  if (metrics::Figures() == nullptr) {
    return;
  }
  const std::vector<OwnedLaneView> lanes = ReadLaneViews(MyDatabaseId);
  bool routes = false;
  bool destinations = false;
  int64 routes_without = 0;
  std::set<Oid> servers;
  for (const Row& row : RunSql(
           Access::kRead, "SELECT r.id, s.oid FROM outbox.route r JOIN pg_foreign_server s ON s.srvname = r.server")) {
    const int64 id = Number(row[0]);
    const Oid server = static_cast<Oid>(std::strtoul(row[1].value().c_str(), nullptr, 10));
    const bool asked = SendsTo(lanes, id, server);
    const bool without = !metrics::HasSlot(MyDatabaseId, id, server);
    routes_without += without;
    servers.insert(server);
    routes = routes || (asked && without);
    destinations = destinations || (asked && !metrics::HasSlot(MyDatabaseId, server));
  }
  if (routes) {
    TellTogether("routes", metrics::Figures()->max_routes, routes_without, "outbox.max_series", findings);
  }
  if (destinations) {
    // Where their state is shown, each has a place for each worker.
    TellTogether("destinations", metrics::Figures()->max_destinations,
                 static_cast<int64>(servers.size()) * pg::settings.workers, "outbox.max_destinations", findings);
  }
}

namespace {

// A line that is typed takes the place of the one that is there, so it has what that has.
std::string PreloadHint() {
  const std::string others = shared_preload_libraries_string != nullptr ? shared_preload_libraries_string : "";
  return others.empty() ? "Add shared_preload_libraries = 'outbox' to postgresql.conf and restart the server."
                        : "Set shared_preload_libraries = '" + others +
                              ", outbox' where it is set now, in postgresql.conf for instance, and restart the server.";
}

}  // namespace

void CheckPreload(Findings* findings) {
  if (pg::Shared() != nullptr) {
    findings->Ok("preload", "The module is preloaded.");
  } else if (InboxAlone()) {
    findings->Ok("preload",
                 "The module is not preloaded, and need not be: consumers receive here, and nothing was emitted or "
                 "routed.");
  } else {
    findings->Problem(
        "preload",
        "The module is not in shared_preload_libraries: events are kept in the order of the server's clock "
        "only, and nothing publishes them.",
        PreloadHint());
  }
}

bool CheckVersion(Findings* findings) {
  const char* version = pg::Guard([] { return pg::ReadOwnExtension().version; });
  const std::string installed = version == nullptr ? "?" : version;
  if (installed == kVersion) {
    findings->Ok("version", "Library and extension have version " + installed + ".");
    return true;
  }
  findings->Problem("version",
                    "The library has version " + std::string(kVersion) + ", the extension " + installed +
                        "; workers wait until they are equal.",
                    "ALTER EXTENSION outbox UPDATE, or restart the server after installing the new library.");
  return false;
}

namespace {

// Of a restored dump, whose own events are not in the log before adopt(), but for those that pg_restore
// --disable-triggers brought past its guard. Rows that pg_restore -a brings into a table with a trigger of emit_row()
// are emitted, too, and nobody has meant to send these.
std::string EmittedInCopy() {
  constexpr int64 kCounted = 100'000;
  const Row count = RunSql(Access::kRead,
                           ("WITH log AS MATERIALIZED (SELECT l.xmin::text::bigint AS x, l.xid FROM "
                            "(SELECT xmin, xid FROM outbox_internal.log UNION ALL SELECT xmin, xid FROM "
                            "outbox_internal.log_spare) l WHERE NOT EXISTS (SELECT FROM outbox_internal.origin) "
                            "LIMIT $1::bigint) SELECT count(*), count(*) FILTER (WHERE x NOT IN (" +
                            LoadingTransactions("log") + ")) FROM log")
                               .c_str(),
                           {Cell(std::to_string(kCounted))})[0];
  const std::string emitted = count[1].value();
  if (emitted == "0") {
    return "";
  }
  return std::string(count[0] == std::to_string(kCounted) ? " At least " : " ") +
         CountText(Number(emitted), "event has", "events have") + " been emitted here since it was restored.";
}

// A value of the command line goes before those of the files. (pending_restart stays where a line that was added is
// taken out again, so it is asked only where the owner may not see the files.)
bool InstanceChanges() {
  const bool may = RunSql(Access::kRead,
                          "SELECT has_table_privilege('pg_file_settings', 'SELECT') AND "
                          "has_function_privilege('pg_show_all_file_settings()', 'EXECUTE')")[0][0] == "t";
  return !RunSql(Access::kRead,
                 may ? "SELECT FROM pg_settings s WHERE s.name = 'outbox.instance' AND s.source <> 'command line' "
                       "AND s.setting <> coalesce((SELECT f.setting FROM pg_file_settings f "
                       "WHERE lower(f.name) = s.name ORDER BY f.seqno DESC LIMIT 1), s.boot_val)"
                     : "SELECT FROM pg_settings s WHERE s.name = 'outbox.instance' AND s.source <> 'command line' "
                       "AND s.pending_restart")
              .empty();
}

}  // namespace

void CheckIdentity(Findings* findings) {
  const pg::Identities identities = CountIdentities();
  if (identities.all == 0) {
    findings->Ok("identity", "No route was made here yet and nothing emitted; nothing runs before.");
  } else if (!identities.IsCopy() && InstanceChanges()) {
    findings->Warn(
        "identity",
        "This outbox belongs to this server and database until the server is restarted: outbox.instance has another "
        "value from then on, and this outbox is a copy, and silent.",
        "If that is not meant, put the value back and SELECT pg_reload_conf(); if it is, SELECT outbox.adopt() after "
        "the restart.");
  } else if (!identities.IsCopy()) {
    findings->Ok("identity", "This outbox belongs to this server and database.");
  } else {
    findings->Problem(
        "identity",
        "This outbox is a copy: outbox_internal.identity names another server, database or instance. It stays silent." +
            EmittedInCopy(),
        "If it is to publish: SELECT outbox.adopt(). Its routes go on where the original was when it was copied, and "
        "what was emitted here comes after that. With outbox.adopt(keep_positions => false) they start from now, "
        "without what the copy brought.");
  }
}

namespace {

void CheckLauncher(Findings* findings) {
  const pid_t pid = pg::Shared()->launcher_pid;
  const std::string stands = LauncherStands();
  if (pid == 0) {
    const Processes processes = CountProcesses();
    const bool room = processes.places > 0;
    findings->Problem("launcher", "The launcher does not run." + (room ? "" : " " + FewSlotsText(processes)),
                      room ? "It is started again within seconds; see the server log." : FewSlotsHint(processes));
  } else if (!stands.empty()) {
    findings->Problem("launcher", stands, MendStanding(pid));
  } else {
    findings->Ok("launcher", "The launcher runs.");
  }
}

}  // namespace

void CheckProcesses(Findings* findings) {
  if (pg::Shared() == nullptr) {
    return;
  }
  if (const std::optional<BarredServer> barred = ServerBars()) {
    findings->Warn("launcher", barred->text, "Start it as usual: what is emitted meanwhile is published then.");
    findings->Before(
        "The server has to be started as usual first, see the check \"launcher\". If it is still said then: ");
    return;
  }
  CheckHeld(findings);
  CheckLauncher(findings);
  const std::map<int, WorkerView> standing = FindStandstills();
  const std::vector<WorkerView> workers = ReadWorkerViews();
  const bool kept = std::any_of(workers.begin(), workers.end(), [](const WorkerView& worker) {
    return worker.database == MyDatabaseId && worker.running && worker.kind == pg::WorkerKind::kKeeper;
  });
  const Processes processes = CountProcesses();
  if (!kept && !Used()) {
    findings->Ok("keeper", "No keeper is needed before the first route or event.");
  } else if (!kept && IsTemplate()) {
    findings->Problem("keeper", "This database is a template: nothing of outbox runs for it.", kTemplateHint);
  } else if (!kept && HasNoSlot()) {
    findings->Problem("keeper", NoSlotText() + " Nothing of outbox runs for this one.", kNoSlotHint);
    findings->Before("This database needs a place first, see the check \"keeper\". If it is still said then: ");
  } else if (!kept && processes.none()) {
    findings->Problem("keeper", FewSlotsText(processes), FewSlotsHint(processes));
  } else if (!kept && pg_atomic_read_u32(&pg::Shared()->in_turn) != 0) {
    findings->Warn("keeper", "The keepers of all databases run in turn: " + FewSlotsText(processes),
                   FewSlotsHint(processes));
  } else if (!kept && JustBegun()) {
    findings->Warn("keeper", "No keeper runs for this database yet: the server or the extension's use is seconds old.",
                   "One is started within a second or two.");
  } else if (!kept) {
    findings->Problem("keeper", "No keeper runs for this database.",
                      "Day tables are neither made ahead nor dropped. Look into outbox.process, and for messages of "
                      "outbox in the server log.");
  } else if (!HasStandstill(standing, pg::WorkerKind::kKeeper)) {
    findings->Ok("keeper", "The keeper of this database runs.");
  }
  CheckRelays(CountRelays(workers), HasStandstill(standing, pg::WorkerKind::kRelay), findings);
  for (const auto& [pid, worker] : standing) {
    findings->Problem("standstill", WorkerStands(worker), MendStanding(pid));
  }
}

void CheckStandby(const BarredServer& barred, Findings* findings) {
  CheckPreload(findings);
  if (!CheckVersion(findings) || pg::Shared() == nullptr) {
    findings->Ok("standby", barred.text);
    return;
  }
  const Processes processes = CountProcesses();
  if (CountIdentities().IsCopy()) {
    findings->Problem(
        "standby", barred.text + " After that it is a copy, and silent: its outbox.instance is not its primary's.",
        "If it is to take over from its primary, set outbox.instance as it is there and restart. If it is "
        "to become a copy on purpose, all is well.");
  } else if (!pg::settings.enabled) {
    findings->Warn("standby", barred.text + " Nor after that: outbox.enabled is off.", kSwitchOn);
  } else if (pg::settings.workers == 0) {
    findings->Warn("standby", barred.text + " Nor after that: outbox.workers is 0.", kGiveWorkers);
  } else if (processes.places == 0) {
    findings->Problem("standby", barred.text + " Nor after that: " + FewSlotsText(processes), FewSlotsHint(processes));
  } else {
    findings->Ok("standby", barred.text + " Then it goes on by itself.");
  }
}

// A worker has the WAL flushed before it publishes, which is worth what the server's flush is. Without full_page_writes
// a file system that writes whole pages is as safe, and whether it does cannot be seen from here.
void CheckDurability(Findings* findings) {
  if (!enableFsync) {
    findings->Warn("durability",
                   "fsync is off: when the machine fails, what was committed can be gone, and of that events that were "
                   "published already.",
                   "For data that may be lost, of tests for instance, nothing has to be done. Else: ALTER SYSTEM SET "
                   "fsync = on; SELECT pg_reload_conf();");
  } else if (!fullPageWrites) {
    findings->Ok("durability",
                 "fsync is on. full_page_writes is off: right where the file system never writes a part of a page, as "
                 "ZFS; elsewhere, when the machine fails, pages of the log can be damaged.");
  } else {
    findings->Ok("durability", "fsync and full_page_writes are on.");
  }
}

void CheckClock(Findings* findings) {
  if (pg::Shared() == nullptr) {
    return;
  }
  int64 jump = pg::PendingJump();
  int64 ahead = pg::Guard([] { return pg::LastReading(); }) - pg::RawWall();
  const std::string text = "The clock of events is " + std::to_string(ahead / USECS_PER_SEC) + " seconds ahead of the ";
  if (jump != 0) {
    findings->Warn("clock",
                   "The server's clock has jumped by " + std::to_string(jump / USECS_PER_SEC) +
                       " seconds; events are dated as if it had not until it has kept to that for five minutes.",
                   "If the server's clock is wrong, set it right; if it is right, there is nothing to do.");
  } else if (ahead > kTooFarAheadMicros) {
    findings->Problem("clock", text + "server's: that was wrong once. Order is kept, dates and ids are wrong.",
                      "When all is delivered, outbox.reset_clock() puts it back; else it ticks by a microsecond for "
                      "each event until the server's clock has caught up.");
  } else if (ahead > kFarAheadMicros) {
    findings->Warn("clock", text + "server's, which was set back or wrong once.",
                   "Order is kept. It ticks by a microsecond for each event until the server's clock has caught up.");
  } else {
    findings->Ok("clock", "The clock of events follows the server's.");
  }
}

// A session that has not read it since the server was started needs it to emit, and the keeper each few seconds.
void CheckStoredClock(Findings* findings) {
  std::string why = "it holds nothing";
  bool holds = false;
  const Status read = pg::TryPart(pg::IsUnreadable, [&holds] {
    holds = !RunSql(Access::kRead, "SELECT FROM outbox_internal.clock_ceiling").empty();
  });
  if (!read.ok()) {
    why = read.error().message + " (" + read.error().code + ")";
  }
  if (!holds) {
    findings->Problem("clock",
                      "What is stored of the clock of events, in outbox_internal.clock_ceiling, cannot be read: " +
                          why + ". emit() fails, at the latest after the next start of the server.",
                      pg::kUnreadableHint);
    return;
  }
  CheckClock(findings);
}

}  // namespace outbox::admin
