#include "admin/lookup/former_filters.h"

#include <algorithm>
#include <iterator>

#include "admin/common/text_encoding.h"
#include "days/log_table_list.h"

namespace outbox::admin {

namespace {

bool Sees(const Cell& snapshot, uint64 xid) {
  return snapshot && ParseSnapshot(*snapshot).Visible(xid);
}

// Whether the lane cannot have seen the event before that change. `seen`: the first snapshot known to have the change.
bool CameAfter(const FoundEvent& event, uint64 xid, const Cell& seen, const Cell& before) {
  // The transaction ids of what a dump brought are none of this server's.
  return xid != 0 && event.xid >= days::kAdoptedEnd &&
         (xid == event.xid || Sees(before, xid) || (seen && !Sees(seen, event.xid)));
}

// Whether a side lane may have had the event in its hands when the lane passed it: one that was there, and had not
// passed it. (Its topics are not kept.) Reads all that the lane has saved; so it is asked only where filters have
// changed.
bool WasAside(const LaneRecord& lane, const FoundEvent& event, const Passage& passage) {
  const auto covers = [](const char* row) { return CoversSql(row, "$5", "$6"); };
  const std::string sql =
      "SELECT FROM outbox_internal.progress s WHERE s.route_id = $1::bigint AND s.lane = $2::integer AND s.side > 0 "
      "AND s.at > $3::timestamptz AND s.at <= $4::timestamptz AND s.places IS DISTINCT FROM '{}' AND NOT " +
      covers("s") +
      " AND NOT EXISTS (SELECT FROM outbox_internal.progress t WHERE t.route_id = s.route_id AND t.lane = s.lane "
      "AND t.side = s.side AND t.at > s.at AND t.at <= $4::timestamptz AND (t.places = '{}' OR " +
      covers("t") + ")) LIMIT 1";
  return !RunSql(
              Access::kRead, sql.c_str(),
              {Cell(std::to_string(lane.route_id)), Cell(std::to_string(passage.lane)), Cell(TimeText(passage.after)),
               Cell(TimeText(passage.until)), Cell(std::to_string(event.xid)), Cell(std::to_string(event.created_at))})
              .empty();
}

}  // namespace

std::vector<FormerOption> FormerOptions(int64 since) {
  // Of the route itself, under whatever name, and not of one that had its name before.
  static PlannedQuery query = {
      "SELECT r.route_id, (extract(epoch FROM t.at) * 1000000)::bigint, (extract(epoch FROM a.at) * 1000000)::bigint, "
      "coalesce(a.detail ->> 'xid', '0'), (SELECT s.snapshot FROM outbox_internal.tick s WHERE s.at > t.at "
      "AND pg_visible_in_snapshot((a.detail ->> 'xid')::xid8, s.snapshot) ORDER BY s.at LIMIT 1), "
      "c.name, CASE c.name WHEN 'topic' THEN c.change ->> 'from' ELSE e.pattern END "
      "FROM outbox.audit a JOIN outbox_internal.route_names($1::timestamptz - interval '1 day') r "
      "ON r.name = a.route AND a.at BETWEEN r.since AND r.until "
      "CROSS JOIN LATERAL (SELECT coalesce((a.detail ->> 'clock')::timestamptz, a.at) AS at) t "
      "CROSS JOIN LATERAL jsonb_each(a.detail -> 'changed') c (name, change) LEFT JOIN LATERAL "
      "jsonb_array_elements_text(CASE WHEN c.name LIKE '%types' THEN c.change -> 'from' END) e (pattern) ON true "
      "WHERE a.action = 'alter_route' AND a.at > $1::timestamptz - interval '1 day' AND t.at >= $1::timestamptz "
      "AND c.name IN ('aggregate_types', 'event_types', 'topic') AND NOT EXISTS (SELECT FROM outbox.audit m "
      "WHERE m.action = 'create_route' AND m.route = a.route AND m.at > a.at AND m.at < r.until) "
      "ORDER BY t.at DESC, r.route_id"};
  std::vector<FormerOption> options;
  for (const Row& row : RunPlanned(&query, {Cell(UnixMicrosText(since))})) {
    options.push_back({Number(row[0]), Number(row[1]), Number(row[2]), static_cast<uint64>(Number(row[3])), row[4],
                       row[5].value(), row[6] ? Cell(Utf8(*row[6])) : Cell()});
  }
  return options;
}

FormerFilters::FormerFilters(const std::vector<FormerOption>& options) {
  for (const FormerOption& one : options) {
    if (one.name == "topic") {
      continue;
    }
    if (former_.empty() || former_.back().route_id != one.route_id || former_.back().until != one.until) {
      former_.push_back({one.route_id, one.until, one.xid, one.seen, std::nullopt, std::nullopt});
    }
    Patterns& patterns = one.name == "aggregate_types" ? former_.back().aggregate_types : former_.back().event_types;
    if (!patterns) {
      patterns.emplace();
    }
    if (one.value) {
      patterns->push_back(*one.value);
    }
  }
}

std::optional<int64> FormerFilters::WantedSince(const LaneRecord& lane, const FoundEvent& event, const Passage& passage,
                                                const Cell& before) const {
  const int64 from = std::max(event.created_at, passage.after);
  bool type_wanted = true;
  bool event_type_wanted = true;
  for (auto former = former_.begin(); former != former_.end(); ++former) {
    if (former->route_id != lane.route_id || former->until < from) {
      continue;
    }
    if (CameAfter(event, former->xid, former->seen, before)) {
      return std::nullopt;
    }
    if (former->aggregate_types) {
      type_wanted = format::PatternList(*former->aggregate_types).Matches(event.aggregate_type);
    }
    if (former->event_types) {
      event_type_wanted = format::PatternList(*former->event_types).Matches(event.event_type);
    }
    const auto earlier =
        std::find_if(former + 1, former_.end(), [&](const Former& other) { return other.route_id == lane.route_id; });
    if (type_wanted && event_type_wanted) {
      continue;
    }
    // The lane had passed it by then, and no topic was away whose events are passed, and not sent.
    const bool too_late = earlier != former_.end() && earlier->until >= passage.until &&
                          (passage.by_side || !WasAside(lane, event, passage));
    if (!too_late) {
      return former->until;
    }
  }
  return std::nullopt;
}

FormerTopics::FormerTopics(const std::vector<FormerOption>& options) {
  std::copy_if(options.begin(), options.end(), std::back_inserter(former_),
               [](const FormerOption& one) { return one.name == "topic" && one.value; });
}

std::optional<Cell> FormerTopics::Of(const LaneRecord& lane, const FoundEvent& event, const Passage& passage,
                                     int64 delivered, const Cell& before) const {
  std::optional<Cell> topic;
  if (event.topic || lane.spec == nullptr) {
    return topic;
  }
  for (const FormerOption& former : former_) {
    if (former.route_id != lane.route_id || former.until < std::max(event.created_at, passage.after)) {
      continue;
    }
    if (CameAfter(event, former.xid, former.seen, before)) {
      break;
    }
    if (delivered == 0 || delivered > former.at) {
      return Cell();  // by this one, perhaps
    }
    const EventFacts facts = FactsOf(event);
    format::TopicOf of(lane.spec->FormerTopic(*former.value));
    topic = FromUtf8(of.Resolve(facts.aggregate_type, facts.aggregate_id, facts.event_type, facts.topic));
  }
  return topic;
}

}  // namespace outbox::admin
