#include "base/trace_comment.h"

#include <optional>

namespace outbox {

namespace {

bool IsBlank(char c) {
  return c == ' ' || c == '\t' || c == '\n' || c == '\r' || c == '\f';
}

std::string_view Trim(std::string_view text) {
  while (!text.empty() && IsBlank(text.front())) {
    text.remove_prefix(1);
  }
  while (!text.empty() && IsBlank(text.back())) {
    text.remove_suffix(1);
  }
  return text;
}

int HexDigit(char c) {
  return c >= '0' && c <= '9'   ? c - '0'
         : c >= 'a' && c <= 'f' ? c - 'a' + 10
         : c >= 'A' && c <= 'F' ? c - 'A' + 10
                                : -1;
}

// Without the backslashes before quotes, and %XX as the byte; a percent sign that begins none stays.
std::string Decode(std::string_view text) {
  std::string decoded;
  for (size_t i = 0; i < text.size(); i++) {
    if (text[i] == '\\' && i + 1 < text.size()) {
      decoded += text[++i];
    } else if (text[i] == '%' && i + 2 < text.size() && HexDigit(text[i + 1]) >= 0 && HexDigit(text[i + 2]) >= 0) {
      decoded += static_cast<char>(HexDigit(text[i + 1]) * 16 + HexDigit(text[i + 2]));
      i += 2;
    } else {
      decoded += text[i];
    }
  }
  return decoded;
}

// key='value' pairs up to the first that is none.
std::optional<TraceComment> ReadPairs(std::string_view text) {
  TraceComment found;
  bool any = false;
  while (!(text = Trim(text)).empty()) {
    const size_t equals = text.find('=');
    if (equals == std::string_view::npos || equals + 1 >= text.size() || text[equals + 1] != '\'') {
      break;
    }
    const std::string key = Decode(Trim(text.substr(0, equals)));
    size_t end = equals + 2;
    while (end < text.size() && text[end] != '\'') {
      end += text[end] == '\\' ? 2 : 1;
    }
    if (end >= text.size()) {
      break;
    }
    const std::string_view value = text.substr(equals + 2, end - equals - 2);
    std::string* to = key == "traceparent"  ? &found.traceparent
                      : key == "tracestate" ? &found.tracestate
                      : key == "baggage"    ? &found.baggage
                                            : nullptr;
    if (to != nullptr) {
      *to = Decode(value);
      any = true;
    }
    text = Trim(text.substr(end + 1));
    if (text.empty() || text.front() != ',') {
      break;
    }
    text.remove_prefix(1);
  }
  return any ? std::optional(std::move(found)) : std::nullopt;
}

std::string_view WithoutSemicolons(std::string_view statement) {
  statement = Trim(statement);
  while (!statement.empty() && (statement.back() == ';' || IsBlank(statement.back()))) {
    statement.remove_suffix(1);
  }
  return statement;
}

}  // namespace

TraceComment ReadTraceComment(std::string_view statement) {
  statement = WithoutSemicolons(statement);
  // Several at the end, as where a pooler adds its own: the last that has trace context.
  std::string_view rest = statement;
  while (rest.size() >= 4 && rest.ends_with("*/")) {
    const size_t begin = rest.rfind("/*", rest.size() - 4);
    if (begin == std::string_view::npos) {
      break;
    }
    if (auto found = ReadPairs(rest.substr(begin + 2, rest.size() - begin - 4))) {
      return *found;
    }
    rest = WithoutSemicolons(rest.substr(0, begin));
  }
  rest = statement;
  while (rest.starts_with("/*")) {
    const size_t end = rest.find("*/", 2);
    if (end == std::string_view::npos) {
      break;
    }
    if (auto found = ReadPairs(rest.substr(2, end - 2))) {
      return *found;
    }
    rest = Trim(rest.substr(end + 2));
  }
  return {};
}

}  // namespace outbox
