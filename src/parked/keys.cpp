// Which keys are held, and which row of a key comes next [P].
#include "parked/statements.h"
#include "pg/sql.h"

namespace outbox::parked {

using namespace pg::sql;

namespace {

// Which row of a key goes first is defined in schema/44_keys.sql: outbox_internal.key_head and what it is made of.

// Rows promoted at once, over all keys of a call.
constexpr int kRun = 256;

Datum KeyArray(const std::vector<uint64_t>& keys) {
  Column column(keys.size());
  for (uint64_t key : keys) {
    column.Add(Int64GetDatum(static_cast<int64>(key)));
  }
  return column.Array(INT8OID);
}

void AppendKeys(std::vector<uint64_t>* keys) {
  for (uint64 row = 0; row < SPI_processed; row++) {
    keys->push_back(static_cast<uint64_t>(ResultInt64(row, 0)));
  }
}

}  // namespace

void PromoteHeads(int64_t route_id, bool block, const std::vector<uint64_t>& keys, int64_t now) {
  // The run ends where a dead one holds the key. The statement spells out what waits: through outbox_internal.waiting
  // FOR UPDATE would lock and sort all rows of a key, and a test of a row's state by its position has the planner take
  // the right index.
  static Statement promote = {
      "WITH head AS MATERIALIZED (SELECT k.key FROM unnest($2) k(key) CROSS JOIN LATERAL outbox_internal.key_head($1, "
      "k.key, "
      "$3) h"
      " WHERE h.state = 'blocked' AND NOT EXISTS (SELECT FROM outbox_internal.key_pause($1, h.aggregate_type, "
      "h.aggregate_id)))"
      " UPDATE outbox_internal.parked t SET state = 'retrying', due_at = $4"
      " FROM head h LEFT JOIN LATERAL outbox_internal.key_dead($1, h.key, $3) d ON true CROSS JOIN LATERAL"
      " (SELECT p.created_at, p.id, p.replay, p.state FROM outbox_internal.parked p WHERE p.route_id = $1 AND "
      "p.order_key = "
      "h.key"
      " AND p.state IN ('retrying', 'blocked') ORDER BY p.created_at, p.replay, p.id LIMIT $5 FOR UPDATE SKIP LOCKED) r"
      " WHERE r.state = 'blocked'"
      " AND (d.id IS NULL OR ROW(r.created_at, r.replay, r.id) < ROW(d.created_at, d.replay, d.id))"
      " AND t.route_id = $1 AND t.created_at = r.created_at AND t.id = r.id AND t.replay = r.replay",
      5,
      {INT8OID, INT8ARRAYOID, BOOLOID, TIMESTAMPTZOID, INT8OID},
      nullptr};
  if (keys.empty()) {
    return;
  }
  int64 run = Max(int64{1}, static_cast<int64>(kRun / keys.size()));
  Datum values[] = {Int64GetDatum(route_id), KeyArray(keys), BoolGetDatum(block), TimeDatum(now), Int64GetDatum(run)};
  RunStatement(&promote, values);
}

void LockHolders(const ParkedOwner& owner, bool block, const std::vector<uint64_t>& keys,
                 std::vector<uint64_t>* locked) {
  static Statement lock = {
      "SELECT k.key FROM unnest($2) k(key) CROSS JOIN LATERAL outbox_internal.key_head($1, k.key, $3) h CROSS JOIN "
      "LATERAL"
      " (SELECT FROM outbox_internal.parked x WHERE x.route_id = $1 AND x.created_at = h.created_at AND x.id = h.id"
      " AND x.replay = h.replay FOR SHARE SKIP LOCKED) x WHERE h.state <> 'blocked'",
      3,
      {INT8OID, INT8ARRAYOID, BOOLOID},
      nullptr};
  if (keys.empty()) {
    return;
  }
  Datum values[] = {Int64GetDatum(owner.lane.route_id), KeyArray(keys), BoolGetDatum(block)};
  RunStatement(&lock, values);
  AppendKeys(locked);
}

void FindFree(const ParkedOwner& owner, bool block, const std::vector<uint64_t>& keys, std::vector<uint64_t>* free) {
  static Statement find = {
      "SELECT k.key FROM unnest($2) k(key) LEFT JOIN LATERAL outbox_internal.key_head($1, k.key, $3) h ON true WHERE "
      "h.id IS "
      "NULL",
      3,
      {INT8OID, INT8ARRAYOID, BOOLOID},
      nullptr};
  if (keys.empty()) {
    return;
  }
  Datum values[] = {Int64GetDatum(owner.lane.route_id), KeyArray(keys), BoolGetDatum(block)};
  RunStatement(&find, values);
  AppendKeys(free);
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
