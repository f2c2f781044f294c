#include "base/media_type.h"

#include "base/letter_case.h"

namespace outbox {

namespace {

std::string_view Trimmed(std::string_view text) {
  constexpr std::string_view kBlanks = " \t";
  text.remove_prefix(std::min(text.size(), text.find_first_not_of(kBlanks)));
  return text.substr(0, text.find_last_not_of(kBlanks) + 1);
}

// Where a parameter ends: at the next semicolon that is not between quotes.
size_t EndOfParameter(std::string_view text) {
  bool quoted = false;
  for (size_t at = 0; at < text.size(); ++at) {
    if (quoted && text[at] == '\\') {
      ++at;
    } else if (text[at] == '"') {
      quoted = !quoted;
    } else if (text[at] == ';' && !quoted) {
      return at;
    }
  }
  return text.size();
}

std::string_view Unquoted(std::string_view value) {
  const bool quoted = value.size() >= 2 && value.front() == '"' && value.back() == '"';
  return quoted ? value.substr(1, value.size() - 2) : value;
}

}  // namespace

std::string_view MediaType(std::string_view content_type) {
  return Trimmed(content_type.substr(0, content_type.find(';')));
}

bool SaysJson(std::string_view content_type) {
  const std::string_view type = MediaType(content_type);
  return EndsIgnoringCase(type, "/json") || EndsIgnoringCase(type, "+json");
}

bool SaysText(std::string_view content_type) {
  const std::string_view type = MediaType(content_type);
  return StartsIgnoringCase(type, "text/") || EndsIgnoringCase(type, "json") || EndsIgnoringCase(type, "xml");
}

bool SaysUtf8(std::string_view content_type) {
  size_t end = content_type.find(';');
  while (end < content_type.size()) {
    content_type.remove_prefix(end + 1);
    end = EndOfParameter(content_type);
    const std::string_view parameter = content_type.substr(0, end);
    const size_t equals = parameter.find('=');
    if (equals == parameter.npos || !EqualsIgnoringCase(Trimmed(parameter.substr(0, equals)), "charset")) {
      continue;
    }
    const std::string_view charset = Unquoted(Trimmed(parameter.substr(equals + 1)));
    // "utf8" is no registered name, and widely written.
    if (!EqualsIgnoringCase(charset, "utf-8") && !EqualsIgnoringCase(charset, "utf8") &&
        !EqualsIgnoringCase(charset, "us-ascii")) {
      return false;
    }
  }
  return true;
}

}  // namespace outbox
