// A broker with a quota, which reads nothing while it throttles: no request waits for its answer for as long as the
// library would have patience.
#include <gtest/gtest.h>

#include <algorithm>
#include <deque>

#include "base/monotonic.h"
#include "sink/kafka/throttle.h"

namespace outbox::sink::kafka {
namespace {

// Three partitions always have more to send; the broker lets `quota` bytes through in a second. Returns how long the
// slowest request took that was begun after `settled`, and the bytes that it took.
struct Seen {
  int64_t slowest = 0;
  uint64_t bytes = 0;
};
Seen Simulate(Throttle* throttle, uint64_t quota, uint64_t record, int64_t until, int64_t settled) {
  struct Request {
    int64_t sent;
    uint64_t bytes;
  };
  Seen seen;
  std::deque<Request> waiting;
  int64_t muted = 0;
  for (int64_t now = kSecond; now < until; now += 10'000) {
    while (!waiting.empty() && now >= muted) {
      const Request request = waiting.front();
      waiting.pop_front();
      if (request.sent >= settled) {
        seen.slowest = std::max(seen.slowest, now - request.sent);
      }
      seen.bytes += request.bytes;
      const auto throttled = static_cast<int64_t>(request.bytes * kSecond / quota);
      muted = now + throttled;
      throttle->Told(throttled, now);
    }
    for (int i = 0; waiting.size() < 3 && i < 3; ++i) {
      Request request{now, 0};
      while (request.bytes < 1'000'000 && throttle->MaySend(waiting.empty() && request.bytes == 0, now)) {
        throttle->Sent(record);
        request.bytes += record;
      }
      if (request.bytes > 0) {
        waiting.push_back(request);
      }
    }
  }
  return seen;
}

TEST(KafkaThrottle, NothingIsHeldWhereNoBrokerThrottles) {
  Throttle throttle;
  throttle.Sent(1'000'000'000);
  EXPECT_TRUE(throttle.MaySend(false, kSecond));
  throttle.Told(kSecond / 10, kSecond);  // for a moment
  EXPECT_FALSE(throttle.on());
  EXPECT_TRUE(throttle.MaySend(false, kSecond));
  EXPECT_FALSE(throttle.Excuses(kSecond));
}

TEST(KafkaThrottle, ARequestIsAnsweredInTimeAndTheQuotaIsUsed) {
  for (const uint64_t quota : {3'000, 20'000, 200'000}) {
    Throttle throttle;
    const Seen seen = Simulate(&throttle, quota, 800, 3600 * kSecond, 1800 * kSecond);
    EXPECT_TRUE(throttle.on());
    EXPECT_LT(seen.slowest, 10 * kSecond) << quota;
    EXPECT_GT(seen.bytes, quota * 3300) << quota;
  }
}

TEST(KafkaThrottle, NothingIsSentMeanwhileAndItIsOverWhenNothingWasThrottledForAMinute) {
  Throttle throttle;
  throttle.Told(5 * kSecond, kSecond);
  ASSERT_TRUE(throttle.on());
  EXPECT_EQ(throttle.until(), 6 * kSecond);
  EXPECT_FALSE(throttle.MaySend(true, 5 * kSecond));
  EXPECT_FALSE(throttle.MaySend(false, 6 * kSecond)) << "what is on its way is waited for";
  EXPECT_TRUE(throttle.Excuses(20 * kSecond));
  EXPECT_FALSE(throttle.Excuses(30 * kSecond));
  ASSERT_TRUE(throttle.MaySend(true, 6 * kSecond));
  throttle.Sent(100);
  EXPECT_TRUE(throttle.MaySend(true, 60 * kSecond));
  EXPECT_TRUE(throttle.on());
  throttle.Sent(100);
  EXPECT_FALSE(throttle.TakeEnded());
  EXPECT_TRUE(throttle.MaySend(true, 70 * kSecond));
  EXPECT_FALSE(throttle.on());
  EXPECT_TRUE(throttle.TakeEnded());
  EXPECT_FALSE(throttle.TakeEnded());
}

// Records of a topic whose replicas are away get no answer, and that is no reason to send nothing else.
TEST(KafkaThrottle, WhatHasNoAnswerForAnotherReasonKeepsNothingBack) {
  Throttle throttle;
  throttle.Told(2 * kSecond, kSecond);
  ASSERT_TRUE(throttle.on());
  EXPECT_EQ(throttle.heard_to(), 0);
  EXPECT_FALSE(throttle.MaySend(false, 3 * kSecond)) << "its answer may be on its way";
  int64_t now = 0;
  int rounds = 0;
  for (now = 3 * kSecond; now < 100 * kSecond; now += kSecond / 10) {
    bool sent = false;
    while (throttle.MaySend(false, now) && throttle.on()) {
      throttle.Sent(1000);
      sent = true;
    }
    if (sent) {
      ++rounds;
      EXPECT_LE(throttle.heard_to(), now);
      EXPECT_GT(throttle.heard_to(), now - kSecond);
      throttle.Told(5 * kSecond, now);
    }
  }
  EXPECT_GE(rounds, 10);
}

// One record is always let through, however large.
TEST(KafkaThrottle, AQuotaBelowOneRecordStopsNothing) {
  Throttle throttle;
  const Seen seen = Simulate(&throttle, 10'000, 500'000, 3600 * kSecond, 1800 * kSecond);
  EXPECT_GT(seen.bytes, 30'000'000u);
}

}  // namespace
}  // namespace outbox::sink::kafka
