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

}  // namespace outbox::emit
