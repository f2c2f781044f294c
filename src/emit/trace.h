// Trace context [P]: what is emitted carries it as headers traceparent, tracestate and baggage, so that a trace goes on
// at the consumer. It comes from the headers that the caller gave, or else from the settings of these names, or else,
// with outbox.trace_from_comment, from a comment of the statement. Plain code.
#pragma once

#include <string_view>

#include "emit/new_event.h"

namespace outbox::emit {

// The header of a trace that it names, in whatever case: HTTP makes no difference, and frameworks hand headers on as
// "Traceparent". Empty: none of them.
std::string_view TraceHeader(std::string_view name);

// Gives these headers, which have been checked, the names that they have on the wire. Of one that is there in two
// spellings the one in lower case counts.
void LowerTraceHeaders(NewEvent* event);

// As somebody has left it; nullptr: none.
struct TraceContext {
  const char* traceparent;
  const char* tracestate;
  const char* baggage;
};
// Adds what of it can be used and the event has not. What cannot be used is as none, and so is a name that a route has
// taken: no event fails of it.
void AddTrace(NewEvent* event, const TraceContext& context);

// Adds what the caller has not given, of the settings and of the statement's comment. A tracestate that the caller gave
// without a traceparent goes.
void AddTraceContext(NewEvent* event);

}  // namespace outbox::emit
