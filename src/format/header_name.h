// Which names a header may have [-]. Used by emit/ (user headers), so that a bad name is found as early as possible and
// never sent to a broker.
#pragma once

#include <string_view>

namespace outbox::format {

// The name in UTF-8. nullptr: a good one; else the reason: a lower-case phrase that follows "header name ...", in
// static storage. Bad are the names that the wire formats use themselves: id, type, aggregate_type, content-type,
// content_type, created_at, key, payload, outbox-replay (ASCII case does not matter); an empty name, and one longer
// than 32,767 bytes; and one with a control character (C0, DEL, C1) or a separator of lines (U+2028, U+2029): consumers
// hand headers on to HTTP and to logs, where it begins a line.
const char* BadHeaderName(std::string_view name);

}  // namespace outbox::format
