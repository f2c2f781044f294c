// matrix: A14
// What is advised of a topic's trouble fits its code: of all that may be a topic's by the table of codes, only those of
// a topic that is not there say that it be created.
#include <gtest/gtest.h>

#include <set>
#include <string>

#include "pg/trouble_hints.h"
#include "sink/kafka/errors.h"

namespace outbox {
namespace {

std::string Hint(const std::string& code) {
  return pg::TopicHint(code);
}

bool Says(const std::string& code, const char* what) {
  return Hint(code).find(what) != std::string::npos;
}

TEST(TopicHint, OnlyWhatIsMissingIsToBeCreated) {
  // The last four: a broker was to make it, and could not.
  const std::set<std::string> missing = {
      "UNKNOWN_TOPIC_OR_PART", "_UNKNOWN_TOPIC",     "_UNKNOWN_PARTITION",         "UNKNOWN_TOPIC_ID",
      "INCONSISTENT_TOPIC_ID", "INVALID_PARTITIONS", "INVALID_REPLICATION_FACTOR", "INVALID_REPLICA_ASSIGNMENT",
      "INVALID_CONFIG"};
  std::set<std::string> codes = {"STALLED",   kPartOfTopic, pg::kBrokerRefuses, "WRONGTYPE", "NOPERM",
                                 "STREAM_ID", "NEW"};
  for (const sink::kafka::ErrorRule& rule : sink::kafka::ErrorRules()) {
    codes.insert(rule.name);  // a destination's, if they do not end, and a record's are a topic's now and then
  }
  for (const std::string& code : codes) {
    const std::string hint = Hint(code);
    const bool creates =
        hint.find("Create the topic") != std::string::npos || hint.find("create it") != std::string::npos;
    EXPECT_EQ(creates, missing.contains(code)) << code << ": " << hint;
    EXPECT_FALSE(hint.ends_with('.')) << "what happens then follows: " << hint;
  }
}

TEST(TopicHint, NamesTheCure) {
  EXPECT_TRUE(Says(kPartOfTopic, "Bring back the broker"));
  EXPECT_TRUE(Says(kPartOfTopic, "kafka-leader-election.sh --election-type unclean"));
  EXPECT_TRUE(Says(kPartOfTopic, "a log directory of it may be offline"));
  EXPECT_TRUE(Says("STALLED", "min.insync.replicas"));
  EXPECT_TRUE(Says("STALLED", "kafka-leader-election.sh --election-type unclean"));
  EXPECT_TRUE(Says("NOT_ENOUGH_REPLICAS", "Bring back the brokers of the topic's other replicas"));
  EXPECT_TRUE(Says("NOT_ENOUGH_REPLICAS_AFTER_APPEND", "min.insync.replicas"));
  EXPECT_TRUE(Says("KAFKA_STORAGE_ERROR", "disk"));
  EXPECT_TRUE(Says("POLICY_VIOLATION", "policy"));
  EXPECT_TRUE(Says("INVALID_TIMESTAMP", "message.timestamp.before.max.ms"));
  EXPECT_TRUE(Says("TOPIC_AUTHORIZATION_FAILED", "the right to write"));
  EXPECT_TRUE(Says("NOPERM", "the right to write"));
  EXPECT_TRUE(Says("WRONGTYPE", "Move away"));
  EXPECT_TRUE(Says("TOPIC_EXCEPTION", "no such name"));
  EXPECT_TRUE(Says("BROKER_REFUSES", "credentials"));
  EXPECT_TRUE(Says("A_CODE_OF_TOMORROW", "what the error speaks of"));
}

}  // namespace
}  // namespace outbox
