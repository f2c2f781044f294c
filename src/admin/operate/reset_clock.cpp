// outbox.reset_clock() [P]: the clock of events goes back to the wall clock.
//
// All that is ordered or found by that clock must stay correct. Events: earlier ones have to be delivered first,
// because a window sorts by the clock, and no transaction may straddle the moment. Positions: the newest row of
// outbox_internal.progress is the one with the latest time, so they are put into the lanes' own rows, as seek() does,
// and what is dated after the new time goes. History (what became of parked events, and where lanes began anew): what
// comes next is compared with it by time, so it is put right before that, in its order. Day tables of days that were
// over and now are not: pg/clock.h, ClockResets().
#include "admin/common/operation.h"
#include "admin/common/procedure_arguments.h"
#include "admin/common/write_lock.h"
#include "admin/lookup/backlog.h"
#include "admin/lookup/processes.h"
#include "admin/lookup/shared_views.h"
#include "base/fault_point.h"
#include "base/monotonic.h"
#include "days/day_table_ddl.h"
#include "pg/clock.h"
#include "pg/entry.h"
#include "pg/schemas.h"
#include "pg/transaction_end.h"
#include "pg/wait.h"
#include "pg/wall.h"

extern "C" {
#include "access/xact.h"
#include "catalog/namespace.h"
#include "storage/lmgr.h"
#include "utils/backend_status.h"
#include "utils/lsyscache.h"
}

namespace {

using namespace outbox::admin;
using outbox::pg::Guard;
using outbox::pg::UserError;

constexpr int64 kWaitMicros = 10 * USECS_PER_SEC;
constexpr int64 kHoldMicros = USECS_PER_SEC;  // emitters wait no longer than that
constexpr long kNapMs = 50;
constexpr int64 kScanLimit = 10000;

// Transactions of this database that have emitted, or may be about to with a reading that they have already: those that
// have an xid and run a statement that waits neither for the clock nor for a row lock. Workers of outbox are left out:
// what they date is not ordered.
constexpr const char* kWriters =
    "SELECT coalesce('process ' || l.pid::text, 'prepared transaction ' || "
    "  (SELECT p.gid FROM pg_prepared_xacts p WHERE p.transaction = l.transactionid)) "
    "FROM pg_locks l LEFT JOIN pg_stat_activity a ON a.pid = l.pid "
    "WHERE l.locktype = 'transactionid' AND l.mode = 'ExclusiveLock' AND l.granted "
    "AND l.pid IS DISTINCT FROM pg_backend_pid() AND coalesce(a.backend_type, '') NOT LIKE 'outbox %' "
    "AND (EXISTS (SELECT FROM pg_locks t JOIN pg_database d ON d.oid = t.database AND d.datname = current_database() "
    "  JOIN outbox_internal.log_table g ON g.relation = t.relation "
    "  WHERE t.virtualtransaction = l.virtualtransaction AND t.locktype = 'relation' AND t.mode = 'RowExclusiveLock') "
    " OR (a.datname = current_database() AND coalesce(a.state, 'active') NOT LIKE 'idle%' "
    "  AND NOT EXISTS (SELECT FROM pg_locks t WHERE t.pid = l.pid AND NOT t.granted AND (t.locktype IN "
    "('transactionid', 'tuple') "
    "   OR (t.locktype = 'object' AND t.objid = 'outbox_internal.clock_ceiling'::regclass AND t.objsubid = 1))))) "
    "LIMIT 1";

// Parked events behind which later events of their key wait, by created_at.
constexpr const char* kHolding = "SELECT count(*) FROM outbox_internal.holding h WHERE h.created_at > $1::timestamptz";

// What keeps the clock from being reset; empty: nothing. Anything but a `writer` can be overridden by force.
struct Obstacle {
  std::string text;
  bool writer = false;
};

// Keeps workers from saving progress until the lanes have lost their owners. Emitters wait for the clock that is held
// here, and not for whoever has that table locked; and it is as strong a lock as the DELETE below needs, for who takes
// a stronger one later may wait for another who does.
bool LockProgress() {
  return Guard(
      [] { return ConditionalLockRelationOid(outbox::pg::FindOurRelation("progress"), ShareRowExclusiveLock); });
}

// Who has a reading from before the clock was held and no lock on the log yet is in the statement that emits, and is
// found by that: by what sessions do now, for the server remembers until the transaction ends what they did when it was
// first asked. It reads sessions and locks one after the other. Who comes to its lock between the two has it at the
// second look.
Cell FindWriter() {
  Guard([] { pgstat_clear_backend_activity_snapshot(); });
  std::vector<Row> writers = RunSql(Access::kWrite, kWriters);
  if (writers.empty()) {
    writers = RunSql(Access::kWrite, kWriters);
  }
  return writers.empty() ? Cell() : Cell(writers[0][0].value_or("?"));
}

Obstacle FindObstacle(int64 now, bool force) {
  if (const Cell writer = FindWriter()) {
    return {"A transaction that has emitted, or may be about to, is under way: " + *writer + ".", true};
  }
  if (force) {
    return {};
  }
  for (const std::vector<LaneRecord>& route : ByRoute(LoadLanes(std::nullopt, Access::kWrite))) {
    if (route[0].spec == nullptr) {
      return {"Route \"" + route[0].route + "\" cannot work: " + route[0].trouble + "."};
    }
    for (const LaneBacklog& backlog : CountBacklog(route, Access::kLatest, {.limit = kScanLimit, .parked = true})) {
      if (backlog.pending > 0 || backlog.capped) {
        return {"Route \"" + route[0].route + "\" has " + std::to_string(backlog.pending) +
                (backlog.capped ? " or more" : "") +
                (backlog.pending == 1 && !backlog.capped ? " undelivered event." : " undelivered events.")};
      }
    }
  }
  std::string holding = RunSql(Access::kWrite, kHolding, {UnixMicrosCell(now)})[0][0].value_or("0");
  return holding == "0" ? Obstacle()
                        : Obstacle{holding + (holding == "1" ? " parked event holds its key."
                                                             : " parked events hold their keys.")};
}

void Nap() {
  Guard([] {
    static uint32 wait_event = 0;
    if (wait_event == 0) {
      wait_event = outbox::pg::WaitEventFor("OutboxResetClock");
    }
    outbox::pg::WaitWhole(kNapMs, wait_event);  // emitters have all of it
  });
}

Obstacle LockOrFindObstacle(int64 now, bool force) {
  Obstacle obstacle = FindObstacle(now, force);
  return obstacle.text.empty() && !LockProgress() ? Obstacle{"Somebody has outbox_internal.progress locked.", true}
                                                  : obstacle;
}

// Takes hold of the clock, and returns with it held, progress locked and no obstacle left.
void HoldWhenQuiet(int64 now, bool force) {
  const int64 end = outbox::MonotonicMicros() + kWaitMicros - OUTBOX_FAULT_VALUE("reset.sooner");
  for (;;) {
    Guard([] { outbox::pg::HoldClock(); });
    const int64 release_at = outbox::MonotonicMicros() + kHoldMicros;
    Obstacle obstacle = LockOrFindObstacle(now, force);
    while (!obstacle.text.empty() && outbox::MonotonicMicros() < release_at) {
      Nap();
      obstacle = LockOrFindObstacle(now, force);
    }
    if (obstacle.text.empty()) {
      return;
    }
    Guard([] { outbox::pg::ReleaseClock(); });
    if (outbox::MonotonicMicros() >= end) {
      throw UserError{ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE, "cannot put the clock of events back now",
                      obstacle.text,
                      obstacle.writer ? "End it, and try again."
                                      : "Wait until all is delivered; outbox.reset_clock(force => true) does not wait, "
                                        "and such events may arrive after later ones of their key."};
    }
    Nap();
  }
}

// What becomes of parked events at that time has a table. Made before the clock is held: it may wait for others.
void MakeOutcomeTables(int64 now) {
  Guard([now] { outbox::days::EnsureDayTables(outbox::days::DayTableKind::kOutcome, now, now + USECS_PER_MINUTE); });
}

// Dates what is later than that from there on, a microsecond apart; returns what comes behind. The lanes have lost
// their owners before: those who were settling are through, and others settle nothing.
int64 PutHistoryBack(int64 now) {
  const std::vector<Row> rows =
      RunSql(Access::kWrite,
             "WITH later AS MATERIALIZED (SELECT t.at, $1::timestamptz + (row_number() OVER (ORDER BY t.at) - 1) * "
             "interval '1 microsecond' AS back FROM (SELECT o.at FROM outbox_internal.outcome o WHERE o.at >= "
             "$1::timestamptz UNION SELECT s.at FROM outbox_internal.lane_start s WHERE s.at >= $1::timestamptz) t), "
             "starts AS (UPDATE outbox_internal.lane_start s SET at = l.back FROM later l WHERE s.at = l.at), "
             "outcomes AS (UPDATE outbox_internal.outcome o SET at = l.back FROM later l WHERE o.at = l.at AND o.at >= "
             "$1::timestamptz) SELECT count(*) FROM later",
             {UnixMicrosCell(now)});
  return now + Number(rows[0][0]);
}

// Puts the lanes where they stand already, as seek() does.
void PutLanesWhereTheyStand(int64 now) {
  const std::vector<Cell> at = {UnixMicrosCell(now)};
  RunSql(Access::kWrite,
         "UPDATE outbox_internal.side_lane AS t SET window_from = p.window_from, window_to = p.window_to, done_to = "
         "p.done_to, "
         "since = $1::timestamptz FROM outbox_internal.side_lane_position p "
         "WHERE p.route_id = t.route_id AND p.lane = t.lane AND p.side = t.side",
         at);
  RunSql(
      Access::kWrite,
      "UPDATE outbox_internal.lane AS t SET window_from = p.window_from, window_to = p.window_to, done_to = p.done_to, "
      "since = $1::timestamptz, owner = NULL, claimed_at = NULL FROM outbox_internal.lane_position p "
      "WHERE p.route_id = t.route_id AND p.lane = t.lane",
      at);
  RunSql(Access::kWrite, "DELETE FROM outbox_internal.progress WHERE at >= $1::timestamptz", at);
  RunSql(Access::kWrite, "DELETE FROM outbox_internal.tick WHERE at >= $1::timestamptz", at);
}

}  // namespace

// outbox.reset_clock(force boolean) RETURNS interval: how far it went back.
OUTBOX_FUNCTION(outbox_reset_clock) {
  RequireWritable("outbox.reset_clock()");
  RequirePreload();
  const bool force = BooleanArgument(fcinfo, 0, "force");
  if (GetCurrentTransactionNestLevel() > 1) {
    throw UserError{ERRCODE_ACTIVE_SQL_TRANSACTION, "outbox.reset_clock() cannot run in a subtransaction", "",
                    "Call it outside of savepoints and blocks with EXCEPTION."};
  }
  if (IsolationUsesXactSnapshot()) {
    throw UserError{ERRCODE_ACTIVE_SQL_TRANSACTION,
                    "outbox.reset_clock() can run in isolation level READ COMMITTED only",
                    "It looks again and again at what others have committed meanwhile.",
                    "BEGIN ISOLATION LEVEL READ COMMITTED; SELECT outbox.reset_clock(); COMMIT; does it, whatever "
                    "default_transaction_isolation says."};
  }
  (void)RequirePlace();  // the clock stands there
  outbox::pg::BelieveWall();
  const int64 now = outbox::pg::RawWall();
  int64 ahead = Guard([] { return outbox::pg::LastReading(); }) - now;
  if (ahead > 0) {
    MakeOutcomeTables(now);
    LockToWrite({"side_lane", "lane", "tick", "lane_start", "outcome"});
    LockPartitionsToWrite("tick");
    LockPartitionsToWrite("outcome");
    LockPartitionsToWrite("progress");
    HoldWhenQuiet(now, force);
    ahead = std::max<int64>(Guard([] { return outbox::pg::LastReading(); }) - now, 0);
    PutLanesWhereTheyStand(now);
    const int64 to = PutHistoryBack(now);
    WriteAudit("reset_clock", Cell(), Cell(),
               JsonObject().Add("ahead_seconds", ahead / USECS_PER_SEC).Add("force", force ? "true" : "false"), Cell());
    Guard([&] { outbox::pg::ResetClockAtCommit(to); });
    outbox::pg::NoteConfigChange();
    outbox::pg::NoteParkedChange();
    Notice(
        "events emitted from now on may have an earlier created_at than those before",
        "Consumers that keep the newest value of a key drop such an event, for as long as the clock went back.",
        "When they have handled what was emitted before: SELECT outbox.reprocess('...', now()) with the name of each, "
        "in its database.");
  }
  Interval* back = Guard([] { return static_cast<Interval*>(palloc0(sizeof(Interval))); });
  back->time = std::max<int64>(ahead, 0);
  PG_RETURN_INTERVAL_P(back);
}
