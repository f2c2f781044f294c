// Which keys are held, and which row of a key comes next [P].
#include "parked/rows.h"
#include "parked/statements.h"
#include "pg/sql.h"

namespace outbox::parked {

using namespace pg::sql;

namespace {

// Which row of a key goes first is defined in schema/44_keys.sql: outbox_internal.key_head and what it is made of.

// Keys, each with where it, and its dead letters, are searched from: the columns of $2 and $4 to $9, and the search.
#define OUTBOX_KEYS                                                                      \
  "(unnest($2), unnest($4), unnest($5), unnest($6), unnest($7), unnest($8), unnest($9))" \
  " k(key, from_created_at, from_replay, from_id, dead_from_created_at, dead_from_replay, dead_from_id)"
#define OUTBOX_FROM_FRONT                                                                     \
  "from_created_at => k.from_created_at, from_replay => k.from_replay, from_id => k.from_id," \
  " dead_from_created_at => k.dead_from_created_at, dead_from_replay => k.dead_from_replay,"  \
  " dead_from_id => k.dead_from_id"
#define OUTBOX_KEY_TYPES                                                                                              \
  INT8OID, INT8ARRAYOID, BOOLOID, TIMESTAMPTZARRAYOID, INT8ARRAYOID, UUIDARRAYOID, TIMESTAMPTZARRAYOID, INT8ARRAYOID, \
      UUIDARRAYOID

// Route, keys, policy and fronts: $1 to $9.
void AddKeys(int64_t route_id, bool block, const std::vector<uint64_t>& keys, const KeyFronts& fronts,
             Arguments* arguments) {
  Column key(keys.size());
  FrontColumns front(keys.size());
  FrontColumns dead(keys.size());
  for (const uint64_t order_key : keys) {
    key.Add(Int64GetDatum(static_cast<int64>(order_key)));
    front.Add(fronts.Of(order_key));
    dead.Add(fronts.DeadOf(order_key));
  }
  arguments->Add(Int64GetDatum(route_id));
  arguments->Add(key.Array(INT8OID));
  arguments->Add(BoolGetDatum(block));
  front.AddTo(arguments);
  dead.AddTo(arguments);
}

void AppendKeys(std::vector<uint64_t>* keys) {
  for (uint64 row = 0; row < SPI_processed; row++) {
    keys->push_back(static_cast<uint64_t>(ResultInt64(row, 0)));
  }
}

// Appends those of `keys` that the statement, which takes OUTBOX_KEY_TYPES, returns.
void AppendThose(Statement* statement, const ParkedOwner& owner, bool block, const std::vector<uint64_t>& keys,
                 const KeyFronts& fronts, std::vector<uint64_t>* those) {
  if (keys.empty()) {
    return;
  }
  Arguments arguments;
  AddKeys(owner.lane.route_id, block, keys, fronts, &arguments);
  RunStatement(statement, arguments.values);
  AppendKeys(those);
}

}  // namespace

void PromoteHeads(int64_t route_id, bool block, const std::vector<uint64_t>& keys, int64_t now,
                  const KeyFronts& fronts) {
  // The run ends where a dead one holds the key. The statement spells out what waits: through outbox_internal.waiting
  // FOR UPDATE would lock and sort all rows of a key, and a test of a row's state by its position has the planner take
  // the right index.
  static Statement promote = {
      "WITH head AS MATERIALIZED (SELECT k.* FROM ROWS FROM " OUTBOX_KEYS
      " CROSS JOIN LATERAL outbox_internal.key_head($1, k.key, $3, " OUTBOX_FROM_FRONT
      ") h CROSS JOIN LATERAL (SELECT FROM outbox_internal.parked x WHERE x.route_id = $1"
      " AND x.created_at = h.created_at AND x.id = h.id AND x.replay = h.replay FOR UPDATE SKIP LOCKED) x"
      " WHERE h.state = 'blocked' AND NOT EXISTS"
      " (SELECT FROM outbox_internal.key_pause($1, h.aggregate_type, h.aggregate_id)))"
      " UPDATE outbox_internal.parked t SET state = 'retrying', due_at = $10"
      " FROM head h LEFT JOIN LATERAL outbox_internal.key_dead($1, h.key, $3,"
      " h.dead_from_created_at, h.dead_from_replay, h.dead_from_id) d ON true CROSS JOIN LATERAL"
      " (SELECT p.created_at, p.id, p.replay, p.state FROM outbox_internal.parked p WHERE p.route_id = $1"
      " AND p.order_key = h.key AND p.state IN ('retrying', 'blocked')"
      " AND ROW(p.created_at, p.replay, p.id) >= ROW(h.from_created_at, h.from_replay, h.from_id)"
      " ORDER BY p.created_at, p.replay, p.id LIMIT $11 FOR UPDATE SKIP LOCKED) r"
      " WHERE r.state = 'blocked'"
      " AND (d.id IS NULL OR ROW(r.created_at, r.replay, r.id) < ROW(d.created_at, d.replay, d.id))"
      " AND t.route_id = $1 AND t.created_at = r.created_at AND t.id = r.id AND t.replay = r.replay",
      11,
      {OUTBOX_KEY_TYPES, TIMESTAMPTZOID, INT8OID},
      nullptr};
  if (keys.empty()) {
    return;
  }
  Arguments arguments;
  AddKeys(route_id, block, keys, fronts, &arguments);
  arguments.AddTime(now);
  arguments.Add(Int64GetDatum(Max(int64{1}, static_cast<int64>(kLongestRun / keys.size()))));
  RunStatement(&promote, arguments.values);
}

void FindHeadless(const ParkedOwner& owner, bool block, const std::vector<uint64_t>& keys, const KeyFronts& fronts,
                  std::vector<uint64_t>* headless) {
  static Statement find = {
      "SELECT k.key FROM ROWS FROM " OUTBOX_KEYS
      " CROSS JOIN LATERAL outbox_internal.key_head($1, k.key, $3, " OUTBOX_FROM_FRONT
      ") h WHERE h.state = 'blocked'"
      " AND NOT EXISTS (SELECT FROM outbox_internal.key_pause($1, h.aggregate_type, h.aggregate_id))",
      9,
      {OUTBOX_KEY_TYPES},
      nullptr};
  AppendThose(&find, owner, block, keys, fronts, headless);
}

void LockHolders(const ParkedOwner& owner, bool block, const std::vector<uint64_t>& keys, const KeyFronts& fronts,
                 std::vector<uint64_t>* locked) {
  static Statement lock = {
      "SELECT k.key FROM ROWS FROM " OUTBOX_KEYS
      " CROSS JOIN LATERAL outbox_internal.key_head($1, k.key, $3, " OUTBOX_FROM_FRONT
      ") h CROSS JOIN LATERAL"
      " (SELECT FROM outbox_internal.parked x WHERE x.route_id = $1 AND x.created_at = h.created_at"
      " AND x.id = h.id AND x.replay = h.replay FOR SHARE SKIP LOCKED) x"
      " WHERE h.state <> 'blocked'",
      9,
      {OUTBOX_KEY_TYPES},
      nullptr};
  AppendThose(&lock, owner, block, keys, fronts, locked);
}

void FindFree(const ParkedOwner& owner, bool block, const std::vector<uint64_t>& keys, const KeyFronts& fronts,
              std::vector<uint64_t>* free) {
  static Statement find = {"SELECT k.key FROM ROWS FROM " OUTBOX_KEYS
                           " LEFT JOIN LATERAL outbox_internal.key_head($1, k.key, $3, " OUTBOX_FROM_FRONT
                           ") h ON true WHERE h.id IS NULL",
                           9,
                           {OUTBOX_KEY_TYPES},
                           nullptr};
  AppendThose(&find, owner, block, keys, fronts, free);
}

void ReadHeld(const ParkedOwner& owner, bool block, std::vector<uint64_t>* held, std::vector<uint64_t>* headless) {
  // From key to key along the index, not from row to row: a key may have a million rows.
  static Statement waiting = {
      "WITH RECURSIVE k AS ((SELECT w.order_key, w.lane, w.state = 'blocked' AS blocked FROM outbox_internal.waiting w"
      " WHERE w.route_id = $1 ORDER BY w.order_key, w.created_at, w.replay, w.id LIMIT 1)"
      " UNION ALL SELECT n.* FROM k CROSS JOIN LATERAL (SELECT w.order_key, w.lane, w.state = 'blocked' AS blocked"
      " FROM outbox_internal.waiting w WHERE w.route_id = $1 AND w.order_key > k.order_key"
      " ORDER BY w.order_key, w.created_at, w.replay, w.id LIMIT 1) n)"
      " SELECT k.order_key, k.blocked FROM k WHERE k.lane = $2",
      2,
      {INT8OID, INT4OID},
      nullptr};
  static Statement dead = {
      "WITH RECURSIVE k AS ((SELECT d.order_key, d.lane FROM outbox_internal.parked d WHERE d.route_id = $1"
      " AND d.state = 'dead' AND d.order_key IS NOT NULL ORDER BY d.order_key, d.created_at, d.replay, d.id LIMIT 1)"
      " UNION ALL SELECT n.* FROM k CROSS JOIN LATERAL (SELECT d.order_key, d.lane FROM outbox_internal.parked d"
      " WHERE d.route_id = $1 AND d.state = 'dead' AND d.order_key > k.order_key"
      " ORDER BY d.order_key, d.created_at, d.replay, d.id LIMIT 1) n)"
      " SELECT k.order_key FROM k WHERE k.lane = $2",
      2,
      {INT8OID, INT4OID},
      nullptr};
  Datum values[] = {Int64GetDatum(owner.lane.route_id), Int32GetDatum(owner.lane.lane)};
  RunStatement(&waiting, values);
  AppendKeys(held);
  for (uint64 row = 0; row < SPI_processed; row++) {
    if (ResultBool(row, 1)) {
      headless->push_back(static_cast<uint64_t>(ResultInt64(row, 0)));
    }
  }
  if (block) {
    RunStatement(&dead, values);
    AppendKeys(held);
  }
}

}  // namespace outbox::parked
