// outbox.status(id): what became of one event on each route [P].
#include <cstdlib>

#include "admin/find_event.h"
#include "admin/query.h"
#include "admin/shared_look.h"
#include "base/version.h"
#include "pg/entry.h"

namespace {

using namespace outbox::admin;

outbox::Uuid UuidArgument(FunctionCallInfo fcinfo, int number) {
  outbox::Uuid id;
  outbox::pg::Guard([&] { memcpy(id.data(), PG_GETARG_UUID_P(number)->data, id.size()); });
  return id;
}

// attempts, error class, code, message, since; nothing: the event is not parked on that route.
std::optional<Row> Parked(const LaneRecord& lane, const FoundEvent& event) {
  std::string id(outbox::kUuidTextLength, '\0');
  outbox::FormatUuid(event.id, id.data());
  std::vector<Row> rows =
      RunSql(Access::kRead,
             "SELECT state, attempts, error_class, error_code, error_message, "
             "(extract(epoch FROM parked_at) * 1000000)::bigint FROM outbox.parked "
             "WHERE route_id = $1::bigint AND id = $2::uuid AND created_at = timestamptz 'epoch' + $3::bigint * "
             "interval '1 microsecond'",
             {Cell(std::to_string(lane.route_id)), Cell(id), Cell(std::to_string(event.created_at))});
  return rows.empty() ? std::nullopt : std::optional<Row>(std::move(rows[0]));
}

Row StatusRow(const LaneRecord& lane, const FoundEvent& event, const LaneLook* look) {
  Row row = {lane.route, std::to_string(lane.lane), Cell(), UnixMicrosCell(event.created_at), TopicOf(lane, event)};
  if (std::optional<Row> parked = Parked(lane, event)) {
    row[2] = parked->at(0);
    row.insert(row.end(), parked->begin() + 1, parked->begin() + 5);
    row.push_back(UnixMicrosCell(std::strtoll(parked->at(5).value().c_str(), nullptr, 10)));
    return row;
  }
  row[2] = event.mine ? "uncommitted" : lane.Passed(event.xid, event.created_at) ? "delivered" : "pending";
  row.push_back(Cell());
  if (row[2] == "pending" && look != nullptr && look->owned) {
    row.insert(row.end(), {TextCell(look->error_class), TextCell(look->error_code), TextCell(look->error_message),
                           TimestampCell(look->error_since)});
  } else {
    row.insert(row.end(), 4, Cell());
  }
  return row;
}

}  // namespace

OUTBOX_FUNCTION(outbox_status) {
  ResultSet result(fcinfo);
  result.Begin();
  if (PG_ARGISNULL(0)) {
    return static_cast<Datum>(0);
  }
  std::vector<FoundEvent> events = FindEvents(Access::kRead, UuidArgument(fcinfo, 0));
  if (events.empty()) {
    return static_cast<Datum>(0);
  }
  std::vector<LaneRecord> lanes = LoadLanes(std::nullopt);
  std::vector<LaneLook> looks = LookAtLanes(MyDatabaseId);
  for (const FoundEvent& event : events) {
    bool routed = false;
    for (const LaneRecord& lane : lanes) {
      if (Takes(lane, event)) {
        routed = true;
        result.Add(StatusRow(lane, event, FindLook(looks, lane.route_id, lane.lane)));
      }
    }
    if (!routed) {
      Row row = {Cell(), Cell(), Cell("not routed"), UnixMicrosCell(event.created_at)};
      row.resize(10);
      result.Add(row);
    }
  }
  return static_cast<Datum>(0);
}

OUTBOX_FUNCTION(outbox_version) {
  std::vector<Row> rows = RunSql(Access::kRead, "SELECT extversion FROM pg_extension WHERE extname = 'outbox'");
  std::string text =
      std::string("library ") + outbox::kVersion + ", extension " + (rows.empty() ? "?" : rows[0][0].value_or("?"));
  const char* copy = text.c_str();
  return outbox::pg::Guard([&] { return CStringGetTextDatum(copy); });
}
