// The keeper [P]: one process per database that has the extension. It makes and drops day tables, keeps the stored
// ceiling of the clock ahead, records ticks, and tells the launcher how many relay workers are of use. See README.md.
#include <cinttypes>
#include <exception>
#include <map>

#include "base/fault_point.h"
#include "base/version.h"
#include "emit/clock.h"
#include "log/day_tables.h"
#include "log/lane_change.h"
#include "log/lanes.h"
#include "log/replays.h"
#include "log/ticks.h"
#include "pg/entry.h"
#include "pg/settings.h"
#include "pg/transaction.h"
#include "pg/wait.h"
#include "pg/wall.h"
#include "worker/identity.h"
#include "worker/launcher.h"
#include "worker/process.h"

namespace outbox::worker {

namespace {

constexpr long kBusyMs = 1000;               // between two cycles while events come
constexpr long kIdleMs = 5000;               // while none come
constexpr long kChangingMs = 100;            // while a route's number of lanes changes
constexpr int kUpkeepEveryMs = 30 * 1000;    // day tables
constexpr int kComplainEveryMs = 60 * 1000;  // the same error

// The keeper's memory. Leaked on purpose: the process ends without destructors.
struct KeeperState {
  Oid database = InvalidOid;
  pg::DatabaseSlot* slot = nullptr;
  log::TickRecorder ticks;
  uint64 commits = 0;     // emitting_commits at the last cycle
  uint64 generation = 0;  // config_generation at the last cycle
  TimestampTz next_upkeep = 0;
  TimestampTz complained_at = 0;
  Presence presence = Presence::kAbsent;
  bool jump_told = false;
  log::LaneChanges changes;
  std::map<int64_t, log::LanePace> paces;
};
KeeperState* keeper = nullptr;

Standing Look(MemoryContext context) {
  Standing standing;
  pg::SetTransactionRole(InvalidOid);
  pg::InTransaction(context, [&] { standing = FindStanding(); });
  pg::SetTransactionRole(standing.owner);
  return standing;
}

// Keeps outbox.clock_ceiling above every reading that can be handed out before the next cycle, so that emitters need
// not do it themselves.
void KeepCeiling(MemoryContext context) {
  if (emit::CeilingIsLow()) {
    pg::InTransaction(context, [] { emit::KeepCeiling(); });
  }
}

// One line when the wall clock jumps, one when that is over.
void TellOfJump() {
  int64 jump = pg::HeldJump();
  if ((jump != 0) == keeper->jump_told) {
    return;
  }
  keeper->jump_told = jump != 0;
  pg::Guard([jump] {
    if (jump != 0) {
      ereport(WARNING, (errmsg("outbox: the server's clock has jumped by " INT64_FORMAT " s", jump / USECS_PER_SEC),
                        errdetail("Events are dated as if it had not until it has kept to that for %d s.",
                                  static_cast<int>(pg::kBelieveAfterMicros / USECS_PER_SEC))));
    } else {
      ereport(LOG, (errmsg("outbox: events are dated by the server's clock again")));
    }
  });
}

void DecideDemand() {
  log::LaneCount lanes = log::CountLanes();
  SetRelayDemand(keeper->database, Min(lanes.all, pg::settings.workers));
}

void ChangeLanes() {
  keeper->changes = log::AdvanceLaneChanges(&keeper->paces);
  if (keeper->changes.changed) {
    pg_atomic_fetch_add_u64(&keeper->slot->config_generation, 1);
    pg::WakeWorkers(keeper->database, true);
  }
}

void KeepDayTables() {
  TimestampTz now = GetCurrentTimestamp();
  if (now < keeper->next_upkeep) {
    return;
  }
  keeper->next_upkeep = TimestampTzPlusMilliseconds(now, kUpkeepEveryMs);
  int64 log_now = emit::ClockNow();
  int64 expiry = emit::ExpiryNow();
  int64 retention = static_cast<int64>(pg::settings.retention_minutes) * 60 * USECS_PER_SEC;
  // What cannot be done is in the way of nothing else.
  std::exception_ptr first;
  auto attempt = [&first](auto&& step) {
    try {
      step();
    } catch (const pg::PgError&) {
      first = first ? first : std::current_exception();
    }
  };
  attempt([&] { log::EnsureDaysAhead(log_now, pg::settings.days_ahead); });
  attempt([&] { log::DropExpiredLogTables(expiry, retention); });
  attempt([&] { log::DropExpiredProgressTables(expiry); });
  attempt([&] { log::DropExpiredTickTables(expiry); });
  attempt([&] { log::DropExpiredOutcomeTables(expiry, retention); });
  attempt([] { log::MarkInterruptedReplays(); });
  if (first) {
    std::rethrow_exception(first);
  }
}

// One round. Throws PgError.
void Cycle(MemoryContext context) {
  uint32 requests = ProbeRequests(keeper->database);
  keeper->commits = pg_atomic_read_u64(&keeper->slot->emitting_commits);
  keeper->generation = pg_atomic_read_u64(&keeper->slot->config_generation);
  Standing standing = Look(context);
  if (standing.presence == Presence::kOtherVersion && keeper->presence != standing.presence) {
    char* found = standing.version;
    pg::Guard([found] {
      ereport(WARNING, (errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
                        errmsg("outbox publishes nothing: the extension's version \"%s\" is not the library's, \"%s\"",
                               found, kVersion),
                        errhint("Run ALTER EXTENSION outbox UPDATE in this database, or restart the server if the "
                                "library was installed anew.")));
    });
  }
  keeper->presence = standing.presence;
  switch (standing.presence) {
    case Presence::kAbsent:
    case Presence::kUnused:
    case Presence::kForeign:
      ConcludeProbe(keeper->database, requests, false);
      return;
    case Presence::kOtherVersion:
      ConcludeProbe(keeper->database, requests, true);
      SetRelayDemand(keeper->database, 0);
      return;
    case Presence::kHere:
      ConcludeProbe(keeper->database, requests, true);
      break;
  }
  OUTBOX_FAULT_POINT("keeper.cycle");
  TellOfJump();
  // First: what has expired is told by what the clock had come to.
  KeepCeiling(context);
  pgstat_report_activity(STATE_RUNNING, "day tables");
  KeepDayTables();
  ChangeLanes();
  DecideDemand();
  keeper->ticks.RecordTick(emit::ClockNow());
}

void Complain(const pg::PendingError& error) {
  TimestampTz now = GetCurrentTimestamp();
  if (keeper->complained_at == 0 || TimestampDifferenceExceeds(keeper->complained_at, now, kComplainEveryMs)) {
    keeper->complained_at = now;
    pg::Report(LOG, "outbox keeper", error);
  }
}

// Nothing to keep here: the launcher does not bring the keeper back until it is asked to look again.
[[noreturn]] void LeaveFor(Presence presence) {
  if (presence == Presence::kForeign) {
    ereport(WARNING,
            (errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
             errmsg("outbox publishes nothing from database %u: it is a copy", MyDatabaseId),
             errdetail("outbox.identity names another server, database or outbox.instance."),
             errhint("If events of this database are to be published from here, call outbox.adopt() in it; after "
                     "pg_upgrade, or in the original's place, outbox.adopt(keep_positions => true).")));
  }
  proc_exit(0);
}

// Waits until there is a reason for the next cycle. Commits wake the keeper at most once a cycle: while its pending
// flag is set they pass it by.
void Rest(uint32 wait_event) {
  pgstat_report_activity(STATE_IDLE, "idle");
  pg_atomic_write_u32(&MySlot()->pending, 1);
  TimestampTz start = GetCurrentTimestamp();
  bool quiet = true;
  const long busy = keeper->changes.under_way > 0 ? kChangingMs : kBusyMs;
  const long idle = keeper->changes.waiting > 0 ? busy : keeper->changes.under_way > 0 ? kChangingMs : kIdleMs;
  while (!StopRequested()) {
    long passed = TimestampDifferenceMilliseconds(start, GetCurrentTimestamp());
    if (passed >= idle || pg_atomic_read_u64(&keeper->slot->config_generation) != keeper->generation) {
      return;
    }
    if (passed >= busy) {
      if (quiet) {
        pg_atomic_write_u32(&MySlot()->pending, 0);
        quiet = false;
        pg_memory_barrier();
      }
      if (pg_atomic_read_u64(&keeper->slot->emitting_commits) != keeper->commits) {
        return;
      }
    }
    pg::WaitForLatch((passed < busy ? busy : idle) - passed, wait_event);
    bool reload = ConfigReloadPending;
    ProcessInterruptsBetweenTurns();
    if (reload) {
      keeper->next_upkeep = 0;
      return;
    }
  }
}

void KeeperMain() {
  SlotTicket ticket = BecomeWorker();
  OUTBOX_FAULT_POINT("keeper.start");
  keeper = new KeeperState;
  keeper->database = ticket.database;
  keeper->slot = pg::FindDatabaseSlot(ticket.database, true);
  if (keeper->slot == nullptr) {
    ereport(FATAL, (errcode(ERRCODE_CONFIGURATION_LIMIT_EXCEEDED),
                    errmsg("no room for database %u in the shared memory of outbox", ticket.database),
                    errhint("Raise outbox.max_databases.")));
  }
  uint32 wait_event = pg::WaitEventFor("OutboxKeeperMain");
  MemoryContext context = AllocSetContextCreate(TopMemoryContext, "outbox keeper turn", ALLOCSET_DEFAULT_SIZES);
  while (!StopRequested()) {
    MemoryContextSwitchTo(context);
    MemoryContextReset(context);
    pg::PendingError error;
    if (!pg::Attempt([context] { Cycle(context); }, &error)) {
      if (!StopRequested()) {
        Complain(error);
      }
    } else if (keeper->presence != Presence::kHere && keeper->presence != Presence::kOtherVersion) {
      LeaveFor(keeper->presence);
    }
    MemoryContextSwitchTo(context);
    Rest(wait_event);
  }
  LeaveClock(context);
  proc_exit(0);
}

}  // namespace

}  // namespace outbox::worker

extern "C" PGDLLEXPORT void outbox_keeper_main(Datum) {
  outbox::pg::Entry([] { outbox::worker::KeeperMain(); });
}
