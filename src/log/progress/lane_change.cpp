#include "log/progress/lane_change.h"

#include <algorithm>
#include <cstdint>
#include <exception>
#include <vector>

#include "base/fault_point.h"
#include "base/monotonic.h"
#include "log/progress/lane_tables.h"
#include "parked/move.h"
#include "pg/clock.h"
#include "pg/shared.h"
#include "pg/sql.h"
#include "pg/transaction.h"
#include "pg/worker_slot.h"

namespace outbox::log {

using namespace pg::sql;

namespace {

void ReadChangingRoutes(std::vector<int64_t>* routes) {
  static Statement changing = {
      "SELECT id FROM outbox.route WHERE lanes_wanted IS NOT NULL ORDER BY id", 0, {}, nullptr};
  RunStatement(&changing, nullptr);
  routes->reserve(SPI_processed);
  for (uint64 row = 0; row < SPI_processed; row++) {
    routes->push_back(ResultInt64(row, 0));
  }
}

// The lanes that have arrived wait for the others: for seconds, and for less time than they work.
constexpr int64 kMostAllowed = 10 * USECS_PER_SEC;
constexpr int64 kPause = 2 * USECS_PER_SEC;  // at least, after a change was given up
constexpr int64 kLongestPause = 60 * USECS_PER_SEC;
constexpr int64 kNear = 3 * USECS_PER_SEC;  // what all lanes deliver within this is near the end of the log
constexpr int64 kAskedFast = 300 * USECS_PER_SEC / 1000;  // most lanes say so at once

struct Change {
  int64 route_id = 0;
  int32 wanted = 0;
  TimestampTz begun = 0;  // 0: it has not
  bool common = false;    // there is a common snapshot
  bool sides = false;     // topics have left their lanes
};

// Returns false if another transaction has it locked.
bool LockRoute(Change* change) {
  // A lock that lets events be parked meanwhile.
  static Statement route = {
      "SELECT r.lanes_wanted, r.common_snapshot IS NOT NULL, r.lanes_begun,"
      " EXISTS (SELECT FROM outbox_internal.side_lane s WHERE s.route_id = r.id)"
      " FROM outbox.route r WHERE r.id = $1 AND r.lanes_wanted IS NOT NULL"
      " FOR NO KEY UPDATE OF r SKIP LOCKED",
      1,
      {INT8OID},
      nullptr};
  Datum values[] = {Int64GetDatum(change->route_id)};
  RunStatement(&route, values);
  if (SPI_processed == 0) {
    return false;
  }
  change->wanted = ResultInt32(0, 0);
  change->common = ResultBool(0, 1);
  change->begun = ResultTime(0, 2);
  change->sides = ResultBool(0, 3);
  return true;
}

// Locks all lanes, in the order in which drop_route does; returns false if another transaction has one locked.
bool LockLanes(const Change& change) {
  static Statement lanes = {
      "SELECT lane FROM outbox_internal.lane WHERE route_id = $1 ORDER BY lane FOR UPDATE SKIP LOCKED",
      1,
      {INT8OID},
      nullptr};
  static Statement all = {"SELECT count(*)::int FROM outbox_internal.lane WHERE route_id = $1", 1, {INT8OID}, nullptr};
  Datum values[] = {Int64GetDatum(change.route_id)};
  RunStatement(&lanes, values);
  uint64 locked = SPI_processed;
  RunStatement(&all, values);
  return static_cast<uint64>(ResultInt32(0, 0)) == locked;
}

void Begin(const Change& change) {
  static Statement begin = {
      "UPDATE outbox.route SET lanes_begun = clock_timestamp(), common_snapshot = NULL"
      " WHERE id = $1",
      1,
      {INT8OID},
      nullptr};
  Datum values[] = {Int64GetDatum(change.route_id)};
  RunStatement(&begin, values);
}

// Gives the change up: the lanes go on, until it begins again.
void GiveUp(const Change& change) {
  static Statement give_up = {
      "UPDATE outbox.route SET lanes_begun = NULL, common_snapshot = NULL WHERE id = $1", 1, {INT8OID}, nullptr};
  Datum values[] = {Int64GetDatum(change.route_id)};
  RunStatement(&give_up, values);
}

// How many lanes a live worker owns: it may still be reading.
int OwnedLanes(const Change& change) {
  static Statement owned = {
      "SELECT count(*)::int FROM outbox_internal.lane WHERE route_id = $1"
      " AND owner = ANY ($2)",
      2,
      {INT8OID, INT8ARRAYOID},
      nullptr};
  Datum values[] = {Int64GetDatum(change.route_id), pg::LiveIncarnations()};
  RunStatement(&owned, values);
  return ResultInt32(0, 0);
}

// Whether every lane has delivered or parked all that was committed when the barrier was asked for. While no worker has
// any, nothing flows that could be disturbed; a worker without a slot for the lane in shared memory cannot report, and
// is not waited for here.
bool AllNear(const Change& change, uint64 barrier) {
  static Statement lanes = {"SELECT lane, owner = ANY ($2) FROM outbox_internal.lane WHERE route_id = $1",
                            2,
                            {INT8OID, INT8ARRAYOID},
                            nullptr};
  Datum values[] = {Int64GetDatum(change.route_id), pg::LiveIncarnations()};
  RunStatement(&lanes, values);
  uint64 owned = 0;
  bool near = true;
  for (uint64 row = 0; row < SPI_processed; row++) {
    const int32 lane = ResultInt32(row, 0);
    if (!ResultBool(row, 1)) {
      continue;
    }
    owned++;
    LWLockAcquire(pg::Shared()->lock, LW_SHARED);
    for (int i = 0; i < pg::Shared()->max_lanes; i++) {
      pg::LaneSlot& slot = pg::Lanes()[i];
      if (slot.database == MyDatabaseId && slot.view.id == LaneId{change.route_id, lane}) {
        near = near && pg_atomic_read_u64(&slot.barrier) >= barrier;
      }
    }
    LWLockRelease(pg::Shared()->lock);
  }
  return owned == 0 || (near && owned == SPI_processed);
}

void AskForBarrier(LaneChangeState* state, int64_t now) {
  pg::DatabaseSlot* slot = pg::FindDatabaseSlot(MyDatabaseId, false);
  state->barrier = slot == nullptr ? 0 : pg::AskForBarrier(slot);
  state->asked_at = now;
}

void SetCommonSnapshot(const Change& change) {
  static Statement set = {"UPDATE outbox.route SET common_snapshot = pg_catalog.pg_current_snapshot() WHERE id = $1",
                          1,
                          {INT8OID},
                          nullptr};
  Datum values[] = {Int64GetDatum(change.route_id)};
  RunStatement(&set, values);
}

// How many lanes (and side lanes that were made just now) have a saved position other than the common snapshot.
int LanesUnderWay(int64 route_id) {
  static Statement elsewhere = {
      "SELECT count(*)::int FROM outbox_internal.position l"
      " JOIN outbox.route r ON r.id = l.route_id"
      " WHERE l.route_id = $1 AND (r.common_snapshot IS NULL"
      " OR r.common_snapshot::text <> l.window_from::text OR l.window_to IS NOT NULL)",
      1,
      {INT8OID},
      nullptr};
  Datum values[] = {Int64GetDatum(route_id)};
  RunStatement(&elsewhere, values);
  return ResultInt32(0, 0);
}

// Whether a worker is sending parked events of the route. Lanes that stand at the common snapshot claim no more of
// them.
bool InHand(int64 route_id) {
  static Statement sent = {
      "SELECT FROM outbox_internal.parked WHERE route_id = $1 AND due_at IS NOT NULL"
      " AND sender = ANY ($2) LIMIT 1",
      2,
      {INT8OID, INT8ARRAYOID},
      nullptr};
  Datum values[] = {Int64GetDatum(route_id), pg::LiveIncarnations()};
  RunStatement(&sent, values);
  return SPI_processed > 0;
}

void ExchangeLanes(const Change& change) {
  static Statement remove = {"DELETE FROM outbox_internal.lane WHERE route_id = $1", 1, {INT8OID}, nullptr};
  static Statement add = {
      "INSERT INTO outbox_internal.lane (route_id, lane, since, window_from, home)"
      " SELECT r.id, n, $2, r.common_snapshot, outbox_internal.home() FROM outbox.route r,"
      " generate_series(0, r.lanes_wanted - 1) n"
      " WHERE r.id = $1",
      2,
      {INT8OID, TIMESTAMPTZOID},
      nullptr};
  static Statement finish = {
      "UPDATE outbox.route SET lanes = lanes_wanted, lanes_wanted = NULL, lanes_begun = NULL, common_snapshot = NULL"
      " WHERE id = $1",
      1,
      {INT8OID},
      nullptr};
  static Statement note = {
      "SELECT outbox_internal.note_lane_start(r.id, $2, 'lanes', r.common_snapshot) FROM outbox.route r WHERE r.id = "
      "$1",
      2,
      {INT8OID, TIMESTAMPTZOID},
      nullptr};
  Datum values[] = {Int64GetDatum(change.route_id), TimeDatum(pg::TakeReadings(1))};
  RunStatement(&note, values);
  RunStatement(&remove, values);
  RunStatement(&add, values);
  RunStatement(&finish, values);
  parked::MoveParked(change.route_id, change.wanted);
}

enum class Step {
  kNone,
  kTaken,   // a step was taken, and what workers read of the route has changed
  kNotNow,  // the change has to be given up
  kLast,    // the lanes have been exchanged
};

// One step of a change that has begun.
Step Advance(const Change& change) {
  if (change.sides) {
    return Step::kNotNow;  // lanes that are there already would wait for a topic in trouble
  }
  if (!LockLanes(change)) {
    return Step::kNone;
  }
  if (!change.common) {
    if (OwnedLanes(change) > 0) {
      return Step::kNone;
    }
    SetCommonSnapshot(change);
  }
  // If nothing was emitted since, the lanes stand there already and need no worker.
  if (LanesUnderWay(change.route_id) > 0 || InHand(change.route_id)) {
    return change.common ? Step::kNone : Step::kTaken;
  }
  if (!parked::LockParkedToMove(change.route_id, change.wanted)) {
    return Step::kNotNow;
  }
  ExchangeLanes(change);
  return Step::kLast;
}

// One step of one route, if it can be taken.
Step Advance(int64 route_id, LaneChangeState* state) {
  Change change;
  change.route_id = route_id;
  if (!LockRoute(&change)) {
    return Step::kNone;
  }
  const int64_t now = MonotonicMicros();
  if (change.begun == 0) {
    state->began = 0;
    if (now < state->not_before || change.sides) {
      return Step::kNone;
    }
    if (state->barrier == 0 || now - state->asked_at > kNear) {
      AskForBarrier(state, now);
    }
    if (!AllNear(change, state->barrier)) {
      return Step::kNone;
    }
    Begin(change);
    state->barrier = 0;
    state->began = now;
    return Step::kTaken;
  }
  state->began = state->began == 0 ? now : state->began;  // an earlier keeper began it
  Step step = Advance(change);
  const int64_t stood = now - state->began;
  if (step == Step::kNone && stood > state->allowed) {
    state->allowed = Min(state->allowed * 3 / 2, kMostAllowed);
    step = Step::kNotNow;
  }
  if (step == Step::kNotNow) {
    state->began = 0;
    state->pause = Max(Min(Max(2 * state->pause, kPause), kLongestPause), 2 * stood);
    state->not_before = now + state->pause;
    GiveUp(change);
  }
  return step;
}

}  // namespace

LaneChanges AdvanceLaneChanges(std::map<int64_t, LaneChangeState>* lane_changes) {
  LaneChanges changes;
  std::vector<int64_t> routes;
  MemoryContext context = CurrentMemoryContext;
  pg::InTransaction(context, [&] { ReadChangingRoutes(&routes); });
  std::erase_if(*lane_changes, [&](const auto& state) {
    return std::find(routes.begin(), routes.end(), state.first) == routes.end();
  });
  std::exception_ptr first;
  for (int64_t route_id : routes) {
    Step step = Step::kNone;
    LaneChangeState* state = &(*lane_changes)[route_id];
    try {
      pg::InTransaction(context, [&] {
        step = Advance(route_id, state);
        OUTBOX_FAULT_POINT("lanes.uncommitted");
      });
    } catch (const pg::PgError&) {
      first = first ? first : std::current_exception();  // the other routes still get their turn
      step = Step::kNone;
    }
    changes.changed = changes.changed || step != Step::kNone;
    changes.under_way += step != Step::kLast && state->began != 0 ? 1 : 0;
    changes.waiting += step != Step::kLast && state->began == 0 ? 1 : 0;
    changes.asked = changes.asked || (state->barrier != 0 && MonotonicMicros() - state->asked_at < kAskedFast);
  }
  changes.error = first;
  return changes;
}

}  // namespace outbox::log
