#include "log/lane_tables.h"

#include "log/position_sql.h"
#include "log/statement.h"

extern "C" {
#include "mb/pg_wchar.h"
#include "utils/array.h"
#include "utils/pg_lsn.h"
}

namespace outbox::log {

namespace {

Datum TextDatum(std::string_view text) {
  return PointerGetDatum(cstring_to_text_with_len(text.data(), static_cast<int>(text.size())));
}

// What was UTF-8 behind the wall, in the database's encoding again.
Datum ServerText(std::string_view text) {
  if (GetDatabaseEncoding() == PG_UTF8 || GetDatabaseEncoding() == PG_SQL_ASCII || text.empty()) {
    return TextDatum(text);
  }
  char* converted = pg_any_to_server(text.data(), static_cast<int>(text.size()), PG_UTF8);
  return converted == text.data() ? TextDatum(text) : CStringGetTextDatum(converted);
}

// Arguments of one statement.
struct Arguments {
  Datum values[Statement::kMaxArguments];
  char nulls[Statement::kMaxArguments];
  int count = 0;

  void Add(Datum value) {
    values[count] = value;
    nulls[count++] = ' ';
  }
  void AddNull() {
    values[count] = Datum(0);
    nulls[count++] = 'n';
  }
  void AddText(std::string_view text) {
    if (IsNull(text)) {
      AddNull();
    } else {
      Add(ServerText(text));
    }
  }
  void AddTime(int64 unix_micros) { Add(TimestampTzGetDatum(unix_micros - kPgEpochMicros)); }
};

Datum HeaderArray(const HeaderView& headers, bool names) {
  int count = 0;
  headers.ForEach([&](std::string_view, std::string_view) { count++; });
  auto* elements = static_cast<Datum*>(palloc((count + 1) * sizeof(Datum)));
  int at = 0;
  headers.ForEach(
      [&](std::string_view name, std::string_view value) { elements[at++] = ServerText(names ? name : value); });
  return PointerGetDatum(construct_array(elements, count, TEXTOID, -1, false, TYPALIGN_INT));
}

}  // namespace

Datum SnapshotText(const Snapshot& snapshot) {
  StringInfoData text;
  initStringInfo(&text);
  appendStringInfo(&text, UINT64_FORMAT ":" UINT64_FORMAT ":", snapshot.xmin, snapshot.xmax);
  for (size_t i = 0; i < snapshot.xip.size(); i++) {
    appendStringInfo(&text, "%s" UINT64_FORMAT, i > 0 ? "," : "", static_cast<uint64>(snapshot.xip[i]));
  }
  return TextDatum({text.data, static_cast<size_t>(text.len)});
}

void ReadSnapshotText(const char* text, Snapshot* snapshot) {
  bool good = false;
  {
    std::optional<Snapshot> parsed = Snapshot::FromText(text);  // no Postgres call while it lives
    if (parsed) {
      *snapshot = std::move(*parsed);
      good = true;
    }
  }
  if (!good) {
    ereport(ERROR, (errcode(ERRCODE_DATA_CORRUPTED), errmsg("position of a lane is not a snapshot: \"%s\"", text)));
  }
}

bool ReadStanding(LaneId id, LaneStanding* standing) {
  static Statement statement = {
      "SELECT CASE WHEN p.at IS NULL THEN l.window_from ELSE p.window_from END,"
      " CASE WHEN p.at IS NULL THEN l.window_to ELSE p.window_to END,"
      " CASE WHEN p.at IS NULL THEN l.done_to ELSE p.done_to END,"
      " r.lanes, r.lanes_wanted IS NOT NULL, r.common_snapshot"
      " FROM outbox.lane l JOIN outbox.route r ON r.id OPERATOR(pg_catalog.=) l.route_id"
      " LEFT JOIN LATERAL " OUTBOX_NEWEST_PROGRESS
      " p ON true WHERE l.route_id OPERATOR(pg_catalog.=) $1 AND l.lane OPERATOR(pg_catalog.=) $2",
      2,
      {INT8OID, INT4OID},
      nullptr};
  Datum values[] = {Int64GetDatum(id.route_id), Int32GetDatum(id.lane)};
  RunStatement(&statement, values);
  if (SPI_processed == 0) {
    return false;
  }
  Position* position = &standing->position;
  ReadSnapshotText(ResultText(0, 0), &position->base);
  position->target.reset();
  const char* target = ResultText(0, 1);
  if (target != nullptr) {
    ReadSnapshotText(target, &position->target.emplace());
  }
  bool isnull = false;
  int64 done_to = DatumGetTimestampTz(ResultDatum(0, 2, &isnull));
  position->done_to = isnull || TIMESTAMP_IS_NOBEGIN(done_to) ? kBeforeAllTime : done_to + kPgEpochMicros;
  standing->lanes = DatumGetInt32(ResultDatum(0, 3, &isnull));
  standing->converging = DatumGetBool(ResultDatum(0, 4, &isnull));
  standing->limit.reset();
  const char* limit = ResultText(0, 5);
  if (standing->converging && limit != nullptr) {
    ReadSnapshotText(limit, &standing->limit.emplace());
  }
  return true;
}

bool AppendProgress(LaneId id, uint64_t incarnation, int64_t at, const Position& position) {
  static Statement append = {
      "INSERT INTO outbox.progress (at, route_id, lane, window_from, window_to, done_to)"
      " SELECT $4, l.route_id, l.lane, $5::pg_catalog.pg_snapshot, $6::pg_catalog.pg_snapshot, $7 FROM outbox.lane l"
      " WHERE l.route_id OPERATOR(pg_catalog.=) $1 AND l.lane OPERATOR(pg_catalog.=) $2"
      " AND l.owner OPERATOR(pg_catalog.=) $3",
      7,
      {INT8OID, INT4OID, INT8OID, TIMESTAMPTZOID, TEXTOID, TEXTOID, TIMESTAMPTZOID},
      nullptr};
  Arguments arguments;
  arguments.Add(Int64GetDatum(id.route_id));
  arguments.Add(Int32GetDatum(id.lane));
  arguments.Add(Int64GetDatum(static_cast<int64>(incarnation)));
  arguments.AddTime(at);
  arguments.Add(SnapshotText(position.base));
  if (position.target) {
    arguments.Add(SnapshotText(*position.target));
  } else {
    arguments.AddNull();
  }
  if (position.done_to != kBeforeAllTime) {
    arguments.AddTime(position.done_to);
  } else {
    arguments.AddNull();
  }
  RunStatement(&append, arguments.values, arguments.nulls);
  return SPI_processed == 1;
}

bool AppendParked(LaneId id, uint64_t incarnation, const relay::RefusedEvent& refused) {
  static Statement append = {
      "INSERT INTO outbox.parked AS p (route_id, lane, created_at, id, state, aggregate_type, aggregate_id, event_type, "
      "payload,"
      " content_type, headers, topic, error_class, error_code, error_message, attempts)"
      " SELECT l.route_id, l.lane, $4, $5, 'dead', $6, $7, $8, $9, $10, pg_catalog.jsonb_object($11, $12), $13, e[1], e[2], "
      "e[3],"
      " $15 FROM outbox.lane l, (SELECT $14) error(e)"
      " WHERE l.route_id OPERATOR(pg_catalog.=) $1 AND l.lane OPERATOR(pg_catalog.=) $2"
      " AND l.owner OPERATOR(pg_catalog.=) $3"
      " ON CONFLICT (route_id, created_at, id, replay) DO UPDATE SET lane = excluded.lane, topic = excluded.topic,"
      " error_class = excluded.error_class, error_code = excluded.error_code, error_message = excluded.error_message,"
      " attempts = excluded.attempts, failed_at = pg_catalog.clock_timestamp()",
      15,
      {INT8OID, INT4OID, INT8OID, TIMESTAMPTZOID, UUIDOID, TEXTOID, TEXTOID, TEXTOID, BYTEAOID, TEXTOID, TEXTARRAYOID,
       TEXTARRAYOID, TEXTOID, TEXTARRAYOID, INT4OID},
      nullptr};
  const Event& event = refused.event;
  auto* uuid = static_cast<pg_uuid_t*>(palloc(sizeof(pg_uuid_t)));
  memcpy(uuid->data, event.id.data(), sizeof(uuid->data));
  Datum error[] = {ServerText(ErrorClassName(refused.error.error_class)), ServerText(refused.error.code),
                   ServerText(refused.error.message)};

  Arguments arguments;
  arguments.Add(Int64GetDatum(id.route_id));
  arguments.Add(Int32GetDatum(id.lane));
  arguments.Add(Int64GetDatum(static_cast<int64>(incarnation)));
  arguments.AddTime(event.created_at);
  arguments.Add(UUIDPGetDatum(uuid));
  arguments.AddText(event.aggregate_type);
  arguments.AddText(event.aggregate_id);
  arguments.AddText(event.event_type);
  if (IsNull(event.payload)) {
    arguments.AddNull();
  } else {
    arguments.Add(TextDatum(event.payload));  // bytea is laid out like text
  }
  arguments.AddText(event.content_type);
  if (IsNull(event.headers.packed)) {
    arguments.AddNull();
    arguments.AddNull();
  } else {
    arguments.Add(HeaderArray(event.headers, true));
    arguments.Add(HeaderArray(event.headers, false));
  }
  arguments.Add(ServerText(refused.topic));
  arguments.Add(PointerGetDatum(construct_array(error, 3, TEXTOID, -1, false, TYPALIGN_INT)));
  arguments.Add(Int32GetDatum(refused.attempts));
  RunStatement(&append, arguments.values, arguments.nulls);
  return SPI_processed == 1;
}

}  // namespace outbox::log
