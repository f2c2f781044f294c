// What a content type says of its payload [-]. Neither the case of letters nor, but for SaysUtf8(), parameters
// ("; charset=utf-8") make a difference.
#pragma once

#include <string_view>

namespace outbox {

// Type and subtype alone.
std::string_view MediaType(std::string_view content_type);

// .../json and ...+json.
bool SaysJson(std::string_view content_type);

// text/... and whatever ends in json or xml: application/x-ndjson, too. Whether the payload is well-formed text is for
// the caller to see.
bool SaysText(std::string_view content_type);

// Whether its parameters leave it to be UTF-8: none says of another charset. US-ASCII is a part of UTF-8.
bool SaysUtf8(std::string_view content_type);

}  // namespace outbox
