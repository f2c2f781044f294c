#include "log/rewind.h"

#include <algorithm>
#include <vector>

#include "base/fault_point.h"
#include "days/log_table_list.h"
#include "days/with_day_table.h"
#include "format/route_spec.h"
#include "log/lane_tables.h"
#include "log/place_arguments.h"
#include "log/row.h"
#include "log/run_periods_sql.h"
#include "log/side_log.h"
#include "log/sql.h"
#include "parked/statements.h"
#include "pg/encoding.h"

namespace outbox::log {

namespace {

constexpr size_t kMostSides = 200;  // a lane has room for 256
constexpr int kMostAnHour = 20;     // a server that loses its data again and again is not sent everything each time

// Rows of the lane $1, $2 since it was last put somewhere else.
#define OF_LANE                                                     \
  "g.route_id = $1 AND g.lane = $2"                                 \
  " AND g.at > (SELECT l.since FROM outbox.lane l WHERE l.route_id" \
  " = $1 AND l.lane = $2)"

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

struct Stretch {
  int32 lane = 0;
  int64_t after = DT_NOBEGIN;  // outbox.progress.at
  int64_t until = DT_NOEND;
};

// A time before the route's lanes began anew.
struct Former {
  int64_t after = 0;
  int64_t until = 0;
  int32 lanes = 0;
  bool reached = false;  // only the number of lanes has changed since: they are taken up where these were
  Position start;        // where these began
};

// Something that was delivered from outbox.parked, and is lost.
struct LostParked {
  int64_t at = 0;  // outbox.outcome.at
  int64_t created_at = 0;
  Uuid id{};
  int64_t replay = 0;
  uint64_t xid = 0;  // 0: not known
  std::string topic;
  bool known_lane = false;  // it is this lane's; else its key tells
};

// A topic that a side lane has delivered, and where that stood before anything that is lost.
struct LostTopic {
  std::string topic;
  Position kept;
};

// A side lane that is made, or moved.
struct SideMove {
  relay::SideLane side;
  Position position;
};

// Filled inside of the transaction, read after it.
struct Finding {
  std::string route;
  std::string server;
  int64_t looked = 0;  // number of the newest run that has acknowledged anything to the lane
  bool lost = false;
  std::string stream;        // of what was acknowledged last, the first that is lost
  std::string acknowledged;  // its id
  std::string survived;      // the last id that is there
  std::vector<Position> positions;
  bool all = false;         // back to where lanes began
  int64_t kept = DT_NOEND;  // when the oldest of these was saved, if it is no beginning
  std::string kept_at;      // likewise; "": there is none
  bool elsewhere = false;   // another destination has had some of what came later
  bool beyond = false;      // something is lost that was delivered before the lanes were put somewhere else
  int64_t border = DT_NOBEGIN;
  std::string border_at;
  std::string beyond_after;  // "": from the beginning
  int64_t beyond_kept = DT_NOEND;
  std::string why_not;  // it is not put back
  bool wanted = false;  // it, or side lanes of it, have lost something
  bool seen = false;    // there was something to be looked at
  std::vector<Former> former;
  std::vector<LostTopic> topics;
  std::vector<relay::SideLane> present;  // side lanes that there are
  std::vector<LaneRow> stands;           // and where
  std::string topic_template;
  std::vector<SideMove> moves;
  std::vector<LostParked> parked;
  int64_t parked_again = 0;    // of these, so many are sent again
  int64_t parked_missing = 0;  // and so many cannot be
  std::vector<int32> sides;    // scratch, like the next ones
  std::vector<std::string> names;
  std::string text;
};

void Assign(uint64 row, int column, std::string* text) {
  const char* value = ResultText(row, column);
  text->assign(value == nullptr ? "" : value);
}

// What the statements about a stretch have in common: their first six arguments.
struct Asked {
  int64_t route_id = 0;
  std::string_view server_run;
  int64_t looked = 0;

  void Fill(const Stretch& stretch, Arguments* arguments) const {
    arguments->Add(Int64GetDatum(route_id));
    arguments->Add(Int32GetDatum(stretch.lane));
    arguments->Add(ForeignText(server_run));
    arguments->Add(TimestampTzGetDatum(stretch.after));
    arguments->Add(TimestampTzGetDatum(stretch.until));
    arguments->Add(Int64GetDatum(looked));
  }
};
#define ASKED_TYPES INT8OID, INT4OID, TEXTOID, TIMESTAMPTZOID, TIMESTAMPTZOID, INT8OID

// False: under that run the lane was looked at.
bool FindRun(const Asked& asked, const Stretch& own, Finding* finding) {
  static Statement find = {JUDGED
                           "SELECT r.name, r.server, n.number FROM outbox.route r LEFT JOIN latest n ON true"
                           " WHERE r.id = $1 AND n.run IS DISTINCT FROM $3",
                           6,
                           {ASKED_TYPES},
                           nullptr};
  Arguments arguments;
  asked.Fill(own, &arguments);
  RunStatement(&find, arguments.values, arguments.nulls);
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

constexpr size_t kMostParked = 50'000;    // at a time
constexpr size_t kParkedPortion = 2'000;  // in a transaction

// What was delivered from outbox.parked, and is lost and not known to be. Of the lane, or (from before the lanes began
// anew) of one that there was before. `looked`: as of FindRun.
void FindLostParked(const Asked& asked, const Stretch& own, Finding* finding) {
  static Statement find = {
      "SELECT o.at, o.created_at, o.id, o.replay, coalesce(o.xid, '0'), o.topic, o.at > $4,"
      " array_to_string(o.acknowledged, '-'), array_to_string(h.bound, '-') FROM (SELECT h.run, s.bound, k.bound AS "
      "known"
      " FROM outbox.server_run h CROSS JOIN LATERAL outbox._survived(h.run, $5, 9223372036854775807) s"
      " CROSS JOIN LATERAL outbox._survived(h.run, 0, $5) k WHERE outbox._run_endpoint(h.run) = "
      "outbox._run_endpoint($3)"
      " AND s.bound IS NOT NULL) h CROSS JOIN LATERAL (SELECT o.* FROM outbox._outcome o WHERE o.run = h.run"
      " AND o.acknowledged > h.bound AND (o.acknowledged > h.known) IS NOT TRUE AND o.route_id = $1"
      " AND (o.lane = $2 OR o.at <= $4) AND o.outcome = 'delivered') o LIMIT $6",
      6,
      {INT8OID, INT4OID, TEXTOID, TIMESTAMPTZOID, INT8OID, INT8OID},
      nullptr};
  Datum values[] = {Int64GetDatum(asked.route_id), Int32GetDatum(own.lane),
                    ForeignText(asked.server_run), TimestampTzGetDatum(own.after),
                    Int64GetDatum(asked.looked),   Int64GetDatum(static_cast<int64>(kMostParked))};
  finding->parked.clear();
  RunStatement(&find, values);
  finding->parked.reserve(SPI_processed);
  for (uint64 row = 0; row < SPI_processed; row++) {
    bool isnull = false;
    LostParked& lost = finding->parked.emplace_back();
    lost.at = ResultTime(row, 0);
    lost.created_at = ResultTime(row, 1) + kPgEpochMicros;
    memcpy(lost.id.data(), DatumGetUUIDP(ResultDatum(row, 2, &isnull))->data, lost.id.size());
    lost.replay = ResultInt64(row, 3);
    lost.xid = U64FromFullTransactionId(DatumGetFullTransactionId(ResultDatum(row, 4, &isnull)));
    lost.topic = pg::Utf8(ResultText(row, 5));
    lost.known_lane = ResultBool(row, 6);
  }
  if (SPI_processed > 0 && !finding->lost) {
    finding->lost = true;
    Assign(0, 5, &finding->stream);
    Assign(0, 7, &finding->acknowledged);
    Assign(0, 8, &finding->survived);
  }
}

// Events as columns: at, id, created_at, replay and xid.
struct ParkedColumns {
  explicit ParkedColumns(size_t rows) : at(rows), id(rows), created_at(rows), replay(rows), xid(rows) {}
  Column at, id, created_at, replay, xid;
  TimestampTz first = DT_NOEND;
  TimestampTz last = DT_NOBEGIN;

  void Add(const LostParked& lost) {
    const TimestampTz time = lost.created_at - kPgEpochMicros;
    at.Add(TimestampTzGetDatum(lost.at));
    id.Add(UuidDatum(lost.id));
    created_at.Add(TimestampTzGetDatum(time));
    replay.Add(Int64GetDatum(lost.replay));
    xid.Add(FullTransactionIdGetDatum(FullTransactionIdFromU64(lost.xid)));
    first = Min(first, time);
    last = Max(last, time);
  }
};

// Drops those that are another lane's: the route has another number of lanes since they were delivered. Those that the
// log has no more are of the first lane.
void KeepOwnParked(const LaneId& lane, Finding* finding) {
  static Statement keys = {
      "SELECT k.n, convert_to(l.aggregate_id, 'UTF8'), r.lanes FROM outbox.route r CROSS JOIN ROWS FROM (unnest($2),"
      " unnest($3)) WITH ORDINALITY k(created_at, id, n) LEFT JOIN outbox._whole_log l ON l.created_at = k.created_at"
      " AND l.id = k.id AND l.created_at BETWEEN $5 AND $6 AND l.xid = ANY ($4) WHERE r.id = $1 ORDER BY k.n",
      6,
      {INT8OID, TIMESTAMPTZARRAYOID, UUIDARRAYOID, XID8ARRAYOID, TIMESTAMPTZOID, TIMESTAMPTZOID},
      nullptr};
  ParkedColumns columns(finding->parked.size());
  for (const LostParked& lost : finding->parked) {
    if (!lost.known_lane) {
      columns.Add(lost);
    }
  }
  if (columns.id.count == 0) {
    return;
  }
  Datum values[] = {Int64GetDatum(lane.route_id),       columns.created_at.Array(TIMESTAMPTZOID),
                    columns.id.Array(UUIDOID),          columns.xid.Array(XID8OID),
                    TimestampTzGetDatum(columns.first), TimestampTzGetDatum(columns.last)};
  RunStatement(&keys, values);
  uint64 row = 0;
  std::erase_if(finding->parked, [&](const LostParked& lost) {
    if (lost.known_lane || row >= SPI_processed) {
      return false;
    }
    bool isnull = false;
    Datum key = ResultDatum(row, 1, &isnull);
    const auto lanes = static_cast<uint32>(ResultInt32(row++, 2));
    std::string_view aggregate_id;
    if (!isnull) {
      bytea* bytes = DatumGetByteaPP(key);
      aggregate_id = {VARDATA_ANY(bytes), static_cast<size_t>(VARSIZE_ANY_EXHDR(bytes))};
    }
    return static_cast<int32>(format::LaneOf(aggregate_id, lost.id, lanes)) != lane.lane;
  });
}

// Sends these again: those in `again` from outbox.parked, with what the log has; those in `read`, which a lane reads
// again, are only noted to be lost. What an operator has changed is not in the log. Returns how many.
int64_t PutParkedBack(const LaneId& lane, int64_t at, const ParkedColumns& again, const ParkedColumns& read) {
  static Statement put = {
      "WITH k AS (SELECT o.*, EXISTS (SELECT FROM outbox.audit a WHERE a.event_id = o.id AND a.action = 'retry'"
      " AND a.detail -> 'edited' ->> 'topic' IS NOT NULL) AS moved FROM ROWS FROM (unnest($3), unnest($4)) x(at, id)"
      " JOIN outbox.outcome o ON o.id = x.id AND o.at = x.at AND o.route_id = $1 AND NOT EXISTS (SELECT FROM "
      "outbox.audit a"
      " WHERE a.event_id = o.id AND a.action = 'retry' AND (a.detail -> 'edited') ?| '{payload,headers}')),"
      " put AS (INSERT INTO outbox.parked AS p (route_id, lane, created_at, id, replay, state, order_key, due_at,"
      " aggregate_type, aggregate_id, event_type, payload, content_type, headers, own_topic, topic, error_class,"
      " error_code, error_message, failed_at, xid) SELECT $1, $2, l.created_at, l.id, k.replay, 'retrying', "
      "k.order_key,"
      " now(), l.aggregate_type, l.aggregate_id, l.event_type, l.payload, l.content_type, CASE WHEN k.replay = 0"
      " THEN l.headers ELSE coalesce(l.headers, '{}') || jsonb_build_object('outbox-replay', k.replay::text) END,"
      " CASE WHEN k.moved THEN k.topic ELSE l.topic END, k.topic, 'destination', 'LOST_WRITES',"
      " 'it was delivered, and the destination has lost it', clock_timestamp(), l.xid"
      " FROM k JOIN outbox._whole_log l ON l.created_at = k.created_at AND l.id = k.id"
      " WHERE l.created_at BETWEEN $6 AND $7 AND l.xid = ANY ($5)"
      " AND NOT outbox._forgotten(l.payload, l.headers, l.content_type) ON CONFLICT (route_id, created_at, id, replay)"
      " DO UPDATE SET xid = excluded.xid RETURNING p.created_at, p.id, p.replay, p.topic)"
      " INSERT INTO outbox.outcome (at, route_id, created_at, id, replay, outcome, attempts, topic)"
      " SELECT $10, $1, q.created_at, q.id, q.replay, 'lost', 0, q.topic FROM put q"
      " UNION ALL SELECT $10, $1, o.created_at, o.id, o.replay, 'lost', 0, o.topic"
      " FROM ROWS FROM (unnest($8), unnest($9)) x(at, id) JOIN outbox.outcome o ON o.id = x.id AND o.at = x.at"
      " AND o.route_id = $1",
      10,
      {INT8OID, INT4OID, TIMESTAMPTZARRAYOID, UUIDARRAYOID, XID8ARRAYOID, TIMESTAMPTZOID, TIMESTAMPTZOID,
       TIMESTAMPTZARRAYOID, UUIDARRAYOID, TIMESTAMPTZOID},
      nullptr};
  Arguments arguments;
  arguments.Add(Int64GetDatum(lane.route_id));
  arguments.Add(Int32GetDatum(lane.lane));
  arguments.Add(again.at.Array(TIMESTAMPTZOID));
  arguments.Add(again.id.Array(UUIDOID));
  arguments.Add(again.xid.Array(XID8OID));
  arguments.Add(TimestampTzGetDatum(again.first));
  arguments.Add(TimestampTzGetDatum(again.last));
  arguments.Add(read.at.Array(TIMESTAMPTZOID));
  arguments.Add(read.id.Array(UUIDOID));
  arguments.AddTime(at);
  RunStatement(&put, arguments.values);
  return static_cast<int64_t>(SPI_processed);
}

// Of the newest rows of the lane and its side lanes under each run: acknowledged and gone, and not known to be.
// *newest: number of the newest run that has acknowledged anything in the stretch, 0 of one that nobody recorded; -1:
// none.
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
  Arguments arguments;
  asked.Fill(stretch, &arguments);
  RunStatement(&find, arguments.values, arguments.nulls);
  bool isnull = false;
  Datum number = ResultDatum(0, 0, &isnull);
  *newest = isnull ? -1 : DatumGetInt64(number);
  if (ResultText(0, 2) == nullptr) {
    return false;
  }
  if (!finding->lost) {
    finding->lost = true;
    Assign(0, 1, &finding->stream);
    Assign(0, 2, &finding->acknowledged);
    Assign(0, 3, &finding->survived);
  }
  return true;
}

// The newest position of the stretch, of the lane or a side lane of it, before anything that is lost was noted: of what
// other servers acknowledged, too, for that is not missed here. Appends it to finding->positions; finding->text: when.
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
  Arguments arguments;
  asked.Fill(stretch, &arguments);
  arguments.Add(Int32GetDatum(side));
  RunStatement(&find, arguments.values, arguments.nulls);
  if (SPI_processed == 0) {
    return false;
  }
  bool isnull = false;
  ReadPosition(0, 0, &finding->positions.emplace_back());
  *at = DatumGetTimestampTz(ResultDatum(0, 3, &isnull));
  Assign(0, 3, &finding->text);
  return true;
}

// Side lanes of the stretch that have noted something since `kept` that is lost; `present`: all that there are, too.
void ListSides(const Asked& asked, const Stretch& stretch, int64_t kept, bool present, std::vector<int32>* sides) {
  static Statement list = {JUDGED
                           "SELECT h.side FROM judged h WHERE h.side > 0 AND EXISTS (SELECT FROM"
                           " outbox.progress g WHERE " OUTBOX_OF_PERIOD
                           " AND g.at > ($7 - '2 seconds'::interval) AND " TELLS " AND " BAD
                           ") UNION SELECT s.side FROM outbox.side_lane s WHERE $8 AND s.route_id = $1 AND s.lane = $2",
                           8,
                           {ASKED_TYPES, TIMESTAMPTZOID, BOOLOID},
                           nullptr};
  Arguments arguments;
  asked.Fill(stretch, &arguments);
  arguments.Add(TimestampTzGetDatum(kept));
  arguments.Add(BoolGetDatum(present));
  RunStatement(&list, arguments.values, arguments.nulls);
  for (uint64 row = 0; row < SPI_processed; row++) {
    bool isnull = false;
    sides->push_back(DatumGetInt32(ResultDatum(row, 0, &isnull)));
  }
}

// Another destination, or this one at another address, has had something since then.
bool HadElsewhere(const Asked& asked, const Stretch& stretch, int64_t since) {
  static Statement any = {JUDGED
                          "SELECT FROM period p WHERE p.at > $7 AND " OUTBOX_ENDPOINT("p.run") " IS DISTINCT FROM " OUTBOX_ENDPOINT(
                              "$3") " AND EXISTS (SELECT FROM outbox.progress g WHERE g.route_id = p.route_id AND g.lane = p.lane"
                          " AND g.side = p.side AND g.at > greatest(p.run_after, $4, $7) AND g.at <= p.at"
                          " AND g.places IS NOT NULL) LIMIT 1",
                          7,
                          {ASKED_TYPES, TIMESTAMPTZOID},
                          nullptr};
  Arguments arguments;
  asked.Fill(stretch, &arguments);
  arguments.Add(TimestampTzGetDatum(since));
  RunStatement(&any, arguments.values, arguments.nulls);
  return SPI_processed > 0;
}

// Whether adopt() put the lane before all that this log has: nothing older is its own. Reads the log only in that case,
// since that locks every day table.
bool BeganBeforeTheLog(const LaneId& lane) {
  static Statement start = {
      "SELECT l.done_to FROM outbox.lane l WHERE l.route_id = $1 AND l.lane = $2"
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
      "SELECT FROM outbox._whole_log e WHERE e.created_at <= $1 LIMIT 1", 1, {TIMESTAMPTZOID}, nullptr};
  RunStatement(&earlier, done_to);
  return SPI_processed == 0;
}

// The times before the lane began, from the last one back. *border: from there back nothing is taken up, because seek()
// put the lanes somewhere else, or nobody wrote down who did; DT_NOBEGIN: all is.
void ReadFormer(int64_t route_id, int64_t since, std::vector<Former>* former, int64_t* border) {
  static Statement read = {
      "SELECT s.at, s.lanes, s.reason = 'lanes', lag(s.at) OVER w,"
      " CASE WHEN lag(s.at) OVER w IS NOT NULL THEN lag(s.start_from) OVER w"
      " WHEN s.start_time = 'infinity' THEN r.start_snapshot ELSE '3:3:'::pg_snapshot END,"
      " CASE WHEN lag(s.at) OVER w IS NOT NULL THEN lag(s.start_to) OVER w"
      " WHEN isfinite(s.start_time) THEN r.start_snapshot END,"
      " CASE WHEN lag(s.at) OVER w IS NOT NULL THEN lag(s.start_done_to) OVER w"
      " WHEN isfinite(s.start_time) THEN s.start_time - '1 microsecond'::interval END"
      " FROM (SELECT DISTINCT ON (l.at) l.* FROM outbox.lane_start l WHERE l.route_id = $1 ORDER BY l.at) s"
      " JOIN outbox.route r ON r.id = s.route_id WINDOW w AS (ORDER BY s.at) ORDER BY s.at DESC",
      1,
      {INT8OID},
      nullptr};
  // By an older version, which wrote down none of it.
  static Statement most = {"SELECT 1 + max(g.lane) FROM outbox.progress g WHERE g.route_id = $1 AND g.at <= $2",
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

void TimeText(int64_t time, std::string* text) {
  text->assign(TIMESTAMP_NOT_FINITE(time) ? "" : timestamptz_to_str(time));
}

// Lost, and not sent again by itself: seek() has put the lanes somewhere else since.
void NoteBeyond(const Asked& asked, const Stretch& stretch, Finding* finding) {
  int64_t at = DT_NOBEGIN;
  finding->text.clear();
  if (FindKept(asked, stretch, 0, finding, &at)) {
    finding->positions.pop_back();  // nobody goes there
  }
  if (!finding->beyond || at < finding->beyond_kept) {
    finding->beyond_kept = at;
    finding->beyond_after.assign(finding->text);
  }
  finding->beyond = true;
}

int RewindsOfTheHour(const LaneId& lane) {
  static Statement count = {"SELECT count(*)::int4 FROM outbox.progress g WHERE " OF_LANE
                            " AND g.side = 0 AND g.at > (now() "
                            "- '1 hour'::interval)"
                            " AND g.survived IS NOT NULL",
                            2,
                            {INT8OID, INT4OID},
                            nullptr};
  Datum values[] = {Int64GetDatum(lane.route_id), Int32GetDatum(lane.lane)};
  RunStatement(&count, values);
  bool isnull = false;
  return DatumGetInt32(ResultDatum(0, 0, &isnull));
}

void AddStart(const LaneId& lane, Finding* finding) {
  finding->all = true;
  static Statement start = {
      "SELECT l.window_from, l.window_to, l.done_to FROM outbox.lane l"
      " WHERE l.route_id = $1 AND l.lane = $2",
      2,
      {INT8OID, INT4OID},
      nullptr};
  Datum values[] = {Int64GetDatum(lane.route_id), Int32GetDatum(lane.lane)};
  RunStatement(&start, values);
  if (SPI_processed > 0) {
    ReadPosition(0, 0, &finding->positions.emplace_back());
  }
}

// Of the position that was found last.
void Keep(int64_t at, Finding* finding) {
  if (at < finding->kept) {
    finding->kept = at;
    finding->kept_at.assign(finding->text);
  }
}

// Whether the lane itself has lost anything; FindLost counts its side lanes, too.
bool LaneLost(const Asked& asked, const Stretch& own) {
  static Statement any = {
      JUDGED
      "SELECT FROM judged h CROSS JOIN LATERAL (SELECT g.acknowledged FROM outbox.progress g WHERE " OUTBOX_OF_PERIOD
      " AND g.acknowledged IS NOT NULL AND (g.acknowledged > h.known) IS NOT TRUE ORDER BY g.at DESC LIMIT 10) g"
      " WHERE h.side = 0 AND g.acknowledged > h.bound LIMIT 1",
      6,
      {ASKED_TYPES},
      nullptr};
  Arguments arguments;
  asked.Fill(own, &arguments);
  RunStatement(&any, arguments.values, arguments.nulls);
  return SPI_processed > 0;
}

// Where the lane stood before anything that it lost itself.
void KeepOfLane(const Asked& asked, const LaneId& lane, const Stretch& own, Finding* finding) {
  int64_t kept = DT_NOBEGIN;
  if (FindKept(asked, own, 0, finding, &kept)) {
    Keep(kept, finding);
  } else {
    AddStart(lane, finding);
  }
}

// Topics that a side lane has delivered since what is lost; "...": there were more.
void ListLostTopics(const Asked& asked, const Stretch& own, int32 side, Finding* finding) {
  static Statement list = {
      JUDGED
      "SELECT DISTINCT e.topic FROM judged h CROSS JOIN LATERAL (SELECT g.places FROM outbox.progress g"
      " WHERE " OUTBOX_OF_PERIOD " AND g.places IS NOT NULL AND " TELLS " AND " BAD
      ") g CROSS JOIN LATERAL jsonb_object_keys(g.places) e(topic) WHERE h.side = $7",
      7,
      {ASKED_TYPES, INT4OID},
      nullptr};
  Arguments arguments;
  asked.Fill(own, &arguments);
  arguments.Add(Int32GetDatum(side));
  RunStatement(&list, arguments.values, arguments.nulls);
  finding->names.clear();
  for (uint64 row = 0; row < SPI_processed; row++) {
    finding->names.emplace_back(pg::Utf8(ResultText(row, 0)));
  }
}

// The route's topics may have had other names then.
bool AlteredSince(int64_t route_id, int64_t time) {
  static Statement any = {
      "SELECT FROM outbox.audit a JOIN outbox.route r ON r.name = a.route WHERE r.id = $1 AND a.at > $2"
      " AND a.action = 'alter_route' LIMIT 1",
      2,
      {INT8OID, TIMESTAMPTZOID},
      nullptr};
  Datum values[] = {Int64GetDatum(route_id), TimestampTzGetDatum(time)};
  RunStatement(&any, values);
  return SPI_processed > 0;
}

// What side lanes had delivered is lost: by topic, where they stood before that. Where no topic can be told the lane
// itself goes back for it.
void KeepOfSides(const Asked& asked, const LaneId& lane, const Stretch& own, Finding* finding) {
  finding->sides.clear();
  ListSides(asked, own, DT_NOBEGIN, false, &finding->sides);
  for (const int32 side : finding->sides) {
    int64_t at = DT_NOBEGIN;
    if (!FindKept(asked, own, side, finding, &at)) {
      AddStart(lane, finding);
      continue;
    }
    Keep(at, finding);
    ListLostTopics(asked, own, side, finding);
    const bool several = finding->names.empty() ||
                         std::find(finding->names.begin(), finding->names.end(), "...") != finding->names.end();
    if (several || finding->topics.size() + finding->names.size() > kMostSides || AlteredSince(asked.route_id, at)) {
      continue;
    }
    for (std::string& name : finding->names) {
      finding->topics.push_back({std::move(name), finding->positions.back()});
    }
    finding->positions.pop_back();
  }
}

void ReadPresent(const LaneId& lane, Finding* finding) {
  finding->present.clear();
  ReadSides(lane, &finding->present);
  finding->stands.resize(finding->present.size());
  LaneId id = lane;
  for (size_t i = 0; i < finding->present.size(); i++) {
    id.side = finding->present[i].side;
    ReadLaneRow(id, &finding->stands[i]);
  }
  static Statement topic = {"SELECT r.topic FROM outbox.route r WHERE r.id = $1", 1, {INT8OID}, nullptr};
  Datum values[] = {Int64GetDatum(lane.route_id)};
  RunStatement(&topic, values);
  if (SPI_processed > 0) {
    finding->topic_template = pg::Utf8(ResultText(0, 0));
  }
}

// A lane that the route had before their number changed.
void KeepOfFormer(const Asked& asked, const Former& time, const Stretch& stretch, Finding* finding) {
  finding->sides.assign(1, 0);
  ListSides(asked, stretch, DT_NOBEGIN, false, &finding->sides);
  for (const int32 side : finding->sides) {
    int64_t at = DT_NOBEGIN;
    if (FindKept(asked, stretch, side, finding, &at)) {
      Keep(at, finding);
    } else {
      finding->positions.push_back(time.start);
      finding->all = true;
    }
  }
}

#define OUTBOX_NOT_SENT ", is not sent: outbox.seek() or outbox.replay() sends it"

// What is missing, and nobody sends by itself.
std::string TellBeyond(const Finding& finding) {
  return "what was delivered " + (finding.beyond_after.empty() ? "" : "after " + finding.beyond_after + " and ") +
         "before " + finding.border_at + ", when its lanes began anew";
}

// When what is sent again, or missing, was delivered: after that; "": all.
const std::string& DeliveredAfter(const Finding& finding) {
  return !finding.all ? finding.kept_at : finding.border_at;
}

void WriteAudit(const LaneId& lane, std::string_view server_run, const Finding& finding, bool rewound,
                const std::string& reason) {
  static Statement put = {
      "INSERT INTO outbox.audit (who, action, route, detail, reason)"
      " SELECT CURRENT_USER, $9, r.name, jsonb_build_object('lane', $2, 'server', r.server, 'run', $3,"
      " 'survived', $4, 'stream', $5, 'acknowledged', $6, 'delivered_after', $7)"
      " || CASE WHEN $11 IS NULL THEN '{}' ELSE jsonb_build_object('missing_after', $10, 'missing_before', $11) END"
      " || CASE WHEN $12 > 0 THEN jsonb_build_object('parked_events', $12) ELSE '{}' END"
      " || CASE WHEN $13 > 0 THEN jsonb_build_object('parked_events_missing', $13) ELSE '{}' END, $8"
      " FROM outbox.route r WHERE r.id = $1",
      13,
      {INT8OID, INT4OID, TEXTOID, TEXTOID, TEXTOID, TEXTOID, TEXTOID, TEXTOID, TEXTOID, TEXTOID, TEXTOID, INT8OID,
       INT8OID},
      nullptr};
  Arguments arguments;
  arguments.Add(Int64GetDatum(lane.route_id));
  arguments.Add(Int32GetDatum(lane.lane));
  arguments.Add(ForeignText(server_run));
  for (const std::string* text : {&finding.survived, &finding.stream, &finding.acknowledged}) {
    arguments.Add(TextDatum(*text));
  }
  auto add = [&arguments](const std::string& text) {
    text.empty() ? arguments.AddNull() : arguments.Add(TextDatum(text));
  };
  finding.wanted ? add(DeliveredAfter(finding)) : arguments.AddNull();
  arguments.Add(TextDatum(reason));
  arguments.Add(TextDatum(rewound ? "rewind" : "lost writes"));
  add(finding.beyond_after);
  finding.beyond ? arguments.Add(TextDatum(finding.border_at)) : arguments.AddNull();
  arguments.Add(Int64GetDatum(finding.parked_again));
  arguments.Add(Int64GetDatum(finding.parked_missing));
  RunStatement(&put, arguments.values, arguments.nulls);
}

// What is delivered from here on was delivered by this lane, also what others had delivered that there were before.
void MoveStart(int64_t route_id, int64_t since, const Position& position) {
  static Statement move = {
      "UPDATE outbox.lane_start SET start_from = $3::pg_snapshot, start_to = $4::pg_snapshot, start_done_to = $5"
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

// One position before all of them.
Position Oldest(const std::vector<Position>& positions) {
  Position oldest = positions[0];
  for (size_t i = 1; i < positions.size(); i++) {
    oldest.target.reset();
    oldest.done_to = kBeforeAllTime;
    if (!positions[i].base.Covers(oldest.base)) {
      oldest.base = positions[i].base;
    }
  }
  return oldest;
}

const Position& Older(const Position& a, const Position& b, Position* mixed) {
  *mixed = Oldest({a, b});
  return *mixed;
}

// Topics whose events a side lane has delivered and lost are read again by a side lane, from where that stood: one that
// there is goes back, else one is made. The lane, which begins at `position`, passes over them. Side lanes that nothing
// is lost of stay, unless the lane goes back behind where their topics left it.
void PlanSides(const Position& position, bool moved, Finding* finding) {
  Position mixed;
  int32 number = 0;
  for (size_t i = 0; i < finding->present.size(); i++) {
    const relay::SideLane& side = finding->present[i];
    number = std::max(number, side.side);
    SideMove move{side, finding->stands[i].position};
    bool goes = false;
    const auto back_to = [&](relay::SideTopic* topic, const Position& kept) {
      topic->start = Older(topic->start, kept, &mixed);
      move.position = Older(move.position, kept, &mixed);
      goes = true;
    };
    for (relay::SideTopic& topic : move.side.topics) {
      for (const LostTopic& lost : finding->topics) {
        if (lost.topic == topic.topic) {
          back_to(&topic, lost.kept);
        }
      }
      if (moved && !position.base.Covers(topic.start.base)) {
        back_to(&topic, position);
      }
    }
    std::erase_if(finding->topics, [&](const LostTopic& lost) {
      return std::any_of(side.topics.begin(), side.topics.end(),
                         [&](const relay::SideTopic& topic) { return topic.topic == lost.topic; });
    });
    if (goes) {
      finding->moves.push_back(std::move(move));
    }
  }
  std::sort(finding->topics.begin(), finding->topics.end(),
            [](const LostTopic& a, const LostTopic& b) { return a.topic < b.topic; });
  for (size_t i = 0; i < finding->topics.size();) {
    Position kept = finding->topics[i].kept;
    const std::string& name = finding->topics[i].topic;
    size_t next = i + 1;
    for (; next < finding->topics.size() && finding->topics[next].topic == name; next++) {
      kept = Older(kept, finding->topics[next].kept, &mixed);
    }
    i = next;
    if (moved && kept.base.Covers(position.base)) {
      continue;  // the lane begins before that
    }
    SideMove& made = finding->moves.emplace_back();
    made.position = moved ? Older(kept, position, &mixed) : kept;
    made.side.side = ++number;
    made.side.topic_template = finding->present.empty() ? finding->topic_template : finding->present[0].topic_template;
    made.side.topics.push_back({name,
                                made.position,
                                {ErrorClass::kTopic, "LOST_WRITES", "what it had is being sent again"},
                                GetCurrentTimestamp() + kPgEpochMicros});
  }
}

// The position of the reader that has the event's topic.
const Position& ReaderOf(const LostParked& lost, const Position& position, const Finding& finding) {
  for (const SideMove& move : finding.moves) {
    for (const relay::SideTopic& topic : move.side.topics) {
      if (topic.topic == lost.topic) {
        return move.position;
      }
    }
  }
  for (size_t i = 0; i < finding.present.size(); i++) {
    for (const relay::SideTopic& topic : finding.present[i].topics) {
      if (topic.topic == lost.topic) {
        return finding.stands[i].position;
      }
    }
  }
  return position;
}

// In portions: what one of them has put back is not lost any more.
Status SendParkedAgain(const Asked& asked, const LaneId& lane, const parked::ParkedOwner& me, const Stretch& own,
                       const Position& position, Finding* finding, bool* owner) {
  for (size_t first = 0; *owner && first < finding->parked.size();) {
    const size_t last = std::min(finding->parked.size(), first + kParkedPortion);
    int64_t done = 0;
    Status status = days::TryWithDayTable(days::DayTableKind::kOutcome, [&](int64 at) {
      OUTBOX_FAULT_THROW("rewind.parked.before");
      done = 0;
      *owner = parked::LockLane(me, own.after);
      if (!*owner) {
        return;
      }
      ParkedColumns again(last - first);
      ParkedColumns read(last - first);
      for (size_t i = first; i < last; i++) {
        const LostParked& lost = finding->parked[i];
        if (lost.at <= finding->border) {
          continue;  // seek() has put the lanes somewhere else since
        }
        const bool reads =
            lost.replay == 0 && lost.xid != 0 && !ReaderOf(lost, position, *finding).Covers(lost.xid, lost.created_at);
        (reads ? read : again).Add(lost);
      }
      done = again.id.count + read.id.count == 0 ? 0 : PutParkedBack(lane, at, again, read);
      OUTBOX_FAULT_THROW("rewind.parked.uncommitted");
    });
    OUTBOX_FAULT_POINT("rewind.parked.after");
    if (!status.ok()) {
      return status;
    }
    finding->parked_again += done;
    finding->parked_missing += static_cast<int64_t>(last - first) - done;
    first = last;
    if (first == finding->parked.size() && first >= kMostParked && finding->parked_missing == 0) {
      first = 0;
      status = TryInTransaction([&] {
        FindLostParked(asked, own, finding);
        KeepOwnParked(lane, finding);
      });
      if (!status.ok()) {
        return status;
      }
    }
  }
  return Status();
}

std::string Events(int64_t count) {
  return std::to_string(count) + (count == 1 ? " event that was" : " events that were");
}

std::string Reason(const Finding& finding, bool rewound) {
  if (!rewound) {
    return finding.why_not;
  }
  return finding.beyond ? "the Redis server has lost what it had acknowledged; " + TellBeyond(finding) + OUTBOX_NOT_SENT
                        : "the Redis server has lost what it had acknowledged";
}

std::string Describe(const LaneId& lane, const Finding& finding, bool rewound) {
  std::string text = "the Redis server has lost what it had acknowledged: stream \"" + finding.stream + "\" had " +
                     finding.acknowledged + ", the last id there is " + finding.survived + "; lane " +
                     std::to_string(lane.lane) + " of route \"" + finding.route + "\" ";
  if (!rewound) {
    text += "sends nothing again: " + finding.why_not;
  } else if (finding.wanted) {
    const std::string& after = DeliveredAfter(finding);
    text += after.empty() ? "sends again all that it has delivered and the log still has"
                          : "sends again what it delivered after " + after;
    if (finding.elsewhere) {
      text += ", here or elsewhere";
    }
  } else {
    text += "goes on where it is";
  }
  if (finding.parked_again > 0) {
    text += "; " + Events(finding.parked_again) + " delivered from outbox.parked go again";
  }
  if (finding.parked_missing > 0) {
    text += "; " + Events(finding.parked_missing) + " delivered from outbox.parked" OUTBOX_NOT_SENT;
  }
  return rewound && finding.beyond ? text + "; " + TellBeyond(finding) + OUTBOX_NOT_SENT : text;
}

// What lanes acknowledged that there were before. A lane of today has looked at it where it, or all lanes of a time
// since, have had to do with a newer run. What is not taken up is told by the first lane.
bool LookBack(const Asked& asked, const LaneId& lane, Finding* finding) {
  bool lost = false;
  Asked then = asked;
  for (const Former& time : finding->former) {
    if (!time.reached && (lane.lane != 0 || BeganBeforeTheLog(lane))) {
      break;
    }
    int64_t looked = PG_INT64_MAX;
    for (int32 number = 0; number < time.lanes; number++) {
      const Stretch stretch{number, time.after, time.until};
      int64_t newest = 0;
      const bool lost_then = FindLost(then, stretch, finding, &newest);
      finding->seen |= newest >= 0;
      looked = Min(looked, newest);
      if (lost_then && time.reached) {
        lost = true;
        KeepOfFormer(then, time, stretch, finding);
      } else if (lost_then) {
        NoteBeyond(then, stretch, finding);
      }
    }
    then.looked = Max(then.looked, looked);
  }
  return lost;
}

bool AnyElsewhere(const Asked& asked, const Stretch& own, const Finding& finding) {
  const int64_t since = finding.all ? finding.border : finding.kept;
  bool any = HadElsewhere(asked, own, since);
  for (size_t i = 0; i < finding.former.size() && finding.former[i].reached; i++) {
    for (int32 number = 0; number < finding.former[i].lanes && !any; number++) {
      any = HadElsewhere(asked, {number, finding.former[i].after, finding.former[i].until}, since);
    }
  }
  return any;
}

}  // namespace

namespace {

// From here on the lane passes over what is parked or was settled from there, as far as it has read before.
void NoteRepeats(const LaneId& lane) {
  static Statement note = {
      "UPDATE outbox.lane l SET repeats_to = pg_current_snapshot() WHERE l.route_id = $1 AND l.lane = $2",
      2,
      {INT8OID, INT4OID},
      nullptr};
  Datum values[] = {Int64GetDatum(lane.route_id), Int32GetDatum(lane.lane)};
  RunStatement(&note, values);
}

// Plain.
void Find(Asked* asked, const LaneId& lane, const LaneRow& lane_row, const Stretch& own, bool* crossed,
          Finding* finding) {
  asked->looked = finding->looked;
  int64_t newest = 0;
  const bool own_lost = FindLost(*asked, own, finding, &newest);
  finding->seen = newest >= 0;
  ReadFormer(lane.route_id, lane_row.since, &finding->former, &finding->border);
  TimeText(finding->border, &finding->border_at);
  *crossed = LookBack(*asked, lane, finding);
  FindLostParked(*asked, own, finding);
  KeepOwnParked(lane, finding);
  finding->seen |= !finding->parked.empty();
  finding->wanted = own_lost || *crossed;
  if (!finding->wanted) {
    return;
  }
  if (*crossed || LaneLost(*asked, own)) {
    KeepOfLane(*asked, lane, own, finding);
  }
  KeepOfSides(*asked, lane, own, finding);
  ReadPresent(lane, finding);
  finding->elsewhere = AnyElsewhere(*asked, own, *finding);
}

}  // namespace

Status RewindLane(const LaneId& lane, uint64_t incarnation, const std::string& server_run, bool resend,
                  relay::Loss* loss, bool* owner) {
  *loss = {};
  *owner = true;
  Finding finding;
  LaneRow lane_row;
  const parked::ParkedOwner me{lane, incarnation};
  Asked asked{lane.route_id, server_run};
  Stretch own{lane.lane};
  bool crossed = false;
  Status status = TryInTransaction([&] {
    pg::CommitWithoutFlush();  // it locks, and writes nothing
    *owner = ReadLaneRow(lane, &lane_row) && parked::LockLane(me, lane_row.since);
    own.after = lane_row.since;
    if (!*owner || !FindRun(asked, own, &finding)) {
      return;
    }
    Find(&asked, lane, lane_row, own, &crossed, &finding);
    if (resend && RewindsOfTheHour(lane) >= kMostAnHour) {
      finding.why_not = "it has done so twenty times within an hour";
    }
  });
  if (!status.ok() || !*owner || !finding.seen) {
    return status;
  }
  if (!resend) {
    finding.why_not = "option on_lost_writes of the destination is warn";
  }
  Position position = lane_row.position;
  if (finding.wanted && finding.why_not.empty()) {
    const bool moved = !finding.positions.empty();
    position = moved ? Oldest(finding.positions) : position;
    PlanSides(position, moved, &finding);
  }
  if (finding.why_not.empty()) {
    status = SendParkedAgain(asked, lane, me, own, position, &finding, owner);
    if (!status.ok() || !*owner) {
      return status;
    }
  } else {
    finding.parked_missing = static_cast<int64_t>(finding.parked.size());
  }
  if (!finding.lost) {
    finding.why_not = "nothing is lost";
  } else if (!finding.wanted && finding.parked_again == 0 && finding.why_not.empty()) {
    finding.why_not = finding.beyond ? TellBeyond(finding) + OUTBOX_NOT_SENT : "the log has it no more";
  }
  const bool rewound = finding.why_not.empty();
  const std::string reason = Reason(finding, rewound);
  status = days::TryWithDayTable(days::DayTableKind::kProgress, [&](int64 at) {
    OUTBOX_FAULT_THROW("rewind.before");
    if (!finding.lost) {
      pg::CommitWithoutFlush();  // after a crash somebody looks again
    }
    // Also where nothing is sent again, or lost: then nobody looks again.
    *owner = AppendProgress(lane, incarnation, lane_row.since, at, position, {}, server_run, nullptr,
                            rewound ? std::string_view(finding.survived) : std::string_view());
    if (*owner) {
      if (rewound) {
        NoteRepeats(lane);
      }
      LaneId side = lane;
      for (const SideMove& move : finding.moves) {
        side.side = move.side.side;
        AppendProgress(side, incarnation, lane_row.since, at, move.position);
        PutSide(lane, move.side, move.position);
      }
      if (rewound && crossed) {
        MoveStart(lane.route_id, lane_row.since, position);
      }
      if (finding.lost) {
        WriteAudit(lane, server_run, finding, rewound, reason);
      }
    }
    OUTBOX_FAULT_THROW("rewind.uncommitted");
  });
  OUTBOX_FAULT_POINT("rewind.after");
  if (!status.ok() || !*owner || !finding.lost) {
    return status;
  }
  loss->rewound = rewound;
  loss->error = {ErrorClass::kDestination, "LOST_WRITES", Describe(lane, finding, rewound)};
  const char* text = loss->error.message.c_str();
  const char* server = finding.server.c_str();
  return Try([&] { pg::Guard([&] { ereport(WARNING, (errmsg("outbox: destination \"%s\": %s", server, text))); }); });
}

}  // namespace outbox::log
