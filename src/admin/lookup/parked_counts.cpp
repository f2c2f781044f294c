#include "admin/lookup/parked_counts.h"

#include <algorithm>

#include "pg/wall.h"

namespace outbox::admin {

std::map<std::pair<int64, int>, ParkedCount> CountParked(Access access) {
  std::map<std::pair<int64, int>, ParkedCount> counts;
  for (const Row& row : RunSql(access,
                               "SELECT l.route_id, l.lane, s.state, c.n FROM outbox_internal.lane l "
                               "CROSS JOIN (VALUES ('retrying'), ('blocked'), ('scheduled'), ('dead')) s (state) "
                               "CROSS JOIN LATERAL (SELECT count(*) AS n FROM (SELECT FROM outbox_internal.parked p "
                               "WHERE p.route_id = l.route_id "
                               " AND p.lane = l.lane AND p.state = s.state LIMIT $1::bigint + 1) x) c WHERE c.n > 0",
                               {Cell(std::to_string(kParkedCountLimit))}, Plan::kByKey)) {
    auto number = [&row](size_t column) { return Number(row[column]); };
    ParkedCount& count = counts[{number(0), static_cast<int>(number(1))}];
    const std::string& state = row[2].value();
    (state == "retrying"    ? count.retrying
     : state == "blocked"   ? count.blocked
     : state == "scheduled" ? count.scheduled
                            : count.dead) = std::min<int64>(number(3), kParkedCountLimit);
    count.capped = count.capped || number(3) > kParkedCountLimit;
  }
  return counts;
}

std::vector<Overdue> LoadOverdue(Access access) {
  std::vector<Overdue> overdue;
  for (const Row& row : RunSql(
           access,
           "WITH due AS (SELECT r.id AS route_id, d.* FROM outbox.route r JOIN outbox_internal.lane l ON l.route_id "
           "= r.id "
           "CROSS JOIN LATERAL (SELECT p.lane, p.topic, p.state, p.due_at, p.failed_at, p.error_class, p.error_code, "
           "p.error_message, CASE WHEN p.turn_since IS NOT NULL THEN greatest(p.turn_since, l.since, r.created_at) "
           "END AS turn_since FROM outbox_internal.due_keyed p WHERE p.route_id = r.id AND p.lane = l.lane "
           "AND p.due_at <= $1::timestamptz ORDER BY p.due_at, p.created_at LIMIT $2::bigint) d "
           "UNION ALL SELECT r.id, d.* FROM outbox.route r "
           "CROSS JOIN LATERAL (SELECT p.lane, p.topic, p.state, p.due_at, p.failed_at, p.error_class, p.error_code, "
           "p.error_message, NULL::timestamptz FROM outbox_internal.due_shared p WHERE p.route_id = r.id "
           "AND p.due_at <= $1::timestamptz ORDER BY p.due_at, p.created_at LIMIT $2::bigint) d"
           ") SELECT d.route_id, d.lane, d.topic, count(*), "
           "(extract(epoch FROM min(coalesce(d.turn_since, d.due_at))) * 1000000)::bigint, "
           "sum(count(*)) OVER (PARTITION BY d.route_id, d.lane) >= $2::bigint, "
           "(array_agg(d.error_code ORDER BY d.failed_at DESC) FILTER (WHERE d.error_class = 'topic'))[1], "
           "(array_agg(d.error_message ORDER BY d.failed_at DESC) FILTER (WHERE d.error_class = 'topic'))[1], "
           "(extract(epoch FROM min(d.due_at)) * 1000000)::bigint, count(d.turn_since), "
           "count(*) FILTER (WHERE d.state = 'scheduled') "
           "FROM due d GROUP BY d.route_id, d.lane, d.topic ORDER BY 1, 2, 3",
           {UnixMicrosCell(pg::BelievedWall()), Cell(std::to_string(kParkedCountLimit))}, Plan::kByKey)) {
    Overdue& one = overdue.emplace_back();
    one.route_id = Number(row[0]);
    one.lane = static_cast<int>(Number(row[1]));
    one.topic = row[2].value();
    one.count = Number(row[3]);
    one.since = Number(row[4]);
    one.capped = row[5] == "t";
    one.error_class = row[6] ? Cell("topic") : Cell();
    one.error_code = row[6];
    one.error_message = row[7];
    one.due = Number(row[8]);
    one.turns = Number(row[9]);
    one.scheduled = Number(row[10]);
  }
  return overdue;
}

namespace {

// Lanes that have any, and what is due of them: of each no more than $2.
constexpr const char* kDueOfLanes =
    "WITH RECURSIVE there AS ("
    "(SELECT p.route_id, p.lane, 1 AS n FROM outbox_internal.due_keyed p ORDER BY p.route_id, p.lane LIMIT 1) "
    "UNION ALL SELECT x.route_id, x.lane, t.n + 1 FROM there t CROSS JOIN LATERAL ("
    "SELECT p.route_id, p.lane FROM outbox_internal.due_keyed p WHERE (p.route_id, p.lane) > (t.route_id, t.lane) "
    "ORDER BY p.route_id, p.lane LIMIT 1) x WHERE t.n < 1000), keyed AS ("
    "SELECT t.route_id, t.lane, t.n = 1000 AS last, d.* FROM there t CROSS JOIN LATERAL ("
    "SELECT p.due_at, p.created_at, p.order_key, p.turn_since FROM outbox_internal.due_keyed p "
    "WHERE p.route_id = t.route_id AND p.lane = t.lane "
    "AND p.due_at <= $1::timestamptz ORDER BY p.due_at, p.created_at LIMIT $2::bigint) d) ";

}  // namespace

std::map<int64, OverdueOfRoute> OverdueByRoute(int64 most) {
  static const std::string sql =
      std::string(kDueOfLanes) +
      ", due AS (SELECT k.route_id, k.last, k.due_at, CASE WHEN k.turn_since IS NOT NULL "
      "THEN greatest(k.turn_since, l.since, r.created_at) END AS turn_since FROM keyed k "
      "LEFT JOIN outbox_internal.lane l ON l.route_id = k.route_id AND l.lane = k.lane "
      "LEFT JOIN outbox.route r ON r.id = k.route_id "
      "UNION ALL SELECT r.id, false, d.due_at, NULL FROM outbox.route r CROSS JOIN LATERAL ("
      "SELECT p.due_at FROM outbox_internal.due_shared p WHERE p.route_id = r.id "
      "AND p.due_at <= $1::timestamptz ORDER BY p.due_at, p.created_at LIMIT $2::bigint) d) "
      "SELECT d.route_id, count(*), (extract(epoch FROM min(coalesce(d.turn_since, d.due_at))) * 1000000)::bigint, "
      "count(*) >= $2::bigint OR bool_or(d.last), count(d.turn_since), "
      "(extract(epoch FROM min(d.turn_since)) * 1000000)::bigint, "
      "(extract(epoch FROM min(d.due_at) FILTER (WHERE d.turn_since IS NULL)) * 1000000)::bigint "
      "FROM due d GROUP BY 1";
  static PlannedQuery query = {sql.c_str(), Plan::kByKey};
  std::map<int64, OverdueOfRoute> overdue;
  for (const Row& row : RunPlanned(&query, {UnixMicrosCell(pg::BelievedWall()), Cell(std::to_string(most))})) {
    auto number = [&row](size_t column) { return Number(row[column]); };
    overdue[number(0)] = {number(1), number(2), row[3] == "t", number(4), number(5), number(6)};
  }
  return overdue;
}

std::map<int64, Following> FollowingByRoute() {
  // From the first of a key that is due, and up to a dead one that holds it: a key may have a million rows, and the
  // entries of what has gone lie before all others.
  static const std::string sql =
      std::string(kDueOfLanes) +
      ", keys AS MATERIALIZED (SELECT k.route_id, k.order_key, min(k.created_at) AS first "
      "FROM keyed k WHERE k.turn_since IS NOT NULL GROUP BY 1, 2) "
      "SELECT r.id, f.n FROM outbox.route r CROSS JOIN LATERAL (SELECT count(*) AS n FROM (SELECT FROM keys k "
      "LEFT JOIN LATERAL outbox_internal.key_dead(k.route_id, k.order_key, r.on_failure = 'block') d ON true "
      "CROSS JOIN LATERAL (SELECT FROM outbox_internal.waiting w WHERE w.route_id = k.route_id "
      "AND w.order_key = k.order_key AND w.created_at >= k.first AND w.state = 'blocked' "
      "AND (d.id IS NULL OR ROW(w.created_at, w.replay, w.id) < ROW(d.created_at, d.replay, d.id))) w "
      "WHERE k.route_id = r.id LIMIT $2::bigint + 1) x) f "
      "WHERE r.id IN (SELECT k.route_id FROM keys k)";
  static PlannedQuery query = {sql.c_str(), Plan::kByKey};
  std::map<int64, Following> following;
  for (const Row& row :
       RunPlanned(&query, {UnixMicrosCell(pg::BelievedWall()), Cell(std::to_string(kParkedCountLimit))})) {
    const int64 count = Number(row[1]);
    following[Number(row[0])] = {std::min(count, kParkedCountLimit), count > kParkedCountLimit};
  }
  return following;
}

}  // namespace outbox::admin
