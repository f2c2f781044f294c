// Patterns of routes: the answer of a matcher that tries everything, and the same for a list.
#include "format/pattern.h"
#include "fuzz.h"

using namespace outbox;

namespace {

// One row per character of the pattern: which prefixes of the value it matches.
bool Matches(std::string_view pattern, std::string_view value) {
  std::vector<bool> row(value.size() + 1, false);
  row[0] = true;
  for (char c : pattern) {
    std::vector<bool> next(value.size() + 1, false);
    next[0] = c == '*' && row[0];
    for (size_t i = 0; i < value.size(); ++i) {
      next[i + 1] = c == '*' ? row[i + 1] || next[i] : row[i] && c == value[i];
    }
    row = std::move(next);
  }
  return row[value.size()];
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  fuzz::Input in(data, size);
  const std::string value(in.Line().substr(0, 200));
  std::vector<std::string> patterns;
  bool any = false;
  while (!in.empty() && patterns.size() < 5) {
    const std::string& pattern = patterns.emplace_back(in.Line().substr(0, 200));
    FUZZ_CHECK(format::GlobMatches(pattern, value) == Matches(pattern, value));
    FUZZ_CHECK(format::GlobMatches(pattern, pattern));
    any = any || Matches(pattern, value);
  }
  FUZZ_CHECK(format::PatternList(patterns).Matches(value) == any);
  return 0;
}
