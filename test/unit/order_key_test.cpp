// What an event's order hangs on, and the set of keys that wait.
#include "base/order_key.h"

#include <gtest/gtest.h>

#include <random>
#include <set>

#include "base/key_set.h"

namespace outbox {
namespace {

// Computed by another implementation. Parked rows hold these numbers: they never change.
TEST(OrderKey, IsTheSameForEver) {
  EXPECT_EQ(OrderKey("outbox.event.order", "order", "42"), 4070049396487962225u);
  EXPECT_EQ(OrderKey("", "", ""), 6082024273369093199u);
  EXPECT_EQ(OrderKey("a", "bc", "d"), 752127841280525396u);
  EXPECT_EQ(OrderKey("ab", "c", "d"), 11741701881629269215u);
  EXPECT_EQ(OrderKey("t\xc3\xa4glich", "order", "x"), 4548837530670505613u);
}

TEST(OrderKey, WithoutAKeyThereIsNoOrder) {
  EXPECT_EQ(OrderKey("t", "order", {}), 0u);
  EXPECT_NE(OrderKey("t", "order", ""), 0u);
}

TEST(OrderKey, OneForManyEventsIsTheSame) {
  OrderKeyer keyer;
  for (const char* topic : {"a", "a", "ab", "a", ""}) {
    for (const char* type : {"order", "order", "customer", ""}) {
      for (const char* id : {"1", "", "2", "1"}) {
        EXPECT_EQ(keyer(topic, type, id), OrderKey(topic, type, id));
      }
      EXPECT_EQ(keyer(topic, type, {}), 0u);
    }
  }
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
