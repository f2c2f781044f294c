// JSON as formats write it [-].
#pragma once

#include <string>
#include <string_view>

namespace outbox::format {

// Appends `text`, which is UTF-8, as a JSON string with its quotes (RFC 8259): escaped are the quote, the backslash and
// the characters below U+0020, nothing else.
void AppendJsonString(std::string_view text, std::string* out);
// Appends bytes in base64 (RFC 4648, section 4, with padding), without quotes.
void AppendBase64(std::string_view bytes, std::string* out);

// Whether it is one JSON value (RFC 8259) in UTF-8, with any white space around it. Nesting deeper than 1,000 is not:
// readers give up there.
bool IsJson(std::string_view text);

}  // namespace outbox::format
