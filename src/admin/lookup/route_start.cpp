#include "admin/lookup/route_start.h"

#include <algorithm>

#include "admin/lookup/route_lanes.h"
#include "pg/clock.h"

extern "C" {
#include "utils/timestamp.h"
}

namespace outbox::admin {

namespace {

TimestampTz ParseTimestamp(const std::string& text) {
  const char* input = text.c_str();
  try {
    return pg::Guard([&] {
      return DatumGetTimestampTz(
          DirectFunctionCall3(timestamptz_in, CStringGetDatum(input), ObjectIdGetDatum(InvalidOid), Int32GetDatum(-1)));
    });
  } catch (const pg::PgError&) {
    throw pg::UserError{ERRCODE_INVALID_PARAMETER_VALUE, "invalid start \"" + text + "\"", "",
                        "A route starts at 'now', at 'earliest' (everything that is still in the log) or at a "
                        "timestamp such as '2026-01-31 12:00+00'."};
  }
}

}  // namespace

std::string SnapshotOfNow() {
  Snapshot snapshot = ParseSnapshot(RunSql(Access::kLatest, "SELECT pg_current_snapshot()")[0][0].value());
  uint64 me = pg::Guard([] { return U64FromFullTransactionId(GetTopFullTransactionIdIfAny()); });
  // Not listed, it looks finished once a later one is.
  if (me != 0 && snapshot.Visible(me)) {
    snapshot.xip.insert(std::lower_bound(snapshot.xip.begin(), snapshot.xip.end(), me), me);
    snapshot.xmin = std::min(snapshot.xmin, me);
  }
  return snapshot.ToText();
}

TimestampTz TimeOfClocks() {
  return pg::Guard([] { return std::max<TimestampTz>(pg::ClockNow() - kPgEpochMicros, GetCurrentTimestamp()); });
}

TimestampTz NewestTime() {
  const TimestampTz clocks = TimeOfClocks();
  // A literal, so that the days before it are not opened.
  const std::string sql =
      "SELECT (extract(epoch FROM max(g.created_at)) * 1000000)::bigint FROM outbox_internal.whole_log g "
      "WHERE g.created_at > '" +
      UnixMicrosText(clocks + kPgEpochMicros) + "'::timestamptz";
  const Cell later = RunSql(Access::kWrite, sql.c_str())[0][0];
  return later ? std::max<TimestampTz>(clocks, Number(later) - kPgEpochMicros) : clocks;
}

RouteStart ParseStart(const Cell& start) {
  RouteStart result;
  if (!start) {
    throw pg::UserError{ERRCODE_NULL_VALUE_NOT_ALLOWED, "start must not be null", "",
                        "Use 'now', 'earliest' or a timestamp."};
  }
  if (*start == "now") {
    result.window_from = SnapshotOfNow();
    result.start_snapshot = result.window_from;
    result.start_time = "infinity";
    return result;
  }
  result.window_from = kNothingVisible;
  if (*start == "earliest" || *start == "-infinity") {
    result.start_snapshot = kNothingVisible;
    result.start_time = "-infinity";
    return result;
  }
  TimestampTz time = ParseTimestamp(*start);
  // It may well be an event's own time, or all events are passed over.
  if (TIMESTAMP_NOT_FINITE(time) || (time > TimeOfClocks() + 1 && time > NewestTime() + 1)) {
    throw pg::UserError{ERRCODE_INVALID_PARAMETER_VALUE, "start \"" + *start + "\" is not in the past", "",
                        "Use 'now' to begin with the next event, or 'earliest'."};
  }
  // As if the lane were half way through a window: all that is visible now, done up to just before that time.
  result.window_to = SnapshotOfNow();
  result.start_snapshot = result.window_to;
  result.done_to = std::to_string(time + kPgEpochMicros - 1);
  result.start_time = std::to_string(time + kPgEpochMicros);
  return result;
}

}  // namespace outbox::admin
