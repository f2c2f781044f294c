// matrix: D2 D4 D5 D6 D9
// The Kafka sink against a real broker: what a mock cannot prove (sequence numbers, topic limits, restarts).
// Needs OUTBOX_KAFKA_DIR, the directory of a node that test/brokers/kafka.sh started; test/brokers/kafka-sink-check
// starts one and runs this. Without it every test is skipped.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <fstream>
#include <memory>
#include <set>

#include "base/murmur2.h"
#include "kafka_cluster.h"
#include "kafka_producer_watch.h"
#include "kafka_records.h"
#include "sink/kafka/kafka_sink.h"
#include "sink_driver.h"

namespace outbox::sink::kafka {
namespace {

class KafkaBrokerTest : public testing::Test {
 protected:
  void SetUp() override {
    const char* dir = getenv("OUTBOX_KAFKA_DIR");
    if (dir == nullptr) {
      GTEST_SKIP() << "OUTBOX_KAFKA_DIR is not set";
    }
    dir_ = dir;
    std::ifstream(dir_ + "/bootstrap") >> bootstrap_;
    topic_ = std::string("t-") + testing::UnitTest::GetInstance()->current_test_info()->name();
    Script("topic", "delete " + topic_ + " 2>/dev/null");
  }
  void TearDown() override {
    sink_.reset();
    producers_.Join();
  }
  int Script(const std::string& command, const std::string& rest = "") {
    const char* script = getenv("OUTBOX_KAFKA_SCRIPT");
    return system((std::string(script == nullptr ? "test/brokers/kafka.sh" : script) + " " + command + " " + dir_ +
                   " " + rest + " >/dev/null")
                      .c_str());
  }
  void Topic(const std::string& what) { ASSERT_EQ(Script("topic", what), 0); }
  void Open(Options options = {}, Patience patience = {}) {
    SinkConfig config;
    config.name = "check";
    config.options = std::move(options);
    config.options["bootstrap.servers"] = bootstrap_;
    Settings settings;
    ASSERT_TRUE(MakeSettings(config, &settings).ok());
    settings.patience = patience;
    ASSERT_TRUE(KafkaSink::Make(std::move(settings), &sink_, producers_.life()).ok());
    driver_ = std::make_unique<Driver>(sink_.get());
  }
  // Sends until everything is delivered or refused with a final error; these errors are in `failed`. After the first
  // rounds it takes its time, as the engine's back-off does: a topic recreated is refused at once until metadata has
  // caught up.
  void SendAll(std::vector<Resender*> senders, std::vector<Error>* failed, double seconds = 60) {
    for (int round = 0; round < 200; ++round) {
      bool more = false;
      for (Resender* sender : senders) {
        more |= sender->Send(500);
      }
      if (!more) {
        return;
      }
      if (paused_) {  // requests pile up on their way
        driver_->Until([] { return false; }, 0.2);
        Script("cont");
        paused_ = false;
      }
      const auto resolved = [&] {
        most_in_library_ = std::max(most_in_library_, InLibrary());
        return driver_->resolved() == driver_->submitted();
      };
      ASSERT_TRUE(driver_->Until(resolved, seconds)) << driver_->submitted() - driver_->resolved() << " are open";
      for (Resender* sender : senders) {
        sender->Collect(failed);
      }
      if (round >= 20) {
        driver_->Until([] { return false; }, 0.1);
      }
    }
    FAIL() << "200 rounds were not enough";
  }
  int InLibrary() const { return producers_.handle() == nullptr ? 0 : rd_kafka_outq_len(producers_.handle()); }

  std::string dir_, bootstrap_, topic_;
  bool paused_ = false;
  int most_in_library_ = 0;  // records at once, as SendAll saw it
  ProducerWatch producers_;
  std::unique_ptr<Sink> sink_;
  std::unique_ptr<Driver> driver_;
};

// 20,000 good events were refused in 43 ms because the batch, not an event, was too large for the topic.
TEST_F(KafkaBrokerTest, ATopicsLimitRefusesOneRecordNotItsNeighbours) {
  Topic("create " + topic_ + " 2 max.message.bytes=20000");
  Open();
  std::vector<TestRecord> records = Numbered(topic_, 0, 20000, 50);
  for (TestRecord& record : records) {
    record.body += std::string(300 - record.body.size(), ' ');
  }
  records[7777].body = "7777" + std::string(30000, ' ');
  Resender one(driver_.get(), 1, records), two(driver_.get(), 2, Numbered(topic_, 20000, 1000, 50, "other-"));
  std::vector<Error> failed;
  const int64_t start = MonotonicMicros();
  SendAll({&one, &two}, &failed);
  printf("%.2f s, %llu producers\n", static_cast<double>(MonotonicMicros() - start) / 1e6,
         static_cast<unsigned long long>(producers_.made()));
  int refused = 0;
  for (const Error& error : failed) {
    refused += error.error_class == ErrorClass::kMessage;
  }
  EXPECT_EQ(refused, 1);
  ExpectOrdered(ReadAll(bootstrap_, topic_, 2), 20999);
  EXPECT_LT(producers_.made(), 10u);
}

// What is learnt of a topic's limit is forgotten again when the limit is raised, and costs no event anything meanwhile.
TEST_F(KafkaBrokerTest, ARaisedLimitIsUsedAgain) {
  Topic("create " + topic_ + " 1 max.message.bytes=10000");
  Open({}, {.raise = 2'000'000});
  std::vector<Error> failed;
  Resender before(driver_.get(), 1, Numbered(topic_, 0, 5000, 50));
  SendAll({&before}, &failed);
  EXPECT_TRUE(failed.empty()) << failed[0].code;
  const uint64_t learnt = producers_.made();
  EXPECT_GE(learnt, 2u);
  EXPECT_LT(learnt, 10u);
  most_in_library_ = 0;
  Resender limited(driver_.get(), 2, Numbered(topic_, 5000, 2000, 50));
  SendAll({&limited}, &failed);
  const int most = most_in_library_;
  EXPECT_GT(most, 0);
  EXPECT_LT(most, 400);  // of 500 that are submitted at once
  Topic("alter " + topic_ + " 1 max.message.bytes=2000000");
  int at = 7000;
  ASSERT_TRUE(driver_->Until(
      [&] {
        Resender more(driver_.get(), static_cast<uint32_t>(at), Numbered(topic_, at, 2000, 50));
        at += 2000;
        SendAll({&more}, &failed);
        return most_in_library_ > std::min(2 * most, 450);
      },
      40));
  EXPECT_TRUE(failed.empty()) << failed[0].code;
  EXPECT_EQ(producers_.made(), learnt);
  ExpectOrdered(ReadAll(bootstrap_, topic_, 1), at);
}

// Batches and single records refused, with cold partitions, a broker that answers late, and more requests in flight.
TEST_F(KafkaBrokerTest, RefusalsReorderNothing) {
  for (int round = 0; round < 4; ++round) {
    const std::string topic = topic_ + std::to_string(round);
    Script("topic", "delete " + topic + " 2>/dev/null");
    Topic("create " + topic + " 3 max.message.bytes=8000");
    Open({{"batch.num.messages", "50"}, {"linger.ms", "5"}});
    std::vector<TestRecord> records = Numbered(topic, 0, 3000, 20);
    // The first batches are too large for the topic, their successors are not: a broker that has no state of the
    // producer yet would take those.
    for (int i = 0; i < 3000; ++i) {
      records[static_cast<size_t>(i)].body += std::string(i < 150 ? 400 : 20, ' ');
    }
    for (int poison : {round * 3, 700 + round, 2000}) {
      records[static_cast<size_t>(poison)].body += std::string(9000, ' ');
    }
    Resender one(driver_.get(), 1, records);
    Resender two(driver_.get(), 2, Numbered(topic, 3000, 500, 20, "other-"));
    std::vector<Error> failed;
    driver_->Submit(9, 1, {{topic, "first", "-1", RecordForm::kStream, {}}});  // one partition is warm, two are not
    ASSERT_TRUE(driver_->UntilResolved());
    Script("pause");
    paused_ = true;
    SendAll({&one, &two}, &failed);
    EXPECT_EQ(std::count_if(failed.begin(), failed.end(),
                            [](const Error& error) { return error.error_class == ErrorClass::kMessage; }),
              3);
    ExpectOrdered(ReadAll(bootstrap_, topic, 3), 3497);
    Script("topic", "delete " + topic);
  }
  // The first refusal of a round ends one, the others cost none.
  EXPECT_GE(producers_.made(), 4u * 2u);
  EXPECT_LE(producers_.made(), 4u * 4u);
}

TEST_F(KafkaBrokerTest, AKilledBrokerLosesNothing) {
  Topic("create " + topic_ + " 3");
  Open();
  Resender sender(driver_.get(), 1, Numbered(topic_, 0, 30000, 50));
  sender.Send(500);
  ASSERT_TRUE(driver_->Until([&] { return driver_->resolved() > 100; }));
  Script("kill");
  driver_->Submit(2, 1, Numbered(topic_, 30000, 100, 50, "other-"));
  ASSERT_TRUE(driver_->Until([&] { return !sink_->health().up; }));
  ASSERT_EQ(Script("restart"), 0);
  ASSERT_TRUE(driver_->UntilResolved(60));
  std::vector<Error> failed;
  sender.Collect(&failed);
  SendAll({&sender}, &failed);
  EXPECT_TRUE(failed.empty());
  EXPECT_TRUE(sink_->health().up);
  ExpectOrdered(ReadAll(bootstrap_, topic_, 3), 30100);
}

TEST_F(KafkaBrokerTest, APausedBrokerCausesNoDuplicate) {
  Topic("create " + topic_ + " 2");
  Open();
  driver_->Submit(1, 1, Numbered(topic_, 0, 5000, 50));
  ASSERT_TRUE(driver_->Until([&] { return driver_->resolved() > 100; }));
  Script("pause");
  driver_->Submit(1, 1, Numbered(topic_, 5000, 5000, 50));
  driver_->Until([] { return false; }, 3);
  Script("cont");
  ASSERT_TRUE(driver_->UntilResolved(60));
  EXPECT_EQ(driver_->Count(Outcome::kDelivered), 10000u);
  const std::vector<Stored> stored = ReadAll(bootstrap_, topic_, 2);
  EXPECT_EQ(stored.size(), 10000u);
  ExpectOrdered(stored, 10000);
}

TEST_F(KafkaBrokerTest, AMissingTopicFailsAloneAndWorksOnceMade) {
  Topic("create " + topic_ + "-here 1");
  Open({{"topic.metadata.propagation.max.ms", "1000"}});
  const uint64_t gone = driver_->Submit(1, 1, Numbered(topic_, 0, 3, 1));
  const uint64_t here = driver_->Submit(2, 1, Numbered(topic_ + "-here", 0, 3, 1));
  ASSERT_TRUE(driver_->Until([&] { return driver_->outcome(here + 2) == Outcome::kDelivered; }, 2));
  ASSERT_TRUE(driver_->UntilResolved());
  EXPECT_EQ(driver_->outcome(gone), Outcome::kFailed);
  EXPECT_EQ(driver_->error(gone).error_class, ErrorClass::kTopic);
  EXPECT_EQ(driver_->outcome(gone + 2), Outcome::kAborted);
  Topic("create " + topic_ + " 1");
  uint32_t epoch = 2;
  uint64_t again = driver_->Submit(1, epoch, Numbered(topic_, 0, 3, 1));
  ASSERT_TRUE(driver_->UntilResolved());
  while (driver_->outcome(again) != Outcome::kDelivered && epoch < 10) {
    again = driver_->Submit(1, ++epoch, Numbered(topic_, 0, 3, 1));
    ASSERT_TRUE(driver_->UntilResolved());
  }
  EXPECT_LT(epoch, 5u);
  EXPECT_EQ(producers_.made(), 1u);
  Script("topic", "delete " + topic_ + "-here");
}

TEST_F(KafkaBrokerTest, ATopicMadeAgainIsUsedAgain) {
  Topic("create " + topic_ + " 4");
  Open({{"topic.metadata.propagation.max.ms", "1000"}});
  driver_->Submit(1, 1, Numbered(topic_, 0, 1000, 50));
  ASSERT_TRUE(driver_->UntilResolved());
  ASSERT_EQ(driver_->Count(Outcome::kDelivered), 1000u);
  Topic("delete " + topic_);
  Topic("create " + topic_ + " 2");
  Resender sender(driver_.get(), 2, Numbered(topic_, 0, 1000, 50));
  std::vector<Error> failed;
  SendAll({&sender}, &failed);
  for (const Error& error : failed) {
    EXPECT_NE(error.error_class, ErrorClass::kMessage) << error.code;
  }
  ExpectOrdered(ReadAll(bootstrap_, topic_, 2), 1000);
}

TEST_F(KafkaBrokerTest, AddedPartitionsAreUsed) {
  Topic("create " + topic_ + " 2");
  Open({{"topic.metadata.refresh.interval.ms", "500"}});
  driver_->Submit(1, 1, Numbered(topic_, 0, 500, 100));
  ASSERT_TRUE(driver_->UntilResolved());
  Topic("alter " + topic_ + " 6");
  for (int i = 1; i < 40; ++i) {
    driver_->Submit(1, 1, Numbered(topic_, 500 * i, 500, 100));
    ASSERT_TRUE(driver_->UntilResolved());
    driver_->Until([] { return false; }, 0.1);
  }
  EXPECT_EQ(driver_->Count(Outcome::kDelivered), 20000u);
  std::set<int32_t> used;
  std::map<std::string, int32_t> newest;
  for (const Stored& record : ReadAll(bootstrap_, topic_, 6)) {
    used.insert(record.partition);
    if (std::stoi(*record.body) >= 19500) {
      EXPECT_EQ(record.partition, KafkaPartition(*record.key, 6));
    }
  }
  EXPECT_EQ(used.size(), 6u);
  EXPECT_EQ(producers_.made(), 1u);
}

// Longer than topic.metadata.propagation.max.ms: a broker that is away says nothing about topics.
TEST_F(KafkaBrokerTest, ABrokerThatIsAwayAtTheStartFailsNothing) {
  Topic("create " + topic_ + " 2");
  Script("stop");
  Open({{"topic.metadata.propagation.max.ms", "1000"}});
  driver_->Submit(1, 1, Numbered(topic_, 0, 1000, 10));
  ASSERT_TRUE(driver_->Until([&] { return !sink_->health().up; }, 15));
  driver_->Until([] { return false; }, 3);
  EXPECT_EQ(driver_->resolved(), 0u);
  ASSERT_EQ(Script("restart"), 0);
  ASSERT_TRUE(driver_->UntilResolved(30));
  EXPECT_EQ(driver_->Count(Outcome::kDelivered), 1000u);
  EXPECT_EQ(producers_.made(), 1u);
}

TEST_F(KafkaBrokerTest, HealthComesBackWithNothingToSend) {
  Topic("create " + topic_ + " 1");
  Open();
  driver_->Submit(1, 1, Numbered(topic_, 0, 10, 1));
  ASSERT_TRUE(driver_->UntilResolved());
  Script("stop");
  ASSERT_TRUE(driver_->Until([&] { return !sink_->health().up; }, 15));
  ASSERT_EQ(Script("restart"), 0);
  ASSERT_TRUE(driver_->Until([&] { return sink_->health().up; }, 15));
}

}  // namespace
}  // namespace outbox::sink::kafka
