#include "admin/lookup/find_event.h"

#include <cstdlib>
#include <utility>

#include "admin/common/text_encoding.h"
#include "admin/lookup/backlog.h"
#include "format/record_format.h"
#include "pg/subtransaction.h"

namespace outbox::admin {

namespace {

constexpr const char* kColumns =
    "SELECT (extract(epoch FROM created_at) * 1000000)::bigint, xid, aggregate_type, aggregate_id, event_type, topic, "
    "coalesce(xid = pg_current_xact_id_if_assigned(), false) FROM ";

constexpr const char* kSnapshotBefore =
    "SELECT s.snapshot FROM ("
    " SELECT p.window_from AS snapshot FROM outbox_internal.lane l, LATERAL"
    " outbox_internal.newest_progress(l.route_id, l.lane, 0, '-infinity', $1::timestamptz) p"
    " UNION ALL"
    " (SELECT t.snapshot FROM outbox_internal.tick t WHERE t.at <= $1::timestamptz ORDER BY t.at DESC LIMIT 1)"
    ") s ORDER BY pg_snapshot_xmax(s.snapshot) DESC LIMIT 1";

std::vector<FoundEvent> Read(Access access, Plan plan, const Uuid& id, const std::string& condition,
                             const std::vector<Cell>& more = {}, const std::string& table = kWholeLog) {
  std::vector<Cell> params = {UuidText(id)};
  params.insert(params.end(), more.begin(), more.end());
  std::vector<FoundEvent> events;
  for (Row& row : RunSql(access, (kColumns + table + " WHERE id = $1::uuid " + condition).c_str(), params, plan)) {
    FoundEvent event;
    event.id = id;
    event.created_at = Number(row[0]);
    event.xid = std::strtoull(row[1].value().c_str(), nullptr, 10);
    event.aggregate_type = Utf8(row[2].value());
    event.aggregate_id = Utf8Cell(row[3]);
    event.event_type = Utf8(row[4].value());
    event.topic = Utf8Cell(row[5]);
    event.mine = row[6] == "t";
    events.push_back(std::move(event));
  }
  return events;
}

std::vector<FoundEvent> FindByTime(Access access, const Uuid& id, int64 micros) {
  // A literal, not a parameter: the planner then opens and locks one day table only. Its digits are made here.
  std::string time = UnixMicrosText(micros);
  std::string at = "AND created_at = '" + time + "'::timestamptz ";
  const std::optional<Snapshot> known = SnapshotBefore(access, micros);
  if (!known) {
    return Read(access, Plan::kUsual, id, at);
  }
  const Snapshot& before = *known;
  std::vector<FoundEvent> events =
      Read(access, Plan::kIndexOrder, id, at + "AND xid >= $2::xid8 LIMIT 1", {Cell(std::to_string(before.xmax))});
  if (events.empty() && !before.xip.empty()) {
    std::vector<std::string> late;
    for (uint64 xid : before.xip) {
      late.push_back(std::to_string(xid));
    }
    events = Read(access, Plan::kIndexOrder, id, at + "AND xid = ANY ($2::xid8[]) LIMIT 1", {TextArrayLiteral(late)});
  }
  return events;
}

}  // namespace

std::optional<Snapshot> SnapshotBefore(Access access, int64 micros) {
  std::vector<Row> rows = RunSql(access, kSnapshotBefore, {Cell(UnixMicrosText(micros))});
  return rows.empty() ? std::nullopt : std::optional<Snapshot>(ParseSnapshot(rows[0][0].value()));
}

std::vector<FoundEvent> FindEvents(Access access, const Uuid& id) {
  if (std::optional<int64_t> micros = Uuid7Micros(id)) {
    std::vector<FoundEvent> events = FindByTime(access, id, *micros);
    if (!events.empty()) {
      return events;
    }
  }
  return Read(access, Plan::kUsual, id, "ORDER BY created_at");
}

std::vector<FoundEvent> FindEvents(Access access, const Uuid& id, std::vector<UnreadableTable>* unreadable) {
  std::vector<FoundEvent> events;
  if (pg::TryPart(pg::IsUnreadable, [&] { events = FindEvents(access, id); }).ok()) {
    return events;
  }
  events.clear();
  *unreadable = LookAtLogTables([&](const std::string& table) {
    for (FoundEvent& event : Read(access, Plan::kUsual, id, "ORDER BY created_at", {}, table)) {
      events.push_back(std::move(event));
    }
  });
  return events;
}

EventFacts FactsOf(const FoundEvent& event) {
  auto view = [](const Cell& cell) { return cell ? std::string_view(*cell) : std::string_view(); };
  return {event.xid,        event.created_at, event.aggregate_type, view(event.aggregate_id),
          event.event_type, view(event.topic)};
}

bool Takes(const LaneRecord& lane, const FoundEvent& event) {
  std::string_view aggregate_id = event.aggregate_id ? std::string_view(*event.aggregate_id) : std::string_view();
  return lane.spec != nullptr && !lane.BeforeStart(event.xid, event.created_at) &&
         lane.spec->Wants(event.aggregate_type, aggregate_id, event.event_type, event.id);
}

Cell TopicOf(const LaneRecord& lane, const FoundEvent& found) {
  if (!lane.knows_topic) {
    return found.topic ? Cell(FromUtf8(*found.topic)) : Cell();
  }
  Event event;
  event.created_at = found.created_at;
  event.id = found.id;
  event.aggregate_type = found.aggregate_type;
  event.aggregate_id = found.aggregate_id ? std::string_view(*found.aggregate_id) : std::string_view();
  event.event_type = found.event_type;
  event.topic = found.topic ? std::string_view(*found.topic) : std::string_view();
  format::RecordFormat format(lane.spec);
  return FromUtf8(format.Topic(event));
}

}  // namespace outbox::admin
