#include "parked/move.h"

#include <string_view>

#include "base/uuid.h"
#include "format/route_spec.h"
#include "parked/portions.h"
#include "pg/sql.h"

namespace outbox::parked {

using namespace pg::sql;

namespace {

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
bool ForEachMoving(int64 route_id, int32 lanes, bool (*handle)(int64, Moving*)) {
  static Statement parked = {
      "SELECT created_at, id, replay, convert_to(aggregate_id, 'UTF8'), lane FROM outbox_internal.parked"
      " WHERE route_id = $1"
      " AND ROW(created_at, id, replay) > ROW($2, $3, $4)"
      " ORDER BY created_at, id, replay LIMIT $5",
      5,
      {INT8OID, TIMESTAMPTZOID, UUIDOID, INT8OID, INT8OID},
      nullptr};
  return ForEachPortion(&parked, route_id, Datum(0), [&](uint64 rows) {
    Moving moving(rows);
    for (uint64 row = 0; row < rows; row++) {
      bool isnull = false;
      Datum key = ResultDatum(row, 3, &isnull);
      std::string_view aggregate_id;
      if (!isnull) {
        bytea* bytes = DatumGetByteaPP(key);
        aggregate_id = {VARDATA_ANY(bytes), static_cast<size_t>(VARSIZE_ANY_EXHDR(bytes))};
      }
      auto belongs = static_cast<int32>(format::LaneOf(aggregate_id, ResultUuid(row, 1), static_cast<uint32>(lanes)));
      if (belongs != ResultInt32(row, 4)) {
        moving.rows.Add(ReadKey(row));
        moving.lane.Add(Int32GetDatum(belongs));
      }
    }
    return moving.lane.count == 0 || handle(route_id, &moving);
  });
}

}  // namespace

bool LockParkedToMove(int64 route_id, int32 lanes) {
  return ForEachMoving(route_id, lanes, Lock);
}

void MoveParked(int64 route_id, int32 lanes) {
  ForEachMoving(route_id, lanes, Move);
}

}  // namespace outbox::parked
