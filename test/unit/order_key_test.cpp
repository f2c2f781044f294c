// What an event's order hangs on, and the set of keys that wait.
#include "base/order_key.h"

#include <gtest/gtest.h>

#include <random>
#include <set>
#include <string>
#include <string_view>
#include <utility>

#include "base/key_set.h"
#include "base/sip_hash.h"

namespace outbox {
namespace {

constexpr SipHash::Key kOfTheAuthors = {0x0706050403020100u, 0x0f0e0d0c0b0a0908u};

// From the authors' vectors: the key is the bytes 0 to 15, the text the bytes 0, 1, 2, ...
TEST(SipHash, IsThatOfItsAuthors) {
  const std::pair<size_t, uint64_t> kExpected[] = {{0, 0x726fdb47dd0e0e31u},  {1, 0x74f839c593dc67fdu},
                                                   {7, 0xab0200f58b01d137u},  {8, 0x93f5f5799a932462u},
                                                   {15, 0xa129ca6149be45e5u}, {63, 0x958a324ceb064572u}};
  std::string text;
  for (const auto& [size, expected] : kExpected) {
    while (text.size() < size) {
      text += static_cast<char>(text.size());
    }
    SipHash whole(kOfTheAuthors);
    whole.Add(text);
    EXPECT_EQ(whole.Finish(), expected) << size;
    SipHash pieces(kOfTheAuthors);
    for (size_t at = 0; at < size; at += 3) {
      pieces.Add(std::string_view(text).substr(at, 3));
    }
    EXPECT_EQ(pieces.Finish(), expected) << size << " in pieces";
  }
}

// Parked rows hold these numbers: under one secret they never change. The topic's length in four bytes, the lowest
// first, then the topic, and likewise the others.
TEST(OrderKey, IsTheSameForEver) {
  SipHash hash(SipHash::Key{});
  hash.Add({"\1\0\0\0a\2\0\0\0bc\1\0\0\0d", 16});
  EXPECT_EQ(OrderKey("a", "bc", "d"), hash.Finish());
  EXPECT_NE(OrderKey("ab", "c", "d"), OrderKey("a", "bc", "d"));
}

// Under FNV-1a, which has no secret, these two were one.
TEST(OrderKey, CannotBeChosen) {
  EXPECT_NE(
      OrderKey("outbox.event.order", "order", "42"),
      OrderKey(
          "lim.x", "z",
          "\x78\x7a\x6c\x64\x32\x33\x64\x2c\x32\x39\x0b\x72\x04\x05\x20\x11\x1b\x01\x2b\x2e\x20\x2c\x35\x0e\x7e\x31\x76"
          "\x12\x0e\x0c\x35"));
  const uint64_t before = OrderKey("t", "order", "1");
  UseKeySecret(kOfTheAuthors);
  EXPECT_NE(OrderKey("t", "order", "1"), before);
  UseKeySecret({});
  EXPECT_EQ(OrderKey("t", "order", "1"), before);
}

TEST(OrderKey, WithoutAKeyThereIsNoOrder) {
  EXPECT_EQ(OrderKey("t", "order", {}), 0u);
  EXPECT_NE(OrderKey("t", "order", ""), 0u);
}

TEST(KeySet, HoldsWhatWasPutIn) {
  std::mt19937_64 random(7);
  std::set<uint64_t> expected;
  KeySet keys;
  for (int i = 0; i < 200'000; ++i) {
    // Few enough that erasing meets what is there, and neighbours.
    const uint64_t key = (random() % 500) * (i % 3 == 0 ? 1 : uint64_t{1} << 40);
    if (random() % 2 == 0) {
      EXPECT_EQ(keys.Insert(key), key != 0 && expected.insert(key).second);
    } else {
      keys.Erase(key);
      expected.erase(key);
    }
    ASSERT_EQ(keys.size(), expected.size());
    const uint64_t asked = random() % 500;
    ASSERT_EQ(keys.Contains(asked), expected.contains(asked));
  }
  for (uint64_t key = 0; key < 500; ++key) {
    EXPECT_EQ(keys.Contains(key), expected.contains(key));
    EXPECT_EQ(keys.Contains(key << 40), expected.contains(key << 40));
  }
}

TEST(KeySet, IsEmptyAtFirstAndAfterAll) {
  KeySet keys;
  EXPECT_TRUE(keys.empty());
  EXPECT_FALSE(keys.Contains(5));
  keys.Erase(5);
  for (uint64_t key = 1; key <= 100'000; ++key) {
    EXPECT_TRUE(keys.Insert(key));
  }
  EXPECT_EQ(keys.size(), 100'000u);
  for (uint64_t key = 1; key <= 100'000; ++key) {
    keys.Erase(key);
  }
  EXPECT_TRUE(keys.empty());
  EXPECT_FALSE(keys.Contains(77));
}

}  // namespace
}  // namespace outbox
