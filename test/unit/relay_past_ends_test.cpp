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
    return Told(false, now_, topic, partition, first, last, cluster);
  }
  std::string Told(bool second, int64_t submitted, const char* topic, int32_t partition, const char* first,
                   const char* last, const std::string& cluster = "c1") {
    const Error error = past_.OnPlace({second, submitted, cluster}, {7, topic, partition, first, last}, now_, kWall);
    return error.ok() ? "" : error.code + ": " + error.message;
  }
  void Renew(bool second = false) {
    ++now_;
    past_.Renew(second);
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
  Renew();
  now_ += kMinute;
  EXPECT_EQ(Told("u", 0, "1", "1"), "") << "what a sink said that has gone";
}

TEST_F(PastEndsTest, ALaterSinkIsComparedWithTheOneBefore) {
  EXPECT_EQ(Told("t", 0, "12", "15"), "");
  EXPECT_EQ(Told("t", 0, "13", "14"), "") << "lanes tell out of order";
  Renew();
  EXPECT_EQ(Told("t", 0, "15", "16"), "") << "behind what was told last";
  Renew();
  EXPECT_NE(Told("t", 0, "16", "17"), "");
  Renew();
  now_ += kMinute;
  EXPECT_EQ(Told("t", 0, "18", "18"), "") << "after a loss its end is where it has been since";
}

// Neither of a destination's two sinks knows what the other one was told.
TEST_F(PastEndsTest, TheTwoSinksAreComparedWithEachOther) {
  EXPECT_EQ(Told(false, 5, "n", 0, "0", "11"), "");
  now_ = 10;
  EXPECT_NE(Told(true, 9, "n", 0, "5", "14"), "");
  now_ += kMinute;
  EXPECT_EQ(Told(true, now_ - 1, "n", 0, "15", "16"), "") << "it goes on from there";
  EXPECT_EQ(Told(false, now_ - 1, "n", 0, "17", "17"), "");
  now_ += kMinute;
  EXPECT_NE(Told(true, now_ - 1, "n", 0, "17", "17"), "");
  now_ += kMinute;
  EXPECT_NE(Told(false, now_ - 1, "n", 0, "3", "20"), "");
}

// What is acknowledged first may be told last: each sink has a process of its own.
TEST_F(PastEndsTest, ReportsOfTheTwoSinksCross) {
  now_ = 10;
  EXPECT_EQ(Told(false, 6, "n", 0, "10", "12"), "");
  now_ = 12;
  EXPECT_EQ(Told(true, 10, "n", 0, "4", "9"), "") << "it was on its way when that was told";
  EXPECT_EQ(Told(true, 10, "n", 0, "13", "13"), "");
  EXPECT_EQ(Told(false, 11, "n", 0, "14", "16"), "");
  now_ = 14;
  // What a report that came late says is not the end.
  EXPECT_EQ(Told(true, 12, "n", 0, "11", "11"), "");
  now_ = 16;
  EXPECT_EQ(Told(true, 13, "n", 0, "15", "15").substr(0, 17), "OFFSETS_WENT_BACK");
}

TEST_F(PastEndsTest, ASinkThatGoesLeavesWhatItWasTold) {
  EXPECT_EQ(Told(true, 5, "n", 0, "3", "8"), "");
  Renew(true);
  EXPECT_EQ(Told(true, now_, "n", 0, "9", "9"), "");
  Renew(true);
  now_ += 5;
  EXPECT_EQ(Told(false, now_ - 6, "n", 0, "7", "7"), "") << "submitted when that was being told";
  EXPECT_NE(Told(true, now_, "n", 0, "9", "9"), "");
}

TEST_F(PastEndsTest, TheTwoSinksMayBeAtTwoClusters) {
  EXPECT_EQ(Told(true, 5, "t", 0, "0", "3", "c2"), "");
  EXPECT_NE(Told(false, 5, "t", 1, "20", "20"), "") << "it knows of the other partition still";
  EXPECT_EQ(Told(false, 5, "n", 0, "0", "3", ""), "");
  EXPECT_EQ(Told(true, 5, "n", 0, "0", "3", "c2"), "") << "the other one's waits still";
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
