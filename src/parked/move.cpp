#include "parked/move.h"

#include <string_view>

#include "base/uuid.h"
#include "format/route_spec.h"
#include "parked/rows.h"
#include "pg/sql.h"

namespace outbox::parked {

using namespace pg::sql;

namespace {

constexpr uint64 kPortion = 2000;

// Rows that belong to another lane than the one they are in.
struct Moving {
  explicit Moving(uint64 count) : rows(count), lane(count) {}
  RowColumns rows;
  Column lane;
};

bool Lock(int64 route_id, Moving* moving) {
  static Statement lock = {
      "SELECT FROM ROWS FROM (unnest($2), unnest($3), unnest($4))"
      " k(created_at, id, replay) JOIN outbox_internal.parked p ON p.route_id = $1"
      " AND p.created_at = k.created_at AND p.id = k.id"
      " AND p.replay = k.replay FOR NO KEY UPDATE OF p SKIP LOCKED",
      4,
      {INT8OID, TIMESTAMPTZARRAYOID, UUIDARRAYOID, INT8ARRAYOID},
      nullptr};
  Arguments arguments;
  arguments.Add(Int64GetDatum(route_id));
  moving->rows.AddTo(&arguments);
  RunStatement(&lock, arguments.values);
  return SPI_processed == static_cast<uint64>(moving->lane.count);
}

bool Move(int64 route_id, Moving* moving) {
  static Statement move = {
      "UPDATE outbox_internal.parked p SET lane = k.lane FROM ROWS FROM (unnest($2), unnest($3),"
      " unnest($4), unnest($5)) k(created_at, id, replay, lane)"
      " WHERE p.route_id = $1 AND p.created_at = k.created_at"
      " AND p.id = k.id AND p.replay = k.replay",
      5,
      {INT8OID, TIMESTAMPTZARRAYOID, UUIDARRAYOID, INT8ARRAYOID, INT4ARRAYOID},
      nullptr};
  Arguments arguments;
  arguments.Add(Int64GetDatum(route_id));
  moving->rows.AddTo(&arguments);
  arguments.Add(moving->lane.Array(INT4OID));
  RunStatement(&move, arguments.values);
  return true;
}

// Ends when `handle` returns false.
bool ForEachPortion(int64 route_id, int32 lanes, bool (*handle)(int64, Moving*)) {
  static Statement parked = {
      "SELECT created_at, id, replay, convert_to(aggregate_id, 'UTF8'), lane FROM outbox_internal.parked"
      " WHERE route_id = $1"
      " AND ROW(created_at, id, replay) > ROW($2, $3, $4)"
      " ORDER BY created_at, id, replay LIMIT $5",
      5,
      {INT8OID, TIMESTAMPTZOID, UUIDOID, INT8OID, INT8OID},
      nullptr};
  Datum after[] = {Int64GetDatum(route_id), TimestampTzGetDatum(DT_NOBEGIN), UuidDatum(Uuid{}),
                   Int64GetDatum(PG_INT64_MIN), Int64GetDatum(kPortion)};
  for (uint64 rows = kPortion; rows == kPortion;) {
    CHECK_FOR_INTERRUPTS();
    RunStatement(&parked, after);
    SPITupleTable* read = SPI_tuptable;
    rows = SPI_processed;
    Moving moving(rows);
    for (uint64 row = 0; row < rows; row++) {
      bool isnull = false;
      after[1] = ResultDatum(row, 0, &isnull);
      const Uuid uuid = ResultUuid(row, 1);
      after[2] = UuidDatum(uuid);
      after[3] = ResultDatum(row, 2, &isnull);
      Datum key = ResultDatum(row, 3, &isnull);
      std::string_view aggregate_id;
      if (!isnull) {
        bytea* bytes = DatumGetByteaPP(key);
        aggregate_id = {VARDATA_ANY(bytes), static_cast<size_t>(VARSIZE_ANY_EXHDR(bytes))};
      }
      auto belongs = static_cast<int32>(format::LaneOf(aggregate_id, uuid, static_cast<uint32>(lanes)));
      if (belongs != ResultInt32(row, 4)) {
        moving.rows.Add(after[1], after[2], after[3]);
        moving.lane.Add(Int32GetDatum(belongs));
      }
    }
    const bool going = moving.lane.count == 0 || handle(route_id, &moving);
    SPI_freetuptable(read);
    if (!going) {
      return false;
    }
  }
  return true;
}

}  // namespace

bool LockParkedToMove(int64 route_id, int32 lanes) {
  return ForEachPortion(route_id, lanes, Lock);
}

void MoveParked(int64 route_id, int32 lanes) {
  ForEachPortion(route_id, lanes, Move);
}

}  // namespace outbox::parked
