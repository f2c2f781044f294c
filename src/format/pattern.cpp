#include "format/pattern.h"

#include <algorithm>

namespace outbox::format {

PatternList::PatternList(const std::vector<std::string>& patterns) {
  for (const std::string& text : patterns) {
    const size_t star = text.find('*');
    if (star == std::string::npos) {
      patterns_.push_back({Kind::kExact, text});
    } else if (text.find_first_not_of('*') == std::string::npos) {
      any_ = true;
    } else if (star == text.size() - 1) {
      patterns_.push_back({Kind::kPrefix, text.substr(0, star)});
    } else {
      patterns_.push_back({Kind::kGlob, text});
    }
  }
}

bool PatternList::MatchesOne(std::string_view value) const {
  return std::any_of(patterns_.begin(), patterns_.end(), [&](const Pattern& pattern) {
    switch (pattern.kind) {
      case Kind::kExact:
        return value == pattern.text;
      case Kind::kPrefix:
        return value.starts_with(pattern.text);
      case Kind::kGlob:
        return GlobMatches(pattern.text, value);
    }
    return false;
  });
}

bool GlobMatches(std::string_view pattern, std::string_view value) {
  size_t at = 0;
  size_t in_value = 0;
  size_t star = std::string_view::npos;  // the last star passed
  size_t star_value = 0;                 // where the text after it was tried last
  while (in_value < value.size()) {
    if (at < pattern.size() && pattern[at] == '*') {
      star = at++;
      star_value = in_value;
    } else if (at < pattern.size() && pattern[at] == value[in_value]) {
      ++at;
      ++in_value;
    } else if (star != std::string_view::npos) {
      at = star + 1;
      in_value = ++star_value;
    } else {
      return false;
    }
  }
  while (at < pattern.size() && pattern[at] == '*') {
    ++at;
  }
  return at == pattern.size();
}

}  // namespace outbox::format
