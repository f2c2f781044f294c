#include "emit/event_schema.h"

#include "emit/header.h"
#include "emit/json_schema.h"
#include "emit/json_text.h"
#include "pg/entry.h"
#include "pg/schemas.h"
#include "pg/server_versions.h"

extern "C" {
#include "access/table.h"
#include "access/tableam.h"
#include "executor/tuptable.h"
#include "mb/pg_wchar.h"
#include "storage/lmgr.h"
#include "utils/inval.h"
#include "utils/snapmgr.h"
}

namespace outbox::emit {

namespace {

// Columns of outbox_internal.event_schema.
enum SchemaColumn : int { kType = 1, kEvent, kSchema, kVersion, kUri };

struct EventSchema {
  text* aggregate_type;
  text* event_type;
  Jsonb* schema;
  bool versioned;
  int32 version;
  text* uri;  // nullptr: none
};

List* schemas = NIL;  // of EventSchema
bool stale = true;
Oid table = InvalidOid;          // outbox_internal.event_schema when it was read; InvalidOid: there was none
MemoryContext memory = nullptr;  // of all of that

void OnRelationChange(Datum, Oid relation) {
  stale = stale || relation == InvalidOid || relation == table || table == InvalidOid;
}

Datum Column(TupleTableSlot* row, int column, bool* null) {
  return slot_getattr(row, column, null);
}

text* CopyText(Datum value) {
  return DatumGetTextPCopy(value);
}

// Under the newest snapshot, not the transaction's: what is registered counts from then on. An emit waits for nobody
// who has locked the table: what was known goes on to count, and the next emit asks again.
void Read() {
  if (memory == nullptr) {
    memory = AllocSetContextCreate(TopMemoryContext, "outbox event schemas", ALLOCSET_SMALL_SIZES);
    CacheRegisterRelcacheCallback(OnRelationChange, static_cast<Datum>(0));
  }
  const Oid found = pg::FindOurRelation("event_schema");
  if (OidIsValid(found) && !ConditionalLockRelationOid(found, AccessShareLock)) {
    return;
  }
  schemas = NIL;
  MemoryContextReset(memory);
  table = found;
  stale = false;  // a change from here on sets it again
  Relation relation = OidIsValid(table) ? try_table_open(table, NoLock) : nullptr;
  if (relation == nullptr) {
    if (OidIsValid(table)) {
      UnlockRelationOid(table, AccessShareLock);
    }
    return;
  }
  Snapshot snapshot = RegisterSnapshot(GetLatestSnapshot());
  TableScanDesc scan = pg::BeginScan(relation, snapshot);
  TupleTableSlot* row = table_slot_create(relation, nullptr);
  MemoryContext caller = MemoryContextSwitchTo(memory);
  while (table_scan_getnextslot(scan, ForwardScanDirection, row)) {
    EventSchema* schema = static_cast<EventSchema*>(palloc0(sizeof(EventSchema)));
    bool null = false;
    schema->aggregate_type = CopyText(Column(row, kType, &null));
    schema->event_type = CopyText(Column(row, kEvent, &null));
    schema->schema = DatumGetJsonbPCopy(Column(row, kSchema, &null));
    const Datum version = Column(row, kVersion, &null);
    schema->versioned = !null;
    schema->version = null ? 0 : DatumGetInt32(version);
    const Datum uri = Column(row, kUri, &null);
    schema->uri = null ? nullptr : CopyText(uri);
    schemas = lappend(schemas, schema);
  }
  MemoryContextSwitchTo(caller);
  ExecDropSingleTupleTableSlot(row);
  table_endscan(scan);
  UnregisterSnapshot(snapshot);
  table_close(relation, AccessShareLock);
}

bool SameText(const text* a, const text* b) {
  return Size(a) == Size(b) && memcmp(Bytes(a), Bytes(b), Size(a)) == 0;
}

const EventSchema* Find(const NewEvent* event) {
  ListCell* cell = nullptr;
  foreach (cell, schemas) {
    const auto* schema = static_cast<const EventSchema*>(lfirst(cell));
    if (SameText(schema->event_type, event->event_type) && SameText(schema->aggregate_type, event->aggregate_type)) {
      return schema;
    }
  }
  return nullptr;
}

void CheckPayload(const EventSchema* schema, const NewEvent* event) {
  char* json = pg_any_to_server(pnstrdup(Bytes(event->payload), Size(event->payload)),
                                static_cast<int>(Size(event->payload)), PG_UTF8);
  Jsonb* document = DatumGetJsonbP(DirectFunctionCall1(jsonb_in, CStringGetDatum(json)));
  const char* why = Mismatch(schema->schema, document);
  if (why != nullptr) {
    ereport(ERROR, (errcode(ERRCODE_INVALID_PARAMETER_VALUE),
                    errmsg("payload does not match the schema of event \"%s\" of \"%s\"",
                           text_to_cstring(event->event_type), text_to_cstring(event->aggregate_type)),
                    errdetail("%s", why),
                    errhint("outbox.event_schemas has the schema; outbox.event_schema() changes it, and "
                            "outbox.drop_event_schema() ends the check.")));
  }
}

}  // namespace

void CheckEventSchema(NewEvent* event) {
  if (stale) {
    Read();
  }
  if (schemas == NIL) {
    return;
  }
  const EventSchema* schema = Find(event);
  if (schema == nullptr) {
    return;
  }
  const bool json = event->payload != nullptr && (event->content_type == nullptr || SaysJson(event->content_type));
  if (json) {
    // The list goes if what validating calls (a conversion, an interrupt) learns of a change; this event keeps it.
    Jsonb* kept = static_cast<Jsonb*>(palloc(VARSIZE(schema->schema)));
    memcpy(kept, schema->schema, VARSIZE(schema->schema));
    EventSchema copy = *schema;
    copy.schema = kept;
    CheckPayload(&copy, event);
  }
  // Both or neither, and on what was checked alone: one of them beside another version would be a false label.
  if (!json || HasHeader(event, "schema_version") || HasHeader(event, "dataschema")) {
    return;
  }
  if (schema->versioned) {
    AddHeader(event, "schema_version", psprintf("%d", schema->version), Wins::kCaller);
  }
  if (schema->uri != nullptr) {
    AddHeader(event, "dataschema", text_to_cstring(schema->uri), Wins::kCaller);
  }
}

}  // namespace outbox::emit

OUTBOX_FUNCTION(outbox_check_json_schema) {
  outbox::emit::CheckSchema(PG_GETARG_JSONB_P(0));
  if (!PG_ARGISNULL(1)) {
    const int32 version = PG_GETARG_INT32(1);
    if (version < 0) {
      outbox::emit::RefuseSchemaVersion(psprintf("%d", version));
    }
  }
  if (!PG_ARGISNULL(2)) {
    const text* uri = PG_GETARG_TEXT_PP(2);
    outbox::emit::CheckDataschema(outbox::emit::Bytes(uri), outbox::emit::Size(uri));
  }
  PG_RETURN_VOID();
}
// After each change of outbox_internal.event_schema: sessions read it again.
OUTBOX_FUNCTION(outbox_event_schema_changed) {
  const Oid changed =
      RelationGetRelid(outbox::pg::TriggerOf(fcinfo, "outbox_internal.event_schema_changed()")->tg_relation);
  outbox::pg::Guard([changed] { CacheInvalidateRelcacheByRelid(changed); });
  return Datum{0};
}
