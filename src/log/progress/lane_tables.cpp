#include "log/progress/lane_tables.h"

#include "log/progress/place_arguments.h"
#include "parked/statements.h"
#include "pg/schemas.h"
#include "pg/sql.h"

extern "C" {
#include "catalog/namespace.h"
#include "storage/lock.h"
}

namespace outbox::log {

using namespace pg::sql;

Datum SnapshotText(const Snapshot& snapshot) {
  StringInfoData text;
  initStringInfo(&text);
  appendStringInfo(&text, UINT64_FORMAT ":" UINT64_FORMAT ":", snapshot.xmin, snapshot.xmax);
  for (size_t i = 0; i < snapshot.xip.size(); i++) {
    appendStringInfo(&text, "%s" UINT64_FORMAT, i > 0 ? "," : "", static_cast<uint64>(snapshot.xip[i]));
  }
  return TextDatum({text.data, static_cast<size_t>(text.len)});
}

void ReadSnapshotText(const char* text, Snapshot* snapshot) {
  bool good = false;
  {
    std::optional<Snapshot> parsed = Snapshot::FromText(text);  // no Postgres call while it lives
    if (parsed) {
      *snapshot = std::move(*parsed);
      good = true;
    }
  }
  if (!good) {
    ereport(ERROR, (errcode(ERRCODE_DATA_CORRUPTED), errmsg("position of a lane is not a snapshot: \"%s\"", text)));
  }
}

void AddPosition(const Position& position, Arguments* arguments) {
  arguments->Add(SnapshotText(position.base));
  position.target ? arguments->Add(SnapshotText(*position.target)) : arguments->AddNull();
  position.done_to != kBeforeAllTime ? arguments->AddTime(position.done_to) : arguments->AddNull();
}

void ReadPosition(uint64 row, int column, Position* position) {
  ReadSnapshotText(ResultText(row, column), &position->base);
  position->target.reset();
  const char* target = ResultText(row, column + 1);
  if (target != nullptr) {
    ReadSnapshotText(target, &position->target.emplace());
  }
  bool isnull = false;
  int64 done_to = DatumGetTimestampTz(ResultDatum(row, column + 2, &isnull));
  position->done_to = isnull || TIMESTAMP_IS_NOBEGIN(done_to) ? kBeforeAllTime : done_to + kPgEpochMicros;
}

bool ReadLaneRow(LaneId id, LaneRow* lane_row) {
  static Statement of_lane = {
      "SELECT p.window_from, p.window_to, p.done_to, r.lanes, r.lanes_begun IS NOT NULL, r.common_snapshot, p.since,"
      " l.repeats_to, greatest(l.since, r.created_at)"
      " FROM outbox_internal.lane_position p JOIN outbox.route r ON r.id = p.route_id"
      " JOIN outbox_internal.lane l ON l.route_id = p.route_id AND l.lane = p.lane"
      " WHERE p.route_id = $1 AND p.lane = $2",
      2,
      {INT8OID, INT4OID},
      nullptr};
  static Statement of_side = {
      "SELECT p.window_from, p.window_to, p.done_to, r.lanes, r.lanes_begun IS NOT NULL, r.common_snapshot, l.since,"
      " l.repeats_to, greatest(l.since, r.created_at)"
      " FROM outbox_internal.side_lane_position p JOIN outbox.route r ON r.id = p.route_id"
      " JOIN outbox_internal.lane l ON l.route_id = p.route_id AND l.lane = p.lane"
      " WHERE p.route_id = $1 AND p.lane = $2 AND p.side = $3",
      3,
      {INT8OID, INT4OID, INT4OID},
      nullptr};
  Datum values[] = {Int64GetDatum(id.route_id), Int32GetDatum(id.lane), Int32GetDatum(id.side)};
  RunStatement(id.side == 0 ? &of_lane : &of_side, values);
  if (SPI_processed == 0) {
    return false;
  }
  ReadPosition(0, 0, &lane_row->position);
  lane_row->lanes = ResultInt32(0, 3);
  lane_row->converging = ResultBool(0, 4);
  lane_row->limit.reset();
  const char* limit = ResultText(0, 5);
  if (lane_row->converging && limit != nullptr) {
    ReadSnapshotText(limit, &lane_row->limit.emplace());
  }
  lane_row->since = ResultTime(0, 6);
  lane_row->repeats_to.reset();
  lane_row->there_since = ResultTime(0, 8);
  const char* repeats_to = ResultText(0, 7);
  if (repeats_to != nullptr) {
    ReadSnapshotText(repeats_to, &lane_row->repeats_to.emplace());
  }
  return true;
}

int64_t ReadSince(LaneId lane) {
  static Statement since = {
      "SELECT since FROM outbox_internal.lane WHERE route_id = $1 AND lane = $2", 2, {INT8OID, INT4OID}, nullptr};
  Datum values[] = {Int64GetDatum(lane.route_id), Int32GetDatum(lane.lane)};
  RunStatement(&since, values);
  return SPI_processed == 0 ? 0 : ResultTime(0, 0);
}

void LockPositions(int64_t route_id, LOCKMODE mode, bool wait) {
  LOCKTAG tag;
  // An object of a class that is no catalog: nothing else takes such a lock.
  SET_LOCKTAG_OBJECT(tag, MyDatabaseId, pg::FindOurRelation("progress"), static_cast<uint32>(route_id), 0);
  if (LockAcquire(&tag, mode, false, !wait) == LOCKACQUIRE_NOT_AVAIL) {
    ereport(ERROR, (errcode(ERRCODE_LOCK_NOT_AVAILABLE),
                    errmsg("the positions of route " INT64_FORMAT " are being changed", static_cast<int64>(route_id))));
  }
}

namespace {

// outbox_internal.progress.run_after of the row that is written next. A row of another run than the newest begins a
// period; so does one of none (at a destination that does not tell, or before a server is met).
int64_t RunAfter(LaneId id, std::string_view server_run) {
  static Statement newest = {
      "SELECT CASE WHEN g.run IS NOT DISTINCT FROM $4 THEN g.run_after ELSE g.at END"
      " FROM outbox_internal.newest_progress($1, $2, $3, '-infinity') g",
      4,
      {INT8OID, INT4OID, INT4OID, TEXTOID},
      nullptr};
  Arguments arguments;
  arguments.Add(Int64GetDatum(id.route_id));
  arguments.Add(Int32GetDatum(id.lane));
  arguments.Add(Int32GetDatum(id.side));
  server_run.empty() ? arguments.AddNull() : arguments.Add(ForeignText(server_run));
  RunStatement(&newest, arguments.values, arguments.nulls);
  bool none = true;
  Datum after = SPI_processed > 0 ? ResultDatum(0, 0, &none) : Datum(0);
  return none ? DT_NOBEGIN : DatumGetTimestampTz(after);
}

}  // namespace

Appended AppendProgress(LaneId id, uint64_t incarnation, int64_t since, int64_t at, const Position& position,
                        std::span<const sink::Place> places, std::string_view server_run, RunPeriod* period,
                        std::string_view survived, bool over) {
  static Statement append = {
      "INSERT INTO outbox_internal.progress (at, route_id, lane, side, window_from, window_to, done_to, places, run,"
      " survived, acknowledged, run_after) SELECT $4, l.route_id, l.lane, $5, $6::pg_snapshot,"
      " $7::pg_snapshot, $8, $9, $11, $12, $13, $14"
      " FROM outbox_internal.lane l WHERE l.route_id = $1 AND l.lane = $2"
      " AND l.owner = $3 AND l.since = $10",
      14,
      {INT8OID, INT4OID, INT8OID, TIMESTAMPTZOID, INT4OID, TEXTOID, TEXTOID, TIMESTAMPTZOID, JSONBOID, TIMESTAMPTZOID,
       TEXTOID, TEXTOID, INT8ARRAYOID, TIMESTAMPTZOID},
      nullptr};
  LockPositions(id.route_id, RowExclusiveLock, false);
  const bool known = period != nullptr && period->known && period->server_run == server_run;
  const int64_t after = known ? period->after : RunAfter(id, server_run);
  if (period != nullptr && !known) {
    period->server_run.assign(server_run);
    period->after = after;
    period->known = true;
  }
  Arguments arguments;
  arguments.Add(Int64GetDatum(id.route_id));
  arguments.Add(Int32GetDatum(id.lane));
  arguments.Add(Int64GetDatum(static_cast<int64>(incarnation)));
  arguments.AddTime(at);
  arguments.Add(Int32GetDatum(id.side));
  AddPosition(position, &arguments);
  places.empty() && !over ? arguments.AddNull() : arguments.Add(PlacesDatum(places));
  arguments.Add(TimestampTzGetDatum(since));
  server_run.empty() ? arguments.AddNull() : arguments.Add(ForeignText(server_run));
  survived.empty() ? arguments.AddNull() : arguments.Add(ForeignText(survived));
  Datum acknowledged = 0;
  !server_run.empty() && AcknowledgedDatum(places, &acknowledged) ? arguments.Add(acknowledged) : arguments.AddNull();
  TIMESTAMP_IS_NOBEGIN(after) ? arguments.AddNull() : arguments.Add(TimestampTzGetDatum(after));
  RunStatement(&append, arguments.values, arguments.nulls);
  if (SPI_processed == 1) {
    return Appended::kWritten;
  }
  bool block = false;
  return parked::OwnsLane({id, incarnation}, &block) ? Appended::kMoved : Appended::kLost;
}

}  // namespace outbox::log
