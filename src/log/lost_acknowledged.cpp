#include "log/lost_acknowledged.h"

#include "log/place_arguments.h"
#include "log/row.h"
#include "log/run_periods_sql.h"
#include "pg/encoding.h"
#include "pg/sql.h"

namespace outbox::log {

using namespace pg::sql;

namespace {

// In front of a statement about a stretch of history: rows that lane $1, $2 and its side lanes wrote after $4 and no
// later than $5. `here`: the periods in which the server at the address of the run $3 acknowledged them. `judged`: with
// `bound`, the last id of which all meetings since have shown that it is there (NULL: there was none), and `known`,
// likewise of those that were looked at before: up to the one before the lane's newest row from here, or before the run
// $6.
#define SURVIVED(which)                                                                                    \
  "(SELECT min(string_to_array(m.survived, '-')::int8[]) FROM outbox.server_run m WHERE " OUTBOX_ENDPOINT( \
      "m.run") " = " OUTBOX_ENDPOINT("$3") " AND m.number > h.number AND m.number " which                  \
                                           " greatest((SELECT number FROM latest), $6))"
#define JUDGED \
  "WITH RECURSIVE sides(route_id, lane, side) AS (SELECT $1, $2, 0 UNION ALL SELECT s.route_id, s.lane,"        \
  " (SELECT g.side FROM outbox.progress g WHERE g.route_id = s.route_id AND g.lane = s.lane"                    \
  " AND g.side > s.side ORDER BY g.side LIMIT 1) FROM sides s WHERE s.side IS NOT NULL), " OUTBOX_PERIODS(      \
      "sides", "$4", "$5") ", here AS (SELECT p.route_id, p.lane, p.side, p.run, greatest(p.run_after, $4) AS"  \
  " after, p.at AS upto, coalesce(m.number, 0) AS number FROM period p"                                         \
  " LEFT JOIN outbox.server_run m ON m.run = p.run WHERE " OUTBOX_ENDPOINT("p.run") " = " OUTBOX_ENDPOINT("$3") \
  "), latest AS (SELECT h.run, h.number FROM here h WHERE h.side = 0 ORDER BY h.upto DESC LIMIT 1),"            \
  " judged AS (SELECT h.*, " SURVIVED(">") " AS bound, " SURVIVED("<=") " AS known FROM here h) "
// Something of the row was acknowledged under an id later than h.bound. So was all since a row that put the lane back,
// if less is there now than was then.
#define BAD                                           \
  "(CASE WHEN g.survived IS NULL THEN g.acknowledged" \
  " ELSE string_to_array(g.survived, '-')::int8[] END > h.bound)"
#define TELLS "(g.acknowledged IS NOT NULL OR g.survived IS NOT NULL)"

// Runs a statement about a stretch, whose first six arguments these are; `more` follow.
template <typename... More>
void Run(Statement* statement, const Asked& asked, const Stretch& stretch, More... more) {
  Arguments arguments;
  arguments.Add(Int64GetDatum(asked.route_id));
  arguments.Add(Int32GetDatum(stretch.lane));
  arguments.Add(ForeignText(asked.server_run));
  arguments.Add(TimestampTzGetDatum(stretch.after));
  arguments.Add(TimestampTzGetDatum(stretch.until));
  arguments.Add(Int64GetDatum(asked.looked));
  (arguments.Add(more), ...);
  RunStatement(statement, arguments.values, arguments.nulls);
}
#define ASKED_TYPES INT8OID, INT4OID, TEXTOID, TIMESTAMPTZOID, TIMESTAMPTZOID, INT8OID

}  // namespace

bool FindRun(const Asked& asked, const Stretch& own, Finding* finding) {
  static Statement find = {JUDGED
                           "SELECT r.name, r.server, n.number FROM outbox.route r LEFT JOIN latest n ON true"
                           " WHERE r.id = $1 AND n.run IS DISTINCT FROM $3",
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
  finding->looked = isnull ? 0 : DatumGetInt64(looked);
  return true;
}

bool FindLost(const Asked& asked, const Stretch& stretch, Finding* finding, int64_t* newest) {
  static Statement find = {
      JUDGED
      "SELECT n.number, x.* FROM (SELECT) one LEFT JOIN latest n ON true LEFT JOIN LATERAL (SELECT"
      " (SELECT e.key FROM jsonb_each(g.places) e WHERE"
      " (e.value ->> 1) = array_to_string(g.acknowledged, '-')"
      " LIMIT 1), array_to_string(g.acknowledged, '-'), array_to_string(h.bound, '-') FROM judged h"
      " CROSS JOIN LATERAL (SELECT g.acknowledged, g.places FROM outbox.progress g WHERE " OUTBOX_OF_PERIOD
      " AND g.acknowledged IS NOT NULL AND (g.acknowledged > h.known) IS NOT TRUE ORDER BY g.at DESC LIMIT 10) g"
      " WHERE g.acknowledged > h.bound ORDER BY g.acknowledged DESC LIMIT 1) x ON true",
      6,
      {ASKED_TYPES},
      nullptr};
  Run(&find, asked, stretch);
  bool isnull = false;
  Datum number = ResultDatum(0, 0, &isnull);
  *newest = isnull ? -1 : DatumGetInt64(number);
  if (ResultText(0, 2) == nullptr) {
    return false;
  }
  if (!finding->loss.any) {
    finding->loss.any = true;
    Assign(0, 1, &finding->loss.stream);
    Assign(0, 2, &finding->loss.acknowledged);
    Assign(0, 3, &finding->loss.survived);
  }
  return true;
}

bool LaneLost(const Asked& asked, const Stretch& own) {
  static Statement any = {
      JUDGED
      "SELECT FROM judged h CROSS JOIN LATERAL (SELECT g.acknowledged FROM outbox.progress g WHERE " OUTBOX_OF_PERIOD
      " AND g.acknowledged IS NOT NULL AND (g.acknowledged > h.known) IS NOT TRUE ORDER BY g.at DESC LIMIT 10) g"
      " WHERE h.side = 0 AND g.acknowledged > h.bound LIMIT 1",
      6,
      {ASKED_TYPES},
      nullptr};
  Run(&any, asked, own);
  return SPI_processed > 0;
}

bool FindKept(const Asked& asked, const Stretch& stretch, int32 side, Finding* finding, int64_t* at) {
  static Statement find = {
      JUDGED
      ", good AS (SELECT coalesce(max(x.at), '-infinity') AS at FROM judged h CROSS JOIN LATERAL"
      " (SELECT g.at FROM outbox.progress g WHERE " OUTBOX_OF_PERIOD " AND " TELLS " AND " BAD
      " IS NOT TRUE ORDER BY g.at DESC LIMIT 1) x WHERE h.side = $7),"
      " bad AS (SELECT min(x.at) AS at FROM judged h CROSS JOIN LATERAL"
      " (SELECT g.at FROM outbox.progress g WHERE " OUTBOX_OF_PERIOD " AND " TELLS " AND " BAD
      " AND g.at > (SELECT at FROM good) ORDER BY g.at LIMIT 1) x WHERE h.side = $7)"
      " SELECT g.window_from, g.window_to, g.done_to, g.at FROM outbox.progress g WHERE g.route_id = $1"
      " AND g.lane = $2 AND g.side = $7 AND g.at > $4 AND g.at <= $5"
      " AND g.at < coalesce((SELECT at FROM bad), 'infinity') ORDER BY g.at DESC LIMIT 1",
      7,
      {ASKED_TYPES, INT4OID},
      nullptr};
  Run(&find, asked, stretch, Int32GetDatum(side));
  if (SPI_processed == 0) {
    return false;
  }
  bool isnull = false;
  ReadPosition(0, 0, &finding->positions.emplace_back());
  *at = DatumGetTimestampTz(ResultDatum(0, 3, &isnull));
  Assign(0, 3, &finding->text);
  return true;
}

void ListSides(const Asked& asked, const Stretch& stretch, int64_t kept, bool present, std::vector<int32>* sides) {
  static Statement list = {JUDGED
                           "SELECT h.side FROM judged h WHERE h.side > 0 AND EXISTS (SELECT FROM"
                           " outbox.progress g WHERE " OUTBOX_OF_PERIOD
                           " AND g.at > ($7 - '2 seconds'::interval) AND " TELLS " AND " BAD
                           ") UNION SELECT s.side FROM outbox.side_lane s WHERE $8 AND s.route_id = $1 AND s.lane = $2",
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
      JUDGED
      "SELECT DISTINCT e.topic FROM judged h CROSS JOIN LATERAL (SELECT g.places FROM outbox.progress g"
      " WHERE " OUTBOX_OF_PERIOD " AND g.places IS NOT NULL AND " TELLS " AND " BAD
      ") g CROSS JOIN LATERAL jsonb_object_keys(g.places) e(topic) WHERE h.side = $7",
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
  static Statement any = {JUDGED
                          "SELECT FROM period p WHERE p.at > $7 AND " OUTBOX_ENDPOINT("p.run") " IS DISTINCT FROM " OUTBOX_ENDPOINT(
                              "$3") " AND EXISTS (SELECT FROM outbox.progress g WHERE g.route_id = p.route_id AND g.lane = p.lane"
                          " AND g.side = p.side AND g.at > greatest(p.run_after, $4, $7) AND g.at <= p.at"
                          " AND g.places IS NOT NULL) LIMIT 1",
                          7,
                          {ASKED_TYPES, TIMESTAMPTZOID},
                          nullptr};
  Run(&any, asked, stretch, TimestampTzGetDatum(since));
  return SPI_processed > 0;
}

}  // namespace outbox::log
