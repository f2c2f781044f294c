// Names in which the case of letters makes no difference [-]: ASCII's letters, whatever the locale.
#pragma once

#include <algorithm>
#include <cstddef>
#include <string_view>

namespace outbox {

constexpr char Lower(char c) {
  return c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c;
}

// Where `wanted` begins in `text`; npos: nowhere.
inline size_t FindIgnoringCase(std::string_view text, std::string_view wanted) {
  const auto at = std::search(text.begin(), text.end(), wanted.begin(), wanted.end(),
                              [](char a, char b) { return Lower(a) == Lower(b); });
  return at == text.end() ? std::string_view::npos : static_cast<size_t>(at - text.begin());
}

inline bool EqualsIgnoringCase(std::string_view a, std::string_view b) {
  return std::equal(a.begin(), a.end(), b.begin(), b.end(), [](char x, char y) { return Lower(x) == Lower(y); });
}

inline bool StartsIgnoringCase(std::string_view text, std::string_view start) {
  return EqualsIgnoringCase(text.substr(0, start.size()), start);
}

inline bool EndsIgnoringCase(std::string_view text, std::string_view end) {
  return text.size() >= end.size() && EqualsIgnoringCase(text.substr(text.size() - end.size()), end);
}

}  // namespace outbox
