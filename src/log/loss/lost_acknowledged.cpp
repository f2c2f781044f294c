#include "log/loss/lost_acknowledged.h"

#include <span>

#include "log/window/row.h"
#include "pg/encoding.h"
#include "pg/sql.h"

namespace outbox::log {

using namespace pg::sql;

namespace {

// The relations are schema/29_server_runs.sql's. A statement about a stretch of history asks for rows that the lane $1,
// $2 and its side lanes wrote after $4 and no later than $5, and what of that the server of the run $3 acknowledged and
// has lost; $6 is the number of the run under which lanes of a later time have looked at it. What the lane that asks
// has looked at itself its own rows tell.

// Runs a statement about a stretch, whose first six arguments these are; `more` follow.
template <typename... More>
void Run(Statement* statement, const Asked& asked, const Stretch& stretch, More... more) {
  Arguments arguments;
  arguments.Add(Int64GetDatum(asked.route_id));
  arguments.Add(Int32GetDatum(stretch.lane));
  arguments.Add(ForeignText(asked.server_run));
  arguments.Add(TimestampTzGetDatum(stretch.after));
  arguments.Add(TimestampTzGetDatum(stretch.until));
  arguments.Add(Int64GetDatum(TIMESTAMP_IS_NOEND(stretch.until) ? 0 : asked.looked));
  (arguments.Add(more), ...);
  RunStatement(statement, arguments.values, arguments.nulls);
}
#define ASKED_TYPES INT8OID, INT4OID, TEXTOID, TIMESTAMPTZOID, TIMESTAMPTZOID, INT8OID

}  // namespace

bool FindRun(const Asked& asked, const Stretch& own, Finding* finding) {
  static Statement find = {
      "SELECT r.name, r.server, n.number,"
      " (SELECT max(m.number) FROM outbox_internal.server_runs($3) m WHERE m.survived IS NOT NULL),"
      " (SELECT max(m.number) FROM outbox_internal.run_periods($1, $2, 0, $4, $5) p JOIN"
      " outbox_internal.server_runs($3) m ON m.run = p.run) FROM outbox.route r"
      " LEFT JOIN outbox_internal.lane_run($1, $2, $3, $4, $5) n ON true WHERE r.id = $1 AND n.run IS DISTINCT FROM $3",
      6,
      {ASKED_TYPES},
      nullptr};
  Run(&find, asked, own);
  if (SPI_processed == 0) {
    return false;
  }
  Assign(0, 0, &finding->route);
  Assign(0, 1, &finding->server);
  bool isnull = false;
  Datum looked = ResultDatum(0, 2, &isnull);
  finding->seen = !isnull;
  finding->looked = isnull ? 0 : DatumGetInt64(looked);
  Datum told = ResultDatum(0, 3, &isnull);
  finding->told = isnull ? 0 : DatumGetInt64(told);
  Datum ever = ResultDatum(0, 4, &isnull);
  finding->looked_ever = isnull ? 0 : DatumGetInt64(ever);
  return true;
}

bool AnyNoted(const Asked& asked, const Stretch& stretch) {
  static Statement any = {
      "SELECT FROM generate_series($2, $2 + $7 - 1) s(lane)"
      " CROSS JOIN LATERAL outbox_internal.lane_run($1, s.lane, $3, $4, $5) n LIMIT 1",
      7,
      {ASKED_TYPES, INT4OID},
      nullptr};
  Run(&any, asked, stretch, Int32GetDatum(stretch.lanes));
  return SPI_processed > 0;
}

int64_t FindLost(const Asked& asked, const Stretch& stretch, Finding* finding) {
  static Statement find = {
      "SELECT s.lane, n.number, x.* FROM generate_series($2, $2 + $7 - 1) s(lane)"
      " LEFT JOIN LATERAL outbox_internal.lane_run($1, s.lane, $3, $4, $5) n ON true"
      " LEFT JOIN LATERAL (SELECT (SELECT e.key FROM jsonb_each(g.places) e"
      " WHERE (e.value ->> 1) = array_to_string(g.acknowledged, '-') LIMIT 1),"
      " array_to_string(g.acknowledged, '-'), array_to_string(h.bound, '-')"
      " FROM outbox_internal.judged_periods($1, s.lane, $3, $4, $5, $6) h CROSS JOIN LATERAL (SELECT g.at, "
      "g.acknowledged, "
      "g.places"
      " FROM outbox_internal.period_rows($1, s.lane, h.side, h.run, h.after, h.upto) g"
      " WHERE g.acknowledged IS NOT NULL AND outbox_internal.is_lost(g.acknowledged, g.at, h.known, h.known_there_to) "
      "IS NOT TRUE ORDER BY g.at DESC LIMIT 10) g"
      " WHERE outbox_internal.is_lost(g.acknowledged, g.at, h.bound, h.there_to) ORDER BY g.at DESC LIMIT 1) "
      "x ON true ORDER BY s.lane",
      7,
      {ASKED_TYPES, INT4OID},
      nullptr};
  Run(&find, asked, stretch, Int32GetDatum(stretch.lanes));
  int64_t newest = PG_INT64_MAX;
  for (uint64 row = 0; row < SPI_processed; row++) {
    bool isnull = false;
    Datum number = ResultDatum(row, 1, &isnull);
    newest = Min(newest, isnull ? -1 : DatumGetInt64(number));
    finding->seen |= !isnull;
    if (ResultText(row, 3) == nullptr) {
      continue;
    }
    finding->lost.push_back(ResultInt32(row, 0));
    if (!finding->loss.any) {
      finding->loss.any = true;
      Assign(row, 2, &finding->loss.stream);
      Assign(row, 3, &finding->loss.acknowledged);
      Assign(row, 4, &finding->loss.survived);
    }
  }
  return newest;
}

bool LaneLost(const Asked& asked, const Stretch& own) {
  static Statement any = {
      "SELECT FROM outbox_internal.judged_periods($1, $2, $3, $4, $5, $6) h CROSS JOIN LATERAL (SELECT g.at, "
      "g.acknowledged"
      " FROM outbox_internal.period_rows($1, $2, h.side, h.run, h.after, h.upto) g"
      " WHERE g.acknowledged IS NOT NULL AND outbox_internal.is_lost(g.acknowledged, g.at, h.known, h.known_there_to) "
      "IS NOT TRUE ORDER BY g.at DESC LIMIT 10) g"
      " WHERE h.side = 0 AND outbox_internal.is_lost(g.acknowledged, g.at, h.bound, h.there_to) LIMIT 1",
      6,
      {ASKED_TYPES},
      nullptr};
  Run(&any, asked, own);
  return SPI_processed > 0;
}

namespace {

constexpr int32 kLostSides = -1;  // the lane itself, and side lanes that have noted something that is lost

// Of each of these lanes, or a side lane of each, the position that FindKept tells of: window_from, window_to, done_to
// and at, NULL where there is none.
void RunKept(const Asked& asked, const Stretch& stretch, std::span<const int32> lanes, int32 side) {
  static Statement find = {
      "SELECT k.* FROM unnest($7) s(lane) CROSS JOIN LATERAL (SELECT greatest($8, 0) AS side UNION SELECT h.side"
      " FROM outbox_internal.judged_periods($1, s.lane, $3, $4, $5, $6) h WHERE $8 < 0 AND h.side > 0 AND EXISTS "
      "(SELECT"
      " FROM outbox_internal.period_rows($1, s.lane, h.side, h.run, h.after, h.upto) g WHERE "
      "outbox_internal.is_lost(g.reached, g.at, h.bound, h.there_to))) d"
      " LEFT JOIN LATERAL ("
      "WITH judged AS MATERIALIZED (SELECT h.* FROM outbox_internal.judged_periods($1, s.lane, $3, $4, $5, $6) h"
      " WHERE h.side = d.side), good AS (SELECT coalesce(max(x.at), '-infinity') AS at FROM judged h CROSS JOIN LATERAL"
      " (SELECT g.at FROM outbox_internal.period_rows($1, s.lane, h.side, h.run, h.after, h.upto) g"
      " WHERE g.reached IS NOT NULL AND outbox_internal.is_lost(g.reached, g.at, h.bound, h.there_to) IS NOT TRUE "
      "ORDER BY g.at DESC LIMIT 1) x),"
      " bad AS (SELECT min(x.at) AS at FROM judged h CROSS JOIN LATERAL"
      " (SELECT g.at FROM outbox_internal.period_rows($1, s.lane, h.side, h.run, h.after, h.upto) g"
      " WHERE outbox_internal.is_lost(g.reached, g.at, h.bound, h.there_to) AND g.at > (SELECT at FROM good) ORDER BY "
      "g.at LIMIT 1) x)"
      " SELECT p.window_from, p.window_to, p.done_to, p.at FROM bad b CROSS JOIN LATERAL"
      " outbox_internal.newest_progress($1, s.lane, d.side, $4, least($5, b.at - '1 microsecond'::interval)) p"
      ") k ON true",
      8,
      {ASKED_TYPES, INT4ARRAYOID, INT4OID},
      nullptr};
  Column column(lanes.size());
  for (const int32 lane : lanes) {
    column.Add(Int32GetDatum(lane));
  }
  Run(&find, asked, stretch, column.Array(INT4OID), Int32GetDatum(side));
}

}  // namespace

bool FindKept(const Asked& asked, const Stretch& stretch, int32 side, Finding* finding, int64_t* at) {
  RunKept(asked, stretch, {&stretch.lane, 1}, side);
  bool isnull = false;
  Datum saved = ResultDatum(0, 3, &isnull);
  if (isnull) {
    return false;
  }
  ReadPosition(0, 0, &finding->positions.emplace_back());
  *at = DatumGetTimestampTz(saved);
  Assign(0, 3, &finding->text);
  return true;
}

int64_t FindKeptOfLost(const Asked& asked, const Stretch& stretch, const Position& start, Finding* finding) {
  RunKept(asked, stretch, finding->lost, kLostSides);
  int64_t oldest = DT_NOEND;
  for (uint64 row = 0; row < SPI_processed; row++) {
    Position& position = finding->positions.emplace_back();
    bool isnull = false;
    const int64_t at = DatumGetTimestampTz(ResultDatum(row, 3, &isnull));
    if (isnull) {
      position = start;
      finding->all = true;
      continue;
    }
    ReadPosition(row, 0, &position);
    if (at < oldest) {
      oldest = at;
      Assign(row, 3, &finding->text);
    }
  }
  return oldest;
}

void ListSides(const Asked& asked, const Stretch& stretch, int64_t kept, bool present, std::vector<int32>* sides) {
  static Statement list = {
      "SELECT h.side FROM outbox_internal.judged_periods($1, $2, $3, $4, $5, $6) h WHERE h.side > 0 AND EXISTS (SELECT "
      "FROM"
      " outbox_internal.period_rows($1, $2, h.side, h.run, h.after, h.upto) g"
      " WHERE g.at > ($7 - '2 seconds'::interval) AND outbox_internal.is_lost(g.reached, g.at, h.bound, h.there_to))"
      " UNION SELECT s.side FROM outbox_internal.side_lane s WHERE $8 AND s.route_id = $1 AND s.lane = $2",
      8,
      {ASKED_TYPES, TIMESTAMPTZOID, BOOLOID},
      nullptr};
  Run(&list, asked, stretch, TimestampTzGetDatum(kept), BoolGetDatum(present));
  for (uint64 row = 0; row < SPI_processed; row++) {
    bool isnull = false;
    sides->push_back(DatumGetInt32(ResultDatum(row, 0, &isnull)));
  }
}

void ListLostTopics(const Asked& asked, const Stretch& own, int32 side, Finding* finding) {
  static Statement list = {
      "SELECT DISTINCT e.topic FROM outbox_internal.judged_periods($1, $2, $3, $4, $5, $6) h"
      " CROSS JOIN LATERAL outbox_internal.period_rows($1, $2, h.side, h.run, h.after, h.upto) g"
      " CROSS JOIN LATERAL jsonb_object_keys(g.places) e(topic)"
      " WHERE h.side = $7 AND g.places IS NOT NULL AND outbox_internal.is_lost(g.reached, g.at, h.bound, h.there_to)",
      7,
      {ASKED_TYPES, INT4OID},
      nullptr};
  Run(&list, asked, own, Int32GetDatum(side));
  finding->names.clear();
  for (uint64 row = 0; row < SPI_processed; row++) {
    finding->names.emplace_back(pg::Utf8(ResultText(row, 0)));
  }
}

bool HadElsewhere(const Asked& asked, const Stretch& stretch, int64_t since) {
  static Statement any = {
      "SELECT FROM generate_series($2, $2 + $8 - 1) s(lane)"
      " CROSS JOIN LATERAL outbox_internal.lane_periods($1, s.lane, $4, $5) p WHERE p.upto > $7"
      " AND outbox_internal.run_endpoint(p.run) IS DISTINCT FROM outbox_internal.run_endpoint($3) AND EXISTS (SELECT"
      " FROM outbox_internal.progress g WHERE g.route_id = $1 AND g.lane = s.lane AND g.side = p.side"
      " AND g.at > greatest(p.after, $7) AND g.at <= p.upto AND g.places <> '{}') LIMIT 1",
      8,
      {ASKED_TYPES, TIMESTAMPTZOID, INT4OID},
      nullptr};
  Run(&any, asked, stretch, TimestampTzGetDatum(since), Int32GetDatum(stretch.lanes));
  return SPI_processed > 0;
}

}  // namespace outbox::log
