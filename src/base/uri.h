// URIs as RFC 3986 has them [-], and as readers in several languages agree on: no brackets, which belong to addresses
// of hosts.
#pragma once

#include <string_view>

namespace outbox {

// With a scheme.
bool IsUri(std::string_view text);
// That, or a relative reference: "/shop", "orders".
bool IsUriReference(std::string_view text);

}  // namespace outbox
