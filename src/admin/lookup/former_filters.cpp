#include "admin/lookup/former_filters.h"

#include <algorithm>
#include <cstdlib>

#include "admin/common/text_encoding.h"

namespace outbox::admin {

namespace {

int64 Number(const Cell& cell) {
  return std::strtoll(cell.value().c_str(), nullptr, 10);
}

}  // namespace

FormerFilters::FormerFilters(int64 since) {
  // Of the route itself, and not of one that had its name before.
  static PlannedQuery query = {
      "SELECT r.id, (extract(epoch FROM t.at) * 1000000)::bigint, c.name = 'aggregate_types', e.pattern "
      "FROM outbox.audit a JOIN outbox.route r ON r.name = a.route "
      "CROSS JOIN LATERAL (SELECT coalesce((a.detail ->> 'clock')::timestamptz, a.at) AS at) t "
      "CROSS JOIN LATERAL jsonb_each(a.detail -> 'changed') c (name, change) "
      "LEFT JOIN LATERAL jsonb_array_elements_text(c.change -> 'from') e (pattern) ON true "
      "WHERE a.action = 'alter_route' AND a.at > $1::timestamptz - interval '1 day' AND t.at > $1::timestamptz "
      "AND c.name IN ('aggregate_types', 'event_types') AND NOT EXISTS (SELECT FROM outbox.audit m "
      "WHERE m.action = 'create_route' AND m.route = a.route AND m.at > a.at) ORDER BY t.at DESC, r.id"};
  for (const Row& row : RunPlanned(&query, {Cell(UnixMicrosText(since))})) {
    const int64 route_id = Number(row[0]);
    const int64 until = Number(row[1]);
    if (former_.empty() || former_.back().route_id != route_id || former_.back().until != until) {
      former_.push_back({route_id, until, std::nullopt, std::nullopt});
    }
    Patterns& patterns = row[2] == "t" ? former_.back().aggregate_types : former_.back().event_types;
    if (!patterns) {
      patterns.emplace();
    }
    if (row[3]) {
      patterns->push_back(Utf8(*row[3]));
    }
  }
}

std::optional<int64> FormerFilters::WantedSince(const LaneRecord& lane, const FoundEvent& event,
                                                const Passage& passage) const {
  const int64 from = std::max(event.created_at, passage.after);
  bool type_wanted = true;
  bool event_type_wanted = true;
  for (auto former = former_.begin(); former != former_.end(); ++former) {
    if (former->route_id != lane.route_id || former->until <= from) {
      continue;
    }
    if (former->aggregate_types) {
      type_wanted = format::PatternList(*former->aggregate_types).Matches(event.aggregate_type);
    }
    if (former->event_types) {
      event_type_wanted = format::PatternList(*former->event_types).Matches(event.event_type);
    }
    const auto before =
        std::find_if(former + 1, former_.end(), [&](const Former& other) { return other.route_id == lane.route_id; });
    const bool too_late = before != former_.end() && before->until >= passage.until;  // the lane had passed it by then
    if (!too_late && !(type_wanted && event_type_wanted)) {
      return former->until;
    }
  }
  return std::nullopt;
}

}  // namespace outbox::admin
