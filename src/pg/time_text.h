// Times as they are kept in texts [P].
#pragma once

#include "pg/prelude.h"

namespace outbox::pg {

// In UTC and ISO 8601 as PostgreSQL writes it, "2026-02-01 10:00:00+00", whatever the session's TimeZone and DateStyle.
// In the current memory context. Plain.
const char* UtcText(TimestampTz time);

}  // namespace outbox::pg
