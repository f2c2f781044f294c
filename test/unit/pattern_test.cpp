// Patterns over aggregate and event types.
#include "format/pattern.h"

#include <gtest/gtest.h>

#include <random>

#include "base/like_pattern.h"

namespace outbox::format {
namespace {

bool Matches(const std::vector<std::string>& patterns, std::string_view value) {
  return PatternList(patterns).Matches(value);
}

TEST(Pattern, EmptyListMatchesNothing) {
  EXPECT_FALSE(Matches({}, "order"));
  EXPECT_FALSE(PatternList().Matches(""));
}

TEST(Pattern, ExactStarPrefixAndInTheMiddle) {
  EXPECT_TRUE(Matches({"order"}, "order"));
  EXPECT_FALSE(Matches({"order"}, "orders"));
  EXPECT_FALSE(Matches({"order"}, "Order"));
  EXPECT_TRUE(Matches({"*"}, ""));
  EXPECT_TRUE(Matches({"**"}, "anything"));
  EXPECT_TRUE(Matches({"order.*"}, "order."));
  EXPECT_TRUE(Matches({"order.*"}, "order.created"));
  EXPECT_FALSE(Matches({"order.*"}, "order"));
  EXPECT_TRUE(Matches({"*.created"}, "order.created"));
  EXPECT_FALSE(Matches({"*.created"}, "order.created.late"));
  EXPECT_TRUE(Matches({"a*b*c"}, "abxbxc"));
  EXPECT_FALSE(Matches({"a*b*c"}, "acb"));
  EXPECT_FALSE(Matches({""}, "x"));
  EXPECT_TRUE(Matches({""}, ""));
}

TEST(Pattern, AsLikeWantsIt) {
  EXPECT_EQ(LikeText("a*_%\\*", '%'), "a%\\_\\%\\\\%");
  EXPECT_EQ(LikeText("a*_"), "a*\\_") << "just this text";
}

TEST(Pattern, OtherCharactersOfGlobsAndExpressionsAreThemselves) {
  EXPECT_FALSE(Matches({"ord?r"}, "order"));
  EXPECT_FALSE(Matches({"[o]rder"}, "order"));
  EXPECT_FALSE(Matches({"o%r"}, "order"));
  EXPECT_TRUE(Matches({"a.b"}, "a.b"));
  EXPECT_FALSE(Matches({"a.b"}, "axb"));
}

TEST(Pattern, AnyOfTheListIsEnough) {
  EXPECT_TRUE(Matches({"invoice", "order*"}, "order_line"));
  EXPECT_FALSE(Matches({"invoice", "order*"}, "user"));
  EXPECT_TRUE(Matches({"invoice", "*"}, "user"));
}

// The plainest definition there is.
bool Defined(std::string_view pattern, std::string_view value) {
  if (pattern.empty()) {
    return value.empty();
  }
  if (pattern[0] == '*') {
    return Defined(pattern.substr(1), value) || (!value.empty() && Defined(pattern, value.substr(1)));
  }
  return !value.empty() && pattern[0] == value[0] && Defined(pattern.substr(1), value.substr(1));
}

TEST(Pattern, AgreesWithTheRecursiveDefinition) {
  std::mt19937 random(7);
  int matches = 0;
  for (int i = 0; i < 40000; ++i) {
    std::string pattern;
    for (unsigned n = random() % 7; n > 0; --n) {
      pattern += "ab*"[random() % 3];
    }
    std::string value;
    for (unsigned n = random() % 8; n > 0; --n) {
      value += "ab"[random() % 2];
    }
    ASSERT_EQ(Matches({pattern}, value), Defined(pattern, value)) << pattern << " " << value;
    matches += Defined(pattern, value);
  }
  EXPECT_GT(matches, 4000);
  EXPECT_LT(matches, 36000);
}

}  // namespace
}  // namespace outbox::format
