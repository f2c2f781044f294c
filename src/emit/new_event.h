// An event that is being emitted [P]: the SQL functions fill it, check.h checks it and insert.h writes it.
#pragma once

#include <string_view>

#include "pg/prelude.h"

extern "C" {
#include "utils/jsonb.h"
}

namespace outbox::emit {

// Pointers are detoasted values that live at least until the call returns; nullptr is NULL.
struct NewEvent {
  text* aggregate_type;
  text* aggregate_id;  // nullptr: no key, no order
  text* event_type;
  bytea* payload;      // nullptr: a tombstone, if `tombstone` is set
  text* content_type;  // nullptr: JSON
  Jsonb* headers;
  text* topic;
  text* dataschema;  // nullptr: none, or among the headers
  int32 schema_version;
  bool versioned;           // schema_version is given, not as a header
  text* dedupe_key;         // nullptr: none
  const pg_uuid_t* own_id;  // the client's own id; nullptr: make one
  bool tombstone;
  bool delayed;
  TimestampTz deliver_at;  // if delayed
  Oid shown_to;            // who may see it in outbox.event; InvalidOid: the current role
  bool unquoted;           // no error shows any of the payload
  // Filled in by the insert:
  pg_uuid_t id;
  int64 created_at;  // Unix microseconds
  bool repeated;     // its dedupe_key has emitted before: id and created_at are that event's, and nothing was written
  Oid emitter;       // the role whose right to the topic counts; InvalidOid: the current role
};

// The bytes of a detoasted varlena.
inline const char* Bytes(const void* value) {
  return VARDATA_ANY(value);
}
inline size_t Size(const void* value) {
  return VARSIZE_ANY_EXHDR(value);
}
inline std::string_view View(const void* value) {
  return {Bytes(value), Size(value)};
}

}  // namespace outbox::emit
