#include "log/loss/lost_parked.h"

#include <algorithm>

#include "base/fault_point.h"
#include "base/like_pattern.h"
#include "days/with_day_table.h"
#include "format/route_spec.h"
#include "log/loss/rewind_plan.h"
#include "log/window/row.h"
#include "parked/erasures.h"
#include "parked/nothing_parked.h"
#include "pg/encoding.h"
#include "pg/sql.h"
#include "pg/wall.h"

namespace outbox::log {

using namespace pg::sql;

namespace {

constexpr size_t kMostParked = 50'000;    // at a time
constexpr size_t kParkedPortion = 2'000;  // in a transaction

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

// Sends these again: those in `again` from outbox_internal.parked, with what the log has; those in `read`, which a lane
// reads again, are only noted to be lost, if the route still takes them (format/pattern.h), and go like the others if
// it does not. What an operator has changed is not in the log. Returns how many.
int64_t PutParkedBack(const LaneId& lane, int64_t at, const ParkedColumns& again, const ParkedColumns& read) {
  static Statement put = {
      "WITH n AS (SELECT o.* FROM ROWS FROM (unnest($8), unnest($9)) x(at, id) JOIN outbox_internal.outcome o"
      " ON o.id = x.id AND o.at = x.at AND o.route_id = $1), g AS (SELECT n.at, n.id FROM n JOIN outbox.route r"
      " ON r.id = n.route_id JOIN outbox_internal.whole_log l ON l.created_at = n.created_at AND l.id = n.id"
      " WHERE l.created_at BETWEEN $6 AND $7 AND l.xid = ANY ($5)"
      " AND EXISTS (SELECT FROM (VALUES (r.aggregate_types, l.aggregate_type), (r.event_types, l.event_type))"
      " f(patterns, value) WHERE NOT EXISTS (SELECT FROM unnest(f.patterns) p WHERE f.value LIKE "
      OUTBOX_LIKE_PATTERN("p") "))),"
      " k AS (SELECT o.*, EXISTS (SELECT FROM outbox.audit a WHERE a.event_id = o.id AND a.action = 'retry'"
      " AND a.detail -> 'edited' ->> 'topic' IS NOT NULL) AS moved"
      " FROM (SELECT * FROM ROWS FROM (unnest($3), unnest($4)) y(at, id) UNION ALL SELECT * FROM g) x"
      " JOIN outbox_internal.outcome o ON o.id = x.id AND o.at = x.at AND o.route_id = $1 AND NOT EXISTS (SELECT FROM "
      "outbox.audit a"
      " WHERE a.event_id = o.id AND a.action = 'retry' AND (a.detail -> 'edited') ?| '{payload,headers}')),"
      " put AS (INSERT INTO outbox_internal.parked AS p (route_id, lane, created_at, id, replay, state, order_key, "
      "due_at,"
      " aggregate_type, aggregate_id, event_type, payload, content_type, headers, own_topic, topic, error_class,"
      " error_code, error_message, failed_at, xid, deliver_at) SELECT $1, $2, l.created_at, l.id, k.replay, "
      "'retrying', "
      "CASE WHEN k.order_key IS NOT NULL THEN outbox_internal.order_key(k.topic, l.aggregate_type, l.aggregate_id) END,"
      " $11, l.aggregate_type, l.aggregate_id, l.event_type, l.payload, l.content_type, CASE WHEN k.replay = 0"
      " THEN l.headers ELSE coalesce(l.headers, '{}') || jsonb_build_object('outbox-replay', k.replay::text) END,"
      " CASE WHEN k.moved THEN k.topic ELSE l.topic END, k.topic, 'destination', 'LOST_WRITES',"
      " 'it was delivered, and the destination has lost it', clock_timestamp(), l.xid, l.deliver_at"
      " FROM k JOIN outbox_internal.whole_log l ON l.created_at = k.created_at AND l.id = k.id"
      " WHERE l.created_at BETWEEN $6 AND $7 AND l.xid = ANY ($5)"
      " AND NOT outbox_internal.forgotten(l.payload, l.headers, l.content_type) ON CONFLICT (route_id, created_at, id, "
      "replay)"
      " DO UPDATE SET xid = excluded.xid RETURNING p.created_at, p.id, p.replay, p.topic)"
      " INSERT INTO outbox_internal.outcome (at, route_id, created_at, id, replay, outcome, attempts, topic)"
      " SELECT $10, $1, q.created_at, q.id, q.replay, 'lost', 0, q.topic FROM put q"
      " UNION ALL SELECT $10, $1, n.created_at, n.id, n.replay, 'lost', 0, n.topic FROM n"
      " WHERE NOT EXISTS (SELECT FROM g WHERE g.at = n.at AND g.id = n.id)",
      11,
      {INT8OID, INT4OID, TIMESTAMPTZARRAYOID, UUIDARRAYOID, XID8ARRAYOID, TIMESTAMPTZOID, TIMESTAMPTZOID,
       TIMESTAMPTZARRAYOID, UUIDARRAYOID, TIMESTAMPTZOID, TIMESTAMPTZOID},
      nullptr};
  Column xid(again.xid.count + read.xid.count);
  for (const Column* some : {&again.xid, &read.xid}) {
    for (int i = 0; i < some->count; i++) {
      xid.Add(some->values[i]);
    }
  }
  Arguments arguments;
  arguments.Add(Int64GetDatum(lane.route_id));
  arguments.Add(Int32GetDatum(lane.lane));
  arguments.Add(again.at.Array(TIMESTAMPTZOID));
  arguments.Add(again.id.Array(UUIDOID));
  arguments.Add(xid.Array(XID8OID));
  arguments.Add(TimestampTzGetDatum(Min(again.first, read.first)));
  arguments.Add(TimestampTzGetDatum(Max(again.last, read.last)));
  arguments.Add(read.at.Array(TIMESTAMPTZOID));
  arguments.Add(read.id.Array(UUIDOID));
  arguments.AddTime(at);
  arguments.AddTime(pg::BelievedWall());
  RunStatement(&put, arguments.values);
  const auto done = static_cast<int64_t>(SPI_processed);
  parked::NothingParked::ForgetAll();
  return done;
}

}  // namespace

// Where seek() has put the lanes before an event since, they have sent it again, or will: what is lost of that is
// theirs. Of what is from before an adoption the number in this log is below all transaction ids.
void FindLostParked(const Asked& asked, const Stretch& own, Finding* finding) {
  static Statement find = {
      "SELECT o.at, o.created_at, o.id, o.replay, coalesce(o.xid, '0'), o.topic, o.at > $4,"
      " array_to_string(o.acknowledged, '-'), array_to_string(s.bound, '-') FROM outbox_internal.server_runs($3) h"
      " CROSS JOIN LATERAL outbox_internal.survived(h.run, $5, 9223372036854775807) s"
      " CROSS JOIN LATERAL outbox_internal.survived(h.run, 0, $5) k CROSS JOIN LATERAL"
      " (SELECT o.* FROM outbox_internal.latest_outcome o WHERE o.run = h.run"
      " AND o.acknowledged > s.bound AND outbox_internal.is_lost(o.acknowledged, o.at, s.bound, s.there_to)"
      " AND outbox_internal.is_lost(o.acknowledged, o.at, k.bound, k.there_to) IS NOT TRUE AND o.route_id = $1"
      " AND (o.lane = $2 OR o.at <= $4) AND o.outcome = 'delivered' AND NOT (o.at <= $7 AND o.replay = 0"
      " AND o.created_at >= (SELECT min(t.day)::timestamp AT TIME ZONE 'UTC' FROM outbox_internal.log_table t)"
      " AND EXISTS (SELECT FROM outbox_internal.lane_start b CROSS JOIN LATERAL (SELECT CASE WHEN o.at <="
      " (SELECT max(a.at) FROM outbox_internal.lane_start a WHERE a.route_id = $1 AND a.reason = 'adopt')"
      " THEN '3'::xid8 ELSE o.xid END AS xid) e WHERE b.route_id = $1 AND b.at = $7 AND b.reason = 'seek'"
      " AND NOT pg_visible_in_snapshot(e.xid, b.start_from)"
      " AND NOT coalesce(pg_visible_in_snapshot(e.xid, b.start_to) AND o.created_at <= b.start_done_to, false)))) o"
      " WHERE s.bound IS NOT NULL LIMIT $6",
      7,
      {INT8OID, INT4OID, TEXTOID, TIMESTAMPTZOID, INT8OID, INT8OID, TIMESTAMPTZOID},
      nullptr};
  Datum values[] = {Int64GetDatum(asked.route_id),
                    Int32GetDatum(own.lane),
                    ForeignText(asked.server_run),
                    TimestampTzGetDatum(own.after),
                    Int64GetDatum(asked.looked),
                    Int64GetDatum(static_cast<int64>(kMostParked)),
                    TimestampTzGetDatum(finding->beyond.border)};
  finding->parked.events.clear();
  RunStatement(&find, values);
  finding->parked.more = SPI_processed == kMostParked;
  finding->parked.events.reserve(SPI_processed);
  for (uint64 row = 0; row < SPI_processed; row++) {
    bool isnull = false;
    LostParked& lost = finding->parked.events.emplace_back();
    lost.at = ResultTime(row, 0);
    lost.created_at = ResultTime(row, 1) + kPgEpochMicros;
    lost.id = ResultUuid(row, 2);
    lost.replay = ResultInt64(row, 3);
    lost.xid = U64FromFullTransactionId(DatumGetFullTransactionId(ResultDatum(row, 4, &isnull)));
    lost.topic = pg::Utf8(ResultText(row, 5));
    lost.known_lane = ResultBool(row, 6);
  }
  if (SPI_processed > 0 && !finding->loss.any) {
    finding->loss.any = true;
    Assign(0, 5, &finding->loss.stream);
    Assign(0, 7, &finding->loss.acknowledged);
    Assign(0, 8, &finding->loss.survived);
  }
}

void KeepOwnParked(const LaneId& lane, Finding* finding) {
  static Statement keys = {
      "SELECT k.n, convert_to(l.aggregate_id, 'UTF8'), r.lanes FROM outbox.route r CROSS JOIN ROWS FROM (unnest($2),"
      " unnest($3)) WITH ORDINALITY k(created_at, id, n) LEFT JOIN outbox_internal.whole_log l ON l.created_at = "
      "k.created_at"
      " AND l.id = k.id AND l.created_at BETWEEN $5 AND $6 AND l.xid = ANY ($4) WHERE r.id = $1 ORDER BY k.n",
      6,
      {INT8OID, TIMESTAMPTZARRAYOID, UUIDARRAYOID, XID8ARRAYOID, TIMESTAMPTZOID, TIMESTAMPTZOID},
      nullptr};
  ParkedColumns columns(finding->parked.events.size());
  for (const LostParked& lost : finding->parked.events) {
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
  std::erase_if(finding->parked.events, [&](const LostParked& lost) {
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

Status SendParkedAgain(const Asked& asked, const LaneId& lane, const parked::ParkedOwner& me, const Stretch& own,
                       const Position& position, Finding* finding) {
  int64_t of_round = 0;
  for (size_t first = 0; first < finding->parked.events.size();) {
    const size_t last = std::min(finding->parked.events.size(), first + kParkedPortion);
    int64_t done = 0;
    bool owner = true;
    Status status = days::TryWithDayTable(days::DayTableKind::kOutcome, [&](int64 at) {
      OUTBOX_FAULT_THROW("rewind.parked.before");
      parked::BeginCopy();
      done = 0;
      owner = parked::LockLane(me, own.after);
      if (!owner) {
        return;
      }
      ParkedColumns again(last - first);
      ParkedColumns read(last - first);
      for (size_t i = first; i < last; i++) {
        const LostParked& lost = finding->parked.events[i];
        if (lost.at <= finding->beyond.border) {
          continue;  // seek() has put the lanes behind it since, or it was delivered in another database
        }
        const bool reads =
            lost.replay == 0 && lost.xid != 0 && !ReaderOf(lost, position, *finding).Covers(lost.xid, lost.created_at);
        (reads ? read : again).Add(lost);
      }
      done = again.id.count + read.id.count == 0 ? 0 : PutParkedBack(lane, at, again, read);
      OUTBOX_FAULT_THROW("rewind.parked.uncommitted");
    });
    OUTBOX_FAULT_POINT("rewind.parked.after");
    status = std::move(status).OfOwner(owner);
    if (!status.ok()) {
      return status;
    }
    finding->parked.again += done;
    of_round += done;
    finding->parked.missing += static_cast<int64_t>(last - first) - done;
    first = last;
    if (first == finding->parked.events.size() && finding->parked.more && of_round > 0) {
      // What is put back is not found again; what the log has no more is, and is counted in the last round.
      first = 0;
      of_round = 0;
      finding->parked.missing = 0;
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

}  // namespace outbox::log
