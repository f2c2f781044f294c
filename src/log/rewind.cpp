#include "log/rewind.h"

#include <vector>

#include "base/fault_point.h"
#include "days/leaf_list.h"
#include "days/on_its_day.h"
#include "log/lane_tables.h"
#include "log/place_arguments.h"
#include "log/row.h"
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
// In front of a statement: the numbers under which the lane has progress, 0 for its own. From one to the next through
// the index, however many rows there are: a week of a busy lane is millions.
#define WITH_SIDES                                                                                 \
  "WITH RECURSIVE sides(side) AS (SELECT 0 UNION ALL SELECT (SELECT g.side FROM outbox.progress g" \
  " WHERE g.route_id = $1 AND g.lane = $2"                                                         \
  " AND g.side > s.side ORDER BY g.side LIMIT 1) FROM sides s WHERE s.side IS NOT"                 \
  " NULL) "
// Rows with something acknowledged under an id later than $3; also all rows since one that put the lane back, if less
// is there now than was then.
#define BAD                                           \
  "(CASE WHEN g.survived IS NULL THEN g.acknowledged" \
  " ELSE string_to_array(g.survived, '-')::int8[] END > $3)"
#define TELLS "(g.acknowledged IS NOT NULL OR g.survived IS NOT NULL)"

// Filled inside of the transaction, read after it.
struct Finding {
  std::string survived;
  std::string route;
  std::string server;
  std::string stream;        // of what was acknowledged last, the first that is lost
  std::string acknowledged;  // its id
  std::string kept_at;       // when the position was saved that the lane goes back to; "": none is old enough
  std::string began_at;      // when the lane was put where it goes back to, if something older is lost as well
  std::string why_not;       // why the lane is not put back
  std::vector<Position> positions;
};

void Assign(uint64 row, int column, std::string* text) {
  const char* value = ResultText(row, column);
  text->assign(value == nullptr ? "" : value);
}

// Returns false if nothing was recorded of that run, or the lane was checked against it before.
bool FindRun(const LaneId& lane, std::string_view run, Finding* finding, bool* resend) {
  static Statement find = {
      "SELECT m.survived, m.resend, r.name, r.server FROM outbox.lane l"
      " JOIN outbox.route r ON r.id = l.route_id"
      " JOIN outbox.server_run m ON m.server = r.server AND m.run = $3"
      " LEFT JOIN LATERAL (SELECT g.run FROM outbox.progress g WHERE g.route_id = l.route_id"
      " AND g.lane = l.lane AND g.at > l.since"
      " ORDER BY g.at DESC LIMIT 1) n ON true"
      " WHERE l.route_id = $1 AND l.lane = $2"
      " AND (n.run = $3) IS NOT TRUE",
      3,
      {INT8OID, INT4OID, TEXTOID},
      nullptr};
  Datum values[] = {Int64GetDatum(lane.route_id), Int32GetDatum(lane.lane), ForeignText(run)};
  RunStatement(&find, values);
  if (SPI_processed == 0) {
    return false;
  }
  bool isnull = false;
  Assign(0, 0, &finding->survived);
  *resend = DatumGetBool(ResultDatum(0, 1, &isnull));
  Assign(0, 2, &finding->route);
  Assign(0, 3, &finding->server);
  return true;
}

Datum SurvivedDatum(const Finding& finding) {
  Datum numbers = 0;
  if (!StreamIdDatum(finding.survived, &numbers)) {
    StreamIdDatum("0-0", &numbers);
  }
  return numbers;
}

// Among the newest rows of the lane and its side lanes: something that was acknowledged and is gone.
bool FindLost(const LaneId& lane, std::string_view run, Finding* finding) {
  static Statement find = {
      WITH_SIDES
      "SELECT (SELECT e.key FROM jsonb_each(g.places) e WHERE"
      " (e.value ->> 1) = array_to_string(g.acknowledged, '-')"
      " LIMIT 1), array_to_string(g.acknowledged, '-') FROM sides s CROSS JOIN LATERAL"
      " (SELECT g.acknowledged, g.places, g.run FROM outbox.progress g WHERE " OF_LANE
      " AND g.side = s.side AND g.acknowledged IS NOT NULL ORDER BY g.at DESC LIMIT 10) g"
      " WHERE " OUTBOX_EARLIER_RUN("g", "$4") " AND g.acknowledged > $3"
      " ORDER BY g.acknowledged DESC LIMIT 1",
      4,
      {INT8OID, INT4OID, INT8ARRAYOID, TEXTOID},
      nullptr};
  Datum values[] = {Int64GetDatum(lane.route_id), Int32GetDatum(lane.lane), SurvivedDatum(*finding), ForeignText(run)};
  RunStatement(&find, values);
  if (SPI_processed == 0) {
    return false;
  }
  Assign(0, 0, &finding->stream);
  Assign(0, 1, &finding->acknowledged);
  return true;
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

// What the lane itself, or one that had its number, delivered before it was put where it began: by seek(), or with
// another number of lanes. That is not sent again by going back to its beginning. Of lanes that no longer exist the
// first one decides.
bool FindLostBefore(const LaneId& lane, std::string_view run, Finding* finding) {
  if (BeganBeforeTheLog(lane)) {
    return false;
  }
  static Statement find = {
      "WITH RECURSIVE former(lane) AS (SELECT $2 UNION ALL SELECT (SELECT g.lane FROM outbox.progress g"
      " WHERE g.route_id = $1 AND g.lane >= r.lanes"
      " AND g.lane > f.lane ORDER BY g.lane LIMIT 1) FROM former f JOIN outbox.route r"
      " ON r.id = $1 WHERE f.lane IS NOT NULL AND $2 = 0)"
      " SELECT (SELECT e.key FROM jsonb_each(g.places) e WHERE"
      " (e.value ->> 1) = array_to_string(g.acknowledged, '-')"
      " LIMIT 1), array_to_string(g.acknowledged, '-'), l.since FROM outbox.lane l CROSS JOIN former f"
      " CROSS JOIN LATERAL (SELECT g.acknowledged, g.places, g.run FROM outbox.progress g"
      " WHERE g.route_id = $1 AND g.lane = f.lane"
      " AND g.side = 0 AND g.at <= l.since AND g.acknowledged IS NOT NULL"
      " ORDER BY g.at DESC LIMIT 1) g WHERE l.route_id = $1 AND l.lane = $2"
      " AND " OUTBOX_EARLIER_RUN("g", "$4") " AND g.acknowledged > $3"
      " ORDER BY g.acknowledged DESC LIMIT 1",
      4,
      {INT8OID, INT4OID, INT8ARRAYOID, TEXTOID},
      nullptr};
  Datum values[] = {Int64GetDatum(lane.route_id), Int32GetDatum(lane.lane), SurvivedDatum(*finding), ForeignText(run)};
  RunStatement(&find, values);
  if (SPI_processed == 0) {
    return false;
  }
  if (finding->acknowledged.empty()) {
    Assign(0, 0, &finding->stream);
    Assign(0, 1, &finding->acknowledged);
  }
  Assign(0, 2, &finding->began_at);
  return true;
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

// The newest position of the lane, or of its side lane, before which nothing acknowledged is missing.
bool FindKept(const LaneId& lane, int32 side, Finding* finding, bool say_when) {
  static Statement find = {"SELECT g.window_from, g.window_to, g.done_to, g.at FROM outbox.progress g WHERE " OF_LANE
                           " AND g.side = $4 AND " TELLS " AND NOT " BAD " ORDER BY g.at DESC LIMIT 1",
                           4,
                           {INT8OID, INT4OID, INT8ARRAYOID, INT4OID},
                           nullptr};
  Datum values[] = {Int64GetDatum(lane.route_id), Int32GetDatum(lane.lane), SurvivedDatum(*finding),
                    Int32GetDatum(side)};
  RunStatement(&find, values);
  if (SPI_processed == 0) {
    return false;
  }
  ReadPosition(0, 0, &finding->positions.emplace_back());
  if (say_when) {
    Assign(0, 3, &finding->kept_at);
  }
  return true;
}

void AddStart(const LaneId& lane, Finding* finding) {
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

// Side lanes have delivered under positions of their own, also those that have rejoined: the lane, which reads for them
// from now on, has to begin before all of these.
void AddSides(const LaneId& lane, Finding* finding, std::vector<int32>* sides) {
  static Statement numbers = {WITH_SIDES
                              "SELECT s.side FROM outbox.side_lane s WHERE s.route_id = $1"
                              " AND s.lane = $2 UNION SELECT s.side FROM sides s WHERE s.side > 0"
                              " AND EXISTS (SELECT FROM outbox.progress g WHERE " OF_LANE
                              " AND g.side = s.side AND g.at > ($4::timestamptz"
                              " - '2 seconds'::interval) AND " TELLS " AND " BAD ")",
                              4,
                              {INT8OID, INT4OID, INT8ARRAYOID, TEXTOID},
                              nullptr};
  static Statement fork = {
      "SELECT s.window_from, s.window_to, s.done_to FROM outbox.side_lane s WHERE s.route_id = $1"
      " AND s.lane = $2 AND s.side = $3",
      3,
      {INT8OID, INT4OID, INT4OID},
      nullptr};
  Datum values[] = {Int64GetDatum(lane.route_id), Int32GetDatum(lane.lane), SurvivedDatum(*finding),
                    TextDatum(finding->kept_at.empty() ? "-infinity" : std::string_view(finding->kept_at))};
  RunStatement(&numbers, values);
  for (uint64 row = 0; row < SPI_processed; row++) {
    bool isnull = false;
    sides->push_back(DatumGetInt32(ResultDatum(row, 0, &isnull)));
  }
  for (const int32 side : *sides) {
    if (FindKept(lane, side, finding, false)) {
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

void DropSides(const LaneId& lane) {
  static Statement drop = {
      "DELETE FROM outbox.side_lane s WHERE s.route_id = $1 AND s.lane = $2", 2, {INT8OID, INT4OID}, nullptr};
  Datum values[] = {Int64GetDatum(lane.route_id), Int32GetDatum(lane.lane)};
  RunStatement(&drop, values);
}

#define OUTBOX_BEFORE \
  "what was delivered before, with another number of lanes or before seek(), is not sent: outbox.seek() sends it"

// Whether the lane goes back to where it began while something older is lost as well.
bool NotAll(const Finding& finding) {
  return finding.kept_at.empty() && !finding.began_at.empty();
}

const std::string& DeliveredAfter(const Finding& finding) {
  return finding.kept_at.empty() ? finding.began_at : finding.kept_at;
}

void WriteAudit(const LaneId& lane, std::string_view run, const Finding& finding, bool rewound) {
  static Statement put = {
      "INSERT INTO outbox.audit (who, action, route, detail, reason)"
      " SELECT CURRENT_USER, $9, r.name, jsonb_build_object('lane', $2, 'server', r.server, 'run', $3,"
      " 'survived', $4, 'stream', $5, 'acknowledged', $6, 'delivered_after', $7), $8"
      " FROM outbox.route r WHERE r.id = $1",
      9,
      {INT8OID, INT4OID, TEXTOID, TEXTOID, TEXTOID, TEXTOID, TEXTOID, TEXTOID, TEXTOID},
      nullptr};
  Arguments arguments;
  arguments.Add(Int64GetDatum(lane.route_id));
  arguments.Add(Int32GetDatum(lane.lane));
  arguments.Add(ForeignText(run));
  for (const std::string* text : {&finding.survived, &finding.stream, &finding.acknowledged}) {
    arguments.Add(TextDatum(*text));
  }
  const std::string& after = rewound ? DeliveredAfter(finding) : finding.kept_at;
  after.empty() ? arguments.AddNull() : arguments.Add(TextDatum(after));
  const char* reason = finding.why_not.c_str();
  if (rewound) {
    reason = NotAll(finding) ? "the Redis server has lost what it had acknowledged; " OUTBOX_BEFORE
                             : "the Redis server has lost what it had acknowledged";
  }
  arguments.Add(TextDatum(reason));
  arguments.Add(TextDatum(rewound ? "rewind" : "lost writes"));
  RunStatement(&put, arguments.values, arguments.nulls);
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

std::string Describe(const LaneId& lane, const Finding& finding, bool rewound) {
  std::string text = "the Redis server has lost what it had acknowledged: stream \"" + finding.stream + "\" had " +
                     finding.acknowledged + ", the last id there is " + finding.survived + "; lane " +
                     std::to_string(lane.lane) + " of route \"" + finding.route + "\" ";
  if (!rewound) {
    return text + "sends nothing again: " + finding.why_not;
  }
  const std::string& after = DeliveredAfter(finding);
  text += after.empty() ? "sends again all that the log has" : "sends again what it delivered after " + after;
  return NotAll(finding) ? text + "; " OUTBOX_BEFORE : text;
}

}  // namespace

Status RewindLane(const LaneId& lane, uint64_t incarnation, const std::string& run, relay::Loss* loss, bool* owner) {
  *loss = {};
  *owner = true;
  Finding finding;
  LaneStanding standing;
  std::vector<int32> sides;
  bool lost = false;
  bool resend = false;
  const parked::ParkedOwner me{lane, incarnation};
  Status status = TryInTransaction([&] {
    *owner = ReadStanding(lane, &standing) && parked::LockLane(me, standing.since);
    if (!*owner || !FindRun(lane, run, &finding, &resend)) {
      return;
    }
    const bool since = FindLost(lane, run, &finding);
    const bool before = FindLostBefore(lane, run, &finding);
    lost = since || before;
    if (!lost) {
      return;
    }
    if (!since) {
      finding.why_not = "it was delivered before seek(), or before the number of lanes changed; outbox.seek() sends it";
    } else if (!resend) {
      finding.why_not = "option on_lost_writes of the destination is warn";
    } else if (RewindsOfTheHour(lane) >= kMostAnHour) {
      finding.why_not = "it has done so twenty times within an hour";
    } else {
      if (!FindKept(lane, 0, &finding, true)) {
        AddStart(lane, &finding);
      }
      AddSides(lane, &finding, &sides);
    }
  });
  if (!status.ok() || !lost) {
    return status;
  }
  const bool rewound = finding.why_not.empty() && !finding.positions.empty();
  const Position position = rewound ? Oldest(finding.positions) : standing.position;
  status = days::TryOnItsDay(days::DayTableKind::kProgress, [&](int64 at) {
    OUTBOX_FAULT_THROW("rewind.before");
    // Written also where nothing is sent again, so that the warning is not repeated.
    *owner = AppendProgress(lane, incarnation, standing.since, at, position, {}, run,
                            rewound ? std::string_view(finding.survived) : std::string_view());
    if (*owner) {
      if (rewound) {
        DropSides(lane);
      }
      WriteAudit(lane, run, finding, rewound);
    }
    OUTBOX_FAULT_THROW("rewind.uncommitted");
  });
  OUTBOX_FAULT_POINT("rewind.after");
  if (!status.ok() || !*owner) {
    return status;
  }
  loss->rewound = rewound;
  loss->error = {ErrorClass::kDestination, "LOST_WRITES", Describe(lane, finding, rewound)};
  const char* text = loss->error.message.c_str();
  const char* server = finding.server.c_str();
  return Try([&] { pg::Guard([&] { ereport(WARNING, (errmsg("outbox: destination \"%s\": %s", server, text))); }); });
}

}  // namespace outbox::log
