// When an idle Kafka destination counts as down: the library's "all brokers are down" may be closed idle connections,
// and addresses that never answer beside one that does.
#include <gtest/gtest.h>
#include <librdkafka/rdkafka.h>

#include "base/monotonic.h"
#include "sink/kafka/destination_health.h"

namespace outbox::sink::kafka {
namespace {

class DestinationHealthTest : public ::testing::Test {
 protected:
  void AllDown(DestinationHealth* health, bool waits) {
    health->ConnectionFailed("127.0.0.1:3: Connection refused", now);
    health->AllBrokersDown(RD_KAFKA_RESP_ERR__ALL_BROKERS_DOWN, "2/2 brokers are down", waits, now);
  }
  // One question that has this answer.
  void Ask(DestinationHealth* health, bool answered, bool waits = false) {
    ASSERT_TRUE(health->AskIfTime(now));
    now += 2 * kSecond;
    health->Answered(answered, waits, now);
  }
  int64_t now = kSecond;
};

TEST_F(DestinationHealthTest, OfOneAddressAQuestionWithoutAnAnswerIsEnough) {
  DestinationHealth health(1);
  AllDown(&health, false);
  EXPECT_TRUE(health.up());
  Ask(&health, false);
  EXPECT_FALSE(health.up());
  EXPECT_EQ(health.told().error.code, "_ALL_BROKERS_DOWN");
  EXPECT_EQ(health.told().error.message, "127.0.0.1:3: Connection refused");
}

TEST_F(DestinationHealthTest, OfThreeAddressesTwoThatDoNotAnswerSayNothing) {
  DestinationHealth health(3);
  for (int i = 0; i < 2; ++i) {  // another time, too
    AllDown(&health, false);
    Ask(&health, false);
    Ask(&health, false);
    EXPECT_TRUE(health.up());
    Ask(&health, true);
    EXPECT_TRUE(health.up());
    EXPECT_EQ(health.told().changes, 0u);
    EXPECT_EQ(health.ask_at(), -1);
  }
}

TEST_F(DestinationHealthTest, OfThreeThatDoNotAnswerItIsDownAndUpWithTheFirstAnswer) {
  DestinationHealth health(3);
  AllDown(&health, false);
  Ask(&health, false);
  Ask(&health, false);
  Ask(&health, false);
  EXPECT_FALSE(health.up());
  now += kSecond;
  Ask(&health, false);
  EXPECT_FALSE(health.up());
  now += kSecond;
  Ask(&health, true);
  EXPECT_TRUE(health.up());
}

TEST_F(DestinationHealthTest, WhileRecordsWaitOneIsEnough) {
  DestinationHealth health(3);
  AllDown(&health, false);
  Ask(&health, false, true);
  EXPECT_FALSE(health.up());
  DestinationHealth busy(3);
  AllDown(&busy, true);
  EXPECT_FALSE(busy.up());
}

TEST_F(DestinationHealthTest, OneOfSeveralThatRefusesCredentialsSaysNothing) {
  DestinationHealth health(2);
  const Error refusal{ErrorClass::kConfig, "_AUTHENTICATION", "127.0.0.1:3: Authentication failed"};
  health.Refused(refusal, now);
  EXPECT_TRUE(health.up());
  Ask(&health, true, true);
  EXPECT_TRUE(health.up());
  EXPECT_EQ(health.told().changes, 0u);
  EXPECT_EQ(health.said(now - 60 * kSecond, now), "(2 s before) " + refusal.message);
  EXPECT_EQ(health.said(now, now), "");
  AllDown(&health, false);  // it is no reason any more
  EXPECT_TRUE(health.up());
}

// What was said a while ago may be over since: so it is told with its age.
TEST_F(DestinationHealthTest, TroubleOfAWhileAgoIsToldWithItsAge) {
  DestinationHealth health(1);
  const std::string text = "c:9092/3: Connection refused";
  health.ConnectionFailed(text, now);
  EXPECT_EQ(health.said(now, now + kSecond), text);
  EXPECT_EQ(health.said(now, now + 37 * kSecond), "(37 s before) " + text);
}

// Of two that refuse, and one that does not, each is known by the address under which it leads partitions.
TEST_F(DestinationHealthTest, WhichBrokerRefusesIsKnown) {
  DestinationHealth health(3);
  const auto refuses = [](const std::string& broker) {
    return Error{ErrorClass::kConfig, "_AUTHENTICATION", broker + ": SASL authentication error: Authentication failed"};
  };
  health.Refused(refuses("sasl_plaintext://a:9092/bootstrap"), now);
  health.Refused(refuses("b:9092/2"), now);
  health.ConnectionFailed("c:9092/3: Connection refused", now);
  EXPECT_EQ(health.refusal({"c:9092", "a:9092"}, now).message, refuses("sasl_plaintext://a:9092/bootstrap").message);
  EXPECT_EQ(health.refusal({"b:9092"}, now).code, "_AUTHENTICATION");
  EXPECT_TRUE(health.refusal({"c:9092", "b:909", "", "aa:9092"}, now).ok());
  EXPECT_TRUE(health.refusal({"b:9092"}, now + 1).ok()) << "too long ago";
}

TEST_F(DestinationHealthTest, AllThatRefuseCredentialsAreAMatterOfConfiguration) {
  DestinationHealth health(2);
  const Error refusal{ErrorClass::kConfig, "_AUTHENTICATION", "127.0.0.1:3: Authentication failed"};
  health.Refused(refusal, now);
  health.AllBrokersDown(RD_KAFKA_RESP_ERR__ALL_BROKERS_DOWN, "2/2 brokers are down", false, now);
  EXPECT_FALSE(health.up());
  EXPECT_EQ(health.told().error.code, "_AUTHENTICATION");
  DestinationHealth unanswered(2);
  unanswered.Refused(refusal, now);
  Ask(&unanswered, false, true);
  EXPECT_FALSE(unanswered.up());
  EXPECT_EQ(unanswered.told().error.error_class, ErrorClass::kConfig);
}

TEST_F(DestinationHealthTest, AWarningThatIsToBeSeenOutlastsTheNextDelivery) {
  DestinationHealth health(1);
  health.SetWarning({ErrorClass::kDestination, "SHORT", ""});
  health.Delivered(now);
  EXPECT_TRUE(health.told().warning.ok());
  health.Warn({ErrorClass::kConfig, "LONG", ""}, now + kSecond);
  health.Delivered(now);
  EXPECT_EQ(health.told().warning.code, "LONG");
  now += kSecond;
  health.Delivered(now);
  EXPECT_TRUE(health.told().warning.ok());
  EXPECT_TRUE(health.up());
}

TEST_F(DestinationHealthTest, WhatIsLostIsToldForAnHourBeforeOtherWarnings) {
  DestinationHealth health(1);
  health.Warn({ErrorClass::kDestination, "THROTTLED", ""}, now + kSecond);
  health.Lost({ErrorClass::kDestination, "LOST", "first"}, now);
  const uint64_t changes = health.told().changes;
  health.Lost({ErrorClass::kDestination, "LOST", "at the same time"}, now + 59 * kSecond);
  health.SetWarning({ErrorClass::kDestination, "SHORT", ""});
  health.Warn({ErrorClass::kDestination, "THROTTLED", ""}, now + kSecond);
  now += 60 * kSecond;
  health.Delivered(now);
  EXPECT_EQ(health.told().warning.message, "first");
  EXPECT_EQ(health.told().changes, changes);
  health.Lost({ErrorClass::kDestination, "LOST", "once more"}, now);
  EXPECT_EQ(health.told().warning.message, "once more");
  EXPECT_EQ(health.told().changes, changes + 1);
  EXPECT_EQ(health.lost_until(), now + 3600 * kSecond);
  health.EndLost(now + 3600 * kSecond - 1);
  EXPECT_FALSE(health.told().warning.ok());
  health.EndLost(now + 3600 * kSecond);
  EXPECT_TRUE(health.told().warning.ok());
  EXPECT_EQ(health.lost_until(), -1);
}

}  // namespace
}  // namespace outbox::sink::kafka
