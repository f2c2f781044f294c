// Which keys are held, and who comes next [P].
#include "log/parked_rows.h"
#include "log/parked_sql.h"
#include "log/sql.h"

namespace outbox::log {

namespace {

// Everywhere here the order within a key is that of JudgeDue: created_at, then replay and id, for copies of one event
// that several replays made. Were a tie decided by chance, the copy that is tried and the one that is let go could be
// two.

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
    bool isnull = false;
    keys->push_back(static_cast<uint64_t>(DatumGetInt64(ResultDatum(row, 0, &isnull))));
  }
}

}  // namespace

void PromoteHeads(int64_t route_id, bool block, const std::vector<uint64_t>& keys, int64_t now) {
  static Statement promote = {
      "WITH head AS MATERIALIZED (SELECT k.key FROM pg_catalog.unnest($2) k(key) CROSS JOIN LATERAL"
      " (SELECT p.state, p.created_at, p.aggregate_type, p.aggregate_id FROM outbox.parked p"
      " WHERE p.route_id OPERATOR(pg_catalog.=) $1 AND p.order_key OPERATOR(pg_catalog.=) k.key"
      " AND " OUTBOX_PARKED_WAITING("p")
      " ORDER BY p.created_at, p.replay, p.id LIMIT 1) w WHERE w.state OPERATOR(pg_catalog.=) 'blocked'"
      " AND NOT " OUTBOX_KEY_PAUSED("w")
      " AND NOT ($3 AND EXISTS (SELECT FROM outbox.parked d WHERE d.route_id OPERATOR(pg_catalog.=) $1"
      " AND d.order_key OPERATOR(pg_catalog.=) k.key AND d.state OPERATOR(pg_catalog.=) 'dead'"
      " AND d.created_at OPERATOR(pg_catalog.<) w.created_at)))"
      " UPDATE outbox.parked t SET state = 'retrying', due_at = $4 FROM head h CROSS JOIN LATERAL"
      " (SELECT p.created_at, p.id, p.replay, p.state FROM outbox.parked p"
      " WHERE p.route_id OPERATOR(pg_catalog.=) $1 AND p.order_key OPERATOR(pg_catalog.=) h.key"
      " AND " OUTBOX_PARKED_WAITING("p")
      " ORDER BY p.created_at, p.replay, p.id LIMIT $5 FOR UPDATE SKIP LOCKED) r"
      " WHERE r.state OPERATOR(pg_catalog.=) 'blocked' AND t.route_id OPERATOR(pg_catalog.=) $1"
      " AND t.created_at OPERATOR(pg_catalog.=) r.created_at AND t.id OPERATOR(pg_catalog.=) r.id"
      " AND t.replay OPERATOR(pg_catalog.=) r.replay",
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
      "SELECT k.key FROM pg_catalog.unnest($2) k(key) CROSS JOIN LATERAL"
      " ((SELECT d.created_at, d.id, d.replay, 0 AS n FROM outbox.parked d"
      " WHERE $3 AND d.route_id OPERATOR(pg_catalog.=) $1 AND d.order_key OPERATOR(pg_catalog.=) k.key"
      " AND d.state OPERATOR(pg_catalog.=) 'dead' ORDER BY d.created_at, d.replay, d.id LIMIT 1)"
      " UNION ALL (SELECT p.created_at, p.id, p.replay, CASE p.state WHEN 'retrying' THEN 1 ELSE 2 END AS n FROM outbox.parked p"
      " WHERE p.route_id OPERATOR(pg_catalog.=) $1 AND p.order_key OPERATOR(pg_catalog.=) k.key"
      " AND " OUTBOX_PARKED_WAITING("p")
      " ORDER BY p.created_at, p.replay, p.id LIMIT 1) ORDER BY n LIMIT 1) h CROSS JOIN LATERAL"
      " (SELECT FROM outbox.parked x WHERE h.n OPERATOR(pg_catalog.<) 2 AND x.route_id OPERATOR(pg_catalog.=) $1"
      " AND x.created_at OPERATOR(pg_catalog.=) h.created_at AND x.id OPERATOR(pg_catalog.=) h.id"
      " AND x.replay OPERATOR(pg_catalog.=) h.replay FOR SHARE SKIP LOCKED) x",
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
      "SELECT k.key FROM pg_catalog.unnest($2) k(key) LEFT JOIN LATERAL (SELECT true AS any FROM outbox.parked p"
      " WHERE p.route_id OPERATOR(pg_catalog.=) $1 AND p.order_key OPERATOR(pg_catalog.=) k.key"
      " AND " OUTBOX_PARKED_WAITING("p")
      " LIMIT 1) w ON true LEFT JOIN LATERAL (SELECT true AS any FROM outbox.parked d"
      " WHERE $3 AND d.route_id OPERATOR(pg_catalog.=) $1 AND d.order_key OPERATOR(pg_catalog.=) k.key"
      " AND d.state OPERATOR(pg_catalog.=) 'dead' LIMIT 1) d ON true WHERE w.any IS NULL AND d.any IS NULL",
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
#define OUTBOX_NEXT_KEY(columns, after, kind)                                                    \
  "SELECT " columns " FROM outbox.parked p WHERE p.route_id OPERATOR(pg_catalog.=) $1 AND " kind \
  " AND p.order_key " after " ORDER BY p.order_key, p.created_at, p.replay, p.id LIMIT 1"
#define OUTBOX_EACH_KEY(columns, kind) \
  "WITH RECURSIVE k AS ((" OUTBOX_NEXT_KEY(columns, "IS NOT NULL", kind) ") UNION ALL SELECT n.* FROM k"           \
  " CROSS JOIN LATERAL (" OUTBOX_NEXT_KEY(columns, "OPERATOR(pg_catalog.>) k.order_key", kind) ") n)"              \
  " SELECT k.order_key, k.blocked FROM k WHERE k.lane OPERATOR(pg_catalog.=) $2"
  static Statement waiting = {
      OUTBOX_EACH_KEY("p.order_key, p.lane, p.state OPERATOR(pg_catalog.=) 'blocked' AS blocked",
                      OUTBOX_PARKED_WAITING("p")),
      2,
      {INT8OID, INT4OID},
      nullptr};
  static Statement dead = {
      OUTBOX_EACH_KEY("p.order_key, p.lane, false AS blocked", "p.state OPERATOR(pg_catalog.=) 'dead'"),
      2,
      {INT8OID, INT4OID},
      nullptr};
#undef OUTBOX_EACH_KEY
#undef OUTBOX_NEXT_KEY
  Datum values[] = {Int64GetDatum(owner.lane.route_id), Int32GetDatum(owner.lane.lane)};
  RunStatement(&waiting, values);
  AppendKeys(held);
  for (uint64 row = 0; row < SPI_processed; row++) {
    bool isnull = false;
    if (DatumGetBool(ResultDatum(row, 1, &isnull))) {
      headless->push_back(static_cast<uint64_t>(DatumGetInt64(ResultDatum(row, 0, &isnull))));
    }
  }
  if (block) {
    RunStatement(&dead, values);
    AppendKeys(held);
  }
}

}  // namespace outbox::log
