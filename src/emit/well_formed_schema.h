// JSON Schema [P]: whether a schema is one, and says nothing that emit() would not assert of a document
// (json_schema.h). Plain code.
#pragma once

#include "pg/prelude.h"

extern "C" {
#include "utils/jsonb.h"
}

namespace outbox::emit {

// Refuses (22023) what is no schema, or one that says more than is done here.
void CheckSchema(Jsonb* schema);
// The same (55000) of one that is registered, however it came there: a dump brings rows in, and so does an INSERT by
// hand.
void CheckRegisteredSchema(Jsonb* schema, const text* aggregate_type, const text* event_type);

}  // namespace outbox::emit
