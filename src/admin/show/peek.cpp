// outbox.peek(): what a route would send next, read by the very code that the relay workers read with [P].
#include "admin/common/json.h"
#include "admin/common/operation.h"
#include "admin/common/query.h"
#include "admin/common/text_encoding.h"
#include "admin/lookup/next_events.h"
#include "log/window/snapshots.h"
#include "pg/entry.h"

extern "C" {
#include "utils/json.h"
}

namespace outbox::admin {

namespace {

// Rows of the log that a look with a limit looks at, in all.
constexpr size_t kMostRows = 100'000;

std::string Hex(std::string_view bytes) {
  static const char digits[] = "0123456789abcdef";
  std::string hex = "\\x";
  for (unsigned char byte : bytes) {
    hex += digits[byte >> 4];
    hex += digits[byte & 15];
  }
  return hex;
}

Cell Text(std::string_view text) {
  return IsNull(text) ? Cell() : Cell(FromUtf8(text));
}

Cell Headers(const HeaderView& headers) {
  if (IsNull(headers.packed)) {
    return {};
  }
  std::string json = "{";
  headers.ForEach([&](std::string_view name, std::string_view value) {
    json += json.size() > 1 ? "," : "";
    AppendJson(name, &json);
    json += ':';
    AppendJson(value, &json);
  });
  return FromUtf8(json + "}");
}

std::string Time(int64 unix_micros) {
  char time[128];
  TimestampTz value = unix_micros - kPgEpochMicros;
  pg::Guard([&] { JsonEncodeDateTime(&time[0], TimestampTzGetDatum(value), TIMESTAMPTZOID, nullptr); });
  return time;
}

Row EventRow(const LaneRecord& lane, const Event& event) {
  return {std::to_string(lane.lane),
          Time(event.created_at),
          Cell(UuidText(event.id)),
          Text(event.aggregate_type),
          Text(event.aggregate_id),
          Text(event.event_type),
          IsNull(event.payload) ? Cell() : Cell(Hex(event.payload)),
          Text(event.content_type),
          Headers(event.headers),
          Text(event.topic),
          event.deliver_at == 0 ? Cell() : Cell(Time(event.deliver_at))};
}

}  // namespace

}  // namespace outbox::admin

OUTBOX_FUNCTION(outbox_peek) {
  using namespace outbox::admin;  // NOLINT: the body of one SQL function
  namespace pg = outbox::pg;
  ResultSet result(fcinfo);
  result.Begin();
  Cell route = TextArgument(fcinfo, 0);
  int64 limit = PG_ARGISNULL(1) ? PG_INT64_MAX : PG_GETARG_INT64(1);
  if (!route || limit < 0) {
    throw pg::UserError{route ? ERRCODE_INVALID_PARAMETER_VALUE : ERRCODE_NULL_VALUE_NOT_ALLOWED,
                        route ? "limit must not be negative" : "route must not be null",
                        route ? "It is " + std::to_string(limit) + "." : std::string(),
                        route ? "NULL shows all that waits." : "SELECT name FROM outbox.route shows all routes."};
  }
  std::vector<LaneRecord> lanes = LoadLanes(route);
  if (lanes.empty()) {
    throw NoSuchRoute(*route);
  }
  outbox::Snapshot now;
  pg::Guard([&] { outbox::log::ReadActiveSnapshot(&now); });
  for (const LaneRecord& lane : lanes) {
    if (!lane.works()) {
      throw CannotWork(*route, "Because " + lane.trouble + ".");
    }
  }
  NextEvents next(lanes, now, PG_ARGISNULL(1) ? SIZE_MAX : kMostRows);
  for (const LaneRecord& lane : lanes) {
    next.Read(lane, limit, [&](const outbox::Event& event) { result.Add(EventRow(lane, event)); });
  }
  if (next.stopped()) {
    Notice("outbox.peek() looked at " + std::to_string(kMostRows) + " events of the log and stopped",
           "More may wait for route \"" + *route + "\", also before those shown.",
           "outbox.peek(..., NULL) looks at all that waits.");
  }
  return static_cast<Datum>(0);
}
