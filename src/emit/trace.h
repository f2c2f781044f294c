// Trace context [P]: the setting outbox.traceparent becomes the header traceparent of what is emitted under it, so
// that a trace goes on at the consumer. Plain code.
#pragma once

#include "emit/new_event.h"

namespace outbox::emit {

// Adds the header, unless the setting is empty or the event has one already.
void AddTraceContext(NewEvent* event);

}  // namespace outbox::emit
