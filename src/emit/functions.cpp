// The SQL functions emit, emit_text, emit_bytes and emit_tombstone [P]: one body, one entry per signature.
#include "emit/arguments.h"
#include "emit/check.h"
#include "emit/insert.h"
#include "pg/entry.h"
#include "pg/rights.h"

namespace outbox::emit {

namespace {

enum class Body { kJsonb, kJsonArg, kText, kBytes, kTombstone };

// Fills in the body; returns the index of the argument `headers`.
template <Body body>
int TakeBody(FunctionCallInfo fcinfo, NewEvent* event) {
  constexpr int kBody = 3;
  if constexpr (body == Body::kTombstone) {
    event->tombstone = true;
    return kBody;
  }
  if (PG_ARGISNULL(kBody)) {
    return body == Body::kText || body == Body::kBytes ? kBody + 2 : kBody + 1;  // refused by CheckEvent
  }
  if constexpr (body == Body::kJsonb) {
    Jsonb* json = PG_GETARG_JSONB_P(kBody);
    CheckJsonPayload(json);
    event->payload = JsonbBytes(json);
    return kBody + 1;
  }
  if constexpr (body == Body::kJsonArg) {
    text* json = PG_GETARG_TEXT_PP(kBody);
    CheckJsonPayload(json);
    event->payload = TextBytes(json);
    return kBody + 1;
  }
  // An explicit NULL means the default here: NULL in the log would mean JSON.
  event->content_type = TextArgument(fcinfo, kBody + 1);
  if constexpr (body == Body::kText) {
    TakeText(PG_GETARG_TEXT_PP(kBody), event);
  } else {
    TakeBytes(PG_GETARG_BYTEA_PP(kBody), event);
  }
  return kBody + 2;
}

// How the headers come: jsonb, or json_arg as in the twins for typed strings and json.
enum class Headers { kJsonb, kJsonArg };

template <Body body, KeyType key, Headers given = body == Body::kJsonArg ? Headers::kJsonArg : Headers::kJsonb>
Datum Emit(FunctionCallInfo fcinfo) {
  pg::HearOfRights(fcinfo);
  NewEvent event = {};
  event.aggregate_type = TextArgument(fcinfo, 0);
  event.aggregate_id = KeyArgument(fcinfo, 1, key);
  event.event_type = TextArgument(fcinfo, 2);
  int headers = TakeBody<body>(fcinfo, &event);
  event.headers =
      given == Headers::kJsonArg ? JsonArgToJsonb(TextArgument(fcinfo, headers)) : JsonbArgument(fcinfo, headers);
  event.topic = TextArgument(fcinfo, headers + 1);
  TakeDeliverAt(fcinfo, headers + 2, &event);
  event.dedupe_key = PG_NARGS() > headers + 3 ? TextArgument(fcinfo, headers + 3) : nullptr;  // not before 0.2
  CheckEvent(&event);
  InsertEvent(&event);
  pg_uuid_t* id = static_cast<pg_uuid_t*>(palloc(sizeof(pg_uuid_t)));
  *id = event.id;
  return UUIDPGetDatum(id);
}

}  // namespace

}  // namespace outbox::emit

using outbox::emit::Body;
using outbox::emit::Emit;
using outbox::emit::Headers;
using outbox::emit::KeyType;

OUTBOX_FUNCTION(outbox_emit_key_text) {
  return Emit<Body::kJsonb, KeyType::kText>(fcinfo);
}
OUTBOX_FUNCTION(outbox_emit_key_bigint) {
  return Emit<Body::kJsonb, KeyType::kBigint>(fcinfo);
}
OUTBOX_FUNCTION(outbox_emit_key_uuid) {
  return Emit<Body::kJsonb, KeyType::kUuid>(fcinfo);
}
OUTBOX_FUNCTION(outbox_emit_json_key_text) {
  return Emit<Body::kJsonArg, KeyType::kText>(fcinfo);
}
OUTBOX_FUNCTION(outbox_emit_json_key_bigint) {
  return Emit<Body::kJsonArg, KeyType::kBigint>(fcinfo);
}
OUTBOX_FUNCTION(outbox_emit_json_key_uuid) {
  return Emit<Body::kJsonArg, KeyType::kUuid>(fcinfo);
}
OUTBOX_FUNCTION(outbox_emit_text_key_text) {
  return Emit<Body::kText, KeyType::kText>(fcinfo);
}
OUTBOX_FUNCTION(outbox_emit_text_key_bigint) {
  return Emit<Body::kText, KeyType::kBigint>(fcinfo);
}
OUTBOX_FUNCTION(outbox_emit_text_key_uuid) {
  return Emit<Body::kText, KeyType::kUuid>(fcinfo);
}
OUTBOX_FUNCTION(outbox_emit_bytes_key_text) {
  return Emit<Body::kBytes, KeyType::kText>(fcinfo);
}
OUTBOX_FUNCTION(outbox_emit_bytes_key_bigint) {
  return Emit<Body::kBytes, KeyType::kBigint>(fcinfo);
}
OUTBOX_FUNCTION(outbox_emit_bytes_key_uuid) {
  return Emit<Body::kBytes, KeyType::kUuid>(fcinfo);
}
OUTBOX_FUNCTION(outbox_emit_tombstone_key_text) {
  return Emit<Body::kTombstone, KeyType::kText>(fcinfo);
}
OUTBOX_FUNCTION(outbox_emit_tombstone_key_bigint) {
  return Emit<Body::kTombstone, KeyType::kBigint>(fcinfo);
}
OUTBOX_FUNCTION(outbox_emit_tombstone_key_uuid) {
  return Emit<Body::kTombstone, KeyType::kUuid>(fcinfo);
}
OUTBOX_FUNCTION(outbox_emit_text_json_headers_key_text) {
  return Emit<Body::kText, KeyType::kText, Headers::kJsonArg>(fcinfo);
}
OUTBOX_FUNCTION(outbox_emit_text_json_headers_key_bigint) {
  return Emit<Body::kText, KeyType::kBigint, Headers::kJsonArg>(fcinfo);
}
OUTBOX_FUNCTION(outbox_emit_text_json_headers_key_uuid) {
  return Emit<Body::kText, KeyType::kUuid, Headers::kJsonArg>(fcinfo);
}
OUTBOX_FUNCTION(outbox_emit_bytes_json_headers_key_text) {
  return Emit<Body::kBytes, KeyType::kText, Headers::kJsonArg>(fcinfo);
}
OUTBOX_FUNCTION(outbox_emit_bytes_json_headers_key_bigint) {
  return Emit<Body::kBytes, KeyType::kBigint, Headers::kJsonArg>(fcinfo);
}
OUTBOX_FUNCTION(outbox_emit_bytes_json_headers_key_uuid) {
  return Emit<Body::kBytes, KeyType::kUuid, Headers::kJsonArg>(fcinfo);
}
OUTBOX_FUNCTION(outbox_emit_tombstone_json_headers_key_text) {
  return Emit<Body::kTombstone, KeyType::kText, Headers::kJsonArg>(fcinfo);
}
OUTBOX_FUNCTION(outbox_emit_tombstone_json_headers_key_bigint) {
  return Emit<Body::kTombstone, KeyType::kBigint, Headers::kJsonArg>(fcinfo);
}
OUTBOX_FUNCTION(outbox_emit_tombstone_json_headers_key_uuid) {
  return Emit<Body::kTombstone, KeyType::kUuid, Headers::kJsonArg>(fcinfo);
}
