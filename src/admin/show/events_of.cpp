// events_of(): what was emitted about one thing, the newest first [P].
//
// The log has no index by key: it would cost every emit(). So the events of the time asked for are read through, day
// table by day table, beginning where the index by transaction id says that they begin. No payloads and headers:
// members of pg_monitor may call this.
#include <algorithm>

#include "admin/common/procedure_arguments.h"
#include "admin/common/query.h"
#include "admin/lookup/find_event.h"
#include "pg/entry.h"

extern "C" {
#include "utils/timestamp.h"
}

namespace outbox::admin {

namespace {

using pg::UserError;

constexpr int64 kMostRows = 10000;

struct Wanted {
  Cell aggregate_type;
  Cell aggregate_id;
  int64 since = 0;  // Unix microseconds
  int64 limit = 0;
};

Wanted ReadArguments(FunctionCallInfo fcinfo) {
  Wanted wanted{TextArgument(fcinfo, 0), TextArgument(fcinfo, 1)};
  if (!wanted.aggregate_type || !wanted.aggregate_id) {
    throw UserError{ERRCODE_NULL_VALUE_NOT_ALLOWED,
                    wanted.aggregate_type ? "aggregate id must not be null" : "aggregate type must not be null",
                    "Events are looked for by their key.",
                    "For example SELECT * FROM outbox.events_of('order', '42')."};
  }
  if (PG_ARGISNULL(2) || PG_ARGISNULL(3)) {
    throw UserError{ERRCODE_NULL_VALUE_NOT_ALLOWED,
                    PG_ARGISNULL(2) ? "since must not be null" : "limit must not be null",
                    "All events since then are read through, so it is said how far back.",
                    "For example since => now() - interval '1 hour', \"limit\" => 100."};
  }
  wanted.limit = PG_GETARG_INT64(3);
  if (wanted.limit < 1 || wanted.limit > kMostRows) {
    throw UserError{ERRCODE_INVALID_PARAMETER_VALUE, "limit must be between 1 and " + std::to_string(kMostRows),
                    "It is " + std::to_string(wanted.limit) + ".", "The newest events come first."};
  }
  if (TIMESTAMP_IS_NOEND(PG_GETARG_TIMESTAMPTZ(2))) {
    throw UserError{ERRCODE_INVALID_PARAMETER_VALUE, "since must not be infinity", "Nothing was emitted after that.",
                    "For example since => now() - interval '1 hour'; -infinity reads the whole log."};
  }
  wanted.since = std::max<int64>(TimeArgument(fcinfo, 2).value(), 0);  // the log is younger than 1970
  return wanted;
}

std::vector<Row> Find(const Wanted& wanted) {
  // A literal, not a parameter: the planner then opens and locks the day tables of that time only. Its digits are made
  // here.
  const std::string events =
      "SELECT created_at, id, event_type, topic, content_type, coalesce(octet_length(payload), 0) AS payload_bytes, "
      "outbox_internal.forgotten(payload, headers, content_type) AS forgotten FROM outbox_internal.whole_log "
      "WHERE created_at >= '" +
      UnixMicrosText(wanted.since) +
      "'::timestamptz AND aggregate_type = $1 AND aggregate_id = $2 "
      "AND xid IS DISTINCT FROM pg_current_xact_id_if_assigned()";
  const char* last = " ORDER BY created_at DESC LIMIT $3::bigint";
  std::vector<Cell> params = {wanted.aggregate_type, wanted.aggregate_id, Cell(std::to_string(wanted.limit))};
  const std::optional<Snapshot> before = SnapshotBefore(Access::kRead, wanted.since);
  if (!before) {
    return RunSql(Access::kRead, (events + last).c_str(), params);
  }
  std::vector<std::string> others;
  for (const uint64_t xid : before->xip) {
    others.push_back(std::to_string(xid));
  }
  params.emplace_back(std::to_string(before->xmax));
  params.emplace_back(TextArrayLiteral(others));
  return RunSql(Access::kRead,
                (events + " AND xid >= $4::xid8 UNION ALL " + events +
                 " AND xid < $4::xid8 AND xid = ANY ($5::xid8[] || ARRAY(SELECT a.xid::text::xid8 FROM "
                 "outbox_internal.adopted a))" +
                 last)
                    .c_str(),
                params, Plan::kIndexOrder);
}

}  // namespace

}  // namespace outbox::admin

OUTBOX_FUNCTION(outbox_events_of) {
  using namespace outbox::admin;
  const Wanted wanted = ReadArguments(fcinfo);
  ResultSet result(fcinfo);
  result.Begin();
  for (const Row& row : Find(wanted)) {
    result.Add(row);
  }
  return static_cast<Datum>(0);
}
