#include "log/loss/lane_history.h"

#include "days/log_table_list.h"
#include "log/window/row.h"
#include "pg/sql.h"

namespace outbox::log {

using namespace pg::sql;

void ReadFormer(int64_t route_id, int64_t since, std::vector<Former>* former, int64_t* border) {
  static Statement read = {
      "SELECT s.at, s.lanes, s.reason = 'lanes', lag(s.at) OVER w,"
      " CASE WHEN lag(s.at) OVER w IS NOT NULL THEN lag(s.start_from) OVER w"
      " WHEN s.start_time = 'infinity' THEN r.start_snapshot ELSE '3:3:'::pg_snapshot END,"
      " CASE WHEN lag(s.at) OVER w IS NOT NULL THEN lag(s.start_to) OVER w"
      " WHEN isfinite(s.start_time) THEN r.start_snapshot END,"
      " CASE WHEN lag(s.at) OVER w IS NOT NULL THEN lag(s.start_done_to) OVER w"
      " WHEN isfinite(s.start_time) THEN s.start_time - '1 microsecond'::interval END"
      " FROM (SELECT DISTINCT ON (l.at) l.* FROM outbox_internal.lane_start l WHERE l.route_id = $1 ORDER BY l.at) s"
      " JOIN outbox.route r ON r.id = s.route_id WINDOW w AS (ORDER BY s.at) ORDER BY s.at DESC",
      1,
      {INT8OID},
      nullptr};
  // By an older version, which wrote down none of it.
  static Statement most = {
      "SELECT 1 + max(g.lane) FROM outbox_internal.progress g WHERE g.route_id = $1 AND g.at <= $2",
      2,
      {INT8OID, TIMESTAMPTZOID},
      nullptr};
  Datum values[] = {Int64GetDatum(route_id), TimestampTzGetDatum(since)};
  RunStatement(&read, values);
  bool reached = true;
  int64_t end = since;
  *border = DT_NOBEGIN;
  bool isnull = false;
  for (uint64 row = 0; row < SPI_processed && !TIMESTAMP_IS_NOBEGIN(end); row++) {
    if (DatumGetTimestampTz(ResultDatum(row, 0, &isnull)) != end) {
      break;
    }
    if (reached && !DatumGetBool(ResultDatum(row, 2, &isnull))) {
      reached = false;
      *border = end;
    }
    Former& time = former->emplace_back();
    time.until = end;
    time.reached = reached;
    time.lanes = DatumGetInt32(ResultDatum(row, 1, &isnull));
    Datum after = ResultDatum(row, 3, &isnull);
    time.after = isnull ? DT_NOBEGIN : DatumGetTimestampTz(after);
    ReadPosition(row, 4, &time.start);
    end = time.after;
  }
  if (TIMESTAMP_IS_NOBEGIN(end)) {
    return;
  }
  *border = reached ? end : *border;
  RunStatement(&most, values);
  Datum lanes = ResultDatum(0, 0, &isnull);
  if (!isnull) {
    Former& time = former->emplace_back();
    time.after = DT_NOBEGIN;
    time.until = end;
    time.lanes = DatumGetInt32(lanes);
  }
}

bool AllSinceAdoption(const Asked& asked, int32 lane, const Finding& finding) {
  static Statement met = {
      "SELECT FROM outbox_internal.lane_start s WHERE s.route_id = $1 AND s.at = $2 AND s.reason = 'adopt'"
      " AND outbox_internal.run_endpoint($3) = ANY (s.written_to)"
      " AND NOT EXISTS (SELECT FROM outbox_internal.progress g WHERE g.route_id = $1 AND g.lane = $4"
      " AND g.at > $2 AND g.at <= $5 AND g.acknowledged IS NOT NULL) LIMIT 1",
      5,
      {INT8OID, TIMESTAMPTZOID, TEXTOID, INT4OID, TIMESTAMPTZOID},
      nullptr};
  Datum values[] = {Int64GetDatum(asked.route_id), TimestampTzGetDatum(finding.beyond.border),
                    ForeignText(asked.server_run), Int32GetDatum(lane),
                    TimestampTzGetDatum(finding.all ? DT_NOBEGIN : finding.kept)};
  RunStatement(&met, values);
  return SPI_processed > 0;
}

bool BeganBeforeTheLog(const LaneId& lane) {
  static Statement start = {
      "SELECT l.done_to FROM outbox_internal.lane l WHERE l.route_id = $1 AND l.lane = $2"
      " AND pg_snapshot_xmax(l.window_from) < $3",
      3,
      {INT8OID, INT4OID, XID8OID},
      nullptr};
  Datum of_lane[] = {Int64GetDatum(lane.route_id), Int32GetDatum(lane.lane),
                     FullTransactionIdGetDatum(FullTransactionIdFromU64(days::kAdoptedEnd))};
  RunStatement(&start, of_lane);
  if (SPI_processed == 0) {
    return false;
  }
  bool isnull = false;
  Datum done_to[] = {ResultDatum(0, 0, &isnull)};
  if (isnull) {
    return true;
  }
  static Statement earlier = {
      "SELECT FROM outbox_internal.whole_log e WHERE e.created_at <= $1 LIMIT 1", 1, {TIMESTAMPTZOID}, nullptr};
  RunStatement(&earlier, done_to);
  return SPI_processed == 0;
}

int RewindsOfTheHour(const LaneId& lane) {
  static Statement count = {
      "SELECT count(*)::int4 FROM outbox_internal.progress g JOIN outbox_internal.lane l ON l.route_id = g.route_id "
      "AND l.lane = g.lane"
      " WHERE g.route_id = $1 AND g.lane = $2 AND g.side = 0 AND g.at > l.since AND g.at > (now() - '1 hour'::interval)"
      " AND g.survived IS NOT NULL",
      2,
      {INT8OID, INT4OID},
      nullptr};
  Datum values[] = {Int64GetDatum(lane.route_id), Int32GetDatum(lane.lane)};
  RunStatement(&count, values);
  bool isnull = false;
  return DatumGetInt32(ResultDatum(0, 0, &isnull));
}

bool AlteredSince(int64_t route_id, int64_t time) {
  static Statement any = {
      "SELECT FROM outbox.audit a JOIN outbox_internal.route_names($2) n ON n.name = a.route"
      " AND a.at BETWEEN n.since AND n.until WHERE n.route_id = $1 AND a.at > $2"
      " AND a.action = 'alter_route' LIMIT 1",
      2,
      {INT8OID, TIMESTAMPTZOID},
      nullptr};
  Datum values[] = {Int64GetDatum(route_id), TimestampTzGetDatum(time)};
  RunStatement(&any, values);
  return SPI_processed > 0;
}

// What the route had at any time is the `from` of a change, or what it has now: it is that which the lane sends again.
void FindAltered(int64_t route_id, int64_t since, Finding* finding) {
  static Statement find = {
      "SELECT max(t.at), coalesce(bool_or(c.narrowed), false), coalesce(bool_or(c.moved), false)"
      " FROM outbox.route r CROSS JOIN LATERAL outbox_internal.route_names(r.created_at) n JOIN outbox.audit a"
      " ON a.route = n.name AND a.action = 'alter_route' AND a.at BETWEEN n.since AND n.until AND n.route_id = r.id"
      " CROSS JOIN LATERAL (SELECT coalesce((a.detail ->> 'clock')::timestamptz, a.at) AS at) t"
      " CROSS JOIN LATERAL (SELECT bool_or(e.key LIKE '%_types' AND NOT (e.now @> e.was OR e.now ? '*')) AS narrowed,"
      " bool_or(CASE e.key WHEN 'topic' THEN e.now <> e.was WHEN 'options'"
      " THEN coalesce(e.now ->> 'mode', 'stream') <> coalesce(e.was ->> 'mode', 'stream') END) AS moved"
      " FROM (SELECT f.key, f.value -> 'from' AS was, CASE f.key WHEN 'aggregate_types'"
      " THEN to_jsonb(r.aggregate_types) WHEN 'event_types' THEN to_jsonb(r.event_types)"
      " WHEN 'topic' THEN to_jsonb(r.topic) WHEN 'options' THEN r.options END AS now"
      " FROM jsonb_each(a.detail -> 'changed') f) e) c"
      " WHERE r.id = $1 AND (c.narrowed OR c.moved)"
      " AND (t.at > ($2 - '10 seconds'::interval) AND EXISTS (SELECT FROM outbox_internal.progress g"
      " WHERE g.route_id = $1 AND g.at > $2 AND g.at < (t.at + '10 seconds'::interval) AND g.acknowledged IS NOT NULL)"
      " OR t.at > ($2 - '1 day'::interval) AND t.at <= $2"
      " AND NOT pg_visible_in_snapshot((a.detail ->> 'xid')::xid8, $3::pg_snapshot))",
      3,
      {INT8OID, TIMESTAMPTZOID, TEXTOID},
      nullptr};
  for (size_t i = 0; i == 0 || i < finding->positions.size(); i++) {
    Arguments arguments;
    arguments.Add(Int64GetDatum(route_id));
    arguments.Add(TimestampTzGetDatum(since));
    if (finding->positions.empty()) {
      arguments.AddNull();
    } else {
      const Position& position = finding->positions[i];
      arguments.Add(SnapshotText(position.target ? *position.target : position.base));
    }
    RunStatement(&find, arguments.values, arguments.nulls);
    bool isnull = false;
    Datum at = ResultDatum(0, 0, &isnull);
    if (isnull) {
      continue;
    }
    finding->altered.at = Max(finding->altered.at, DatumGetTimestampTz(at));
    finding->altered.narrowed |= ResultBool(0, 1);
    finding->altered.moved |= ResultBool(0, 2);
  }
}

// What began after a snapshot was taken was emitted after all that is in it; what was under way then is looked up. A
// reading is taken before the transaction has its number, a moment at most.
int64_t EmittedSince(const Position& position) {
  static Statement find = {
      "SELECT least(coalesce((SELECT l.created_at FROM outbox_internal.whole_log l"
      " WHERE l.xid < pg_snapshot_xmax($1::pg_snapshot) AND pg_visible_in_snapshot(l.xid, $1::pg_snapshot)"
      " ORDER BY l.xid DESC LIMIT 1), '-infinity') - '1 second'::interval,"
      " (SELECT min(l.created_at) FROM outbox_internal.whole_log l"
      " WHERE l.xid = ANY (ARRAY(SELECT pg_snapshot_xip($1::pg_snapshot)))), $2)",
      2,
      {TEXTOID, TIMESTAMPTZOID},
      nullptr};
  const bool within = position.target && position.done_to != kBeforeAllTime;  // of a window, up to there
  Arguments arguments;
  arguments.Add(SnapshotText(within ? *position.target : position.base));
  within ? arguments.AddTime(position.done_to + 1) : arguments.AddNull();
  RunStatement(&find, arguments.values, arguments.nulls);
  bool isnull = false;
  return DatumGetTimestampTz(ResultDatum(0, 0, &isnull));
}

void MoveStart(int64_t route_id, int64_t since, const Position& position) {
  static Statement move = {
      "UPDATE outbox_internal.lane_start SET start_from = $3::pg_snapshot, start_to = $4::pg_snapshot, start_done_to = "
      "$5"
      " WHERE route_id = $1 AND at = $2 AND (start_from::text, start_to::text, start_done_to) IS DISTINCT FROM"
      " ($3, $4, $5)",
      5,
      {INT8OID, TIMESTAMPTZOID, TEXTOID, TEXTOID, TIMESTAMPTZOID},
      nullptr};
  Arguments arguments;
  arguments.Add(Int64GetDatum(route_id));
  arguments.Add(TimestampTzGetDatum(since));
  AddPosition(position, &arguments);
  RunStatement(&move, arguments.values, arguments.nulls);
}

void NoteRepeats(const LaneId& lane) {
  static Statement note = {
      "UPDATE outbox_internal.lane l SET repeats_to = pg_current_snapshot() WHERE l.route_id = $1 AND l.lane = $2",
      2,
      {INT8OID, INT4OID},
      nullptr};
  Datum values[] = {Int64GetDatum(lane.route_id), Int32GetDatum(lane.lane)};
  RunStatement(&note, values);
}

}  // namespace outbox::log
