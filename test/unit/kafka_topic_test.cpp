// What is learnt of a topic's limit is unlearnt, and unknown refusals are counted.
#include <gtest/gtest.h>

#include <algorithm>

#include "base/monotonic.h"
#include "sink/kafka/client_settings.h"
#include "sink/kafka/metadata.h"
#include "sink/kafka/topic.h"
#include "sink/kafka/topic_settings.h"

namespace outbox::sink::kafka {
namespace {

// A broker that refuses batches above `limit`; the sink always has enough to fill a window. Returns the refusals.
int Simulate(BatchWindow* window, uint64_t limit, int64_t from, int64_t to) {
  int refused = 0;
  for (int64_t now = from; now < to; now += kSecond / 10) {
    const uint64_t bytes = std::clamp<uint64_t>(window->bytes() == 0 ? UINT64_MAX : window->bytes(), 300, 1'000'000);
    if (bytes > limit) {
      ++refused;
      window->Refused(static_cast<uint32_t>(bytes / 300 + 1), bytes, true, now);
    } else {
      window->Acknowledged(static_cast<uint32_t>(bytes / 300 + 1), bytes, now);
    }
  }
  return refused;
}

TEST(KafkaBatchWindow, ALimitIsLearntAndTriedAgainSeldom) {
  BatchWindow window(Patience().raise);
  EXPECT_LE(Simulate(&window, 20'000, 0, 10 * kSecond), 8);
  EXPECT_GT(window.bytes(), 5'000u);
  EXPECT_LE(window.bytes(), 20'000u);
  EXPECT_EQ(Simulate(&window, 20'000, 10 * kSecond, 50 * kSecond), 0);
  // A day: a few tries in the first hours, one an hour then.
  const int tries = Simulate(&window, 20'000, 50 * kSecond, 86'400 * kSecond);
  EXPECT_GT(tries, 10);
  EXPECT_LT(tries, 80);
}

TEST(KafkaBatchWindow, ARaisedLimitIsFound) {
  BatchWindow window(Patience().raise);
  Simulate(&window, 20'000, 0, 10 * kSecond);
  EXPECT_LE(window.bytes(), 20'000u);
  EXPECT_EQ(Simulate(&window, 2'000'000, 10 * kSecond, 10 * kSecond + Patience().raise + 60 * kSecond), 0);
  EXPECT_EQ(window.bytes(), 0u) << "still limited";
}

TEST(KafkaTopic, PuzzlesAreCountedByPartitionUntilADelivery) {
  Topic topic("t", Patience().raise);
  EXPECT_EQ(topic.Puzzled(3), 1u);
  EXPECT_EQ(topic.Puzzled(3), 2u);
  EXPECT_EQ(topic.Puzzled(-1), 1u);
  topic.Acknowledged(0, 1, 100, 0);  // another partition delivers: says nothing about this one
  EXPECT_EQ(topic.Puzzled(3), 3u);
  topic.Reset();  // a new producer neither
  EXPECT_EQ(topic.Puzzled(3), 4u);
  EXPECT_EQ(topic.Puzzled(-1), 1u);
  topic.Acknowledged(3, 1, 100, 0);
  EXPECT_EQ(topic.Puzzled(3), 1u);
}

// Where the topic's settings may not be read.
TEST(KafkaTopicLimits, AnEventThatIsTooOldIsItsOwnTroubleAndAWrongClockTheTopics) {
  constexpr int64_t kWall = 1'700'000'000'000;
  TopicLimits old;
  EXPECT_EQ(old.ClassOfTimestamp(kWall - 20'000, kWall), ErrorClass::kSolo);
  TopicLimits clock;
  EXPECT_EQ(clock.ClassOfTimestamp(kWall + 20'000, kWall), ErrorClass::kTopic);  // the event's
  EXPECT_EQ(clock.ClassOfTimestamp(kWall, kWall), ErrorClass::kTopic);           // the broker's
  EXPECT_EQ(clock.ClassOfTimestamp(kWall, kWall + 20'000), ErrorClass::kTopic);  // the same, tried again
  EXPECT_EQ(clock.ClassOfTimestamp(kWall, kWall + 100'000), ErrorClass::kSolo);
}

// Nor is each tried many times: what is no younger than one that was refused is known to be too old.
TEST(KafkaTopicLimits, WhatIsNoYoungerThanWhatWasRefusedNeedsNoMoreTries) {
  constexpr int64_t kWall = 1'700'000'000'000;
  TopicLimits limits;
  EXPECT_EQ(limits.ClassOfTimestamp(kWall - 40'000, kWall), ErrorClass::kSolo);
  limits.Want(1);
  EXPECT_EQ(limits.ClassOfTimestamp(kWall - 50'000, kWall), ErrorClass::kSolo);  // not asked yet: it may be told
  EXPECT_TRUE(limits.Ask(1));
  EXPECT_EQ(limits.ClassOfTimestamp(kWall - 50'000, kWall), ErrorClass::kSolo);  // the answer is on its way
  limits.ProducerEnded();
  EXPECT_EQ(limits.ClassOfTimestamp(kWall - 50'000, kWall), ErrorClass::kSolo);  // it will not come
  EXPECT_TRUE(limits.Ask(2));
  // There is none, as where the user may not ask.
  char text[256];
  rd_kafka_t* client = rd_kafka_new(RD_KAFKA_PRODUCER, rd_kafka_conf_new(), text, sizeof text);
  rd_kafka_queue_t* queue = rd_kafka_queue_new(client);
  AskForSettings(client, "t", 1, nullptr, queue);
  rd_kafka_event_t* event = rd_kafka_queue_poll(queue, 60'000);
  ASSERT_NE(event, nullptr);
  limits.Answered(event, 3);
  rd_kafka_event_destroy(event);
  rd_kafka_queue_destroy(queue);
  rd_kafka_destroy(client);
  EXPECT_EQ(limits.ClassOfTimestamp(kWall - 40'000, kWall), ErrorClass::kMessage);  // the same, tried again
  EXPECT_EQ(limits.ClassOfTimestamp(kWall - 41'000, kWall), ErrorClass::kMessage);  // an older one
  EXPECT_EQ(limits.ClassOfTimestamp(kWall - 39'000, kWall), ErrorClass::kSolo);     // a younger one
  EXPECT_EQ(limits.ClassOfTimestamp(kWall - 39'000, kWall + 1), ErrorClass::kMessage);
  EXPECT_EQ(limits.ClassOfTimestamp(kWall, kWall), ErrorClass::kTopic);  // a clock is wrong
  EXPECT_EQ(limits.ClassOfTimestamp(kWall - 39'000, kWall + 100'000), ErrorClass::kSolo);
}

TEST(KafkaTopic, APartitionThatGrowsHasLostNothing) {
  Topic topic("t", kSecond);
  EXPECT_EQ(topic.WentBack(1, 0, 4), -1);  // nothing is known of it
  EXPECT_EQ(topic.WentBack(1, 5, 5), -1);
  EXPECT_EQ(topic.WentBack(0, 3, 3), -1);  // another one
  topic.Reset();
  EXPECT_EQ(topic.WentBack(1, 9, 12), -1);  // others write there, too
  EXPECT_EQ(topic.WentBack(1, 12, 14), 12);
  topic.Reset();  // by another producer
  EXPECT_EQ(topic.WentBack(1, 0, 3), 14);
  EXPECT_EQ(topic.WentBack(1, 4, 4), -1);  // it goes on from there
}

TEST(KafkaTopic, FewerPartitionsThanItHadAreBelievedLater) {
  Topic topic("t", kSecond);
  int64_t before = 0;
  topic.Counted(3, 0);
  topic.WentBack(2, 7, 9);
  topic.WentBack(8, 0, 99);
  topic.Counted(9, kSecond);
  EXPECT_EQ(topic.fewer_at, -1);
  topic.Counted(3, 2 * kSecond);
  EXPECT_FALSE(topic.SeemsToHaveFewer(11 * kSecond));
  topic.Counted(3, 8 * kSecond);  // does not put it off
  EXPECT_TRUE(topic.SeemsToHaveFewer(12 * kSecond));
  topic.Counted(9, 13 * kSecond);  // a broker that had not heard of those that were added
  EXPECT_FALSE(topic.SeemsToHaveFewer(100 * kSecond));
  EXPECT_EQ(topic.TakeGone(9, &before), -1);

  topic.Counted(2, 20 * kSecond);
  topic.Reset();  // by whichever producer
  EXPECT_TRUE(topic.SeemsToHaveFewer(30 * kSecond));
  EXPECT_EQ(topic.TakeGone(1, &before), 2);
  EXPECT_EQ(before, 9);
  topic.fewer_at = -1;
  topic.Counted(1, 200 * kSecond);
  EXPECT_EQ(topic.fewer_at, -1) << "it is told once";
  EXPECT_EQ(topic.WentBack(8, 0, 3), -1) << "one that is added later is another";
}

// Of a topic that took nothing the cluster is asked before each try anyway: what it says may be worth one at once.
TEST(KafkaTopicTrouble, MoreReplicasInSyncAreWorthATry) {
  TopicTrouble trouble;
  int64_t now = kSecond;
  const auto answer = [&](std::vector<int> in_sync, std::vector<std::string> leaders) {
    trouble.Ask(1);
    trouble.Answered({.answered = true, .leaders = std::move(leaders), .lacking = {false, false}, .in_sync = in_sync},
                     now);
  };
  answer({3, 3}, {"a:1", "b:1"});
  answer({2, 3}, {"a:1", "b:1"});
  trouble.Stall(now, 100 * kSecond, "", {}, false);
  now += kSecond;
  answer({2, 3}, {"a:1", "b:1"});
  EXPECT_TRUE(trouble.StillStalled(now));
  answer({2, 2}, {"a:1", "b:1"});
  EXPECT_TRUE(trouble.StillStalled(now));
  answer({2, 3}, {"a:1", "b:1"});
  EXPECT_FALSE(trouble.StillStalled(now));
  trouble.Stall(now, 100 * kSecond, "", {}, false);
  now += kSecond;
  answer({2, 3}, {"a:1", "b:1"});
  EXPECT_TRUE(trouble.StillStalled(now));
  answer({2, 3}, {"a:1", "c:1"});
  EXPECT_FALSE(trouble.StillStalled(now));
}

}  // namespace
}  // namespace outbox::sink::kafka
