#include "format/header_name.h"

#include <algorithm>
#include <iterator>

#include "base/letter_case.h"
#include "base/utf8.h"

namespace outbox::format {

namespace {

constexpr std::string_view kReservedHeaders[] = {"id",         "type", "aggregate_type", "content-type", "content_type",
                                                 "created_at", "key",  "payload",        "outbox-replay"};
constexpr size_t kMaxHeaderName = 32767;

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
