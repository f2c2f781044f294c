#include "admin/parked_counts.h"

#include <cstdlib>

namespace outbox::admin {

std::map<std::pair<int64, int>, ParkedCount> CountParked(Access access) {
  std::map<std::pair<int64, int>, ParkedCount> counts;
  for (const Row& row : RunSql(
           access,
           "SELECT l.route_id, l.lane, s.state, c.n FROM outbox.lane l "
           "CROSS JOIN (VALUES ('retrying'), ('blocked'), ('scheduled'), ('dead')) s (state) "
           "CROSS JOIN LATERAL (SELECT count(*) AS n FROM (SELECT FROM outbox.parked p WHERE p.route_id = l.route_id "
           " AND p.lane = l.lane AND p.state = s.state LIMIT $1::bigint) x) c WHERE c.n > 0",
           {Cell(std::to_string(kParkedCountLimit))}, Plan::kByKey)) {
    auto number = [&row](size_t column) { return std::strtoll(row[column].value().c_str(), nullptr, 10); };
    ParkedCount& count = counts[{number(0), static_cast<int>(number(1))}];
    const std::string& state = row[2].value();
    (state == "retrying"    ? count.retrying
     : state == "blocked"   ? count.blocked
     : state == "scheduled" ? count.scheduled
                            : count.dead) = number(3);
    count.capped = count.capped || number(3) >= kParkedCountLimit;
  }
  return counts;
}

}  // namespace outbox::admin
