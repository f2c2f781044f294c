// Which parked events are due, and which of them may be sent [P].
#include <algorithm>
#include <tuple>

#include "parked/rows.h"
#include "parked/statements.h"
#include "pg/sql.h"
#include "pg/worker_slot.h"

namespace outbox::parked {

using namespace pg::sql;

namespace {

constexpr size_t kMostRows = 1024;
constexpr size_t kRowBytes = 256;  // beside the payload

// The first three columns.
KeyPoint ReadPoint(uint64 row) {
  return {ResultTime(row, 0) + kPgEpochMicros, ResultInt64(row, 2), ResultUuid(row, 1)};
}

DueKey* KeyOf(uint64_t order_key, DueWork* work) {
  auto found = std::lower_bound(work->keys.begin(), work->keys.end(), order_key,
                                [](const DueKey& key, uint64_t value) { return key.order_key < value; });
  return &*found;
}

// The rows with a decision.
void AddRows(const DueWork& work, DueDecision decision, Arguments* arguments) {
  RowColumns rows(work.rows.size());
  for (const DueRow& row : work.rows) {
    if (row.decision == decision) {
      rows.Add(row.point);
    }
  }
  rows.AddTo(arguments);
}

// Until the transaction ends no other one can take the lane away and give its rows to another lane: see lane_change.h.
bool KeepLane(const ParkedOwner& owner) {
  static Statement keep = {
      "SELECT FROM outbox_internal.lane WHERE route_id = $1 AND lane = $2"
      " AND owner = $3 FOR KEY SHARE",
      3,
      {INT8OID, INT4OID, INT8OID},
      nullptr};
  Datum values[] = {Int64GetDatum(owner.lane.route_id), Int32GetDatum(owner.lane.lane),
                    Int64GetDatum(static_cast<int64>(owner.incarnation))};
  RunStatement(&keep, values);
  return SPI_processed == 1;
}

}  // namespace

void DueWork::Clear() {
  rows.clear();
  keys.clear();
  waiting.clear();
  headless.clear();
  stuck.clear();
  unsure.clear();
}

void ReadDue(const ParkedOwner& owner, const relay::ClaimLimits& limits, bool keyed, const DueStretch& stretch,
             DueWork* work) {
// Rows that fall due behind the position ($6, $7) and up to ($8, $9).
#define OUTBOX_DUE_BETWEEN                         \
  " AND ROW(p.due_at, p.created_at) > ROW($6, $7)" \
  " AND ROW(p.due_at, p.created_at) <= ROW($8, $9)"
#define OUTBOX_DUE_COLUMNS                                                         \
  "p.created_at, p.id, p.replay, coalesce(p.order_key, 0), p.state = 'scheduled'," \
  " coalesce(octet_length(p.payload), 0), p.due_at"
  // Spelled out, for what is locked: outbox_internal.due_keyed, and outbox_internal.due_shared.
  static Statement with_key = {"SELECT " OUTBOX_DUE_COLUMNS
                               ", EXISTS (SELECT FROM outbox_internal.key_pause($1, p.aggregate_type, p.aggregate_id)) "
                               "FROM outbox_internal.parked p"
                               " WHERE p.route_id = $1 AND p.lane = $2 AND p.order_key IS NOT NULL"
                               " AND p.due_at <= $3 AND p.topic NOT IN (SELECT unnest($4))" OUTBOX_DUE_BETWEEN
                               " ORDER BY p.due_at, p.created_at LIMIT $5 FOR UPDATE SKIP LOCKED",
                               9,
                               {INT8OID, INT4OID, TIMESTAMPTZOID, TEXTARRAYOID, INT8OID, TIMESTAMPTZOID, TIMESTAMPTZOID,
                                TIMESTAMPTZOID, TIMESTAMPTZOID},
                               nullptr};
  static Statement without_key = {"SELECT " OUTBOX_DUE_COLUMNS
                                  ", false FROM outbox_internal.parked p"
                                  " WHERE p.route_id = $1 AND p.order_key IS NULL"
                                  " AND p.due_at <= $3 AND p.topic NOT IN (SELECT unnest($4))"
                                  " AND (p.sender IS NULL OR p.sender <> ALL ($2))" OUTBOX_DUE_BETWEEN
                                  " ORDER BY p.due_at, p.created_at LIMIT $5 FOR UPDATE SKIP LOCKED",
                                  9,
                                  {INT8OID, INT8ARRAYOID, TIMESTAMPTZOID, TEXTARRAYOID, INT8OID, TIMESTAMPTZOID,
                                   TIMESTAMPTZOID, TIMESTAMPTZOID, TIMESTAMPTZOID},
                                  nullptr};
#undef OUTBOX_DUE_COLUMNS
#undef OUTBOX_DUE_BETWEEN
  Datum values[] = {Int64GetDatum(owner.lane.route_id),
                    keyed ? Int32GetDatum(owner.lane.lane) : pg::LiveIncarnations(),
                    TimeDatum(limits.now),
                    TopicArray(limits.without),
                    Int64GetDatum(static_cast<int64>(std::min(limits.max_events, kMostRows))),
                    TimestampTzGetDatum(stretch.after.due_at),
                    TimestampTzGetDatum(stretch.after.created_at),
                    TimestampTzGetDatum(stretch.up_to.due_at),
                    TimestampTzGetDatum(stretch.up_to.created_at)};
  RunStatement(keyed ? &with_key : &without_key, values);
  work->rows.reserve(work->rows.size() + SPI_processed);
  for (uint64 i = 0; i < SPI_processed; i++) {
    DueRow& row = work->rows.emplace_back();
    row.point = ReadPoint(i);
    row.order_key = static_cast<uint64_t>(ResultInt64(i, 3));
    row.scheduled = ResultBool(i, 4);
    row.bytes = kRowBytes + static_cast<size_t>(ResultInt32(i, 5));
    int64_t due = ResultTime(i, 6) + kPgEpochMicros;
    row.rank = row.scheduled ? due : row.point.created_at;
    row.paused = ResultBool(i, 7);
  }
}

namespace {

// The keys of the rows that were read, each once, and between where and where of a key the waiting rows matter.
void CollectKeys(KeyFronts* fronts, DueWork* work) {
  for (const DueRow& row : work->rows) {
    work->keys.emplace_back().order_key = row.order_key;
  }
  std::sort(work->keys.begin(), work->keys.end(),
            [](const DueKey& a, const DueKey& b) { return a.order_key < b.order_key; });
  work->keys.erase(std::unique(work->keys.begin(), work->keys.end(),
                               [](const DueKey& a, const DueKey& b) { return a.order_key == b.order_key; }),
                   work->keys.end());
  for (const DueRow& row : work->rows) {
    DueKey* key = KeyOf(row.order_key, work);
    key->paused = key->paused || row.paused;
    if (!row.scheduled) {
      fronts->Appeared(row.order_key, row.point);
      key->up_to = std::max(key->up_to, row.point.created_at);
    }
  }
}

// The key of a row of the result by its ordinal in the array that was asked for.
DueKey* KeyAt(uint64 row, int column, DueWork* work) {
  return &work->keys[static_cast<size_t>(ResultInt64(row, column) - 1)];
}

void ReadWaiting(const ParkedOwner& owner, Datum keys, Datum up_to, FrontColumns* fronts, DueWork* work) {
  static Statement waiting = {
      "SELECT w.created_at, w.id, w.replay, w.state = 'blocked', k.n FROM"
      " ROWS FROM (unnest($2), unnest($3), unnest($5), unnest($6), unnest($7))"
      " WITH ORDINALITY k(key, up_to, from_created_at, from_replay, from_id, n) CROSS JOIN LATERAL"
      " (SELECT w.created_at, w.id, w.replay, w.state FROM outbox_internal.waiting w"
      " WHERE w.route_id = $1 AND w.order_key = k.key AND w.created_at <= k.up_to"
      " AND ROW(w.created_at, w.replay, w.id) >= ROW(k.from_created_at, k.from_replay, k.from_id)"
      " ORDER BY w.created_at, w.replay, w.id LIMIT $4) w"
      " ORDER BY k.n, w.created_at",
      7,
      {INT8OID, INT8ARRAYOID, TIMESTAMPTZARRAYOID, INT8OID, TIMESTAMPTZARRAYOID, INT8ARRAYOID, UUIDARRAYOID},
      nullptr};
  Arguments arguments;
  arguments.Add(Int64GetDatum(owner.lane.route_id));
  arguments.Add(keys);
  arguments.Add(up_to);
  arguments.Add(Int64GetDatum(kWaitingRead));
  fronts->AddTo(&arguments);
  RunStatement(&waiting, arguments.values);
  work->waiting.reserve(SPI_processed);
  for (uint64 i = 0; i < SPI_processed; i++) {
    WaitingRow& row = work->waiting.emplace_back();
    row.point = ReadPoint(i);
    row.blocked = ResultBool(i, 3);
    DueKey* key = KeyAt(i, 4, work);
    key->first = key->count == 0 ? i : key->first;
    key->count++;
  }
}

void ReadDead(const ParkedOwner& owner, Datum keys, KeyFronts* fronts, DueWork* work) {
  static Statement dead = {
      "SELECT d.created_at, d.id, d.replay, k.n FROM ROWS FROM (unnest($2), unnest($3), unnest($4), unnest($5))"
      " WITH ORDINALITY k(key, from_created_at, from_replay, from_id, n)"
      " CROSS JOIN LATERAL outbox_internal.key_dead($1, k.key, true, k.from_created_at, k.from_replay, k.from_id) d",
      5,
      {INT8OID, INT8ARRAYOID, TIMESTAMPTZARRAYOID, INT8ARRAYOID, UUIDARRAYOID},
      nullptr};
  FrontColumns from(work->keys.size());
  for (const DueKey& key : work->keys) {
    from.Add(fronts->DeadOf(key.order_key));
  }
  Arguments arguments;
  arguments.Add(Int64GetDatum(owner.lane.route_id));
  arguments.Add(keys);
  from.AddTo(&arguments);
  RunStatement(&dead, arguments.values);
  for (uint64 i = 0; i < SPI_processed; i++) {
    DueKey* key = KeyAt(i, 3, work);
    key->dead = true;
    key->first_dead = ReadPoint(i);
  }
  for (const DueKey& key : work->keys) {
    fronts->FoundDead(key.order_key, key.dead ? key.first_dead : kKeyEnd);
  }
}

}  // namespace

void ReadDueKeys(const ParkedOwner& owner, bool block, KeyFronts* fronts, DueWork* work) {
  CollectKeys(fronts, work);
  if (work->keys.empty()) {
    return;
  }
  Column keys(work->keys.size());
  Column up_to(work->keys.size());
  FrontColumns from(work->keys.size());
  for (const DueKey& key : work->keys) {
    bool scheduled = key.up_to == INT64_MIN;  // any waiting row holds it
    keys.Add(Int64GetDatum(static_cast<int64>(key.order_key)));
    up_to.Add(scheduled ? TimestampTzGetDatum(DT_NOEND) : TimeDatum(key.up_to));
    from.Add(fronts->Of(key.order_key));
  }
  const Datum key_array = keys.Array(INT8OID);
  ReadWaiting(owner, key_array, up_to.Array(TIMESTAMPTZOID), &from, work);
  if (block) {
    ReadDead(owner, key_array, fronts, work);
  }
}

void JudgeDue(DueWork* work) {
  std::sort(work->rows.begin(), work->rows.end(), [](const DueRow& a, const DueRow& b) {
    return a.order_key != b.order_key ? a.order_key < b.order_key : a.point < b.point;
  });
  size_t next = 0;
  for (const DueKey& key : work->keys) {
    WaitingRow* waiting = work->waiting.data() + key.first;
    std::sort(waiting, waiting + key.count, [](const WaitingRow& a, const WaitingRow& b) { return a.point < b.point; });
    bool blocking = false;
    size_t at = 0;  // how many of the waiting rows go: all before that are due
    for (; next < work->rows.size() && work->rows[next].order_key == key.order_key; next++) {
      DueRow& row = work->rows[next];
      const bool behind_dead = key.dead && (row.scheduled || key.first_dead < row.point);
      if (key.paused || behind_dead || (row.scheduled && key.count > 0)) {
        row.decision = DueDecision::kBlock;
      } else if (row.scheduled || (at < key.count && waiting[at].point == row.point)) {
        at += row.scheduled ? 0 : 1;
        row.decision = DueDecision::kTake;
      } else if (at == key.count) {
        row.decision = DueDecision::kLater;  // more of the key wait than were read
      } else if (at == 0 && waiting[0].blocked) {
        work->headless.push_back(key.order_key);
        row.decision = DueDecision::kLater;
      } else {
        row.decision = DueDecision::kBlock;
      }
      blocking = blocking || row.decision == DueDecision::kBlock;
    }
    if (blocking) {
      work->unsure.push_back(key.order_key);
    }
  }
  work->headless.erase(std::unique(work->headless.begin(), work->headless.end()), work->headless.end());
}

void BlockStuck(DueWork* work) {
  if (work->stuck.empty()) {
    return;
  }
  std::sort(work->stuck.begin(), work->stuck.end());
  for (DueRow& row : work->rows) {
    if (std::binary_search(work->stuck.begin(), work->stuck.end(), row.order_key)) {
      row.decision = DueDecision::kBlock;
    }
  }
  work->unsure.insert(work->unsure.end(), work->stuck.begin(), work->stuck.end());
}

void CutTaken(const relay::ClaimLimits& limits, DueWork* work) {
  std::sort(work->rows.begin(), work->rows.end(),
            [](const DueRow& a, const DueRow& b) { return std::tie(a.rank, a.point) < std::tie(b.rank, b.point); });
  size_t events = 0;
  size_t bytes = 0;
  for (DueRow& row : work->rows) {
    if (row.decision != DueDecision::kTake) {
      continue;
    }
    if (events > 0 && (events >= limits.max_events || bytes + row.bytes > limits.max_bytes)) {
      row.decision = DueDecision::kLater;
      bytes = limits.max_bytes;  // no smaller one behind it may overtake
      continue;
    }
    events++;
    bytes += row.bytes;
  }
}

void BlockRows(const ParkedOwner& owner, const DueWork& work) {
  static Statement block = {
      "UPDATE outbox_internal.parked p SET state = 'blocked', due_at = NULL, sender = NULL,"
      " due_since = CASE p.state WHEN 'scheduled' THEN p.due_at ELSE p.due_since END FROM"
      " ROWS FROM (unnest($2), unnest($3), unnest($4)) k(created_at, id, replay)"
      " WHERE p.route_id = $1 AND p.created_at = k.created_at"
      " AND p.id = k.id AND p.replay = k.replay",
      4,
      {INT8OID, TIMESTAMPTZARRAYOID, UUIDARRAYOID, INT8ARRAYOID},
      nullptr};
  Arguments arguments;
  arguments.Add(Int64GetDatum(owner.lane.route_id));
  AddRows(work, DueDecision::kBlock, &arguments);
  RunStatement(&block, arguments.values);
}

bool TakeRows(const ParkedOwner& owner, const DueWork& work, relay::ClaimedChunk* chunk) {
  static Statement take = {
      "UPDATE outbox_internal.parked p SET sender = $3, lane = CASE WHEN p.order_key IS NULL THEN $2 ELSE p.lane END"
      " FROM outbox_internal.lane l CROSS JOIN ROWS FROM (unnest($4), unnest($5), unnest($6))"
      " WITH ORDINALITY k(created_at, id, replay, n) WHERE l.route_id = $1"
      " AND l.lane = $2 AND l.owner = $3"
      " AND p.route_id = $1 AND p.created_at = k.created_at"
      " AND p.id = k.id AND p.replay = k.replay"
      " RETURNING k.n, " OUTBOX_CLAIMED_COLUMNS,
      6,
      {INT8OID, INT4OID, INT8OID, TIMESTAMPTZARRAYOID, UUIDARRAYOID, INT8ARRAYOID},
      nullptr};
  uint64 count = static_cast<uint64>(std::count_if(
      work.rows.begin(), work.rows.end(), [](const DueRow& row) { return row.decision == DueDecision::kTake; }));
  if (count == 0) {
    return true;
  }
  if (!KeepLane(owner)) {
    return false;
  }
  Arguments arguments;
  arguments.Add(Int64GetDatum(owner.lane.route_id));
  arguments.Add(Int32GetDatum(owner.lane.lane));
  arguments.Add(Int64GetDatum(static_cast<int64>(owner.incarnation)));
  AddRows(work, DueDecision::kTake, &arguments);
  RunStatement(&take, arguments.values);
  if (SPI_processed != count) {
    ereport(ERROR, (errcode(ERRCODE_T_R_SERIALIZATION_FAILURE), errmsg("parked events changed under their locks")));
  }
  size_t before = chunk->events.size();
  chunk->events.resize(before + count);
  for (uint64 row = 0; row < count; row++) {
    auto n = static_cast<size_t>(ResultInt64(row, 0) - 1);
    ReadClaimed(row, 1, &chunk->arena, &chunk->events[before + n]);
  }
  return true;
}

}  // namespace outbox::parked
