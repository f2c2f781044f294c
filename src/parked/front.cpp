// Where the search for what is due begins [P]: behind the entries of what has been sent, and behind due events of
// topics that are away. There may be a hundred thousand of either; they are read once and not at every claim.
#include "parked/rows.h"
#include "parked/statements.h"
#include "pg/sql.h"
#include "pg/worker_slot.h"

namespace outbox::parked {

using namespace pg::sql;

namespace {

constexpr uint64 kPage = 2000;
constexpr int kPagesEach = 4;         // per claim: some 10 ms
constexpr int64 kNextDueRows = 1000;  // that are looked at for when to come again

struct Page {
  DuePosition last;     // the last of all its rows
  DuePosition away_to;  // the last of the rows at its beginning whose topics are away
  bool wanted = false;
  bool full = false;
};

Page ReadPage(const ParkedOwner& owner, const relay::ClaimLimits& limits, bool keyed, const DuePosition& after) {
  static Statement with_key = {
      "SELECT p.due_at, p.created_at, p.topic IN (SELECT unnest($4)) FROM outbox_internal.due_keyed p"
      " WHERE p.route_id = $1 AND p.lane = $2 AND p.due_at <= $3"
      " AND ROW(p.due_at, p.created_at) > ROW($6, $7)"
      " ORDER BY p.due_at, p.created_at LIMIT $5",
      7,
      {INT8OID, INT4OID, TIMESTAMPTZOID, TEXTARRAYOID, INT8OID, TIMESTAMPTZOID, TIMESTAMPTZOID},
      nullptr};
  static Statement without_key = {
      "SELECT p.due_at, p.created_at, p.topic IN (SELECT unnest($3)) FROM outbox_internal.due_shared p"
      " WHERE p.route_id = $1 AND p.due_at <= $2"
      " AND ROW(p.due_at, p.created_at) > ROW($5, $6)"
      " ORDER BY p.due_at, p.created_at LIMIT $4",
      6,
      {INT8OID, TIMESTAMPTZOID, TEXTARRAYOID, INT8OID, TIMESTAMPTZOID, TIMESTAMPTZOID},
      nullptr};
  Arguments arguments;
  arguments.Add(Int64GetDatum(owner.lane.route_id));
  if (keyed) {
    arguments.Add(Int32GetDatum(owner.lane.lane));
  }
  arguments.AddTime(limits.now);
  arguments.Add(TopicArray(limits.without));
  arguments.Add(Int64GetDatum(kPage));
  arguments.Add(TimestampTzGetDatum(after.due_at));
  arguments.Add(TimestampTzGetDatum(after.created_at));
  RunStatement(keyed ? &with_key : &without_key, arguments.values);
  Page page;
  page.last = page.away_to = after;
  page.full = SPI_processed == kPage;
  for (uint64 row = 0; row < SPI_processed; row++) {
    page.last.due_at = ResultTime(row, 0);
    page.last.created_at = ResultTime(row, 1);
    // A row that is being sent, or is locked, stops the front as well: it may come back as it was.
    page.wanted = page.wanted || !ResultBool(row, 2);
    page.away_to = page.wanted ? page.away_to : page.last;
  }
  SPI_freetuptable(SPI_tuptable);
  return page;
}

// Another worker's row without a key may come to be a moment after its time, with the commit that parks it.
constexpr int64 kSharedBehind = 2 * USECS_PER_SEC;

// Right before the first row of the result, and before `until` at most: what falls due later may yet come.
DuePosition BeforeFirst(const DuePosition& after, TimestampTz until) {
  if (SPI_processed > 0 && ResultTime(0, 0) < until) {
    return {ResultTime(0, 0), ResultTime(0, 1) - 1};
  }
  return after.due_at < until ? DuePosition{until, DT_NOBEGIN} : after;
}

DuePosition FirstKeyed(const ParkedOwner& owner, const DuePosition& after, TimestampTz until) {
  static Statement first = {
      "SELECT p.due_at, p.created_at FROM outbox_internal.due_keyed p WHERE p.route_id = $1 AND p.lane = $2"
      " AND ROW(p.due_at, p.created_at) > ROW($3, $4) ORDER BY p.due_at, p.created_at LIMIT 1",
      4,
      {INT8OID, INT4OID, TIMESTAMPTZOID, TIMESTAMPTZOID},
      nullptr};
  Datum values[] = {Int64GetDatum(owner.lane.route_id), Int32GetDatum(owner.lane.lane),
                    TimestampTzGetDatum(after.due_at), TimestampTzGetDatum(after.created_at)};
  RunStatement(&first, values);
  return BeforeFirst(after, until);
}

DuePosition FirstShared(const ParkedOwner& owner, const DuePosition& after, TimestampTz until) {
  static Statement first = {
      "SELECT p.due_at, p.created_at FROM outbox_internal.due_shared p WHERE p.route_id = $1"
      " AND ROW(p.due_at, p.created_at) > ROW($2, $3) ORDER BY p.due_at, p.created_at LIMIT 1",
      3,
      {INT8OID, TIMESTAMPTZOID, TIMESTAMPTZOID},
      nullptr};
  Datum values[] = {Int64GetDatum(owner.lane.route_id), TimestampTzGetDatum(after.due_at),
                    TimestampTzGetDatum(after.created_at)};
  RunStatement(&first, values);
  return BeforeFirst(after, until);
}

}  // namespace

void PassSent(const ParkedOwner& owner, int64_t now, DueFronts* fronts) {
  const TimestampTz until = now - kPgEpochMicros;
  fronts->keyed = FirstKeyed(owner, fronts->keyed, until);
  fronts->shared = FirstShared(owner, fronts->shared, until - kSharedBehind);
}

bool ReadDueBehind(const ParkedOwner& owner, const relay::ClaimLimits& limits, bool keyed, DuePosition* front,
                   DueWork* work) {
  const size_t enough = work->rows.size() + limits.max_events;
  DuePosition at = *front;
  bool leading = true;
  for (int i = 0; i < kPagesEach; i++) {
    const Page page = ReadPage(owner, limits, keyed, at);
    if (page.wanted) {
      ReadDue(owner, limits, keyed, {at, page.last}, work);
    }
    if (leading) {
      *front = page.away_to;
      leading = !page.wanted;
    }
    if (!page.full) {
      return true;
    }
    if (work->rows.size() >= enough) {
      return false;
    }
    at = page.last;
  }
  return false;
}

int64_t NextDue(const ParkedOwner& owner, const std::vector<std::string>& without, const DueFronts& fronts) {
  static Statement soonest = {
      "SELECT min(s.due_at) FROM (SELECT coalesce(min(n.due_at) FILTER (WHERE NOT n.away),"
      " CASE WHEN count(*) = $2 THEN max(n.due_at) END) AS due_at FROM"
      " ((SELECT 'keyed' AS kind, p.due_at, p.topic IN (SELECT unnest($3)) AS away FROM outbox_internal.due_keyed p"
      " WHERE p.route_id = $1 AND ROW(p.due_at, p.created_at) > ROW($4, $5) AND p.lane = $8"
      " AND p.sender IS DISTINCT FROM $9 ORDER BY p.due_at, p.created_at LIMIT $2) UNION ALL"
      " (SELECT 'shared' AS kind, p.due_at, p.topic IN (SELECT unnest($3)) AS away FROM outbox_internal.due_shared p"
      " WHERE p.route_id = $1 AND ROW(p.due_at, p.created_at) > ROW($6, $7)"
      " AND (p.sender IS NULL OR p.sender <> ALL ($10)) ORDER BY p.due_at, p.created_at LIMIT $2)) n"
      " GROUP BY n.kind) s",
      10,
      {INT8OID, INT8OID, TEXTARRAYOID, TIMESTAMPTZOID, TIMESTAMPTZOID, TIMESTAMPTZOID, TIMESTAMPTZOID, INT4OID, INT8OID,
       INT8ARRAYOID},
      nullptr};
  Arguments arguments;
  arguments.Add(Int64GetDatum(owner.lane.route_id));
  arguments.Add(Int64GetDatum(without.empty() ? 1 : kNextDueRows));
  arguments.Add(TopicArray(without));
  for (const DuePosition& front : {fronts.keyed, fronts.shared}) {
    arguments.Add(TimestampTzGetDatum(front.due_at));
    arguments.Add(TimestampTzGetDatum(front.created_at));
  }
  arguments.Add(Int32GetDatum(owner.lane.lane));
  arguments.Add(Int64GetDatum(static_cast<int64>(owner.incarnation)));
  arguments.Add(pg::LiveIncarnations());
  RunStatement(&soonest, arguments.values);
  bool isnull = true;
  Datum due = ResultDatum(0, 0, &isnull);
  return isnull ? INT64_MAX : DatumGetTimestampTz(due) + kPgEpochMicros;
}

}  // namespace outbox::parked
