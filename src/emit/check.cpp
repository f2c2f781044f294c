#include "emit/check.h"

#include <string_view>

#include "base/topic_name.h"
#include "base/traceparent.h"
#include "base/utf8.h"
#include "emit/event_schema.h"
#include "emit/header.h"
#include "emit/is_json.h"
#include "emit/known_topics.h"
#include "emit/once.h"
#include "emit/topic_rights.h"
#include "emit/trace.h"
#include "format/header_name.h"
#include "pg/encoding.h"
#include "pg/settings.h"
#include "pg/writable.h"

extern "C" {
#include "mb/pg_wchar.h"
}

namespace outbox::emit {

namespace {

// Everything is published in UTF-8. What has no place there (in an encoding such as WIN1252 a few bytes) is refused
// now, while the caller can react: the reader could only stop at it.
void CheckConvertible(const char* bytes, size_t size) {
  const char* converted = pg::Utf8({bytes, size}).data();
  if (converted != bytes) {
    pfree(const_cast<char*>(converted));
  }
}

void CheckConvertible(const text* value) {
  if (value != nullptr) {
    CheckConvertible(Bytes(value), Size(value));
  }
}

void CheckName(const text* value, const char* what, const char* argument, size_t max, const char* detail,
               const char* hint) {
  if (value == nullptr) {
    ereport(ERROR, (errcode(ERRCODE_NULL_VALUE_NOT_ALLOWED), errmsg("%s must not be null", what),
                    errdetail("%s", detail), errhint("%s", hint)));
  }
  if (Size(value) == 0) {
    ereport(ERROR, (errcode(ERRCODE_INVALID_PARAMETER_VALUE), errmsg("%s must not be empty", what),
                    errdetail("%s", detail), errhint("%s", hint)));
  }
  if (Size(value) > max) {
    ereport(ERROR, (errcode(ERRCODE_STRING_DATA_RIGHT_TRUNCATION), errmsg("%s is too long", what),
                    errdetail("It has %zu bytes; at most %zu are allowed.", Size(value), max),
                    errhint("Put what does not name the event into the payload or the headers; check that the "
                            "arguments are in order (%s).",
                            argument)));
  }
}

void CheckKey(const NewEvent* event) {
  if (event->aggregate_id == nullptr) {
    if (event->tombstone) {
      ereport(ERROR,
              (errcode(ERRCODE_NULL_VALUE_NOT_ALLOWED), errmsg("a tombstone needs an aggregate id"),
               errdetail("A tombstone deletes what consumers hold under its key; without a key it means nothing."),
               errhint("Pass the aggregate id of what was deleted.")));
    }
    return;
  }
  if (Size(event->aggregate_id) > kMaxAggregateId) {
    ereport(ERROR,
            (errcode(ERRCODE_STRING_DATA_RIGHT_TRUNCATION), errmsg("aggregate id is too long"),
             errdetail("It has %zu bytes; at most %zu are allowed.", Size(event->aggregate_id), kMaxAggregateId),
             errhint("The aggregate id is the ordering and partition key; check that the arguments are in order.")));
  }
}

void CheckContentType(const text* content_type) {
  if (content_type == nullptr) {
    return;
  }
  const char* bad = nullptr;
  if (Size(content_type) == 0) {
    bad = "It is empty.";
  } else if (Size(content_type) > kMaxContentType) {
    bad = "It is longer than 255 bytes.";
  }
  for (size_t i = 0; i < Size(content_type) && bad == nullptr; i++) {
    unsigned char c = static_cast<unsigned char>(Bytes(content_type)[i]);
    if (c < 0x20 || c > 0x7e) {
      bad = "It holds a character that is not printable ASCII.";
    }
  }
  if (bad != nullptr) {
    ereport(ERROR, (errcode(ERRCODE_INVALID_PARAMETER_VALUE), errmsg("invalid content type"), errdetail("%s", bad),
                    errhint("Pass a media type such as 'text/plain' or 'application/avro'.")));
  }
}

void CheckTopic(const text* topic) {
  if (topic == nullptr) {
    return;
  }
  const char* bad = BadPortableTopic({Bytes(topic), Size(topic)});
  if (bad != nullptr) {
    ereport(ERROR, (errcode(ERRCODE_INVALID_PARAMETER_VALUE), errmsg("invalid topic name"),
                    errdetail("The topic name %s.", bad),
                    errhint("A topic name has 1 to 249 of the characters A-Z a-z 0-9 . _ - and is not \".\" or \"..\"; "
                            "leave it out to publish under the route's own topic.")));
  }
}

const char* JsonTypeName(const JsonbValue* value) {
  switch (value->type) {
    case jbvNull:
      return "null";
    case jbvString:
      return "a string";
    case jbvNumeric:
      return "a number";
    case jbvBool:
      return "a boolean";
    default:
      return "an object or array";
  }
}

[[noreturn]] void RefuseHeaders(const char* detail) {
  ereport(ERROR, (errcode(ERRCODE_INVALID_PARAMETER_VALUE), errmsg("headers must be a flat object of strings"),
                  errdetail("%s", detail),
                  errhint("Pass headers such as '{\"source\": \"shop\"}', numbers and booleans as strings.")));
  pg_unreachable();
}

// For a message: on one line, whatever it holds, and of a long one the beginning.
const char* Shown(std::string_view name) {
  constexpr int kMostShown = 100;
  StringInfoData shown;
  initStringInfo(&shown);
  const size_t size = name.size();
  name = name.substr(0, static_cast<size_t>(pg_mbcliplen(name.data(), static_cast<int>(size), kMostShown)));
  const bool cut = name.size() < size;
  char spelled[6];
  for (size_t length = 0; !name.empty(); name.remove_prefix(length)) {
    const std::string_view character = LegibleCharacter(name, spelled, &length);
    appendBinaryStringInfo(&shown, character.data(), static_cast<int>(character.size()));
  }
  if (cut) {
    appendStringInfoString(&shown, "...");
  }
  return shown.data;
}

void CheckHeaderName(const JsonbValue* name) {
  const std::string_view text(name->val.string.val, name->val.string.len);
  const char* bad = format::BadHeaderName(pg::Utf8(text));
  if (bad != nullptr) {
    ereport(ERROR, (errcode(ERRCODE_INVALID_PARAMETER_VALUE), errmsg("invalid header name \"%s\"", Shown(text)),
                    errdetail("The header name %s.", bad),
                    errhint("A name is not empty, has no control characters, and counts for the %zu bytes that all "
                            "headers of an event may have. The names id, type, aggregate_type, content-type, "
                            "content_type, created_at, key, payload and outbox-replay are used on the wire.",
                            kMaxHeaders)));
  }
}

// What a tracing system could not read would be dropped there, and the trace with it.
void CheckTraceparent(const JsonbValue* value) {
  const char* text = pnstrdup(value->val.string.val, value->val.string.len);
  if (!IsTraceparent(text)) {
    ereport(ERROR, (errcode(ERRCODE_INVALID_PARAMETER_VALUE), errmsg("invalid header traceparent"),
                    errdetail("It is \"%s\".", text),
                    errhint("A traceparent looks like \"00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01\", in "
                            "lower case; leave it out where there is no trace.")));
  }
}

// Returns true if there is at least one header. *respelled: whether one of a trace is in another case than on the wire.
bool CheckHeaders(Jsonb* headers, bool* respelled) {
  if (JB_ROOT_IS_SCALAR(headers)) {
    JsonbValue scalar;
    if (JsonbExtractScalar(&headers->root, &scalar) && scalar.type == jbvNull) {
      return false;
    }
    RefuseHeaders(psprintf("They are %s.", JsonTypeName(&scalar)));
  }
  if (!JB_ROOT_IS_OBJECT(headers)) {
    RefuseHeaders("They are an array.");
  }
  size_t bytes = 0;
  JsonbIterator* iterator = JsonbIteratorInit(&headers->root);
  JsonbValue item;
  JsonbValue name = {};
  JsonbIteratorToken token;
  while ((token = JsonbIteratorNext(&iterator, &item, bytes > 0)) != WJB_DONE) {
    if (token == WJB_KEY) {
      name = item;
      CheckHeaderName(&name);
      CheckConvertible(name.val.string.val, name.val.string.len);
      bytes += HeaderSize(name.val.string.len, 0);
    } else if (token == WJB_VALUE) {
      if (item.type != jbvString) {
        RefuseHeaders(psprintf("The value at \"%s\" is %s.", pnstrdup(name.val.string.val, name.val.string.len),
                               JsonTypeName(&item)));
      }
      const std::string_view text(name.val.string.val, name.val.string.len);
      const std::string_view trace = TraceHeader(text);
      if (trace == "traceparent") {
        CheckTraceparent(&item);
      }
      *respelled = *respelled || (!trace.empty() && trace != text);
      CheckConvertible(item.val.string.val, item.val.string.len);
      bytes += item.val.string.len;
    }
  }
  if (bytes > kMaxHeaders) {
    ereport(
        ERROR,
        (errcode(ERRCODE_PROGRAM_LIMIT_EXCEEDED), errmsg("headers are too large"),
         errdetail("Names and values have %zu bytes together, with %zu more for each header; at most %zu are allowed.",
                   bytes, kHeaderLengths, kMaxHeaders),
         errhint("Put what is not needed for routing or tracing into the payload.")));
  }
  return bytes > 0;
}

size_t MaxPayload() {
  return static_cast<size_t>(pg::settings.max_payload_size);
}

// `size`: of as much as is known of it.
[[noreturn]] void RefuseLargePayload(bool whole, size_t size) {
  ereport(ERROR, (errcode(ERRCODE_PROGRAM_LIMIT_EXCEEDED), errmsg("payload is too large"),
                  errdetail("It has %s%zu bytes; outbox.max_payload_size is %zu.", whole ? "" : "more than ", size,
                            MaxPayload()),
                  errhint("Store the content elsewhere and publish a reference to it, or have an administrator raise "
                          "outbox.max_payload_size together with the broker's own limit.")));
  pg_unreachable();
}

void CheckPayload(const NewEvent* event) {
  if (event->payload == nullptr) {
    if (!event->tombstone) {
      RefuseNullPayload();
    }
    return;
  }
  if (Size(event->payload) > MaxPayload()) {
    RefuseLargePayload(true, Size(event->payload));
  }
}

void CheckDeliverAt(const NewEvent* event) {
  if (!event->delayed) {
    return;
  }
  const char* bad = nullptr;
  if (TIMESTAMP_NOT_FINITE(event->deliver_at)) {
    bad = "It is infinite.";
  } else if (event->deliver_at > GetCurrentTimestamp() + kMaxDelay) {
    bad = psprintf("It is %s, more than ten years (3660 days) ahead.", timestamptz_to_str(event->deliver_at));
  }
  if (bad != nullptr) {
    ereport(ERROR,
            (errcode(ERRCODE_DATETIME_VALUE_OUT_OF_RANGE), errmsg("deliver_at is out of range"), errdetail("%s", bad),
             errhint("Pass the time when the event is due, such as now() + interval '1 hour'; NULL or a time "
                     "in the past means at once.")));
  }
}

[[noreturn]] void RefuseEncodedTwice() {
  ereport(ERROR, (errcode(ERRCODE_INVALID_PARAMETER_VALUE), errmsg("payload is JSON encoded twice"),
                  errdetail("It is a JSON string whose text is itself a JSON object or array."),
                  errhint("Pass the object itself and not its text; use outbox.emit_text() for a string that must "
                          "stay one.")));
  pg_unreachable();
}

void RefuseJsonNull() {
  if (pg::settings.allow_json_null) {
    return;
  }
  ereport(ERROR,
          (errcode(ERRCODE_NULL_VALUE_NOT_ALLOWED), errmsg("payload must not be JSON null"),
           errdetail("Consumers would get the four bytes \"null\", mostly a serializer's word for nothing."),
           errhint("Call outbox.emit_tombstone() to tell consumers of a deletion; SET outbox.allow_json_null = on "
                   "where JSON null is meant.")));
}

}  // namespace

void CheckMayEmit() {
  if (RecoveryInProgress()) {
    ereport(ERROR, (errcode(ERRCODE_READ_ONLY_SQL_TRANSACTION), errmsg("cannot emit an event on a standby"),
                    errdetail("This server is in recovery and takes no writes."),
                    errhint("%s", pg::RecoveryHint("Connect to the primary."))));
  }
  if (XactReadOnly) {
    ereport(ERROR,
            (errcode(ERRCODE_READ_ONLY_SQL_TRANSACTION), errmsg("cannot emit an event in a read-only transaction"),
             errdetail("An event is a row of the log."),
             errhint("Begin the transaction with READ WRITE; see also default_transaction_read_only.")));
  }
  if (IsInParallelMode()) {
    ereport(ERROR,
            (errcode(ERRCODE_INVALID_TRANSACTION_STATE), errmsg("cannot emit an event during a parallel operation"),
             errdetail("Parallel workers may not write."),
             errhint("Mark functions that emit PARALLEL UNSAFE, which is the default.")));
  }
}

void RefuseChange(const char* verb) {
  ereport(ERROR, (errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE), errmsg("cannot %s an event", verb),
                  errdetail("The log is append-only: what was emitted is published when the transaction commits."),
                  errhint("Roll back, to a savepoint for instance, to take back what this transaction emitted.")));
  pg_unreachable();
}

void RefuseNullPayload() {
  ereport(ERROR, (errcode(ERRCODE_NULL_VALUE_NOT_ALLOWED), errmsg("payload must not be null"),
                  errdetail("A null payload is a tombstone: consumers of compacted topics take it as a deletion."),
                  errhint("Call outbox.emit_tombstone() if that is meant.")));
  pg_unreachable();
}

void CheckJsonPayload(Jsonb* payload) {
  JsonbValue scalar;
  if (JB_ROOT_IS_SCALAR(payload) && JsonbExtractScalar(&payload->root, &scalar)) {
    CheckJsonPayload(&scalar);
  }
}

void CheckJsonPayload(const JsonbValue* payload) {
  if (payload->type == jbvNull) {
    RefuseJsonNull();
  }
  if (payload->type == jbvString && HoldsJson(payload->val.string.val, payload->val.string.len)) {
    RefuseEncodedTwice();
  }
}

void CheckJsonPayload(const text* json) {
  const char* at = Bytes(json);
  const char* end = at + Size(json);
  while (at < end && (*at == ' ' || *at == '\t' || *at == '\n' || *at == '\r')) {
    at++;
  }
  if (end - at >= 4 && memcmp(at, "null", 4) == 0) {
    RefuseJsonNull();
  }
  if (at == end || *at != '"') {
    return;
  }
  at++;
  if (EscapedHoldsJson(at, end - at)) {
    RefuseEncodedTwice();
  }
}

void CheckPayloadSoFar(size_t written) {
  // A character may be longer than in UTF-8, which is what is published: \u00e9 in EUC_JP, for one.
  const size_t longest = GetDatabaseEncoding() == PG_UTF8 ? 1 : pg_database_encoding_max_length();
  if (written / longest > MaxPayload()) {
    RefuseLargePayload(false, MaxPayload());
  }
}

void CheckAggregateType(const text* aggregate_type) {
  CheckName(aggregate_type, "aggregate type", "aggregate_type, aggregate_id, event_type, payload", kMaxAggregateType,
            "The aggregate type decides the topic and, with the aggregate id, the order.",
            "Pass what kind of thing the event is about, such as 'order'.");
}

void CheckEventType(const text* event_type) {
  CheckName(event_type, "event type", "aggregate_type, aggregate_id, event_type, payload", kMaxEventType,
            "Consumers tell events apart by their type.", "Pass what happened, such as 'order.created'.");
}

void CheckEvent(NewEvent* event, const char* edited_for) {
  const bool given_headers = event->headers != nullptr;
  CheckAggregateType(event->aggregate_type);
  CheckKey(event);
  CheckEventType(event->event_type);
  CheckDedupeKey(event);
  if (!pg::SpeaksUtf8()) {
    CheckConvertible(event->aggregate_type);
    CheckConvertible(event->aggregate_id);
    CheckConvertible(event->event_type);
    CheckConvertible(event->dedupe_key);
  }
  CheckPayload(event);
  CheckContentType(event->content_type);
  CheckTopic(event->topic);
  if (!IsInParallelMode()) {  // where tables cannot be looked at under a new snapshot, and InsertEvent refuses
    if (edited_for == nullptr || event->topic != nullptr) {
      CheckTopicRight(event);
      CheckTopicWithRoutes(event, edited_for);
    }
  }
  CheckDeliverAt(event);
  AddSchemaHeaders(event);
  if (!IsInParallelMode()) {
    CheckEventSchema(event);
  }
  bool respelled = false;
  if (event->headers != nullptr && !CheckHeaders(event->headers, &respelled)) {
    event->headers = nullptr;
  }
  if (respelled) {
    LowerTraceHeaders(event);
  }
  if ((edited_for == nullptr || given_headers) && !IsInParallelMode()) {
    CheckHeadersWithRoutes(event, edited_for);
  }
  AddTraceContext(event);
}

}  // namespace outbox::emit
