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

// C0, DEL, and C1: U+0080 to U+009F, two bytes each.
bool HoldsControl(std::string_view name) {
  for (size_t i = 0; i < name.size(); ++i) {
    const auto c = static_cast<unsigned char>(name[i]);
    if (c < 0x20 || c == 0x7f || (c == 0xc2 && i + 1 < name.size() && static_cast<unsigned char>(name[i + 1]) < 0xa0)) {
      return true;
    }
  }
  return false;
}

bool HoldsSeparator(std::string_view name) {
  return name.find("\xe2\x80\xa8") != name.npos || name.find("\xe2\x80\xa9") != name.npos;
}

}  // namespace

const char* BadHeaderName(std::string_view name) {
  if (name.empty()) {
    return "is empty";
  }
  if (name.size() > kMaxHeaderName) {
    return "is longer than 32767 bytes";
  }
  if (HoldsControl(name)) {
    return "holds a control character";
  }
  if (HoldsSeparator(name)) {
    return "holds a separator of lines or paragraphs";
  }
  if (std::any_of(std::begin(kReservedHeaders), std::end(kReservedHeaders),
                  [&](std::string_view reserved) { return EqualsIgnoringCase(name, reserved); })) {
    return "is reserved";
  }
  return nullptr;
}

}  // namespace outbox::format
