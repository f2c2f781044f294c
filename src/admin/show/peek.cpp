// outbox.peek(): what a route would send next, read by the very code that the relay workers read with [P].
#include "admin/common/json.h"
#include "admin/common/operation.h"
#include "admin/common/query.h"
#include "admin/common/text_encoding.h"
#include "admin/lookup/route_lanes.h"
#include "log/lane_reader.h"
#include "log/settled.h"
#include "log/snapshots.h"
#include "pg/entry.h"
#include "pg/schemas.h"
#include "pg/settings.h"

extern "C" {
#include "utils/json.h"
}

namespace outbox::admin {

namespace {

constexpr size_t kSlice = 1'000'000;
constexpr size_t kChunkBytes = size_t{1} << 20;

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
  char id[kUuidTextLength];
  FormatUuid(event.id, id);
  return {std::to_string(lane.lane),
          Time(event.created_at),
          Cell(std::string(id, kUuidTextLength)),
          Text(event.aggregate_type),
          Text(event.aggregate_id),
          Text(event.event_type),
          IsNull(event.payload) ? Cell() : Cell(Hex(event.payload)),
          Text(event.content_type),
          Headers(event.headers),
          Text(event.topic),
          event.deliver_at == 0 ? Cell() : Cell(Time(event.deliver_at))};
}

// What the lane will not send, though it reads it: see log/settled.h.
void LeaveSettled(int64 route_id, EventChunk* chunk) {
  std::vector<size_t> settled;
  pg::Guard([&] {
    if (OidIsValid(pg::FindOurRelation("latest_outcome"))) {  // else the extension is not updated yet
      WithSpiAsOwner(Plan::kByKey, [&] { log::ListSettled(route_id, *chunk, 0, &settled); });
    }
  });
  log::DropSettled(settled, 0, chunk);
}

// Up to `limit` events of the window (from, to]; returns how many.
int64 PeekWindow(const LaneRecord& lane, const Snapshot& from, const Snapshot& to, int64 after, int64 limit,
                 ResultSet* result) {
  log::LaneReader reader(lane.spec.get(), static_cast<size_t>(pg::settings.sort_mem_kb) * 1024);
  int64 count = 0;
  reader.Open(from, to, after);
  while (!reader.collected()) {
    if (!pg::Guard([&] { return reader.Collect(kSlice); })) {
      EventChunk none;
      reader.Undo(&none, 0);
    }
  }
  while (count < limit && !reader.at_end()) {
    EventChunk chunk;
    bool found = pg::Guard([&] { return reader.Fetch(kChunkBytes, &chunk); });
    if (!found) {
      throw pg::UserError{ERRCODE_OBJECT_IN_USE, "the log was rewritten while it was read", "",
                          "Call the function again."};
    }
    reader.Confirm(chunk);
    LeaveSettled(lane.route_id, &chunk);
    for (size_t i = 0; i < chunk.events.size() && count < limit; i++, count++) {
      result->Add(EventRow(lane, chunk.events[i]));
    }
  }
  return count;
}

void PeekLane(const LaneRecord& lane, const Snapshot& now, int64 limit, ResultSet* result) {
  int64 count = 0;
  const Snapshot* from = &lane.position.base;
  if (lane.position.target) {
    count = PeekWindow(lane, *from, *lane.position.target, lane.position.done_to, limit, result);
    from = &*lane.position.target;
  }
  if (count < limit && from->xmax <= now.xmax) {
    PeekWindow(lane, *from, now, kBeforeAllTime, limit - count, result);
  }
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
    if (lane.spec == nullptr) {
      throw pg::UserError{ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE, lane.trouble, "", ""};
    }
    PeekLane(lane, now, limit, &result);
  }
  return static_cast<Datum>(0);
}
