// The trigger function outbox.emit_outboxevent() [P]: what Debezium's libraries write into an outbox table is emitted.
// INSERT emits; DELETE, which those libraries send behind each INSERT, counts the row and does nothing. For the view
// outbox.outboxevent, and for views that stand where a team's own outbox table stood. Plain code.
//
// Columns are found by name, as Debezium's router finds them by default; what it knows nothing of becomes a header.
#include <string_view>

#include "base/java_properties.h"
#include "base/traceparent.h"
#include "emit/arguments.h"
#include "emit/check.h"
#include "emit/header.h"
#include "emit/insert.h"
#include "emit/is_json.h"
#include "emit/one_text.h"
#include "emit/trace.h"
#include "pg/entry.h"

extern "C" {
#include "commands/trigger.h"
#include "executor/spi.h"
#include "utils/datetime.h"
#include "utils/json.h"
#include "utils/uuid.h"
}

namespace outbox::emit {

namespace {

struct Row {
  const TriggerData* trigger;
  HeapTuple tuple;
  TupleDesc desc;
};

constexpr pg::TriggerUse kUse = {
    "outbox.emit_outboxevent()",
    [](const TriggerData& trigger) { return TRIGGER_FIRED_INSTEAD(trigger.tg_event) != 0; },
    "an INSTEAD OF trigger FOR EACH ROW of a view",
    "CREATE TRIGGER ... INSTEAD OF INSERT OR UPDATE OR DELETE ON view FOR EACH ROW EXECUTE FUNCTION "
    "outbox.emit_outboxevent()"};

// 0: there is none.
int FindColumn(const Row& row, const char* name) {
  int column = SPI_fnumber(row.desc, name);
  return column < 0 ? 0 : column;
}

int RequireColumn(const Row& row, const char* name) {
  int column = FindColumn(row, name);
  if (column == 0) {
    ereport(
        ERROR,
        (errcode(ERRCODE_UNDEFINED_COLUMN),
         errmsg("column \"%s\" of view \"%s\" does not exist", name, RelationGetRelationName(row.trigger->tg_relation)),
         errdetail("outbox.emit_outboxevent() finds the parts of an event by Debezium's names: id, aggregatetype, "
                   "aggregateid, type, payload, timestamp, tracingspancontext."),
         errhint("Give the column of the view this name.")));
  }
  return column;
}

// Of a type that is no domain. Times are as JSON has them, all else as a cast has it.
text* NamedText(Oid type, Datum value) {
  switch (type) {
    case DATEOID:
    case TIMESTAMPOID:
    case TIMESTAMPTZOID: {
      char buffer[MAXDATELEN + 1];
      JsonEncodeDateTime(buffer, value, type, nullptr);
      return cstring_to_text(buffer);
    }
    default:
      return CastToText(type, value);
  }
}

// The same in every session.
text* ValueText(Oid type, Datum value) {
  const int level = PinText(type);
  text* said = NamedText(getBaseType(type), value);
  UnpinText(level);
  return said;
}

// nullptr: NULL, or no such column (0).
text* ColumnText(const Row& row, int column) {
  if (column == 0) {
    return nullptr;
  }
  bool null = false;
  Datum value = SPI_getbinval(row.tuple, row.desc, column, &null);
  return null ? nullptr : ValueText(SPI_gettypeid(row.desc, column), value);
}

void TakePayload(const Row& row, int column, NewEvent* event) {
  bool null = false;
  Datum value = SPI_getbinval(row.tuple, row.desc, column, &null);
  if (null) {
    event->tombstone = true;
    return;
  }
  const Oid type = getBaseType(SPI_gettypeid(row.desc, column));
  if (type == BYTEAOID) {
    TakeBytes(DatumGetByteaPP(value), event);
    return;
  }
  event->payload = type == JSONBOID ? JsonbBytes(DatumGetJsonbP(value)) : TextBytes(ValueText(type, value));
  if (type != JSONOID && type != JSONBOID && !IsJson(event->payload)) {
    event->content_type = cstring_to_text("text/plain");
  }
}

// --- headers ---

// The context of a trace, as a Debezium library left it; nothing if it has no good traceparent.
void TakeTrace(const text* context, NewEvent* event) {
  if (context == nullptr || Size(context) == 0) {
    return;
  }
  TraceContext found = {};
  JavaProperties properties({Bytes(context), Size(context)}, static_cast<char*>(palloc(Size(context))));
  std::string_view name;
  std::string_view value;
  while (properties.Next(&name, &value)) {
    const char** part = name == "traceparent"  ? &found.traceparent
                        : name == "tracestate" ? &found.tracestate
                        : name == "baggage"    ? &found.baggage
                                               : nullptr;
    if (part != nullptr) {
      *part = pnstrdup(value.data(), value.size());
    }
  }
  if (found.traceparent != nullptr && IsTraceparent(found.traceparent)) {
    AddTrace(event, found);
  }
}

// All columns but those that the event is made of, and times of their own: an event's time is the server's.
void TakeHeaders(const Row& row, NewEvent* event) {
  static constexpr std::string_view kOwn[] = {"id",      "aggregatetype", "aggregateid", "type",
                                              "payload", "timestamp",     "created_at",  "tracingspancontext"};
  HeaderObject headers;
  for (int column = 1; column <= row.desc->natts; column++) {
    const char* name = NameStr(TupleDescAttr(row.desc, column - 1)->attname);
    bool own = TupleDescAttr(row.desc, column - 1)->attisdropped;
    for (std::string_view known : kOwn) {
      own = own || known == name;
    }
    text* value = own ? nullptr : ColumnText(row, column);
    if (value != nullptr) {
      const std::string_view trace = TraceHeader(name);
      headers.Add(trace.empty() ? name : trace, {Bytes(value), Size(value)});
    }
  }
  event->headers = headers.Finish();
  TakeTrace(ColumnText(row, FindColumn(row, "tracingspancontext")), event);
}

// --- the row ---

const pg_uuid_t* IdOf(const Row& row, int column) {
  if (column == 0) {
    return nullptr;
  }
  bool null = false;
  Datum value = SPI_getbinval(row.tuple, row.desc, column, &null);
  if (null) {
    return nullptr;
  }
  const Oid type = getBaseType(SPI_gettypeid(row.desc, column));
  if (type == UUIDOID) {
    return DatumGetUUIDP(value);
  }
  return DatumGetUUIDP(DirectFunctionCall1(uuid_in, CStringGetDatum(text_to_cstring(ValueText(type, value)))));
}

// What RETURNING hands back: id and time as they were stored, where the columns can have them.
HeapTuple Stored(const Row& row, const NewEvent& event) {
  int columns[2];
  Datum values[2];
  bool nulls[2] = {false, false};
  int count = 0;
  const int id = FindColumn(row, "id");
  if (id != 0 && SPI_gettypeid(row.desc, id) == UUIDOID) {
    columns[count] = id;
    values[count++] = UUIDPGetDatum(&event.id);
  }
  const int time = FindColumn(row, "timestamp");
  if (time != 0 && SPI_gettypeid(row.desc, time) == TIMESTAMPTZOID) {
    columns[count] = time;
    values[count++] = pg::TimeDatum(event.created_at);
  }
  return heap_modify_tuple_by_cols(row.tuple, row.desc, count, columns, values, nulls);
}

Datum EmitOutboxEvent(FunctionCallInfo fcinfo) {
  TriggerData* trigger = pg::TriggerOf(fcinfo, kUse);
  if (TRIGGER_FIRED_BY_DELETE(trigger->tg_event)) {
    return PointerGetDatum(trigger->tg_trigtuple);
  }
  if (TRIGGER_FIRED_BY_UPDATE(trigger->tg_event)) {
    RefuseChange("update");
  }
  const Row row = {trigger, trigger->tg_trigtuple, RelationGetDescr(trigger->tg_relation)};
  NewEvent event = {};
  event.aggregate_type = ColumnText(row, RequireColumn(row, "aggregatetype"));
  event.aggregate_id = ColumnText(row, FindColumn(row, "aggregateid"));
  event.event_type = ColumnText(row, RequireColumn(row, "type"));
  event.own_id = IdOf(row, FindColumn(row, "id"));
  TakePayload(row, RequireColumn(row, "payload"), &event);
  TakeHeaders(row, &event);
  CheckEvent(&event);
  InsertEvent(&event);
  return PointerGetDatum(Stored(row, event));
}

}  // namespace

}  // namespace outbox::emit

OUTBOX_FUNCTION(outbox_emit_outboxevent) {
  return outbox::emit::EmitOutboxEvent(fcinfo);
}
