#include "log/progress/place_arguments.h"

#include "pg/sql.h"
#include "sink/places.h"

extern "C" {
#include "mb/pg_wchar.h"
#include "utils/array.h"
#include "utils/fmgrprotos.h"
#include "utils/json.h"
}

namespace outbox::log {

using namespace pg::sql;

namespace {

// A name that this database once sent to the sink process, on its way back.
char* NameFromSink(std::string_view name) {
  return TextDatumGetCString(GetDatabaseEncoding() == PG_UTF8 ? ForeignText(name) : ServerText(name));
}

// The index of the place with the highest stream id; the number of places if none has one.
size_t Highest(std::span<const sink::Place> places, sink::StreamId* highest) {
  size_t found = places.size();
  for (size_t i = 0; i < places.size(); i++) {
    sink::StreamId id;
    if (places[i].partition < 0 && sink::ParseStreamId(places[i].last, &id) &&
        (found == places.size() || *highest < id)) {
      *highest = id;
      found = i;
    }
  }
  return found;
}

Datum NumbersDatum(const sink::StreamId& id) {
  Datum numbers[] = {Int64GetDatum(static_cast<int64>(Min(id.time, static_cast<uint64>(PG_INT64_MAX)))),
                     Int64GetDatum(static_cast<int64>(Min(id.number, static_cast<uint64>(PG_INT64_MAX))))};
  return PointerGetDatum(construct_array(numbers, 2, INT8OID, sizeof(int64), FLOAT8PASSBYVAL, TYPALIGN_DOUBLE));
}

}  // namespace

bool StreamIdDatum(std::string_view id, Datum* numbers) {
  sink::StreamId parsed;
  if (!sink::ParseStreamId(id, &parsed)) {
    return false;
  }
  *numbers = NumbersDatum(parsed);
  return true;
}

bool AcknowledgedDatum(std::span<const sink::Place> places, Datum* acknowledged) {
  sink::StreamId highest;
  if (Highest(places, &highest) == places.size()) {
    return false;
  }
  *acknowledged = NumbersDatum(highest);
  return true;
}

Datum PlacesDatum(std::span<const sink::Place> places) {
  constexpr size_t kMost = 64;
  sink::StreamId id;
  const size_t highest = Highest(places, &id);
  StringInfoData json;
  initStringInfo(&json);
  appendStringInfoChar(&json, '{');
  auto quote = [&json](Datum value) { escape_json(&json, TextDatumGetCString(value)); };
  for (size_t i = 0; i < places.size() && i < kMost; i++) {
    const bool last = i + 1 == kMost && highest < places.size() && highest > i;
    const sink::Place& place = places[last ? highest : i];
    char* topic = NameFromSink(place.topic);
    appendStringInfoString(&json, i == 0 ? "" : ",");
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

}  // namespace outbox::log
