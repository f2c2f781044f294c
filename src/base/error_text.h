// An error's text where nothing may be allocated: in shared memory [-]. Of a fixed size and trivially copyable.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstring>
#include <string_view>

#include "base/status.h"

namespace outbox {

// As much of `from` as there is room for, cut between characters of UTF-8, "..." where it was cut, and a zero byte.
template <size_t N>
void SetText(char (&to)[N], std::string_view from) {
  constexpr std::string_view kCut = "...";
  static_assert(N > kCut.size());
  const bool cut = from.size() > N - 1;
  size_t kept = cut ? N - 1 - kCut.size() : from.size();
  while (kept > 0 && kept < from.size() && (static_cast<unsigned char>(from[kept]) & 0xC0) == 0x80) {
    --kept;
  }
  std::memcpy(to, from.data(), kept);
  if (cut) {
    std::memcpy(to + kept, kCut.data(), kCut.size());
    kept += kCut.size();
  }
  to[kept] = '\0';
}

struct ErrorText {
  ErrorClass error_class = ErrorClass::kNone;
  char code[64] = {};
  char message[256] = {};

  bool empty() const { return error_class == ErrorClass::kNone; }
  // nullptr: no error.
  void Set(const Error* error) {
    error_class = error == nullptr ? ErrorClass::kNone : error->error_class;
    code[0] = message[0] = '\0';
    if (error != nullptr) {
      SetText(code, error->code);
      SetText(message, error->message);
    }
  }
};

}  // namespace outbox
