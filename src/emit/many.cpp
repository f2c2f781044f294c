// emit_many [P]: one JSON array of objects for comfort, parallel arrays for speed. Plain code.
#include "emit/arguments.h"
#include "emit/check.h"
#include "emit/header.h"
#include "emit/insert.h"
#include "emit/json_value.h"
#include "pg/entry.h"
#include "pg/rights.h"

extern "C" {
#include "utils/array.h"
#include "utils/numeric.h"
}

namespace outbox::emit {

namespace {

// Which event an error is about: `at`, counted from `first`; none where it is negative.
struct ErrorSite {
  int first;
  int at;
};

void AddErrorSite(void* arg) {
  const ErrorSite* site = static_cast<const ErrorSite*>(arg);
  if (site->at >= 0) {
    errcontext("outbox.emit_many(), element %d", site->first + site->at + 1);
  }
}

// Adds the event's number to every error raised while it is pushed: while an event is read, and while its dedupe_key is
// taken.
void PushErrorSite(ErrorContextCallback* context, ErrorSite* site) {
  context->previous = error_context_stack;
  context->callback = AddErrorSite;
  context->arg = site;
  error_context_stack = context;
}

[[noreturn]] void RefuseShape(const char* detail) {
  ereport(ERROR,
          (errcode(ERRCODE_INVALID_PARAMETER_VALUE), errmsg("events must be a JSON array of objects"),
           errdetail("%s", detail),
           errhint("Each object has the argument names of outbox.emit(): aggregate_type, aggregate_id, "
                   "event_type, payload and, if wanted, headers, topic, deliver_at and dedupe_key; schema_version "
                   "and dataschema, too.")));
  pg_unreachable();
}

bool Is(const JsonbValue* name, const char* text) {
  return name->val.string.len == static_cast<int>(strlen(text)) &&
         memcmp(name->val.string.val, text, strlen(text)) == 0;
}

// A number of JSON against one. What does not fit is refused before it is converted: PostgreSQL's word names no member.
bool Compares(PGFunction compare, Datum number, int64 bound) {
  return DatumGetBool(DirectFunctionCall2(compare, number, NumericGetDatum(int64_to_numeric(bound))));
}

// A string, or NULL for JSON null; numbers too where they are keys.
text* TextOf(const JsonbValue* value, const char* name, bool number) {
  switch (value->type) {
    case jbvNull:
      return nullptr;
    case jbvString:
      return cstring_to_text_with_len(value->val.string.val, value->val.string.len);
    case jbvNumeric:
      if (number) {
        // As emit(.., bigint, ..) would spell it; a fraction is no key.
        const Datum given = NumericGetDatum(value->val.numeric);
        if (Compares(numeric_gt, given, PG_INT64_MAX) || Compares(numeric_lt, given, PG_INT64_MIN)) {
          RefuseShape("The aggregate_id is a number beyond bigint; as a string it may have any digits.");
        }
        Datum integer = DirectFunctionCall1(numeric_int8, given);
        if (!DatumGetBool(DirectFunctionCall2(numeric_eq, given, DirectFunctionCall1(int8_numeric, integer)))) {
          RefuseShape("The aggregate_id is a number with a fraction.");
        }
        return cstring_to_text(DatumGetCString(DirectFunctionCall1(int8out, integer)));
      }
      break;
    default:
      break;
  }
  RefuseShape(psprintf("The value of \"%s\" is not a string.", name));
}

[[noreturn]] void RefuseTime(const char* text, bool out_of_range) {
  ereport(
      ERROR,
      (errcode(out_of_range ? ERRCODE_DATETIME_VALUE_OUT_OF_RANGE : ERRCODE_INVALID_DATETIME_FORMAT),
       errmsg("deliver_at is not a time"), errdetail("It is \"%s\".", CutShort(text)),
       errhint("Pass a time in ISO 8601 with its offset, such as \"2030-01-31T12:00:00Z\"; null or a time in the past "
               "means at once.")));
  pg_unreachable();
}

// As a literal of type timestamptz is read in this session; ISO 8601 with an offset means the same in all of them. What
// PostgreSQL says of another text does not name the member, and speaks of settings.
TimestampTz ReadTime(char* text) {
  volatile TimestampTz time = 0;
  MemoryContext context = CurrentMemoryContext;
  PG_TRY();
  {
    time = DatumGetTimestampTz(
        DirectFunctionCall3(timestamptz_in, CStringGetDatum(text), ObjectIdGetDatum(InvalidOid), Int32GetDatum(-1)));
  }
  PG_CATCH();
  {
    const int code = geterrcode();
    if (ERRCODE_TO_CATEGORY(code) != ERRCODE_DATA_EXCEPTION) {
      PG_RE_THROW();
    }
    MemoryContextSwitchTo(context);
    FlushErrorState();
    RefuseTime(text, code == ERRCODE_DATETIME_VALUE_OUT_OF_RANGE);
  }
  PG_END_TRY();
  return time;
}

void TakeTime(NewEvent* event, const text* value) {
  event->delayed = value != nullptr;
  if (event->delayed) {
    event->deliver_at = ReadTime(text_to_cstring(value));
  }
}

void TakeSchemaVersion(NewEvent* event, const JsonbValue* value) {
  event->versioned = value->type != jbvNull;
  if (value->type == jbvNumeric) {
    const Datum number = NumericGetDatum(value->val.numeric);
    const Datum whole = DirectFunctionCall2(numeric_trunc, number, Int32GetDatum(0));
    if (!DatumGetBool(DirectFunctionCall2(numeric_eq, number, whole))) {
      RefuseSchemaVersion("a number with a fraction");
    }
    if (Compares(numeric_gt, number, PG_INT32_MAX) || Compares(numeric_lt, number, PG_INT32_MIN)) {
      RefuseSchemaVersion(Compares(numeric_lt, number, 0) ? "a number below 0" : "a number above 2147483647");
    }
    event->schema_version = DatumGetInt32(DirectFunctionCall1(numeric_int4, number));
  } else if (event->versioned) {
    RefuseSchemaVersion("no number");
  }
}

void TakeField(NewEvent* event, const JsonbValue* name, JsonbValue* value) {
  if (Is(name, "aggregate_type")) {
    event->aggregate_type = TextOf(value, "aggregate_type", false);
  } else if (Is(name, "aggregate_id")) {
    event->aggregate_id = TextOf(value, "aggregate_id", true);
  } else if (Is(name, "event_type")) {
    event->event_type = TextOf(value, "event_type", false);
  } else if (Is(name, "payload")) {
    CheckJsonPayload(value);
    event->payload = JsonbBytes(value);
  } else if (Is(name, "headers")) {
    event->headers = JsonbValueToJsonb(value);
  } else if (Is(name, "topic")) {
    event->topic = TextOf(value, "topic", false);
  } else if (Is(name, "deliver_at")) {
    TakeTime(event, TextOf(value, "deliver_at", false));
  } else if (Is(name, "dedupe_key")) {
    event->dedupe_key = TextOf(value, "dedupe_key", false);
  } else if (Is(name, "schema_version")) {
    TakeSchemaVersion(event, value);
  } else if (Is(name, "dataschema")) {
    event->dataschema = TextOf(value, "dataschema", false);
  } else {
    RefuseShape(psprintf("There is no argument \"%s\".", pnstrdup(name->val.string.val, name->val.string.len)));
  }
}

void TakeObject(NewEvent* event, const JsonbValue* object) {
  if (object->type != jbvBinary || !JsonContainerIsObject(object->val.binary.data)) {
    RefuseShape("An element of the array is not an object.");
  }
  JsonbIterator* iterator = JsonbIteratorInit(object->val.binary.data);
  JsonbValue name = {};
  JsonbValue item;
  JsonbIteratorToken token = JsonbIteratorNext(&iterator, &item, false);
  while ((token = JsonbIteratorNext(&iterator, &item, true)) != WJB_DONE) {
    if (token == WJB_KEY) {
      name = item;
    } else if (token == WJB_VALUE) {
      TakeField(event, &name, &item);
    }
  }
  CheckEvent(event);
}

// Large events make a batch of few.
constexpr size_t kBatchBytes = 8 * 1024 * 1024;

// Events are gathered, checked and written in batches, so that memory does not grow with the call.
class Batch {
 public:
  // All memory is of the current context and goes with it. `site` stays the caller's.
  void Begin(pg_uuid_t* ids, ErrorSite* site) {
    ids_ = ids;
    site_ = site;
    events_ = static_cast<NewEvent*>(palloc(kInsertBatch * sizeof(NewEvent)));
    scratch_ = AllocSetContextCreate(CurrentMemoryContext, "outbox emit_many", ALLOCSET_DEFAULT_SIZES);
  }
  MemoryContext scratch() const { return scratch_; }
  NewEvent* Next() {
    if (count_ == kInsertBatch || MemoryContextMemAllocated(scratch_, false) > kBatchBytes) {
      Flush();
    }
    NewEvent* event = &events_[count_++];
    memset(event, 0, sizeof(*event));
    return event;
  }
  void Flush() {
    MemoryContext caller = MemoryContextSwitchTo(scratch_);
    const ErrorSite reading = *site_;
    *site_ = {flushed_, -1};
    InsertEvents(events_, count_, &site_->at);
    *site_ = reading;
    MemoryContextSwitchTo(caller);
    flushed_ += count_;
    for (int i = 0; i < count_; i++) {
      *ids_++ = events_[i].id;
    }
    count_ = 0;
    MemoryContextReset(scratch_);
    CHECK_FOR_INTERRUPTS();
  }

 private:
  pg_uuid_t* ids_ = nullptr;
  ErrorSite* site_ = nullptr;
  NewEvent* events_ = nullptr;
  int count_ = 0;
  int flushed_ = 0;
  MemoryContext scratch_ = nullptr;
};

pg_uuid_t* AllocateIds(int count) {
  return static_cast<pg_uuid_t*>(
      MemoryContextAllocExtended(CurrentMemoryContext, Max(count, 1) * sizeof(pg_uuid_t), MCXT_ALLOC_HUGE));
}

// emit_many(events jsonb), emit_many_json(events json_arg): ids in the order of the array.
Datum EmitObjects(FunctionCallInfo fcinfo, const Jsonb* array) {
  pg::HearOfRights(fcinfo);
  if (array == nullptr) {
    ereport(ERROR, (errcode(ERRCODE_NULL_VALUE_NOT_ALLOWED), errmsg("events must not be null"),
                    errdetail("Nothing can be emitted from NULL."), errhint("Pass '[]' for no events.")));
  }
  if (!JB_ROOT_IS_ARRAY(array) || JB_ROOT_IS_SCALAR(array)) {
    RefuseShape("It is not an array.");
  }
  InitMaterializedSRF(fcinfo, MAT_SRF_USE_EXPECTED_DESC);
  int count = JB_ROOT_COUNT(array);
  pg_uuid_t* ids = AllocateIds(count);
  ErrorSite site = {0, 0};
  Batch batch;
  batch.Begin(ids, &site);
  JsonbIterator* iterator = JsonbIteratorInit(const_cast<JsonbContainer*>(&array->root));
  JsonbValue item;
  JsonbIteratorToken token = JsonbIteratorNext(&iterator, &item, false);
  ErrorContextCallback context;
  PushErrorSite(&context, &site);
  while ((token = JsonbIteratorNext(&iterator, &item, true)) != WJB_DONE) {
    if (token == WJB_ELEM) {
      NewEvent* event = batch.Next();
      MemoryContext caller = MemoryContextSwitchTo(batch.scratch());
      TakeObject(event, &item);
      MemoryContextSwitchTo(caller);
      site.at++;
    }
  }
  batch.Flush();
  error_context_stack = context.previous;
  ReturnSetInfo* result = reinterpret_cast<ReturnSetInfo*>(fcinfo->resultinfo);
  for (int i = 0; i < count; i++) {
    Datum id = UUIDPGetDatum(&ids[i]);
    bool null = false;
    tuplestore_putvalues(result->setResult, result->setDesc, &id, &null);
  }
  return 0;
}

struct Elements {
  Datum* values;
  bool* nulls;
  int count;
};

Elements ArrayArgument(FunctionCallInfo fcinfo, int index) {
  Elements elements = {nullptr, nullptr, -1};
  if (PG_ARGISNULL(index)) {
    return elements;
  }
  ArrayType* array = PG_GETARG_ARRAYTYPE_P(index);
  if (ARR_NDIM(array) > 1) {
    ereport(ERROR,
            (errcode(ERRCODE_ARRAY_SUBSCRIPT_ERROR), errmsg("arrays of events must have one dimension"),
             errdetail("An array has %d dimensions.", ARR_NDIM(array)), errhint("Pass one array element per event.")));
  }
  int16 size = 0;
  bool by_value = false;
  char align = 0;
  get_typlenbyvalalign(ARR_ELEMTYPE(array), &size, &by_value, &align);
  deconstruct_array(array, ARR_ELEMTYPE(array), size, by_value, align, &elements.values, &elements.nulls,
                    &elements.count);
  return elements;
}

void CheckCounts(int payloads, const Elements& other, const char* name) {
  if (other.count >= 0 && other.count != payloads) {
    ereport(ERROR, (errcode(ERRCODE_ARRAY_SUBSCRIPT_ERROR), errmsg("arrays of events must have equal lengths"),
                    errdetail("Payloads: %d; %s: %d.", payloads, name, other.count),
                    errhint("Pass one array element per event, or NULL for the whole array.")));
  }
}

// How the elements of payloads and headers come: jsonb, or json_arg in the twins for typed strings and json.
enum class Json { kJsonb, kJsonArg };

template <Json json>
bytea* PayloadOf(Datum element) {
  if constexpr (json == Json::kJsonb) {
    Jsonb* payload = DatumGetJsonbP(element);
    CheckJsonPayload(payload);
    return JsonbBytes(payload);
  } else {
    text* payload = DatumGetTextPP(element);
    CheckJsonPayload(payload);
    return TextBytes(payload);
  }
}

// emit_many(aggregate_type, aggregate_ids, event_type, payloads, headers, topic, deliver_at): ids in order.
template <KeyType key, Json json>
Datum EmitArrays(FunctionCallInfo fcinfo) {
  pg::HearOfRights(fcinfo);
  text* aggregate_type = TextArgument(fcinfo, 0);
  Elements keys = ArrayArgument(fcinfo, 1);
  text* event_type = TextArgument(fcinfo, 2);
  Elements payloads = ArrayArgument(fcinfo, 3);
  Elements headers = ArrayArgument(fcinfo, 4);
  text* topic = TextArgument(fcinfo, 5);
  Elements dedupe_keys = {nullptr, nullptr, -1};
  if (PG_NARGS() > 7) {  // not before 0.2
    dedupe_keys = ArrayArgument(fcinfo, 7);
  }
  if (payloads.count < 0) {
    RefuseNullPayload();
  }
  CheckCounts(payloads.count, keys, "aggregate ids");
  CheckCounts(payloads.count, headers, "headers");
  CheckCounts(payloads.count, dedupe_keys, "dedupe keys");
  pg_uuid_t* ids = AllocateIds(payloads.count);
  ErrorSite site = {0, 0};
  Batch batch;
  batch.Begin(ids, &site);
  ErrorContextCallback context;
  PushErrorSite(&context, &site);
  for (; site.at < payloads.count; site.at++) {
    int i = site.at;
    NewEvent* event = batch.Next();
    MemoryContext caller = MemoryContextSwitchTo(batch.scratch());
    event->aggregate_type = aggregate_type;
    event->event_type = event_type;
    event->topic = topic;
    TakeDeliverAt(fcinfo, 6, event);
    if (keys.count >= 0 && !keys.nulls[i]) {
      event->aggregate_id = KeyText(keys.values[i], key);
    }
    if (dedupe_keys.count >= 0 && !dedupe_keys.nulls[i]) {
      event->dedupe_key = DatumGetTextPP(dedupe_keys.values[i]);
    }
    if (headers.count >= 0 && !headers.nulls[i]) {
      event->headers =
          json == Json::kJsonb ? DatumGetJsonbP(headers.values[i]) : JsonArgToJsonb(DatumGetTextPP(headers.values[i]));
    }
    if (!payloads.nulls[i]) {
      event->payload = PayloadOf<json>(payloads.values[i]);
    }
    CheckEvent(event);
    MemoryContextSwitchTo(caller);
  }
  batch.Flush();
  error_context_stack = context.previous;
  Datum* elements = static_cast<Datum*>(palloc(Max(payloads.count, 1) * sizeof(Datum)));
  for (int i = 0; i < payloads.count; i++) {
    elements[i] = UUIDPGetDatum(&ids[i]);
  }
  return PointerGetDatum(construct_array(elements, payloads.count, UUIDOID, UUID_LEN, false, TYPALIGN_CHAR));
}

}  // namespace

}  // namespace outbox::emit

using outbox::emit::EmitArrays;
using outbox::emit::Json;
using outbox::emit::KeyType;

OUTBOX_FUNCTION(outbox_emit_many_objects) {
  return outbox::emit::EmitObjects(fcinfo, outbox::emit::JsonbArgument(fcinfo, 0));
}
OUTBOX_FUNCTION(outbox_emit_many_json) {
  return outbox::emit::EmitObjects(fcinfo, outbox::emit::JsonArgToJsonb(outbox::emit::TextArgument(fcinfo, 0)));
}
OUTBOX_FUNCTION(outbox_emit_many_arrays) {
  return EmitArrays<KeyType::kText, Json::kJsonb>(fcinfo);
}
OUTBOX_FUNCTION(outbox_emit_many_key_bigint) {
  return EmitArrays<KeyType::kBigint, Json::kJsonb>(fcinfo);
}
OUTBOX_FUNCTION(outbox_emit_many_key_uuid) {
  return EmitArrays<KeyType::kUuid, Json::kJsonb>(fcinfo);
}
OUTBOX_FUNCTION(outbox_emit_many_json_key_text) {
  return EmitArrays<KeyType::kText, Json::kJsonArg>(fcinfo);
}
OUTBOX_FUNCTION(outbox_emit_many_json_key_bigint) {
  return EmitArrays<KeyType::kBigint, Json::kJsonArg>(fcinfo);
}
OUTBOX_FUNCTION(outbox_emit_many_json_key_uuid) {
  return EmitArrays<KeyType::kUuid, Json::kJsonArg>(fcinfo);
}
