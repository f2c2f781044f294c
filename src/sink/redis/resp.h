// Redis' request format [-]: arrays of length-prefixed strings, safe for any byte.
#pragma once

#include <charconv>
#include <cstdint>
#include <initializer_list>
#include <string>
#include <string_view>

namespace outbox::sink::resp {

inline void AppendCount(char type, uint64_t count, std::string* out) {
  char text[24];
  text[0] = type;
  char* end = std::to_chars(text + 1, text + sizeof(text) - 2, count).ptr;
  *end++ = '\r';
  *end++ = '\n';
  out->append(text, static_cast<size_t>(end - text));
}
inline void AppendArray(uint64_t count, std::string* out) {
  AppendCount('*', count, out);
}
inline void AppendBulk(std::string_view bytes, std::string* out) {
  AppendCount('$', bytes.size(), out);
  out->append(bytes).append("\r\n", 2);
}
inline void AppendNumber(uint64_t number, std::string* out) {
  char text[24];
  AppendBulk({text, static_cast<size_t>(std::to_chars(text, text + sizeof(text), number).ptr - text)}, out);
}
inline std::string Command(std::initializer_list<std::string_view> arguments) {
  std::string out;
  AppendArray(arguments.size(), &out);
  for (std::string_view argument : arguments) {
    AppendBulk(argument, &out);
  }
  return out;
}

}  // namespace outbox::sink::resp
