// Which names a header may have [-]. Used by emit/ (user headers), so that a bad name is found as early as possible and
// never sent to a broker.
#pragma once

#include <string_view>

namespace outbox::format {

// nullptr: a good name; else the reason: a lower-case phrase that follows "header name ...", in static storage. Bad are
// the names that the wire formats use themselves: id, type, aggregate_type, content-type, content_type, created_at,
// key, payload, outbox-replay; also an empty name and one longer than 32,767 bytes. ASCII case does not matter.
const char* BadHeaderName(std::string_view name);

}  // namespace outbox::format
