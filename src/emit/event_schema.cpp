#include "emit/event_schema.h"

#include <algorithm>
#include <bit>

#include "base/media_type.h"
#include "emit/arguments.h"
#include "emit/check.h"
#include "emit/header.h"
#include "emit/json_schema.h"
#include "emit/well_formed_schema.h"
#include "pg/cached_table.h"
#include "pg/entry.h"

extern "C" {
#include "common/hashfn.h"
#include "mb/pg_wchar.h"
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
  text* uri;     // nullptr: none
  bool checked;  // that it is one
};

text* CopyText(Datum value) {
  return DatumGetTextPCopy(value);
}

void* KeepSchema(TupleTableSlot* row) {
  auto* schema = static_cast<EventSchema*>(palloc0(sizeof(EventSchema)));
  bool null = false;
  schema->aggregate_type = CopyText(slot_getattr(row, kType, &null));
  schema->event_type = CopyText(slot_getattr(row, kEvent, &null));
  schema->schema = DatumGetJsonbPCopy(slot_getattr(row, kSchema, &null));
  const Datum version = slot_getattr(row, kVersion, &null);
  schema->versioned = !null;
  schema->version = null ? 0 : DatumGetInt32(version);
  const Datum uri = slot_getattr(row, kUri, &null);
  schema->uri = null ? nullptr : CopyText(uri);
  return schema;
}

pg::CachedTable schemas("event_schema", KeepSchema, pg::IfLocked::kGoOn);

bool SameText(const text* a, const text* b) {
  return Size(a) == Size(b) && memcmp(Bytes(a), Bytes(b), Size(a)) == 0;
}

// The rows by their two names: an emit, of a type without a schema, too, takes as long beside ten thousand of them as
// beside one. A table of pointers, at most half full; whoever finds his place taken takes the next.
class SchemaTable {
 public:
  EventSchema* Find(const text* aggregate_type, const text* event_type) {
    const List* known = schemas.Rows();
    if (known == NIL) {
      return nullptr;
    }
    if (times_read_ != schemas.times_read()) {
      Fill(known);
    }
    return *Place(aggregate_type, event_type);
  }

 private:
  void Fill(const List* known) {
    const size_t places = std::bit_ceil(2 * static_cast<size_t>(list_length(known)));
    if (places > mask_ + 1 || places_ == nullptr) {
      auto** larger = static_cast<EventSchema**>(MemoryContextAllocHuge(TopMemoryContext, places * sizeof(*places_)));
      if (places_ != nullptr) {
        pfree(places_);
      }
      places_ = larger;
      mask_ = places - 1;
    }
    std::fill_n(places_, mask_ + 1, nullptr);
    const ListCell* cell = nullptr;
    foreach (cell, known) {
      auto* schema = static_cast<EventSchema*>(lfirst(cell));
      *Place(schema->aggregate_type, schema->event_type) = schema;
    }
    times_read_ = schemas.times_read();
  }

  // Where it is, or would be.
  EventSchema** Place(const text* aggregate_type, const text* event_type) const {
    size_t at = hash_combine(Hash(aggregate_type), Hash(event_type)) & mask_;
    while (places_[at] != nullptr &&
           !(SameText(places_[at]->event_type, event_type) && SameText(places_[at]->aggregate_type, aggregate_type))) {
      at = (at + 1) & mask_;
    }
    return &places_[at];
  }

  static uint32 Hash(const text* name) {
    return hash_bytes(reinterpret_cast<const unsigned char*>(Bytes(name)), static_cast<int>(Size(name)));
  }

  EventSchema** places_ = nullptr;
  size_t mask_ = 0;  // their number less one, which is a power of two
  uint64 times_read_ = 0;
};

SchemaTable by_event;

// `true` and {}: there is nothing to compare, so it is not read either.
bool AsksNothing(Jsonb* schema) {
  JsonbValue root;
  return JB_ROOT_IS_OBJECT(schema) ? JB_ROOT_COUNT(schema) == 0
                                   : JB_ROOT_IS_SCALAR(schema) && JsonbExtractScalar(&schema->root, &root) &&
                                         root.type == jbvBool && root.val.boolean;
}

// The server says it of a number or a character, and names neither the event nor what wanted it as jsonb.
[[noreturn]] void RefuseBeyondJsonb(const NewEvent* event, const ErrorData* error) {
  const char* why = ".";
  if (!event->unquoted) {
    why = psprintf(": %s.%s%s", error->message, error->detail != nullptr ? " " : "",
                   error->detail != nullptr ? error->detail : "");
  }
  // The error has the context of the callers already.
  error_context_stack = nullptr;
  ereport(ERROR, (errcode(ERRCODE_INVALID_PARAMETER_VALUE),
                  errmsg("payload cannot be compared with the schema of event \"%s\" of \"%s\"",
                         text_to_cstring(event->event_type), text_to_cstring(event->aggregate_type)),
                  errdetail("PostgreSQL cannot hold it as jsonb%s", why),
                  error->context != nullptr && !event->unquoted ? errcontext("%s", error->context) : 0,
                  event->unquoted ? 0 : KeepPayloadFromLog(),
                  errhint("Pass one JSON document in UTF-8, without U+0000, with numbers in the range of numeric, and "
                          "not nested without end. What is no JSON needs a content type that does not say so. The "
                          "owner of the extension ends the check by outbox.drop_event_schema().")));
  pg_unreachable();
}

// In the current memory context.
Jsonb* ReadPayload(const NewEvent* event) {
  Jsonb* volatile document = nullptr;
  MemoryContext context = CurrentMemoryContext;
  PG_TRY();
  {
    const int size = static_cast<int>(Size(event->payload));
    document = ReadJsonb(pg_any_to_server(pnstrdup(Bytes(event->payload), size), size, PG_UTF8));
  }
  PG_CATCH();
  {
    if (!IsOfDocument(geterrcode())) {
      PG_RE_THROW();
    }
    MemoryContextSwitchTo(context);
    const ErrorData* error = CopyErrorData();
    FlushErrorState();
    RefuseBeyondJsonb(event, error);
  }
  PG_END_TRY();
  return document;
}

void CheckPayload(EventSchema* schema, const NewEvent* event) {
  if (!schema->checked) {
    CheckRegisteredSchema(schema->schema, schema->aggregate_type, schema->event_type);
    schema->checked = true;
  }
  if (AsksNothing(schema->schema)) {
    return;
  }
  // Gone before the next event, of which one call may have many.
  MemoryContext memory =
      AllocSetContextCreate(CurrentMemoryContext, "outbox check of a payload", ALLOCSET_DEFAULT_SIZES);
  MemoryContext caller = MemoryContextSwitchTo(memory);
  Jsonb* document = ReadPayload(event);
  Reach reach = Reach::kEnd;
  Reason why = Mismatch(schema->schema, document, &reach);
  MemoryContextSwitchTo(caller);
  if (why.told == nullptr) {
    MemoryContextDelete(memory);
    return;
  }
  if (event->unquoted) {
    why.told = why.logged;
  }
  const char* event_type = text_to_cstring(event->event_type);
  const char* aggregate_type = text_to_cstring(event->aggregate_type);
  if (reach == Reach::kTooLong) {
    ereport(ERROR, (errcode(ERRCODE_INVALID_PARAMETER_VALUE),
                    errmsg("payload takes too long to be checked by the schema of event \"%s\" of \"%s\"", event_type,
                           aggregate_type),
                    errdetail("%s", why.told), errdetail_log("%s", why.logged),
                    errhint("Do schemas in it refer to others more than once, these to others again? The owner of the "
                            "extension has it in outbox.event_schemas, and ends the check by "
                            "outbox.drop_event_schema().")));
  }
  if (reach == Reach::kTooDeep) {
    ereport(ERROR, (errcode(ERRCODE_INVALID_PARAMETER_VALUE),
                    errmsg("payload goes too deep to be checked by the schema of event \"%s\" of \"%s\"", event_type,
                           aggregate_type),
                    errdetail("%s", why.told), errdetail_log("%s", why.logged),
                    errhint("Is the payload nested without end, or does the schema refer to itself without going into "
                            "the payload? The owner of the extension has it in outbox.event_schemas, and ends the "
                            "check by outbox.drop_event_schema().")));
  }
  ereport(ERROR, (errcode(ERRCODE_INVALID_PARAMETER_VALUE),
                  errmsg("payload does not match the schema of event \"%s\" of \"%s\"", event_type, aggregate_type),
                  errdetail("%s", why.told), errdetail_log("%s", why.logged),
                  errhint("Pass a payload that does. The owner of the extension has the schema in "
                          "outbox.event_schemas, changes it by outbox.event_schema(), and ends the check by "
                          "outbox.drop_event_schema().")));
}

// Rights and routes take patterns; a schema taken for one would be asserted of nothing.
void RefusePattern(const text* name, const char* what) {
  if (memchr(Bytes(name), '*', Size(name)) != nullptr) {
    ereport(ERROR, (errcode(ERRCODE_INVALID_PARAMETER_VALUE),
                    errmsg("schemas are registered by name, and \"%s\" is a pattern", text_to_cstring(name)),
                    errdetail("The %s of an event is compared as it is: \"*\" would stand for itself.", what),
                    errhint("Call outbox.event_schema() once for each event type.")));
  }
}

}  // namespace

void CheckEventSchema(NewEvent* event) {
  EventSchema* schema = by_event.Find(event->aggregate_type, event->event_type);
  if (schema == nullptr) {
    return;
  }
  const bool json =
      event->payload != nullptr && (event->content_type == nullptr || SaysJson(View(event->content_type)));
  if (json) {
    CheckPayload(schema, event);
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
  if (PG_ARGISNULL(0) || PG_ARGISNULL(1) || PG_ARGISNULL(2)) {
    ereport(ERROR, (errcode(ERRCODE_NULL_VALUE_NOT_ALLOWED),
                    errmsg("aggregate_type, event_type and json_schema must not be null"),
                    errdetail("A schema is asserted of the events of one type of one aggregate type."),
                    errhint("outbox.drop_event_schema() ends a check.")));
  }
  const text* aggregate_type = PG_GETARG_TEXT_PP(0);
  const text* event_type = PG_GETARG_TEXT_PP(1);
  outbox::emit::CheckAggregateType(aggregate_type);
  outbox::emit::CheckEventType(event_type);
  outbox::emit::RefusePattern(aggregate_type, "aggregate type");
  outbox::emit::RefusePattern(event_type, "event type");
  outbox::emit::CheckSchema(PG_GETARG_JSONB_P(2));
  if (!PG_ARGISNULL(3)) {
    const int32 version = PG_GETARG_INT32(3);
    if (version < 0) {
      outbox::emit::RefuseSchemaVersion(psprintf("%d", version));
    }
  }
  if (!PG_ARGISNULL(4)) {
    const text* uri = PG_GETARG_TEXT_PP(4);
    outbox::emit::CheckDataschema(outbox::emit::Bytes(uri), outbox::emit::Size(uri));
  }
  PG_RETURN_VOID();
}
