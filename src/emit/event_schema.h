// Schemas of payloads [P]: what outbox.event_schema() has registered is asserted of each JSON payload of its event.
// Plain code.
#pragma once

#include "emit/new_event.h"

namespace outbox::emit {

// Refuses (22023) a payload that does not match the schema of its aggregate type and event type. Costs a look at two
// variables where there is no schema at all. Adds the schema's own version and URI as headers.
void CheckEventSchema(NewEvent* event);

}  // namespace outbox::emit
