#include "log/lane_tables.h"

#include "log/arguments.h"
#include "log/position_sql.h"
#include "log/statement.h"

extern "C" {
#include "mb/pg_wchar.h"
#include "utils/array.h"
#include "utils/pg_lsn.h"
}

namespace outbox::log {

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

bool ReadStanding(LaneId id, LaneStanding* standing) {
  static Statement statement = {
      "SELECT CASE WHEN p.at IS NULL THEN l.window_from ELSE p.window_from END,"
      " CASE WHEN p.at IS NULL THEN l.window_to ELSE p.window_to END,"
      " CASE WHEN p.at IS NULL THEN l.done_to ELSE p.done_to END,"
      " r.lanes, r.lanes_wanted IS NOT NULL, r.common_snapshot"
      " FROM outbox.lane l JOIN outbox.route r ON r.id OPERATOR(pg_catalog.=) l.route_id"
      " LEFT JOIN LATERAL " OUTBOX_NEWEST_PROGRESS
      " p ON true WHERE l.route_id OPERATOR(pg_catalog.=) $1 AND l.lane OPERATOR(pg_catalog.=) $2",
      2,
      {INT8OID, INT4OID},
      nullptr};
  Datum values[] = {Int64GetDatum(id.route_id), Int32GetDatum(id.lane)};
  RunStatement(&statement, values);
  if (SPI_processed == 0) {
    return false;
  }
  Position* position = &standing->position;
  ReadSnapshotText(ResultText(0, 0), &position->base);
  position->target.reset();
  const char* target = ResultText(0, 1);
  if (target != nullptr) {
    ReadSnapshotText(target, &position->target.emplace());
  }
  bool isnull = false;
  int64 done_to = DatumGetTimestampTz(ResultDatum(0, 2, &isnull));
  position->done_to = isnull || TIMESTAMP_IS_NOBEGIN(done_to) ? kBeforeAllTime : done_to + kPgEpochMicros;
  standing->lanes = DatumGetInt32(ResultDatum(0, 3, &isnull));
  standing->converging = DatumGetBool(ResultDatum(0, 4, &isnull));
  standing->limit.reset();
  const char* limit = ResultText(0, 5);
  if (standing->converging && limit != nullptr) {
    ReadSnapshotText(limit, &standing->limit.emplace());
  }
  return true;
}

bool AppendProgress(LaneId id, uint64_t incarnation, int64_t at, const Position& position) {
  static Statement append = {
      "INSERT INTO outbox.progress (at, route_id, lane, window_from, window_to, done_to)"
      " SELECT $4, l.route_id, l.lane, $5::pg_catalog.pg_snapshot, $6::pg_catalog.pg_snapshot, $7 FROM outbox.lane l"
      " WHERE l.route_id OPERATOR(pg_catalog.=) $1 AND l.lane OPERATOR(pg_catalog.=) $2"
      " AND l.owner OPERATOR(pg_catalog.=) $3",
      7,
      {INT8OID, INT4OID, INT8OID, TIMESTAMPTZOID, TEXTOID, TEXTOID, TIMESTAMPTZOID},
      nullptr};
  Arguments arguments;
  arguments.Add(Int64GetDatum(id.route_id));
  arguments.Add(Int32GetDatum(id.lane));
  arguments.Add(Int64GetDatum(static_cast<int64>(incarnation)));
  arguments.AddTime(at);
  arguments.Add(SnapshotText(position.base));
  if (position.target) {
    arguments.Add(SnapshotText(*position.target));
  } else {
    arguments.AddNull();
  }
  if (position.done_to != kBeforeAllTime) {
    arguments.AddTime(position.done_to);
  } else {
    arguments.AddNull();
  }
  RunStatement(&append, arguments.values, arguments.nulls);
  return SPI_processed == 1;
}

}  // namespace outbox::log
