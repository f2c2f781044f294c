#include "base/uri.h"

#include <cstddef>

namespace outbox {

namespace {

bool IsAlpha(char c) {
  return (c >= 'A' && c <= 'Z') || (c >= 'a' && c <= 'z');
}

bool IsDigit(char c) {
  return c >= '0' && c <= '9';
}

// Of the characters that RFC 3986 knows, without brackets (which belong to addresses of hosts, and readers differ).
bool IsUriText(std::string_view text) {
  constexpr std::string_view kMarks = "-._~:/?#@!$&'()*+,;=";
  for (size_t i = 0; i < text.size(); ++i) {
    const char c = text[i];
    const auto hex = [&](size_t at) {
      return at < text.size() &&
             (IsDigit(text[at]) || (text[at] >= 'A' && text[at] <= 'F') || (text[at] >= 'a' && text[at] <= 'f'));
    };
    if (c == '%' ? !hex(i + 1) || !hex(i + 2)
                 : !IsAlpha(c) && !IsDigit(c) && kMarks.find(c) == std::string_view::npos) {
      return false;
    }
  }
  return !text.empty();
}

// The end of a URI's scheme; npos: it is a relative reference, or none.
size_t Scheme(std::string_view text) {
  const size_t colon = text.find_first_of(":/?#");
  if (colon == std::string_view::npos || text[colon] != ':' || !IsAlpha(text[0])) {
    return std::string_view::npos;
  }
  for (const char c : text.substr(0, colon)) {
    if (!IsAlpha(c) && !IsDigit(c) && c != '+' && c != '-' && c != '.') {
      return std::string_view::npos;
    }
  }
  return colon;
}

}  // namespace

bool IsUri(std::string_view text) {
  const size_t scheme = Scheme(text);
  return scheme != std::string_view::npos && scheme + 1 < text.size() && IsUriText(text);
}

bool IsUriReference(std::string_view text) {
  if (!IsUriText(text)) {
    return false;
  }
  // The first part of a relative one has no colon.
  const size_t first = text.find_first_of(":/?#");
  return first == std::string_view::npos || text[first] != ':' || IsUri(text);
}

}  // namespace outbox
