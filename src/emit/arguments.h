// Converts SQL values to what the log stores [P]. Plain code.
#pragma once

#include "emit/new_event.h"

namespace outbox::emit {

// Key types of the overloads.
enum class KeyType { kText, kBigint, kUuid };

// The argument; nullptr if it is NULL.
text* TextArgument(FunctionCallInfo fcinfo, int index);
Jsonb* JsonbArgument(FunctionCallInfo fcinfo, int index);
// The time of a delayed event, if there is one.
void TakeDeliverAt(FunctionCallInfo fcinfo, int index, NewEvent* event);
text* KeyArgument(FunctionCallInfo fcinfo, int index, KeyType type);
text* KeyText(Datum key, KeyType type);

// The text of JSON, in the database's encoding. Refuses what is too large for a payload (54000), as JsonbBytes() does.
text* JsonbText(const Jsonb* value);

// The bytes to publish. JSON and text go out in UTF-8 whatever the database's encoding.
bytea* JsonbBytes(const Jsonb* value);
bytea* JsonbBytes(const JsonbValue* value);  // as an iterator that skips what is nested hands it out
bytea* TextBytes(text* value);

// The body; where no content type was given, that of any text and of any bytes.
void TakeText(text* body, NewEvent* event);
void TakeBytes(bytea* body, NewEvent* event);

// Within ereport(), or in the callback of an error context: DETAIL and CONTEXT, which may quote a payload, are the
// client's, and the server's log has neither.
int KeepPayloadFromLog();
// A payload, or an array of events, as jsonb. What jsonb cannot hold raises, and the log has nothing of it.
Jsonb* ReadJsonb(char* json);
// Whether an error of ReadJsonb(), or of a conversion before it, is of what it was given: to be caught, for nothing
// else has changed by it.
bool IsOfDocument(int sqlstate);
// A json_arg (whose text json_in has checked) as jsonb.
Jsonb* JsonArgToJsonb(const text* value);

}  // namespace outbox::emit
