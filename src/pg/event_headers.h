// An event's headers: from the column to the engine [P]. (The way back is HeadersDatum in statement_arguments.h.)
#pragma once

#include "base/event.h"
#include "pg/prelude.h"

namespace outbox::pg {

// Converts a jsonb object of strings, as in the column headers. May raise, and throw bad_alloc: call it under a guard.
HeaderView CopyHeaders(Datum stored, Arena* arena);

}  // namespace outbox::pg
