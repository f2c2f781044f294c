// Patterns over aggregate and event types [-]: `*` stands for any run of characters (also none); everything else is
// itself, byte by byte. A list matches when one of its patterns does; an empty list matches nothing.
//
// Immutable after construction; safe to share. Matching allocates nothing.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace outbox::format {

class PatternList {
 public:
  PatternList() = default;  // matches nothing
  explicit PatternList(const std::vector<std::string>& patterns);

  bool Matches(std::string_view value) const {
    if (any_) {
      return true;
    }
    return MatchesOne(value);
  }

 private:
  enum class Kind : uint8_t { kExact, kPrefix, kGlob };
  struct Pattern {
    Kind kind;
    std::string text;  // kPrefix: without its final '*'
  };
  bool MatchesOne(std::string_view value) const;

  bool any_ = false;  // one of the patterns is "*"
  std::vector<Pattern> patterns_;
};

// One pattern that may hold any number of '*'. Linear with backtracking to the last star only.
bool GlobMatches(std::string_view pattern, std::string_view value);

}  // namespace outbox::format
