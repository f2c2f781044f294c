// Whether bytes are JSON, and whether a string holds JSON [P]. Plain code.
#pragma once

#include "emit/new_event.h"

namespace outbox::emit {

// Of UTF-8: also that \uXXXX are characters, but not U+0000. False where it is nested so deeply that parsing could
// raise.
bool IsJson(const bytea* payload);
// Of JSON: whether a number has an exponent of more than four digits, or more than 10,000 digits in a row. numeric has
// 131,072 before the point and 16,383 behind it; a smaller number of either form is let through to it.
bool HoldsHugeNumber(const bytea* json);

// Whether the text of a JSON string, in the server's encoding, is itself a JSON object or array. What is nested very
// deeply is none here, either. `Escaped`: the text as it stands between its quotes, and whatever follows.
bool HoldsJson(const char* text, size_t size);
bool EscapedHoldsJson(const char* text, size_t size);

}  // namespace outbox::emit
