// Trace context [P]: the setting outbox.traceparent becomes the header traceparent of what is emitted under it, so
// that a trace goes on at the consumer. Plain code.
#pragma once

#include "emit/new_event.h"

namespace outbox::emit {

// A traceparent of W3C Trace Context, level 1: 00-<32 hex>-<16 hex>-<2 hex>, ids not all zero, lower case. Later
// versions may have more at the end.
bool IsTraceparent(const char* text);

// Adds the header, unless the setting is empty or the event has one already.
void AddTraceContext(NewEvent* event);

}  // namespace outbox::emit
