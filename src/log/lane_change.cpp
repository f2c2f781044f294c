#include "log/lane_change.h"

#include <cstdint>
#include <string_view>
#include <vector>

#include "base/fault_point.h"
#include "base/uuid.h"
#include "emit/clock.h"
#include "format/route_spec.h"
#include "log/arguments.h"
#include "log/lane_tables.h"
#include "log/position_sql.h"
#include "log/statement.h"
#include "pg/transaction.h"

namespace outbox::log {

namespace {

int32 Count(uint64 row, int column) {
  bool isnull = false;
  return DatumGetInt32(ResultDatum(row, column, &isnull));
}

void ReadChangingRoutes(std::vector<int64_t>* routes) {
  static Statement changing = {
      "SELECT id FROM outbox.route WHERE lanes_wanted IS NOT NULL ORDER BY id", 0, {}, nullptr};
  RunStatement(&changing, nullptr);
  routes->reserve(SPI_processed);
  for (uint64 row = 0; row < SPI_processed; row++) {
    bool isnull = false;
    routes->push_back(DatumGetInt64(ResultDatum(row, 0, &isnull)));
  }
}

struct Change {
  int64 route_id = 0;
  int32 wanted = 0;
  bool common = false;  // there is a common snapshot
};

// The route, then its lanes, as drop_route takes them; false when somebody else has one of them.
bool LockRoute(Change* change) {
  // A lock that lets events be parked meanwhile.
  static Statement route = {
      "SELECT lanes_wanted, common_snapshot IS NOT NULL FROM outbox.route WHERE id OPERATOR(pg_catalog.=) $1"
      " AND lanes_wanted IS NOT NULL FOR NO KEY UPDATE SKIP LOCKED",
      1,
      {INT8OID},
      nullptr};
  static Statement lanes = {
      "SELECT lane FROM outbox.lane WHERE route_id OPERATOR(pg_catalog.=) $1 ORDER BY lane FOR UPDATE SKIP LOCKED",
      1,
      {INT8OID},
      nullptr};
  static Statement all = {
      "SELECT count(*)::int FROM outbox.lane WHERE route_id OPERATOR(pg_catalog.=) $1", 1, {INT8OID}, nullptr};
  Datum values[] = {Int64GetDatum(change->route_id)};
  RunStatement(&route, values);
  if (SPI_processed == 0) {
    return false;
  }
  bool isnull = false;
  change->wanted = Count(0, 0);
  change->common = DatumGetBool(ResultDatum(0, 1, &isnull));
  RunStatement(&lanes, values);
  uint64 locked = SPI_processed;
  RunStatement(&all, values);
  return static_cast<uint64>(Count(0, 0)) == locked;
}

// Lanes that a live worker owns: it may be reading on.
int OwnedLanes(const Change& change) {
  static Statement owned = {
      "SELECT count(*)::int FROM outbox.lane WHERE route_id OPERATOR(pg_catalog.=) $1"
      " AND owner OPERATOR(pg_catalog.=) ANY ($2)",
      2,
      {INT8OID, INT8ARRAYOID},
      nullptr};
  Datum values[] = {Int64GetDatum(change.route_id), LiveIncarnations()};
  RunStatement(&owned, values);
  return Count(0, 0);
}

void SetCommonSnapshot(const Change& change) {
  static Statement set = {
      "UPDATE outbox.route SET common_snapshot = pg_catalog.pg_current_snapshot() WHERE id OPERATOR(pg_catalog.=) $1",
      1,
      {INT8OID},
      nullptr};
  Datum values[] = {Int64GetDatum(change.route_id)};
  RunStatement(&set, values);
}

// Lanes, and side lanes, whose saved position is not the common snapshot. A side lane that stands there has nothing
// left: it goes with its lane, and if its topic is still in trouble, that leaves the new one.
int LanesUnderWay(int64 route_id) {
  static Statement elsewhere = {
      "SELECT count(*)::int FROM " OUTBOX_POSITIONS
      " l JOIN outbox.route r ON r.id OPERATOR(pg_catalog.=) l.route_id"
      " WHERE l.route_id OPERATOR(pg_catalog.=) $1 AND (r.common_snapshot IS NULL"
      " OR r.common_snapshot::text OPERATOR(pg_catalog.<>) l.window_from::text OR l.window_to IS NOT NULL)",
      1,
      {INT8OID},
      nullptr};
  Datum values[] = {Int64GetDatum(route_id)};
  RunStatement(&elsewhere, values);
  return Count(0, 0);
}

// Somebody is sending parked events of the route. Lanes that rest at the common snapshot begin with no more of them.
bool InHand(int64 route_id) {
  static Statement sent = {
      "SELECT FROM outbox.parked WHERE route_id OPERATOR(pg_catalog.=) $1 AND due_at IS NOT NULL"
      " AND sender OPERATOR(pg_catalog.=) ANY ($2) LIMIT 1",
      2,
      {INT8OID, INT8ARRAYOID},
      nullptr};
  Datum values[] = {Int64GetDatum(route_id), LiveIncarnations()};
  RunStatement(&sent, values);
  return SPI_processed > 0;
}

// Parked events belong to the lane that their key belongs to. In portions: there may be a million.
void MoveParked(const Change& change) {
  constexpr uint64 kPortion = 2000;
  static Statement parked = {
      "SELECT created_at, id, replay, pg_catalog.convert_to(aggregate_id, 'UTF8'), lane FROM outbox.parked"
      " WHERE route_id OPERATOR(pg_catalog.=) $1"
      " AND ROW(created_at, id, replay) OPERATOR(pg_catalog.>) ROW($2, $3, $4)"
      " ORDER BY created_at, id, replay LIMIT $5",
      5,
      {INT8OID, TIMESTAMPTZOID, UUIDOID, INT8OID, INT8OID},
      nullptr};
  static Statement move = {
      "UPDATE outbox.parked p SET lane = k.lane FROM ROWS FROM (pg_catalog.unnest($2), pg_catalog.unnest($3),"
      " pg_catalog.unnest($4), pg_catalog.unnest($5)) k(created_at, id, replay, lane)"
      " WHERE p.route_id OPERATOR(pg_catalog.=) $1 AND p.created_at OPERATOR(pg_catalog.=) k.created_at"
      " AND p.id OPERATOR(pg_catalog.=) k.id AND p.replay OPERATOR(pg_catalog.=) k.replay",
      5,
      {INT8OID, TIMESTAMPTZARRAYOID, UUIDARRAYOID, INT8ARRAYOID, INT4ARRAYOID},
      nullptr};
  Datum after[] = {Int64GetDatum(change.route_id), TimestampTzGetDatum(DT_NOBEGIN), UuidDatum(Uuid{}),
                   Int64GetDatum(PG_INT64_MIN), Int64GetDatum(kPortion)};
  for (uint64 rows = kPortion; rows == kPortion;) {
    CHECK_FOR_INTERRUPTS();
    RunStatement(&parked, after);
    SPITupleTable* read = SPI_tuptable;
    rows = SPI_processed;
    Column created_at(rows);
    Column id(rows);
    Column replay(rows);
    Column lane(rows);
    for (uint64 row = 0; row < rows; row++) {
      bool isnull = false;
      after[1] = ResultDatum(row, 0, &isnull);
      Uuid uuid;
      memcpy(uuid.data(), DatumGetUUIDP(ResultDatum(row, 1, &isnull))->data, uuid.size());
      after[2] = UuidDatum(uuid);
      after[3] = ResultDatum(row, 2, &isnull);
      Datum key = ResultDatum(row, 3, &isnull);
      std::string_view aggregate_id;
      if (!isnull) {
        bytea* bytes = DatumGetByteaPP(key);
        aggregate_id = {VARDATA_ANY(bytes), static_cast<size_t>(VARSIZE_ANY_EXHDR(bytes))};
      }
      auto belongs = static_cast<int32>(format::LaneOf(aggregate_id, uuid, static_cast<uint32>(change.wanted)));
      if (belongs != Count(row, 4)) {
        created_at.Add(after[1]);
        id.Add(after[2]);
        replay.Add(after[3]);
        lane.Add(Int32GetDatum(belongs));
      }
    }
    if (lane.count > 0) {
      Datum values[] = {after[0], created_at.Array(TIMESTAMPTZOID), id.Array(UUIDOID), replay.Array(INT8OID),
                        lane.Array(INT4OID)};
      RunStatement(&move, values);
    }
    SPI_freetuptable(read);
  }
}

void ExchangeLanes(const Change& change) {
  static Statement remove = {"DELETE FROM outbox.lane WHERE route_id OPERATOR(pg_catalog.=) $1", 1, {INT8OID}, nullptr};
  static Statement add = {
      "INSERT INTO outbox.lane (route_id, lane, since, window_from)"
      " SELECT r.id, n, $2, r.common_snapshot FROM outbox.route r,"
      " pg_catalog.generate_series(0, r.lanes_wanted OPERATOR(pg_catalog.-) 1) n"
      " WHERE r.id OPERATOR(pg_catalog.=) $1",
      2,
      {INT8OID, TIMESTAMPTZOID},
      nullptr};
  static Statement finish = {
      "UPDATE outbox.route SET lanes = lanes_wanted, lanes_wanted = NULL, common_snapshot = NULL"
      " WHERE id OPERATOR(pg_catalog.=) $1",
      1,
      {INT8OID},
      nullptr};
  Datum values[] = {Int64GetDatum(change.route_id), TimestampTzGetDatum(emit::TakeReadings(1) - kPgEpochMicros)};
  RunStatement(&remove, values);
  RunStatement(&add, values);
  RunStatement(&finish, values);
  MoveParked(change);
}

// One step of one route, if it can be taken; *done: it was the last.
bool Step(int64 route_id, bool* done) {
  *done = false;
  Change change;
  change.route_id = route_id;
  if (!LockRoute(&change)) {
    return false;
  }
  if (!change.common) {
    if (OwnedLanes(change) > 0) {
      return false;
    }
    SetCommonSnapshot(change);
  }
  // Where nothing has happened since, the lanes are there already and need no worker.
  *done = LanesUnderWay(route_id) == 0 && !InHand(route_id);
  if (*done) {
    ExchangeLanes(change);
  }
  return *done || !change.common;
}

}  // namespace

LaneChanges AdvanceLaneChanges() {
  LaneChanges changes;
  std::vector<int64_t> routes;
  MemoryContext context = CurrentMemoryContext;
  pg::InTransaction(context, [&] { ReadChangingRoutes(&routes); });
  for (int64_t route_id : routes) {
    bool changed = false;
    bool done = false;
    pg::InTransaction(context, [&] {
      changed = Step(route_id, &done);
      OUTBOX_FAULT_POINT("lanes.uncommitted");
    });
    changes.changed = changes.changed || changed;
    changes.under_way += done ? 0 : 1;
  }
  return changes;
}

}  // namespace outbox::log
