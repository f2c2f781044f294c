#include "log/rewind.h"

#include <algorithm>
#include <vector>

#include "base/fault_point.h"
#include "days/log_table_list.h"
#include "days/with_day_table.h"
#include "log/lane_tables.h"
#include "log/place_arguments.h"
#include "log/row.h"
#include "log/run_periods_sql.h"
#include "log/sql.h"
#include "parked/statements.h"

namespace outbox::log {

namespace {

constexpr int kMostAnHour = 20;  // a server that loses its data again and again is not sent everything each time

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
  bool seen = false;    // there was something to be looked at
  std::vector<Former> former;
  std::vector<int32> sides;  // scratch, like the next one
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

// The lane, and its side lanes: they have delivered under positions of their own, also those that are back, and the
// lane, which reads for them from now on, has to begin before all.
void KeepOfLane(const Asked& asked, const LaneId& lane, const Stretch& own, Finding* finding) {
  static Statement fork = {
      "SELECT s.window_from, s.window_to, s.done_to FROM outbox.side_lane s WHERE s.route_id = $1"
      " AND s.lane = $2 AND s.side = $3",
      3,
      {INT8OID, INT4OID, INT4OID},
      nullptr};
  int64_t kept = DT_NOBEGIN;
  if (FindKept(asked, own, 0, finding, &kept)) {
    Keep(kept, finding);
  } else {
    AddStart(lane, finding);
  }
  finding->sides.clear();
  ListSides(asked, own, kept, true, &finding->sides);
  for (const int32 side : finding->sides) {
    int64_t at = DT_NOBEGIN;
    if (FindKept(asked, own, side, finding, &at)) {
      Keep(at, finding);
      continue;
    }
    Datum of[] = {Int64GetDatum(lane.route_id), Int32GetDatum(lane.lane), Int32GetDatum(side)};
    RunStatement(&fork, of);
    if (SPI_processed > 0) {
      ReadPosition(0, 0, &finding->positions.emplace_back());
    } else {
      AddStart(lane, finding);
    }
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

void DropSides(const LaneId& lane) {
  static Statement drop = {
      "DELETE FROM outbox.side_lane s WHERE s.route_id = $1 AND s.lane = $2", 2, {INT8OID, INT4OID}, nullptr};
  Datum values[] = {Int64GetDatum(lane.route_id), Int32GetDatum(lane.lane)};
  RunStatement(&drop, values);
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
      " || CASE WHEN $11 IS NULL THEN '{}' ELSE jsonb_build_object('missing_after', $10, 'missing_before', $11) END, $8"
      " FROM outbox.route r WHERE r.id = $1",
      11,
      {INT8OID, INT4OID, TEXTOID, TEXTOID, TEXTOID, TEXTOID, TEXTOID, TEXTOID, TEXTOID, TEXTOID, TEXTOID},
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
  add(DeliveredAfter(finding));
  arguments.Add(TextDatum(reason));
  arguments.Add(TextDatum(rewound ? "rewind" : "lost writes"));
  add(finding.beyond_after);
  finding.beyond ? arguments.Add(TextDatum(finding.border_at)) : arguments.AddNull();
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
    return text + "sends nothing again: " + finding.why_not;
  }
  const std::string& after = DeliveredAfter(finding);
  text += after.empty() ? "sends again all that it has delivered and the log still has"
                        : "sends again what it delivered after " + after;
  if (finding.elsewhere) {
    text += ", here or elsewhere";
  }
  return finding.beyond ? text + "; " + TellBeyond(finding) + OUTBOX_NOT_SENT : text;
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
  bool wanted = false;
  Status status = TryInTransaction([&] {
    pg::CommitWithoutFlush();  // it locks, and writes nothing
    *owner = ReadLaneRow(lane, &lane_row) && parked::LockLane(me, lane_row.since);
    own.after = lane_row.since;
    if (!*owner || !FindRun(asked, own, &finding)) {
      return;
    }
    asked.looked = finding.looked;
    int64_t newest = 0;
    wanted = FindLost(asked, own, &finding, &newest);
    finding.seen = newest >= 0;
    ReadFormer(lane.route_id, lane_row.since, &finding.former, &finding.border);
    TimeText(finding.border, &finding.border_at);
    crossed = LookBack(asked, lane, &finding);
    wanted |= crossed;
    if (!wanted) {
      return;
    }
    KeepOfLane(asked, lane, own, &finding);
    finding.elsewhere = AnyElsewhere(asked, own, finding);
    if (resend && RewindsOfTheHour(lane) >= kMostAnHour) {
      finding.why_not = "it has done so twenty times within an hour";
    }
  });
  if (!status.ok() || !*owner || !finding.seen) {
    return status;
  }
  if (!finding.lost) {
    finding.why_not = "nothing is lost";
  } else if (!wanted) {
    finding.why_not = TellBeyond(finding) + OUTBOX_NOT_SENT;
  } else if (!resend) {
    finding.why_not = "option on_lost_writes of the destination is warn";
  }
  const bool rewound = finding.why_not.empty();
  const Position position = rewound ? Oldest(finding.positions) : lane_row.position;
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
        DropSides(lane);
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
