// parked/: where a key with many waiting rows is searched from.
#include <gtest/gtest.h>

#include "parked/key_fronts.h"

namespace outbox::parked {
namespace {

constexpr size_t kMany = KeyFronts::kManyRows;

KeyPoint At(int64_t created_at, int64_t replay = 0, uint8_t id = 0) {
  KeyPoint point;
  point.created_at = created_at;
  point.replay = replay;
  point.id[0] = id;
  return point;
}

TEST(KeyFronts, OfKeysWithFewRowsDriveOutNoOthers) {
  KeyFronts fronts;
  fronts.Found(0, At(10), kMany);
  for (uint64_t key = 1; key < 5000; key++) {
    fronts.Found(key, At(20), kMany - 1);
  }
  EXPECT_EQ(fronts.Of(0), At(10));
  EXPECT_EQ(fronts.Of(1), At(20));
  EXPECT_EQ(fronts.Of(4999), kKeyBeginning);
}

TEST(KeyFronts, MoveOnAndAreForgottenOneByOneOrAll) {
  KeyFronts fronts;
  fronts.Found(1, At(10), kMany);
  fronts.Found(2, At(10), kMany);
  fronts.Found(3, At(10), kMany);
  fronts.Found(1, At(30), kMany);
  EXPECT_EQ(fronts.Of(1), At(30));
  fronts.Found(1, At(40), 1);  // few are left
  EXPECT_EQ(fronts.Of(1), At(40));
  fronts.Forget(2);
  EXPECT_FALSE(fronts.Knows(2));
  EXPECT_TRUE(fronts.Knows(3));
  fronts.Clear();
  EXPECT_FALSE(fronts.Knows(1));
  EXPECT_EQ(fronts.Of(3), kKeyBeginning);
}

TEST(KeyFronts, GiveWayToWhatAppearsBeforeThem) {
  for (const KeyPoint& before : {At(9, 5, 5), At(10, 2, 5), At(10, 3, 4)}) {
    KeyFronts fronts;
    fronts.Found(1, At(10, 3, 5), kMany);
    fronts.Found(2, At(10, 3, 5), kMany);
    for (const KeyPoint& behind : {At(10, 3, 5), At(10, 3, 6), At(10, 4, 0), At(11)}) {
      fronts.Appeared(1, behind);
      EXPECT_EQ(fronts.Of(1), At(10, 3, 5));
    }
    fronts.Appeared(3, before);
    fronts.Appeared(1, before);
    EXPECT_EQ(fronts.Of(1), kKeyBeginning);
    EXPECT_EQ(fronts.Of(2), At(10, 3, 5));
  }
}

TEST(KeyFronts, AreBehindTheLastThatHasGoneOfAnEmptyKey) {
  KeyFronts fronts;
  fronts.Emptied(1, At(20));
  fronts.Emptied(1, At(10));  // of the same run
  EXPECT_EQ(fronts.Of(1), At(20));
  fronts.Appeared(1, At(30));
  EXPECT_EQ(fronts.Of(1), At(20));
  fronts.Appeared(1, At(15));
  EXPECT_FALSE(fronts.Knows(1));
}

TEST(KeyFronts, OfEmptyKeysDriveOutNoOthers) {
  KeyFronts fronts;
  fronts.Found(0, At(10), kMany);
  for (uint64_t key = 1; key < 5000; key++) {
    fronts.Emptied(key, At(10));
  }
  EXPECT_TRUE(fronts.Knows(0));
  EXPECT_TRUE(fronts.Knows(1));
  EXPECT_FALSE(fronts.Knows(4999));
}

TEST(KeyFronts, OfDeadLettersAreApart) {
  KeyFronts fronts;
  EXPECT_EQ(fronts.DeadOf(1), kKeyBeginning);
  fronts.FoundDead(1, At(20));
  fronts.FoundDead(2, kKeyEnd);
  fronts.Appeared(1, At(10));  // one that waits
  fronts.Forget(1);
  EXPECT_EQ(fronts.DeadOf(1), At(20));
  fronts.DeadAppeared(1, At(30));
  EXPECT_EQ(fronts.DeadOf(1), At(20));
  fronts.DeadAppeared(1, At(10));
  EXPECT_EQ(fronts.DeadOf(1), kKeyBeginning);
  fronts.DeadAppeared(2, At(30));
  EXPECT_EQ(fronts.DeadOf(2), kKeyBeginning);
  fronts.FoundDead(2, kKeyEnd);
  fronts.Clear();
  EXPECT_EQ(fronts.DeadOf(2), kKeyBeginning);
}

TEST(KeyFronts, AreNotWithoutEnd) {
  KeyFronts fronts;
  size_t known = 0;
  for (uint64_t key = 1; key <= 100'000; key++) {
    fronts.Found(key, At(10), kMany);
    ASSERT_TRUE(fronts.Knows(key));
  }
  for (uint64_t key = 1; key <= 100'000; key++) {
    known += fronts.Knows(key) ? 1 : 0;
  }
  EXPECT_LE(known, 4096u);
}

}  // namespace
}  // namespace outbox::parked
