#include "format/header_name.h"

#include <algorithm>
#include <iterator>

namespace outbox::format {

namespace {

constexpr std::string_view kReservedHeaders[] = {"id",         "type", "aggregate_type", "content-type", "content_type",
                                                 "created_at", "key",  "payload",        "outbox-replay"};
constexpr size_t kMaxHeaderName = 32767;

bool EqualsIgnoringCase(std::string_view text, std::string_view lower) {
  return std::equal(text.begin(), text.end(), lower.begin(), lower.end(),
                    [](char a, char b) { return (a >= 'A' && a <= 'Z' ? static_cast<char>(a + 32) : a) == b; });
}

}  // namespace

const char* BadHeaderName(std::string_view name) {
  if (name.empty()) {
    return "is empty";
  }
  if (name.size() > kMaxHeaderName) {
    return "is longer than 32767 bytes";
  }
  if (std::any_of(std::begin(kReservedHeaders), std::end(kReservedHeaders),
                  [&](std::string_view reserved) { return EqualsIgnoringCase(name, reserved); })) {
    return "is reserved";
  }
  return nullptr;
}

}  // namespace outbox::format
