// The view outbox.event [P]: INSERT emits, SELECT shows what this transaction emitted, nothing else is allowed.
// Plain code.
#include "days/day_table.h"
#include "days/leaf.h"
#include "emit/arguments.h"
#include "emit/check.h"
#include "emit/insert.h"
#include "pg/entry.h"
#include "pg/transaction_end.h"

extern "C" {
#include "commands/trigger.h"
#include "mb/pg_wchar.h"
#include "utils/fmgroids.h"
}

namespace outbox::emit {

using enum days::LogColumn;

namespace {

// Columns of the view, in order.
enum ViewColumn : int {
  kViewId,
  kViewAggregateType,
  kViewAggregateId,
  kViewEventType,
  kViewPayload,
  kViewHeaders,
  kViewTopic,
  kViewCreatedAt,
  kViewContentType,
  kViewPayloadText,
  kViewPayloadBytes,
  kViewDeliverAt,
  kViewColumns
};

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
    CheckNotEncodedTwice(json);
    event->payload = JsonbBytes(json);
  } else if (!nulls[kViewPayloadText]) {
    event->payload = TextBytes(DatumGetTextPP(values[kViewPayloadText]));
    if (event->content_type == nullptr) {
      event->content_type = cstring_to_text("text/plain");
    }
  } else {
    event->payload = DatumGetByteaPP(values[kViewPayloadBytes]);
    if (event->content_type == nullptr) {
      event->content_type = cstring_to_text("application/octet-stream");
    }
  }
}

TriggerData* ViewTrigger(FunctionCallInfo fcinfo, const char* function) {
  if (!CALLED_AS_TRIGGER(fcinfo)) {
    ereport(ERROR, (errcode(ERRCODE_E_R_I_E_TRIGGER_PROTOCOL_VIOLATED),
                    errmsg("%s can only be called as a trigger of the view outbox.event", function)));
  }
  return reinterpret_cast<TriggerData*>(fcinfo->context);
}

Datum ViewInsert(FunctionCallInfo fcinfo) {
  TriggerData* trigger = ViewTrigger(fcinfo, "outbox._event_insert()");
  TupleDesc desc = RelationGetDescr(trigger->tg_relation);
  if (!TRIGGER_FIRED_INSTEAD(trigger->tg_event) || !TRIGGER_FIRED_BY_INSERT(trigger->tg_event) ||
      desc->natts != kViewColumns) {
    ereport(ERROR, (errcode(ERRCODE_E_R_I_E_TRIGGER_PROTOCOL_VIOLATED),
                    errmsg("outbox._event_insert() belongs to the view outbox.event")));
  }
  Datum values[kViewColumns];
  bool nulls[kViewColumns];
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
  TakeBodyColumn(&event, values, nulls);
  CheckEvent(&event);
  InsertEvent(&event);

  // What RETURNING hands back: the row as it was stored.
  values[kViewId] = UUIDPGetDatum(&event.id);
  values[kViewCreatedAt] = TimestampTzGetDatum(event.created_at - kPgEpochMicros);
  values[kViewContentType] = PointerGetDatum(event.content_type);
  values[kViewHeaders] = PointerGetDatum(event.headers);
  nulls[kViewId] = false;
  nulls[kViewCreatedAt] = false;
  nulls[kViewContentType] = event.content_type == nullptr;
  nulls[kViewHeaders] = event.headers == nullptr;
  return PointerGetDatum(heap_form_tuple(desc, values, nulls));
}

Datum ViewRefuse(FunctionCallInfo fcinfo) {
  TriggerData* trigger = ViewTrigger(fcinfo, "outbox._event_refuse()");
  bool update = TRIGGER_FIRED_BY_UPDATE(trigger->tg_event);
  ereport(ERROR, (errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
                  errmsg("cannot %s an event", update ? "update" : "delete"),
                  errdetail("The log is append-only: what was emitted is published when the transaction commits."),
                  errhint("Roll back, to a savepoint for instance, to take back what this transaction emitted.")));
  return 0;
}

bool EndsWith(const text* value, const char* end) {
  size_t size = strlen(end);
  return Size(value) >= size && memcmp(Bytes(value) + Size(value) - size, end, size) == 0;
}

bool IsTextual(const text* content_type, const bytea* payload) {
  bool textual = (Size(content_type) >= 5 && memcmp(Bytes(content_type), "text/", 5) == 0) ||
                 EndsWith(content_type, "json") || EndsWith(content_type, "xml");
  return textual && GetDatabaseEncoding() == PG_UTF8 &&
         pg_verify_mbstr(PG_UTF8, Bytes(payload), static_cast<int>(Size(payload)), true);
}

// The body in that one of the three columns that fits it; none for a tombstone.
void ShowBody(const Datum* row, const bool* row_nulls, Datum* values, bool* nulls) {
  nulls[kViewPayload] = nulls[kViewPayloadText] = nulls[kViewPayloadBytes] = true;
  if (row_nulls[kPayload]) {
    return;
  }
  bytea* payload = DatumGetByteaPP(row[kPayload]);
  if (row_nulls[kContentType]) {
    char* json = pg_any_to_server(pnstrdup(Bytes(payload), Size(payload)), Size(payload), PG_UTF8);
    values[kViewPayload] = DirectFunctionCall1(jsonb_in, CStringGetDatum(json));
    nulls[kViewPayload] = false;
  } else if (IsTextual(DatumGetTextPP(row[kContentType]), payload)) {
    values[kViewPayloadText] = PointerGetDatum(payload);
    nulls[kViewPayloadText] = false;
  } else {
    values[kViewPayloadBytes] = PointerGetDatum(payload);
    nulls[kViewPayloadBytes] = false;
  }
}

void ShowRow(ReturnSetInfo* result, const Datum* row, const bool* row_nulls) {
  static constexpr struct {
    ViewColumn view;
    days::LogColumn log;
  } kSame[] = {
      {kViewId, kId},
      {kViewAggregateType, kAggregateType},
      {kViewAggregateId, kAggregateId},
      {kViewEventType, kEventType},
      {kViewHeaders, kHeaders},
      {kViewTopic, kTopic},
      {kViewCreatedAt, kCreatedAt},
      {kViewContentType, kContentType},
      {kViewDeliverAt, kDeliverAt},
  };
  Datum values[kViewColumns];
  bool nulls[kViewColumns];
  for (const auto& column : kSame) {
    values[column.view] = row[column.log];
    nulls[column.view] = row_nulls[column.log];
  }
  ShowBody(row, row_nulls, values, nulls);
  tuplestore_putvalues(result->setResult, result->setDesc, values, nulls);
}

// `day_table`: opened for reading, or nullptr; closed here.
void ShowTable(ReturnSetInfo* result, Relation day_table, FullTransactionId xid) {
  if (day_table == nullptr) {
    return;
  }
  ScanKeyData key;
  ScanKeyInit(&key, kXid + 1, BTEqualStrategyNumber, F_XID8EQ, FullTransactionIdGetDatum(xid));
  // Rows of this very transaction are there or taken back, whatever the isolation level: no snapshot decides that, and
  // none is asked. A snapshot of a serializable transaction would leave predicate locks on pages that all write to.
  // What the statement under way has emitted is left out by hand.
  Relation index = days::OpenXidIndex(day_table);
  bool by_index = index != nullptr;
  SysScanDesc scan =
      systable_beginscan(day_table, by_index ? RelationGetRelid(index) : InvalidOid, by_index, SnapshotSelf, 1, &key);
  MemoryContext scratch = AllocSetContextCreate(CurrentMemoryContext, "outbox event row", ALLOCSET_DEFAULT_SIZES);
  HeapTuple tuple;
  while (HeapTupleIsValid(tuple = systable_getnext(scan))) {
    if (HeapTupleHeaderGetCmin(tuple->t_data) >= GetActiveSnapshot()->curcid) {
      continue;
    }
    Datum row[kLogColumns];
    bool nulls[kLogColumns];
    MemoryContext caller = MemoryContextSwitchTo(scratch);
    heap_deform_tuple(tuple, RelationGetDescr(day_table), row, nulls);
    ShowRow(result, row, nulls);
    MemoryContextSwitchTo(caller);
    MemoryContextReset(scratch);
    CHECK_FOR_INTERRUPTS();
  }
  MemoryContextDelete(scratch);
  systable_endscan(scan);
  if (by_index) {
    index_close(index, AccessShareLock);
  }
  table_close(day_table, NoLock);
}

// The events of the current transaction. Reads the day tables it wrote to, through the index on xid; a plain view over
// outbox.log would lock every day table and starve the keeper's drops.
Datum OwnEvents(FunctionCallInfo fcinfo) {
  InitMaterializedSRF(fcinfo, 0);
  ReturnSetInfo* result = reinterpret_cast<ReturnSetInfo*>(fcinfo->resultinfo);
  int32 first = 0;
  int32 last = 0;
  FullTransactionId xid = GetTopFullTransactionIdIfAny();
  if (FullTransactionIdIsValid(xid) && pg::EmittedDays(&first, &last)) {
    for (int32 day = first; day <= last; day++) {
      ShowTable(result, days::OpenDayTableForReading(day), xid);
    }
    if (pg::EmittedToSpare()) {
      ShowTable(result, days::OpenSpareTableForReading(), xid);
    }
  }
  return 0;
}

}  // namespace

}  // namespace outbox::emit

OUTBOX_FUNCTION(outbox_event_insert) {
  return outbox::emit::ViewInsert(fcinfo);
}
OUTBOX_FUNCTION(outbox_event_refuse) {
  return outbox::emit::ViewRefuse(fcinfo);
}
OUTBOX_FUNCTION(outbox_own_events) {
  return outbox::emit::OwnEvents(fcinfo);
}
