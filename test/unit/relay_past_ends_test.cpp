// What a destination had acknowledged to earlier sinks, and where a later one finds less.
#include "relay/common/past_ends.h"

#include <gtest/gtest.h>

namespace outbox::relay {
namespace {

constexpr int64_t kMinute = 60'000'000;
constexpr int64_t kWall = 1'795'000'000'000'000;

class PastEndsTest : public testing::Test {
 protected:
  PastEndsTest() : past_("c1") {
    past_.Add("t", 0, 11);
    past_.Add("t", 1, 20);
  }
  std::string Told(const char* topic, int32_t partition, const char* first, const char* last,
                   const char* cluster = "c1") {
    const Error error = past_.OnPlace({7, topic, partition, first, last}, cluster, now_, kWall);
    return error.ok() ? "" : error.code + ": " + error.message;
  }
  PastEnds past_;
  int64_t now_ = 5;
};

TEST_F(PastEndsTest, WhatIsBehindTheEndIsNoNews) {
  EXPECT_EQ(Told("t", 0, "12", "15"), "");
  EXPECT_EQ(Told("u", 0, "0", "3"), "") << "a topic that nothing was noted of";
  EXPECT_EQ(Told("t", 2, "0", "3"), "") << "a new partition";
}

TEST_F(PastEndsTest, WhatIsNotBehindItIsTold) {
  EXPECT_EQ(Told("t", 0, "11", "15"),
            "OFFSETS_WENT_BACK: topic \"t\" has lost what it had acknowledged, or was made anew: partition 0 had "
            "acknowledged up to offset 11, and at 11:06:40 UTC a later event at 11");
  EXPECT_EQ(Told("t", 0, "5", "6"), "") << "the sink itself knows from then on";
}

TEST_F(PastEndsTest, OfManyPartitionsOneAMinute) {
  EXPECT_NE(Told("t", 0, "0", "0"), "");
  past_.Add("u", 0, 3);
  now_ += kMinute - 1;
  EXPECT_EQ(Told("t", 1, "0", "0"), "");
  ++now_;
  EXPECT_NE(Told("u", 0, "0", "0"), "");
}

TEST_F(PastEndsTest, AnotherClusterIsNotCompared) {
  EXPECT_EQ(Told("t", 0, "0", "3", "c2"), "");
  EXPECT_EQ(Told("t", 1, "0", "3", "c2"), "");
  EXPECT_EQ(Told("t", 1, "2", "3", "c1"), "") << "nor the former one, where it is back";
}

TEST_F(PastEndsTest, WaitsForTheCluster) {
  EXPECT_EQ(Told("t", 0, "5", "6", ""), "");
  EXPECT_NE(Told("u", 0, "0", "0"), "");
  past_.Add("t", 0, 11);
  EXPECT_EQ(Told("t", 0, "5", "6", ""), "");
  past_.Renew();
  now_ += kMinute;
  EXPECT_EQ(Told("u", 0, "1", "1"), "") << "what a sink said that has gone";
}

TEST_F(PastEndsTest, ALaterSinkIsComparedWithTheOneBefore) {
  EXPECT_EQ(Told("t", 0, "12", "15"), "");
  EXPECT_EQ(Told("t", 0, "13", "14"), "") << "lanes tell out of order";
  past_.Renew();
  EXPECT_EQ(Told("t", 0, "15", "16"), "") << "behind what was told last";
  past_.Renew();
  EXPECT_NE(Told("t", 0, "16", "17"), "");
  past_.Renew();
  now_ += kMinute;
  EXPECT_EQ(Told("t", 0, "18", "18"), "") << "after a loss its end is where it has been since";
}

TEST_F(PastEndsTest, APlaceWithoutOffsetTellsNothing) {
  EXPECT_EQ(Told("t", 0, "", ""), "");
  EXPECT_EQ(Told("t", -1, "1-0", "2-0"), "");
  EXPECT_EQ(Told("t", 0, "1x", "2"), "");
  EXPECT_NE(Told("t", 0, "11", "11"), "");
}

TEST_F(PastEndsTest, MemoryIsBounded) {
  for (size_t i = 0; i < PastEnds::kMost + 10; ++i) {
    past_.Add("many", static_cast<int32_t>(i), 5);
  }
  EXPECT_EQ(Told("many", PastEnds::kMost + 5, "0", "0"), "");
  EXPECT_NE(Told("many", 0, "0", "0"), "");
}

}  // namespace
}  // namespace outbox::relay
