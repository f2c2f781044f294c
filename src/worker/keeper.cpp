// The keeper [P]: one process per database that has the extension. It makes and drops day tables, keeps the stored
// ceiling of the clock ahead, records ticks, and tells the launcher how many relay workers can be used. See README.md.
#include <exception>
#include <map>
#include <string>
#include <utility>

#include "admin/common/query.h"
#include "admin/lookup/standing_lanes.h"
#include "admin/operate/adoption.h"
#include "base/fault_point.h"
#include "base/monotonic.h"
#include "base/version.h"
#include "days/day_tables.h"
#include "inbox/kept.h"
#include "log/progress/expired_days.h"
#include "log/progress/lane_change.h"
#include "log/progress/lane_claims.h"
#include "log/progress/replays.h"
#include "log/progress/ticks.h"
#include "metrics/emitted.h"
#include "pg/clock.h"
#include "pg/entry.h"
#include "pg/identity.h"
#include "pg/log_line.h"
#include "pg/settings.h"
#include "pg/transaction.h"
#include "pg/wait.h"
#include "pg/wall.h"
#include "worker/complaints.h"
#include "worker/launcher.h"
#include "worker/process.h"

namespace outbox::worker {

namespace {

constexpr long kBusyMs = 1000;     // between two cycles while events come
constexpr long kIdleMs = 5000;     // while none come
constexpr long kChangingMs = 100;  // while a route's number of lanes changes
constexpr long kTickMs = 100;      // between two looks whether much is committed, in the first second after a cycle

// Microseconds.
constexpr int64_t kUpkeepEvery = 30'000'000;  // day tables
constexpr int64_t kUpkeepAgain = 5'000'000;   // if some of that could not be done

bool FoundGone();

// The keeper's memory. Leaked on purpose: the process ends without destructors. It waits by the monotonic clock: the
// wall clock says which day it is, and may be set back by days.
struct KeeperState {
  Oid database = InvalidOid;
  Oid owner = InvalidOid;  // of the extension, when last seen
  pg::DatabaseSlot* slot = nullptr;
  log::TickRecorder ticks;
  uint64 commits = 0;       // emitting_commits at the last cycle
  uint64 generation = 0;    // config_generation at the last cycle
  uint64 replays_left = 0;  // at the last cycle
  int64_t next_upkeep = 0;  // MonotonicMicros()
  Complaints complaints{FoundGone};
  bool troubled = false;  // something could not be done in the last cycle
  pg::Presence presence = pg::Presence::kAbsent;
  bool subscribes = false;  // to another server's outbox; nothing is published from here
  bool adopting = false;    // events of a restored dump are being adopted
  bool jump_told = false;
  int log_size_told = 0;  // 1: the log is near outbox.max_log_size, 2: it is larger
  log::LaneChanges changes;
  admin::StandingLanes standing;
  std::map<int64_t, log::LaneChangeState> lane_changes;
};
KeeperState* keeper = nullptr;

constexpr const char* kWho = "outbox keeper";

pg::Installation ReadInstallation(MemoryContext context) {
  pg::Installation installation;
  pg::SetTransactionRole(InvalidOid);
  try {
    pg::InTransaction(context, [&] {
      installation = pg::FindInstallation();
      // The very first emit found no background worker to settle the outbox's identity.
      if (installation.presence == pg::Presence::kUnused && days::SpareTableIsUsed()) {
        pg::SettleIdentity();
        installation = pg::FindInstallation();
      }
      keeper->subscribes =
          (installation.presence == pg::Presence::kUnused || installation.presence == pg::Presence::kForeign) &&
          pg::SubscribesToOutbox();
    });
  } catch (...) {
    pg::SetTransactionRole(keeper->owner);
    throw;
  }
  if (installation.presence != pg::Presence::kAbsent) {  // else nothing runs with more rights for that
    keeper->owner = installation.owner;
  }
  pg::SetTransactionRole(keeper->owner);
  return installation;
}

// Whether an error that was met is of an installation that is another one by now: the next cycle sees to that.
bool FoundGone() {
  if (!pg::TakeMissing()) {
    return false;
  }
  pg::Installation installation = {};
  pg::PendingError error;
  return pg::Attempt([&] { installation = ReadInstallation(CurrentMemoryContext); }, &error) &&
         installation.presence != keeper->presence;
}

// Keeps outbox_internal.clock_ceiling above every reading that can be handed out before the next cycle, so that
// emitters need not do it themselves.
void KeepCeiling(MemoryContext context) {
  if (pg::CeilingIsLow()) {
    pg::InTransaction(context, [] { pg::KeepCeiling(); });
  }
}

// Writes one line when the wall clock jumps, and one when that is over.
void TellOfJump() {
  int64 jump = pg::PendingJump();
  if ((jump != 0) == keeper->jump_told) {
    return;
  }
  keeper->jump_told = jump != 0;
  pg::Guard([jump] {
    if (jump != 0) {
      ereport(WARNING, (errmsg("outbox: the server's clock has jumped by " INT64_FORMAT " s", jump / USECS_PER_SEC),
                        errdetail("Events are dated as if it had not until it has kept to that for %d s.",
                                  static_cast<int>(pg::kBelieveAfterMicros / USECS_PER_SEC)),
                        pg::LogEvent("clock_jumped", {{"seconds", pg::LogNumber(jump / USECS_PER_SEC)}})));
    } else {
      ereport(LOG, (errmsg("outbox: events are dated by the server's clock again"), pg::LogEvent("clock_works")));
    }
  });
}

void DecideDemand() {
  log::LaneCount lanes = log::CountLanes();
  pg::SetRelayDemand(keeper->database, Min(lanes.all, pg::settings.workers));
}

void ChangeLanes() {
  keeper->changes = log::AdvanceLaneChanges(&keeper->lane_changes);
  if (keeper->changes.changed) {
    pg_atomic_fetch_add_u64(&keeper->slot->config_generation, 1);
    pg::WakeWorkers(keeper->database, true);
  }
  if (keeper->changes.error) {
    std::rethrow_exception(std::exchange(keeper->changes.error, nullptr));
  }
}

// How many rows of foreign_event are looked at in one transaction, and how long in one cycle.
constexpr int64 kAdoptRows = 20'000;
constexpr int64_t kAdoptMicros = 1'000'000;

void ContinueAdoption(MemoryContext context) {
  const int64_t until = MonotonicMicros() + kAdoptMicros;
  const int64 asked = OUTBOX_FAULT_VALUE("adopt.rows");
  admin::AdoptionStep step;
  do {
    pg::InTransaction(context, [&] {
      step = admin::Adopt(asked > 0 ? asked : kAdoptRows);
      if (step.under_way) {
        OUTBOX_FAULT_POINT("adopt.uncommitted");
      }
    });
  } while (step.under_way && !StopRequested() && MonotonicMicros() < until);
  keeper->adopting = step.under_way;
}

// `step`: "", or which of them met it, after a comma.
void Complain(const std::string& step, const pg::PendingError& error) {
  keeper->troubled = true;
  if (!StopRequested()) {
    keeper->complaints.Say(kWho + step, error);
  }
}

// Independent steps: one that cannot be done now (something is locked) does not keep the others, and is done in a later
// cycle. Each says what was in its way, also where that is the same as another's, and that nothing is any more.
class Steps {
 public:
  template <typename Step>
  void Do(const char* name, Step&& step) {
    const std::string of_step = std::string(", ") + name;
    pg::PendingError error;
    try {
      step();
      keeper->complaints.Well(kWho + of_step);
      return;
    } catch (const pg::PgError&) {
      error = pg::DescribeCurrentException();
    }
    failed_ = true;
    Complain(of_step, error);
  }
  bool failed() const { return failed_; }

 private:
  bool failed_ = false;
};

// Drops delivered days before their time where the log is larger than it may be. Tells when it comes near to that, and
// when it is above it with nothing left to drop: each once, until it is smaller again.
void KeepLogSize(MemoryContext context, int64_t expiry) {
  const int64_t most = static_cast<int64_t>(pg::settings.max_log_size_mb) << 20;
  if (most == 0) {
    keeper->log_size_told = 0;
    return;
  }
  int64_t bytes = 0;
  pg::InTransaction(context, [&bytes] { bytes = log::LogBytes(); });
  if (bytes > most) {
    const int dropped = log::DropLogTablesToFit(expiry, most).dropped;
    pg::InTransaction(context, [&bytes] { bytes = log::LogBytes(); });
    if (bytes > most && log::EmptySpareTable(expiry, 0)) {
      pg::InTransaction(context, [&bytes] { bytes = log::LogBytes(); });
    }
    pg::Guard([dropped] {
      if (dropped > 0) {
        ereport(LOG, (errmsg_plural("outbox: dropped %d delivered day of the log before its time",
                                    "outbox: dropped %d delivered days of the log before their time",
                                    static_cast<unsigned long>(dropped), dropped),
                      errdetail("The log was larger than outbox.max_log_size.")));
      }
    });
  }
  const int level = bytes > most ? 2 : bytes > most / 10 * 8 ? 1 : 0;
  const int told = std::exchange(keeper->log_size_told, level);
  if (level <= told) {
    return;
  }
  const auto percent = static_cast<int>(Min(bytes / (most / 100), 1'000'000));
  pg::Guard([level, percent] {
    ereport(
        WARNING,
        (errmsg("outbox: the log has %d %% of outbox.max_log_size", percent),
         level == 2 ? errdetail("What could be dropped is gone: what is left is not delivered, belongs to a day that "
                                "has not ended, or is locked.")
                    : errdetail("At 100 %% delivered days are dropped before outbox.retention is over."),
         errhint("outbox.day shows how large each day is, and what keeps it.")));
  });
}

void KeepDayTables(MemoryContext context) {
  const int64_t now = MonotonicMicros();
  if (now < keeper->next_upkeep) {
    return;
  }
  const int64 log_now = pg::ClockNow();
  const int64 expiry = pg::ExpiryNow();
  int64 retention = static_cast<int64>(pg::settings.retention_minutes) * 60 * USECS_PER_SEC;
  int64 dedupe_retention = static_cast<int64>(pg::settings.dedupe_minutes) * 60 * USECS_PER_SEC;
  Steps steps;
  steps.Do("days ahead", [&] { days::EnsureDaysAhead(log_now, pg::settings.days_ahead); });
  if (keeper->presence == pg::Presence::kHere) {  // in a copy nothing may be dropped before it is adopted
    steps.Do("guards", [&] { pg::InTransaction(context, [] { (void)admin::RepairGuards(/*wait=*/false); }); });
    steps.Do("names of roles", [&] {
      pg::InTransaction(
          context, [] { (void)admin::RunSql(admin::Access::kWrite, "SELECT outbox_internal.follow_role_names()"); });
    });
    steps.Do("expired days", [&] { log::DropExpiredLogTables(expiry, retention); });
    steps.Do("size of the log", [&] { KeepLogSize(context, expiry); });
    steps.Do("spare table", [&] { log::EmptySpareTable(expiry, retention); });
    steps.Do("expired positions", [&] { log::DropExpiredProgressTables(expiry); });
    steps.Do("expired ticks", [&] { log::DropExpiredTickTables(expiry); });
    steps.Do("expired outcomes", [&] { log::DropExpiredOutcomeTables(expiry, retention); });
    steps.Do("expired keys of emit_once()", [&] { log::DropExpiredEmitKeys(expiry, dedupe_retention); });
    steps.Do("interrupted replays", [] { log::MarkInterruptedReplays(); });
    // One table a round is enough.
    steps.Do("inbox", [&] { pg::InTransaction(context, [] { inbox::KeepInRound(); }); });
  }
  keeper->next_upkeep = now + (steps.failed() ? kUpkeepAgain : kUpkeepEvery);
}

// The call that copies a replay has ended early, since the last cycle.
bool ReplayLeft() {
  return pg_atomic_read_u64(&keeper->slot->replays_left) != keeper->replays_left;
}

// One round. Throws PgError.
void Cycle(MemoryContext context) {
  uint32 requests = pg::DiscoveryRequests(keeper->database);
  keeper->commits = pg_atomic_read_u64(&keeper->slot->emitting_commits);
  keeper->generation = pg_atomic_read_u64(&keeper->slot->config_generation);
  if (ReplayLeft()) {
    keeper->replays_left = pg_atomic_read_u64(&keeper->slot->replays_left);
    keeper->next_upkeep = 0;
  }
  Steps steps;
  pg::Installation installation = {pg::Presence::kHere, keeper->owner, ""};
  // If outbox_internal.identity is locked, the installation counts as unchanged.
  steps.Do("installation", [&] { installation = ReadInstallation(context); });
  if (steps.failed() && keeper->presence != pg::Presence::kHere) {
    return;
  }
  if (installation.presence == pg::Presence::kOtherVersion && keeper->presence != installation.presence) {
    char* found = installation.version;
    pg::Guard([found] {
      ereport(WARNING, (errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
                        errmsg("outbox publishes nothing: the extension's version \"%s\" is not the library's, \"%s\"",
                               found, kVersion),
                        errhint("Run ALTER EXTENSION outbox UPDATE in this database, or restart the server if the "
                                "library was reinstalled."),
                        pg::LogEvent("other_version", {{"extension_version", found}, {"version", kVersion}})));
    });
  }
  keeper->presence = installation.presence;
  switch (installation.presence) {
    case pg::Presence::kAbsent:
    case pg::Presence::kUnused:
    case pg::Presence::kForeign:
      // A subscription stops at the first day of the publisher that has no table here, for all tables.
      pg::ConcludeDiscovery(keeper->database, requests, keeper->subscribes);
      if (keeper->subscribes) {
        pg::SetRelayDemand(keeper->database, 0);
        KeepDayTables(context);
      }
      return;
    case pg::Presence::kOtherVersion:
      pg::ConcludeDiscovery(keeper->database, requests, true);
      pg::SetRelayDemand(keeper->database, 0);
      return;
    case pg::Presence::kHere:
      pg::ConcludeDiscovery(keeper->database, requests, true);
      break;
  }
  OUTBOX_FAULT_POINT("keeper.cycle");
  TellOfJump();
  // First, because expiry is decided by the clock's stored ceiling.
  steps.Do("clock", [context] { KeepCeiling(context); });
  pgstat_report_activity(STATE_RUNNING, "day tables");
  steps.Do("day tables", [context] { KeepDayTables(context); });
  steps.Do("numbers of lanes", [] { ChangeLanes(); });
  steps.Do("relay workers", [] { DecideDemand(); });
  steps.Do("ticks", [] { keeper->ticks.RecordTick(pg::ClockNow()); });
  steps.Do("lanes that stand", [context] { pg::InTransaction(context, [] { keeper->standing.Step(); }); });
  pgstat_report_activity(STATE_RUNNING, "adoption");
  steps.Do("adoption", [context] { ContinueAdoption(context); });
}

// Nothing to keep here: the launcher does not start the keeper again until it is asked to check this database.
[[noreturn]] void LeaveFor(pg::Presence presence) {
  if (presence == pg::Presence::kForeign) {
    ereport(WARNING, (errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
                      errmsg("outbox publishes nothing from database \"%s\": it is a copy", DatabaseName()),
                      errdetail("outbox_internal.identity names another server, database or outbox.instance."),
                      errhint("If events of this database are to be published from here, call outbox.adopt() in it."),
                      pg::LogEvent("copy")));
  }
  pg::NoteLeft();
  proc_exit(0);
}

// Returns false if that failed: the next cycle tries again, and complains.
bool RecordDueTick() {
  pg::PendingError error;
  return !keeper->ticks.IsDue() || pg::Attempt([] { keeper->ticks.RecordTick(pg::ClockNow()); }, &error);
}

// Waits until there is a reason for the next cycle. Commits wake the keeper at most once a cycle: while its pending
// flag is set they do not wake it again.
void Rest(uint32 wait_event) {
  pgstat_report_activity(STATE_IDLE, "idle");
  pg_atomic_write_u32(&pg::MyWorkerSlot()->pending, 1);
  const int64_t start = MonotonicMicros();
  bool quiet = true;
  const bool changing = keeper->changes.under_way > 0 || keeper->changes.asked || keeper->adopting;
  const long busy = changing ? kChangingMs : kBusyMs;
  const bool soon = keeper->changes.waiting > 0 || changing || keeper->troubled;
  const long idle = soon ? busy : kIdleMs;
  bool looks = keeper->presence == pg::Presence::kHere;
  while (!StopRequested()) {
    const auto passed = static_cast<long>((MonotonicMicros() - start) / 1000);
    if (passed >= idle || pg_atomic_read_u64(&keeper->slot->config_generation) != keeper->generation || ReplayLeft()) {
      return;
    }
    if (passed >= busy) {
      if (quiet) {
        pg_atomic_write_u32(&pg::MyWorkerSlot()->pending, 0);
        quiet = false;
        pg_memory_barrier();
      }
      if (pg_atomic_read_u64(&keeper->slot->emitting_commits) != keeper->commits) {
        return;
      }
    }
    looks = looks && passed < busy;
    const long left = (passed < busy ? busy : idle) - passed;
    pg::WaitForLatch(looks ? std::min(left, kTickMs) : left, wait_event);
    bool reload = ConfigReloadPending;
    ProcessInterruptsBetweenTurns();
    if (reload) {
      keeper->next_upkeep = 0;
      return;
    }
    looks = looks && RecordDueTick();
  }
}

void KeeperMain() {
  pg::SlotTicket ticket = BecomeWorker();
  if (OUTBOX_FAULT_FAILS("keeper.start")) {
    ereport(FATAL, (errmsg("injected at keeper.start")));
  }
  keeper = new KeeperState;
  keeper->database = ticket.database;
  keeper->slot = pg::FindDatabaseSlot(ticket.database, true);
  if (keeper->slot == nullptr) {
    ereport(FATAL, (errcode(ERRCODE_CONFIGURATION_LIMIT_EXCEEDED),
                    errmsg("no room for database \"%s\" in the shared memory of outbox", DatabaseName()),
                    errhint("Raise outbox.max_databases and restart the server."), pg::LogEvent("no_database_slot")));
  }
  uint32 wait_event = pg::WaitEventFor("OutboxKeeperMain");
  MemoryContext context = AllocSetContextCreate(TopMemoryContext, "outbox keeper turn", ALLOCSET_DEFAULT_SIZES);
  while (!StopRequested()) {
    MemoryContextSwitchTo(context);
    MemoryContextReset(context);
    pg::PendingError error;
    keeper->troubled = false;
    const auto cycle = [context] {
      Cycle(context);
      keeper->complaints.Well(kWho);
      keeper->complaints.SayEnds();
    };
    if (!pg::Attempt(cycle, &error)) {
      Complain("", error);
    }
    metrics::SettlePrepared();  // also where the cycle failed
    metrics::NoteTurn(false);
    if (!keeper->troubled && keeper->presence != pg::Presence::kHere &&
        keeper->presence != pg::Presence::kOtherVersion && !keeper->subscribes) {
      LeaveFor(keeper->presence);
    }
    MemoryContextSwitchTo(context);
    pg::SetQuiet(keeper->changes.under_way == 0 && !keeper->adopting);
    Rest(wait_event);
    pg::SetQuiet(false);
  }
  LeaveClock(context);
  proc_exit(0);
}

}  // namespace

}  // namespace outbox::worker

extern "C" PGDLLEXPORT void outbox_keeper_main(Datum) {
  outbox::pg::Entry([] { outbox::worker::KeeperMain(); });
}
