#include "base/media_type.h"

#include "base/letter_case.h"

namespace outbox {

std::string_view MediaType(std::string_view content_type) {
  constexpr std::string_view kBlanks = " \t";
  std::string_view type = content_type.substr(0, content_type.find(';'));
  type.remove_prefix(std::min(type.size(), type.find_first_not_of(kBlanks)));
  return type.substr(0, type.find_last_not_of(kBlanks) + 1);
}

bool SaysJson(std::string_view content_type) {
  const std::string_view type = MediaType(content_type);
  return EndsIgnoringCase(type, "/json") || EndsIgnoringCase(type, "+json");
}

bool SaysText(std::string_view content_type) {
  const std::string_view type = MediaType(content_type);
  return StartsIgnoringCase(type, "text/") || EndsIgnoringCase(type, "json") || EndsIgnoringCase(type, "xml");
}

}  // namespace outbox
