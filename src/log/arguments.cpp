#include "log/arguments.h"

#include <charconv>
#include <compare>

#include "pg/encoding.h"

extern "C" {
#include "mb/pg_wchar.h"
#include "utils/array.h"
#include "utils/fmgrprotos.h"
#include "utils/json.h"
#include "utils/uuid.h"
}

namespace outbox::log {

namespace {

Datum HeaderArray(const HeaderView& headers, bool names) {
  int count = 0;
  headers.ForEach([&](std::string_view, std::string_view) { count++; });
  Column column(count);
  headers.ForEach([&](std::string_view name, std::string_view value) { column.Add(ServerText(names ? name : value)); });
  return column.Array(TEXTOID);
}

}  // namespace

Datum TextDatum(std::string_view bytes) {
  return PointerGetDatum(cstring_to_text_with_len(bytes.data(), static_cast<int>(bytes.size())));
}

Datum ServerText(std::string_view text) {
  return TextDatum(pg::FromUtf8(text));
}

Datum ForeignText(std::string_view text) {
  bool utf8 =
      GetDatabaseEncoding() == PG_UTF8 && pg_verify_mbstr(PG_UTF8, text.data(), static_cast<int>(text.size()), true);
  Datum datum = TextDatum(text);
  if (!utf8) {
    pg::KeepAscii(VARDATA(DatumGetPointer(datum)), text.size());
  }
  return datum;
}

namespace {

// A name that was ours once, on its way back from a sink process.
char* NameFromSink(std::string_view name) {
  return TextDatumGetCString(GetDatabaseEncoding() == PG_UTF8 ? ForeignText(name) : ServerText(name));
}

}  // namespace

Datum HeadersDatum(const HeaderView& headers) {
  return DirectFunctionCall2(jsonb_object_two_arg, HeaderArray(headers, true), HeaderArray(headers, false));
}

namespace {

struct StreamId {
  uint64 time = 0;
  uint64 number = 0;
  auto operator<=>(const StreamId&) const = default;  // NOLINT(modernize-use-nullptr): so says clang-tidy 14 of any <=>
};

// "1795311015862-0".
bool ParseStreamId(std::string_view text, StreamId* id) {
  const char* end = text.data() + text.size();
  auto time = std::from_chars(text.data(), end, id->time);
  if (time.ec != std::errc() || time.ptr == end || *time.ptr != '-') {
    return false;
  }
  auto number = std::from_chars(time.ptr + 1, end, id->number);
  return number.ec == std::errc() && number.ptr == end;
}

// Which of them was acknowledged under the highest stream id; their number: none has one.
size_t Highest(std::span<const sink::Place> places, StreamId* highest) {
  size_t found = places.size();
  for (size_t i = 0; i < places.size(); i++) {
    StreamId id;
    if (places[i].partition < 0 && ParseStreamId(places[i].last, &id) && (found == places.size() || *highest < id)) {
      *highest = id;
      found = i;
    }
  }
  return found;
}

Datum NumbersDatum(const StreamId& id) {
  Datum numbers[] = {Int64GetDatum(static_cast<int64>(Min(id.time, static_cast<uint64>(PG_INT64_MAX)))),
                     Int64GetDatum(static_cast<int64>(Min(id.number, static_cast<uint64>(PG_INT64_MAX))))};
  return PointerGetDatum(construct_array(numbers, 2, INT8OID, sizeof(int64), FLOAT8PASSBYVAL, TYPALIGN_DOUBLE));
}

}  // namespace

bool StreamIdDatum(std::string_view id, Datum* numbers) {
  StreamId parsed;
  if (!ParseStreamId(id, &parsed)) {
    return false;
  }
  *numbers = NumbersDatum(parsed);
  return true;
}

bool AcknowledgedDatum(std::span<const sink::Place> places, Datum* acknowledged) {
  StreamId highest;
  if (Highest(places, &highest) == places.size()) {
    return false;
  }
  *acknowledged = NumbersDatum(highest);
  return true;
}

Datum PlacesDatum(std::span<const sink::Place> places) {
  constexpr size_t kMost = 64;
  StreamId id;
  const size_t highest = Highest(places, &id);
  StringInfoData json;
  initStringInfo(&json);
  auto quote = [&json](Datum value) { escape_json(&json, TextDatumGetCString(value)); };
  for (size_t i = 0; i < places.size() && i < kMost; i++) {
    const bool last = i + 1 == kMost && highest < places.size() && highest > i;
    const sink::Place& place = places[last ? highest : i];
    char* topic = NameFromSink(place.topic);
    appendStringInfoChar(&json, i == 0 ? '{' : ',');
    escape_json(&json, place.partition < 0 ? topic : psprintf("%s/%d", topic, place.partition));
    appendStringInfoString(&json, ":[");
    quote(ForeignText(place.first));
    appendStringInfoChar(&json, ',');
    quote(ForeignText(place.last));
    appendStringInfoChar(&json, ']');
  }
  if (places.size() > kMost) {
    appendStringInfo(&json, ",\"...\":%zu", places.size() - kMost);
  }
  appendStringInfoChar(&json, '}');
  return DirectFunctionCall1(jsonb_in, CStringGetDatum(json.data));
}

Datum UuidDatum(const Uuid& id) {
  auto* uuid = static_cast<pg_uuid_t*>(palloc(sizeof(pg_uuid_t)));
  memcpy(uuid->data, id.data(), sizeof(uuid->data));
  return UUIDPGetDatum(uuid);
}

Datum Column::Array(Oid element) const {
  int16 length = 0;
  bool by_value = false;
  char align = 0;
  get_typlenbyvalalign(element, &length, &by_value, &align);
  int lower = 1;
  int size = count;
  return PointerGetDatum(
      construct_md_array(values, nulls, count == 0 ? 0 : 1, &size, &lower, element, length, by_value, align));
}

}  // namespace outbox::log
