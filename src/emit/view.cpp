// The triggers of the view outbox.event [P]: INSERT emits, UPDATE and DELETE are refused. Plain code.
#include "emit/arguments.h"
#include "emit/check.h"
#include "emit/insert.h"
#include "emit/view_columns.h"
#include "pg/entry.h"

extern "C" {
#include "commands/trigger.h"
}

namespace outbox::emit {

namespace {

text* TextColumn(const Datum* values, const bool* nulls, int column) {
  return nulls[column] ? nullptr : DatumGetTextPP(values[column]);
}

// Exactly one of the three payload columns is the body.
void TakeBodyColumn(NewEvent* event, const Datum* values, const bool* nulls) {
  int given = !nulls[kViewPayload] + !nulls[kViewPayloadText] + !nulls[kViewPayloadBytes];
  if (given != 1) {
    ereport(ERROR, (errcode(ERRCODE_NULL_VALUE_NOT_ALLOWED),
                    errmsg("exactly one of payload, payload_text and payload_bytes must be given"),
                    errdetail("%d of them are not null.", given),
                    errhint("Call outbox.emit_tombstone() for an event without a payload.")));
  }
  if (!nulls[kViewPayload]) {
    Jsonb* json = DatumGetJsonbP(values[kViewPayload]);
    CheckJsonPayload(json);
    event->payload = JsonbBytes(json);
  } else if (!nulls[kViewPayloadText]) {
    TakeText(DatumGetTextPP(values[kViewPayloadText]), event);
  } else {
    TakeBytes(DatumGetByteaPP(values[kViewPayloadBytes]), event);
  }
}

constexpr pg::TriggerUse kInsert = {"outbox_internal.event_insert()",
                                    [](const TriggerData& trigger) {
                                      return TRIGGER_FIRED_INSTEAD(trigger.tg_event) &&
                                             TRIGGER_FIRED_BY_INSERT(trigger.tg_event);
                                    },
                                    "an INSTEAD OF INSERT trigger FOR EACH ROW of the view outbox.event"};

// BEFORE each statement, too, which may find no row.
constexpr pg::TriggerUse kRefuse = {"outbox_internal.event_refuse()",
                                    [](const TriggerData& trigger) {
                                      return TRIGGER_FIRED_BY_UPDATE(trigger.tg_event) ||
                                             TRIGGER_FIRED_BY_DELETE(trigger.tg_event);
                                    },
                                    "a trigger of UPDATE and DELETE"};

Datum ViewInsert(FunctionCallInfo fcinfo) {
  TriggerData* trigger = pg::TriggerOf(fcinfo, kInsert);
  TupleDesc desc = RelationGetDescr(trigger->tg_relation);
  if (!HasViewColumns(desc) && !HasViewColumns(desc, kViewColumnsOf01)) {
    pg::RefuseRelation(*trigger, kInsert, "the view outbox.event");
  }
  Datum values[kViewColumns];
  bool nulls[kViewColumns];
  for (int column = kViewColumnsOf01; column < kViewColumns; column++) {
    nulls[column] = true;
  }
  heap_deform_tuple(trigger->tg_trigtuple, desc, values, nulls);

  NewEvent event = {};
  event.aggregate_type = TextColumn(values, nulls, kViewAggregateType);
  event.aggregate_id = TextColumn(values, nulls, kViewAggregateId);
  event.event_type = TextColumn(values, nulls, kViewEventType);
  event.content_type = TextColumn(values, nulls, kViewContentType);
  event.topic = TextColumn(values, nulls, kViewTopic);
  event.headers = nulls[kViewHeaders] ? nullptr : DatumGetJsonbP(values[kViewHeaders]);
  event.own_id = nulls[kViewId] ? nullptr : DatumGetUUIDP(values[kViewId]);
  event.delayed = !nulls[kViewDeliverAt];
  if (event.delayed) {
    event.deliver_at = DatumGetTimestampTz(values[kViewDeliverAt]);
  }
  event.dedupe_key = TextColumn(values, nulls, kViewDedupeKey);
  event.dataschema = TextColumn(values, nulls, kViewDataschema);
  event.versioned = !nulls[kViewSchemaVersion];
  if (event.versioned) {
    event.schema_version = DatumGetInt32(values[kViewSchemaVersion]);
  }
  TakeBodyColumn(&event, values, nulls);
  CheckEvent(&event);
  InsertEvent(&event);

  // What RETURNING hands back: the row as it was stored; of one whose key had emitted, the id and time of that event.
  values[kViewId] = UUIDPGetDatum(&event.id);
  values[kViewCreatedAt] = pg::TimeDatum(event.created_at);
  values[kViewContentType] = PointerGetDatum(event.content_type);
  values[kViewHeaders] = PointerGetDatum(event.headers);
  nulls[kViewId] = false;
  nulls[kViewCreatedAt] = false;
  nulls[kViewContentType] = event.content_type == nullptr;
  nulls[kViewHeaders] = event.headers == nullptr;
  return PointerGetDatum(heap_form_tuple(desc, values, nulls));
}

Datum ViewRefuse(FunctionCallInfo fcinfo) {
  TriggerData* trigger = pg::TriggerOf(fcinfo, kRefuse);
  RefuseChange(TRIGGER_FIRED_BY_UPDATE(trigger->tg_event) ? "update" : "delete");
}

}  // namespace

}  // namespace outbox::emit

OUTBOX_FUNCTION(outbox_event_insert) {
  return outbox::emit::ViewInsert(fcinfo);
}
OUTBOX_FUNCTION(outbox_event_refuse) {
  return outbox::emit::ViewRefuse(fcinfo);
}
