// What emit refuses [P]. Plain code: each function raises, with a SQLSTATE of its own, DETAIL and HINT.
#pragma once

#include "emit/new_event.h"

namespace outbox::emit {

// Longest values in bytes. Together with the payload limit they keep an event under the 1 MB that Kafka brokers take:
// outbox.max_payload_size leaves 16 kB for all of them.
inline constexpr size_t kMaxAggregateType = 255;
inline constexpr size_t kMaxAggregateId = 1000;
inline constexpr size_t kMaxEventType = 255;
inline constexpr size_t kMaxContentType = 255;
inline constexpr size_t kMaxHeaders = 12 * 1024;  // all headers together, each as HeaderSize() has it

// Where rights and keys hang on a topic, an event without one of its own counts as of this and its aggregate type,
// whatever routes make of it.
inline constexpr const char* kDefaultTopic = "outbox.event.";

// How far ahead deliver_at may be. Beyond it a unit was mistaken (milliseconds for seconds), and the mistake is better
// reported to the caller than found in years.
inline constexpr int64 kMaxDelay = 10 * INT64CONST(366) * USECS_PER_DAY;  // ten years, of the longest

// Refuses in a read-only transaction or on a standby (25006), and in parallel mode (25000).
void CheckMayEmit();

// Checks everything about one event except the JSON itself. Replaces headers that are JSON null or {} by nullptr;
// then adds the trace context that the caller has not given (emit/trace.h), also to an event without headers.
// `edited_for`: it is in the log, and what the event has is what replaces that in the copy that this route has parked,
// so that what other routes say does not matter, and who may emit to its topic only where it gets another.
void CheckEvent(NewEvent* event, const char* edited_for = nullptr);

// Refuses a type that no event can have: NULL (22004), empty (22023), too long (22001).
void CheckAggregateType(const text* aggregate_type);
void CheckEventType(const text* event_type);

// Refuses UPDATE and DELETE of events (55000); `verb`: what was tried.
[[noreturn]] void RefuseChange(const char* verb);
// Refuses a NULL payload of an event that is not a tombstone (22004).
[[noreturn]] void RefuseNullPayload();
// Refuses JSON that was encoded twice: a string whose text is an object or an array (22023).
void CheckJsonPayload(Jsonb* payload);
void CheckJsonPayload(const JsonbValue* payload);
void CheckJsonPayload(const text* json);
// For a writer of a payload, each time that it asks for more room: refuses what is too large already (54000), lest a
// short number in the caller's document, 1e131000, take so many digits of memory again and again. `written`: bytes of
// text in the database's encoding.
void CheckPayloadSoFar(size_t written);

}  // namespace outbox::emit
