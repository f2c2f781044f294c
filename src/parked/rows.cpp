#include "parked/rows.h"

#include "pg/encoding.h"
#include "pg/event_headers.h"
#include "pg/sql.h"

extern "C" {
#include "utils/uuid.h"
#if PG_VERSION_NUM >= 160000
#include "varatt.h"
#endif
}

namespace outbox::parked {

using namespace pg::sql;

namespace {

constexpr std::string_view kReplayHeader = "outbox-replay";

void Append(std::string_view bytes, char** at) {
  auto size = static_cast<uint32>(bytes.size());
  memcpy(*at, &size, sizeof(size));
  memcpy(*at + sizeof(size), bytes.data(), size);
  *at += sizeof(size) + size;
}

HeaderView WithReplay(const HeaderView& headers, int64 replay, Arena* arena) {
  bool there = false;
  headers.ForEach([&](std::string_view name, std::string_view) { there = there || name == kReplayHeader; });
  if (there) {
    return headers;
  }
  char digits[32];
  std::string_view number(digits, static_cast<size_t>(pg_snprintf(digits, sizeof(digits), INT64_FORMAT, replay)));
  size_t size = headers.packed.size() + 2 * sizeof(uint32) + kReplayHeader.size() + number.size();
  char* packed = arena->Allocate(size + 1);
  char* at = packed;
  if (!headers.packed.empty()) {
    memcpy(at, headers.packed.data(), headers.packed.size());
    at += headers.packed.size();
  }
  Append(kReplayHeader, &at);
  Append(number, &at);
  return HeaderView{{packed, size}};
}

std::string_view Text(uint64 row, int column, bool is_text, Arena* arena) {
  bool isnull = false;
  Datum value = ResultDatum(row, column, &isnull);
  if (isnull) {
    return {};
  }
  auto* bytes = PG_DETOAST_DATUM_PACKED(value);
  std::string_view view(VARDATA_ANY(bytes), VARSIZE_ANY_EXHDR(bytes));
  return arena->Copy(is_text ? pg::Utf8(view) : view);
}

}  // namespace

void ErrorColumns::Add(const Error& error) {
  if (error.ok()) {
    class_.AddNull();
    code_.AddNull();
    message_.AddNull();
    return;
  }
  class_.Add(CStringGetTextDatum(ErrorClassName(error.error_class)));
  code_.Add(ForeignText(error.code));
  message_.Add(ForeignText(error.message));
}

void ErrorColumns::AddTo(Arguments* arguments) {
  arguments->Add(class_.Array(TEXTOID));
  arguments->Add(code_.Array(TEXTOID));
  arguments->Add(message_.Array(TEXTOID));
}

void FrontColumns::Add(const KeyPoint& point) {
  const bool beginning = point.created_at == kKeyBeginning.created_at;
  const bool end = point.created_at == kKeyEnd.created_at;
  created_at_.Add(beginning ? TimestampTzGetDatum(DT_NOBEGIN)
                  : end     ? TimestampTzGetDatum(DT_NOEND)
                            : TimeDatum(point.created_at));
  replay_.Add(Int64GetDatum(point.replay));
  id_.Add(UuidDatum(point.id));
}

void FrontColumns::AddTo(Arguments* arguments) {
  arguments->Add(created_at_.Array(TIMESTAMPTZOID));
  arguments->Add(replay_.Array(INT8OID));
  arguments->Add(id_.Array(UUIDOID));
}

RowKey ReadKey(uint64 row) {
  bool isnull = false;
  const Datum created_at = ResultDatum(row, 0, &isnull);
  return {created_at, UuidDatum(ResultUuid(row, 1)), ResultDatum(row, 2, &isnull)};
}

void RowColumns::Add(const KeyPoint& point) {
  Add(RowKey{TimeDatum(point.created_at), UuidDatum(point.id), Int64GetDatum(point.replay)});
}

void RowColumns::Add(const RowKey& key) {
  created_at_.Add(key.created_at);
  id_.Add(key.id);
  replay_.Add(key.replay);
}

void RowColumns::AddTo(Arguments* arguments) {
  arguments->Add(created_at_.Array(TIMESTAMPTZOID));
  arguments->Add(id_.Array(UUIDOID));
  arguments->Add(replay_.Array(INT8OID));
}

KeyPoint PointOf(const relay::Settlement& outcome) {
  return {outcome.claimed->event.created_at, outcome.claimed->replay, outcome.claimed->event.id};
}

Datum TopicArray(const std::vector<std::string>& topics) {
  Column column(topics.size());
  for (const std::string& topic : topics) {
    column.Add(ServerText(topic));
  }
  return column.Array(TEXTOID);
}

void ReadClaimed(uint64 row, int column, Arena* arena, relay::Claimed* claimed) {
  bool isnull = false;
  Event* event = &claimed->event;
  event->created_at = ResultTime(row, column) + kPgEpochMicros;
  event->id = ResultUuid(row, column + 1);
  claimed->replay = ResultInt64(row, column + 2);
  Datum key = ResultDatum(row, column + 3, &isnull);
  claimed->order_key = isnull ? 0 : static_cast<uint64_t>(DatumGetInt64(key));
  claimed->state = strcmp(ResultText(row, column + 4), "scheduled") == 0 ? relay::ParkedState::kScheduled
                                                                         : relay::ParkedState::kRetrying;
  claimed->attempts = ResultInt32(row, column + 5);
  event->aggregate_type = Text(row, column + 6, true, arena);
  event->aggregate_id = Text(row, column + 7, true, arena);
  event->event_type = Text(row, column + 8, true, arena);
  event->payload = Text(row, column + 9, false, arena);
  event->content_type = Text(row, column + 10, true, arena);
  Datum headers = ResultDatum(row, column + 11, &isnull);
  event->headers = isnull ? HeaderView() : pg::CopyHeaders(headers, arena);
  event->topic = Text(row, column + 12, true, arena);
  ResultDatum(row, column + 13, &isnull);
  event->deliver_at = isnull ? 0 : ResultTime(row, column + 13) + kPgEpochMicros;
  if (claimed->replay != 0) {
    event->headers = WithReplay(event->headers, claimed->replay, arena);
  }
}

}  // namespace outbox::parked
