// Whether bytes are JSON that jsonb takes, and whether a string holds JSON [P]. Plain code.
#pragma once

#include "emit/new_event.h"

namespace outbox::emit {

// False also where it is nested so deeply that parsing could raise, and in a database that is not in UTF-8.
bool IsJson(const bytea* payload);
// Of JSON: whether jsonb holds it, which takes no \u0000 and no number beyond numeric's range. How deeply it is nested
// is jsonb's own matter.
bool FitsJsonb(const bytea* payload);

// Whether the text of a JSON string, in the server's encoding, is itself a JSON object or array. What is nested very
// deeply is none here, either. `Escaped`: the text as it stands between its quotes, and whatever follows.
bool HoldsJson(const char* text, size_t size);
bool EscapedHoldsJson(const char* text, size_t size);

}  // namespace outbox::emit
