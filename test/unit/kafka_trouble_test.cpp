// matrix: D6 D10 D15
// KafkaSink when the cluster says no: refusals of every kind, topics missing or without a leader, brokers away.
#include <gtest/gtest.h>

#include "kafka_sink_fixture.h"
#include "sink/kafka/kafka_checkup.h"

namespace outbox::sink::kafka {
namespace {

class KafkaRefusalTest : public KafkaSinkTest, public testing::WithParamInterface<int> {};

// Order is not asked here: the mock takes a successor of a refused batch that was sent already, a real broker's
// sequence numbers do not let it in (kafka_broker_test).
TEST_P(KafkaRefusalTest, NothingIsLost) {
  const auto code = static_cast<rd_kafka_resp_err_t>(GetParam());
  const std::string topic = "refused-" + std::to_string(GetParam());
  cluster_.CreateTopic(topic, 3);
  Open({{"retry.backoff.ms", "10"}});
  Warm(topic, 1, 3);
  Resender first(driver_.get(), 2, Numbered(topic, 0, 400, 7));
  Resender second(driver_.get(), 3, Numbered(topic, 400, 400, 7));
  std::vector<Error> failed;
  cluster_.SetRoundTrip(5);
  cluster_.FailProduce({RD_KAFKA_RESP_ERR_NO_ERROR, code});
  bool more = first.Send();
  more = second.Send() || more;
  for (int round = 0; more && round < 20; ++round) {
    ASSERT_TRUE(driver_->UntilResolved(20));
    first.Collect(&failed);
    second.Collect(&failed);
    cluster_.SetRoundTrip(0);
    const bool left = first.Send();
    more = second.Send() || left;
  }
  EXPECT_FALSE(more);
  // The request that was refused may have held one record; then that one is to blame.
  int charged = 0;
  for (const Error& error : failed) {
    charged += error.error_class == ErrorClass::kMessage;
  }
  EXPECT_LE(charged, RuleFor(code).error_class == ErrorClass::kMessage ? 1 : 0);
  // A new producer is made for what comes next: for nothing where the last record of all was the one to blame.
  if (charged == 0 && code != RD_KAFKA_RESP_ERR_REQUEST_TIMED_OUT &&
      code != RD_KAFKA_RESP_ERR_NOT_LEADER_FOR_PARTITION && code != RD_KAFKA_RESP_ERR_NOT_ENOUGH_REPLICAS) {
    EXPECT_GE(producers_.made(), 2u);
  }
  EXPECT_EQ(static_cast<int>(Numbers(ReadAll(cluster_.bootstrap(), topic, 3)).size()), 800 - charged);
}

// Also codes that the library retries by itself: it takes a later success for an earlier one's, which is not so where
// the broker takes any sequence number, as the mock does (and a real one for a topic that was recreated).
INSTANTIATE_TEST_SUITE_P(Codes, KafkaRefusalTest,
                         testing::Values(RD_KAFKA_RESP_ERR_MSG_SIZE_TOO_LARGE, RD_KAFKA_RESP_ERR_INVALID_RECORD,
                                         RD_KAFKA_RESP_ERR_TOPIC_AUTHORIZATION_FAILED,
                                         RD_KAFKA_RESP_ERR_POLICY_VIOLATION, RD_KAFKA_RESP_ERR_UNKNOWN,
                                         RD_KAFKA_RESP_ERR_THROTTLING_QUOTA_EXCEEDED,
                                         RD_KAFKA_RESP_ERR_OUT_OF_ORDER_SEQUENCE_NUMBER,
                                         RD_KAFKA_RESP_ERR_INVALID_PRODUCER_EPOCH, RD_KAFKA_RESP_ERR_REQUEST_TIMED_OUT,
                                         RD_KAFKA_RESP_ERR_NOT_LEADER_FOR_PARTITION,
                                         RD_KAFKA_RESP_ERR_NOT_ENOUGH_REPLICAS));

TEST_F(KafkaSinkTest, ARecordRefusedAloneIsTheCulprit) {
  cluster_.CreateTopic("alone", 1);
  Open();
  Warm("alone", 1, 1);
  cluster_.FailProduce({RD_KAFKA_RESP_ERR_INVALID_RECORD});
  const uint64_t seq = driver_->Submit(2, 1, Numbered("alone", 0, 1, 1));
  ASSERT_TRUE(driver_->UntilResolved());
  EXPECT_EQ(driver_->outcome(seq), Outcome::kFailed);
  EXPECT_EQ(driver_->error(seq).error_class, ErrorClass::kSolo);
  EXPECT_EQ(driver_->error(seq).code, "INVALID_RECORD");
  const uint64_t next = driver_->Submit(2, 2, Numbered("alone", 1, 1, 1));
  ASSERT_TRUE(driver_->UntilResolved());
  EXPECT_EQ(driver_->outcome(next), Outcome::kDelivered);
  EXPECT_EQ(producers_.made(), 2u);
}

TEST_F(KafkaSinkTest, AMissingTopicStopsNoOther) {
  cluster_.CreateTopic("here", 1);
  rd_kafka_mock_topic_set_error(cluster_.get(), "gone", RD_KAFKA_RESP_ERR_UNKNOWN_TOPIC_OR_PART);
  Open({{"topic.metadata.propagation.max.ms", "300"}});
  const uint64_t gone = driver_->Submit(1, 1, Numbered("gone", 0, 3, 1));
  const uint64_t here = driver_->Submit(2, 1, Numbered("here", 0, 3, 1));
  ASSERT_TRUE(driver_->Until([&] { return driver_->outcome(here + 2) == Outcome::kDelivered; }));
  ASSERT_TRUE(driver_->UntilResolved());
  EXPECT_EQ(driver_->outcome(gone), Outcome::kFailed);
  EXPECT_EQ(driver_->error(gone).error_class, ErrorClass::kTopic);
  EXPECT_NE(driver_->error(gone).message.find("gone"), std::string::npos);
  EXPECT_EQ(driver_->outcome(gone + 1), Outcome::kAborted);
  EXPECT_EQ(driver_->outcome(gone + 2), Outcome::kAborted);
  EXPECT_TRUE(driver_->unsent(gone + 1) && driver_->unsent(gone + 2)) << "there is no such topic";
  EXPECT_EQ(producers_.made(), 1u);
  // It is made later.
  rd_kafka_mock_topic_set_error(cluster_.get(), "gone", RD_KAFKA_RESP_ERR_NO_ERROR);
  uint32_t epoch = 2;
  uint64_t again = driver_->Submit(1, epoch, Numbered("gone", 0, 3, 1));
  ASSERT_TRUE(driver_->UntilResolved());
  while (driver_->outcome(again) != Outcome::kDelivered && epoch < 10) {
    again = driver_->Submit(1, ++epoch, Numbered("gone", 0, 3, 1));
    ASSERT_TRUE(driver_->UntilResolved());
  }
  EXPECT_LT(epoch, 5u);
  EXPECT_EQ(driver_->outcome(again + 2), Outcome::kDelivered);
  EXPECT_TRUE(sink_->health().up);
}

TEST_F(KafkaSinkTest, ABrokerThatIsAwayAbortsNothing) {
  cluster_.CreateTopic("away", 2);
  Open({{"reconnect.backoff.max.ms", "100"}});
  Warm("away", 1, 2);
  rd_kafka_mock_broker_set_down(cluster_.get(), 1);
  driver_->Submit(1, 1, Numbered("away", 0, 200, 5));
  ASSERT_TRUE(driver_->Until([&] { return !sink_->health().up; }));
  EXPECT_EQ(sink_->health().error.error_class, ErrorClass::kDestination);
  driver_->Until([] { return false; }, 0.5);
  EXPECT_EQ(driver_->resolved(), 2u);
  rd_kafka_mock_broker_set_up(cluster_.get(), 1);
  ASSERT_TRUE(driver_->UntilResolved(20));
  EXPECT_EQ(driver_->Count(Outcome::kDelivered), 202u);
  EXPECT_TRUE(sink_->health().up);
}

// A batch that was in flight when its producer ended may come back to the library's queue: nobody waits for it there.
TEST_F(KafkaSinkTest, AnEndingProducerWaitsForNothingThatIsNotInFlight) {
  cluster_.CreateTopic("ending", 1);
  Open({{"batch.num.messages", "1"}, {"retry.backoff.ms", "10"}});
  Warm("ending", 1, 1);
  cluster_.SetRoundTrip(200);
  cluster_.FailProduce(
      {RD_KAFKA_RESP_ERR_INVALID_RECORD, RD_KAFKA_RESP_ERR_NOT_ENOUGH_REPLICAS, RD_KAFKA_RESP_ERR_NOT_ENOUGH_REPLICAS});
  const int64_t start = MonotonicMicros();
  driver_->Submit(1, 1, Numbered("ending", 0, 3, 1));
  ASSERT_TRUE(driver_->UntilResolved(10));
  EXPECT_LT(MonotonicMicros() - start, 3'000'000);
}

// It may be another cluster that comes back at that address: the number of the old one is not used there.
TEST_F(KafkaSinkTest, AProducerThatWasCutOffSendsNothingNew) {
  cluster_.CreateTopic("cut", 2);
  Open({{"reconnect.backoff.max.ms", "100"}});
  Warm("cut", 1, 2);
  rd_kafka_mock_broker_set_down(cluster_.get(), 1);
  ASSERT_TRUE(driver_->Until([&] { return producers_.made() == 2; }));
  driver_->Submit(1, 1, Numbered("cut", 0, 100, 5));
  rd_kafka_mock_broker_set_up(cluster_.get(), 1);
  ASSERT_TRUE(driver_->UntilResolved(20));
  EXPECT_EQ(driver_->Count(Outcome::kDelivered), 102u);
  EXPECT_EQ(producers_.made(), 2u);
}

// What it has in the library goes as it would; what comes meanwhile waits, and goes behind it, in order.
TEST_F(KafkaSinkTest, AProducerThatWasCutOffFinishesWhatItHas) {
  cluster_.CreateTopic("half", 2);
  Open({{"reconnect.backoff.max.ms", "100"}});
  Warm("half", 1, 2);
  cluster_.SetRoundTrip(400);
  driver_->Submit(1, 1, Numbered("half", 0, 100, 5));
  driver_->Until([] { return false; }, 0.1);
  rd_kafka_mock_broker_set_down(cluster_.get(), 1);
  driver_->Until([] { return false; }, 0.5);
  driver_->Submit(1, 1, Numbered("half", 100, 100, 5));
  cluster_.SetRoundTrip(0);
  rd_kafka_mock_broker_set_up(cluster_.get(), 1);
  ASSERT_TRUE(driver_->UntilResolved(20));
  EXPECT_EQ(driver_->Count(Outcome::kDelivered), 202u);
  EXPECT_EQ(producers_.made(), 2u);
  ExpectOrdered(ReadAll(cluster_.bootstrap(), "half", 2), 200);
}

// Whether the first record of a partition is there cannot be known then: it comes again.
TEST_F(KafkaSinkTest, TheFirstRecordOfAPartitionIsNotProvenByAProducerThatWasCutOff) {
  cluster_.CreateTopic("known", 1);
  cluster_.CreateTopic("first", 1);
  Open({{"reconnect.backoff.max.ms", "100"}});
  Warm("known", 1, 1);
  cluster_.SetRoundTrip(400);
  const uint64_t first = driver_->Submit(1, 1, Numbered("first", 0, 1, 1));
  driver_->Until([] { return false; }, 0.1);
  rd_kafka_mock_broker_set_down(cluster_.get(), 1);
  driver_->Until([] { return false; }, 0.5);
  cluster_.SetRoundTrip(0);
  rd_kafka_mock_broker_set_up(cluster_.get(), 1);
  ASSERT_TRUE(driver_->UntilResolved(20));
  EXPECT_EQ(driver_->outcome(first), Outcome::kAborted);
  EXPECT_FALSE(driver_->unsent(first));
  driver_->Submit(1, 2, Numbered("first", 0, 1, 1));
  ASSERT_TRUE(driver_->UntilResolved(20));
  EXPECT_EQ(driver_->Count(Outcome::kDelivered), 2u);
}

// One broker is slow and its topic counts as stalled: the library still has the record that is named, and reports it
// later. That report must not be taken for another record's.
TEST_F(KafkaSinkTest, AStalledRecordIsFailedOnlyWhenTheLibraryHasLetGo) {
  MockCluster cluster(2);
  cluster.CreateTopic("slow", 1);
  cluster.CreateTopic("fine", 1);
  rd_kafka_mock_partition_set_leader(cluster.get(), "slow", 0, 1);
  rd_kafka_mock_partition_set_leader(cluster.get(), "fine", 0, 2);
  OpenAt(cluster, {}, {.stalled = 300'000});
  Warm("slow", 1, 1);
  Warm("fine", 2, 1);
  rd_kafka_mock_broker_set_rtt(cluster.get(), 1, 2500);
  const uint64_t slow = driver_->Submit(1, 1, Numbered("slow", 0, 1, 1));
  ASSERT_TRUE(driver_->Until([&] {
    driver_->Submit(2, 1, Numbered("fine", 0, 1, 1));
    return driver_->outcome(slow) != Outcome{} || rd_kafka_outq_len(producers_.handle()) > 20 ||
           driver_->submitted() - driver_->resolved() > 20;
  }));
  const uint64_t next = driver_->Submit(3, 1, Numbered("slow", 1, 1, 1));  // held by the sink: the producer is ending
  ASSERT_TRUE(driver_->UntilResolved(10));
  EXPECT_EQ(driver_->outcome(slow), Outcome::kDelivered);
  EXPECT_EQ(driver_->outcome(next), Outcome::kAborted);
  rd_kafka_mock_broker_set_rtt(cluster.get(), 1, 0);
  sink_->Close();
  sink_.reset();
  producers_.Join();
  EXPECT_EQ(ReadAll(cluster.bootstrap(), "slow", 1).size(), 2u);
}

TEST_F(KafkaSinkTest, ATopicWithoutALeaderIsInTroubleWhileOthersFlow) {
  cluster_.CreateTopic("led", 1);
  cluster_.CreateTopic("leaderless", 1);
  Open({}, {.stalled = 300'000});
  Warm("led", 1, 1);
  rd_kafka_mock_partition_set_leader(cluster_.get(), "leaderless", 0, -1);
  const uint64_t lost = driver_->Submit(2, 1, Numbered("leaderless", 0, 2, 1));
  ASSERT_TRUE(driver_->Until([&] {
    driver_->Submit(1, 1, Numbered("led", 0, 1, 1));
    return driver_->outcome(lost) != Outcome{};
  }));
  EXPECT_EQ(driver_->outcome(lost), Outcome::kFailed);
  EXPECT_EQ(driver_->error(lost).code, "STALLED");
  EXPECT_EQ(driver_->error(lost).error_class, ErrorClass::kTopic);
  EXPECT_NE(driver_->error(lost).message.find("no leader"), std::string::npos) << driver_->error(lost).message;
  ASSERT_TRUE(driver_->UntilResolved());
  EXPECT_EQ(driver_->outcome(lost + 1), Outcome::kAborted);
  ASSERT_TRUE(driver_->Until([&] { return producers_.made() == 2; }));
  // Tried again and again it ends no producer, and fails at once.
  uint32_t epoch = 2;
  for (int i = 0; i < 20; ++i) {
    const uint64_t again = driver_->Submit(2, epoch++, Numbered("leaderless", 0, 1, 1));
    const uint64_t other = driver_->Submit(1, 2, Numbered("led", 0, 1, 1));
    ASSERT_TRUE(driver_->Until([&] { return driver_->outcome(again) != Outcome{}; }, 2));
    EXPECT_EQ(driver_->error(again).code, "STALLED");
    ASSERT_TRUE(driver_->UntilResolved());
    EXPECT_EQ(driver_->outcome(other), Outcome::kDelivered);
  }
  EXPECT_EQ(producers_.made(), 2u);
  // It heals by itself.
  rd_kafka_mock_partition_set_leader(cluster_.get(), "leaderless", 0, 1);
  uint64_t healed = 0;
  ASSERT_TRUE(driver_->Until([&] {
    healed = driver_->Submit(2, epoch++, Numbered("leaderless", 0, 1, 1));
    EXPECT_TRUE(driver_->UntilResolved());
    return driver_->outcome(healed) == Outcome::kDelivered;
  }));
  EXPECT_EQ(producers_.made(), 2u);
}

// Only what is for the partition without a leader is refused; a record without a key goes to one that has a leader.
TEST_F(KafkaSinkTest, APartitionWithoutALeaderStopsNoOtherOfItsTopic) {
  cluster_.CreateTopic("in-part", 3);
  Open({}, {.stalled = 300'000});
  const auto key_of = [](int32_t partition, int number) {
    int i = 0;
    for (int left = number;; ++i) {
      if (KafkaPartition("key-" + std::to_string(i), 3) == partition && left-- == 0) {
        return "key-" + std::to_string(i);
      }
    }
  };
  const auto record = [&](int32_t partition, int number, int body) {
    return TestRecord{"in-part", key_of(partition, number), std::to_string(body), RecordForm::kStream, {}};
  };
  rd_kafka_mock_partition_set_leader(cluster_.get(), "in-part", 1, -1);
  driver_->Submit(1, 1, {record(0, 0, 0), record(2, 0, 1)});
  ASSERT_TRUE(driver_->UntilResolved());
  const uint64_t lost = driver_->Submit(1, 1, {record(0, 1, 2), record(1, 0, 3), record(2, 1, 4)});
  ASSERT_TRUE(driver_->UntilResolved(20));
  EXPECT_EQ(driver_->outcome(lost), Outcome::kDelivered);
  ASSERT_EQ(driver_->outcome(lost + 1), Outcome::kFailed);
  EXPECT_EQ(driver_->error(lost + 1).code, kPartOfTopic);
  EXPECT_EQ(driver_->error(lost + 1).error_class, ErrorClass::kTopic);
  EXPECT_NE(driver_->error(lost + 1).message.find("1 of 3 partitions"), std::string::npos);
  EXPECT_EQ(driver_->outcome(lost + 2), Outcome::kDelivered);
  ASSERT_TRUE(driver_->Until([&] { return producers_.made() == 2; }));
  uint32_t epoch = 2;
  for (int i = 0; i < 10; ++i) {
    // In one batch, and in flows of their own; and the first of all may be the one that is refused.
    const uint64_t batch =
        driver_->Submit(1, epoch, {record(1, 2 * i, -1), record(0, i, -1), record(1, 2 * i + 1, -1)});
    const uint64_t led = driver_->Submit(2, 1, {record(0, i, 10 + i), record(2, i, 10 + i)});
    const uint64_t keyless = driver_->Submit(3, 1, {{"in-part", "", "-1", RecordForm::kStream, {}}});
    ASSERT_TRUE(driver_->UntilResolved(10));
    EXPECT_EQ(driver_->error(batch).code, kPartOfTopic);
    EXPECT_EQ(driver_->outcome(batch + 1), Outcome::kAborted);
    EXPECT_EQ(driver_->outcome(batch + 2), Outcome::kFailed) << "said at once, which spares a round";
    EXPECT_EQ(driver_->outcome(led), Outcome::kDelivered);
    EXPECT_EQ(driver_->outcome(led + 1), Outcome::kDelivered);
    EXPECT_EQ(driver_->outcome(keyless), Outcome::kDelivered);
    ++epoch;
  }
  EXPECT_EQ(producers_.made(), 2u);
  // It heals by itself, though the others were acknowledged all the time.
  rd_kafka_mock_partition_set_leader(cluster_.get(), "in-part", 1, 1);
  ASSERT_TRUE(driver_->Until([&] {
    const uint64_t healed = driver_->Submit(1, epoch++, {record(1, 0, 3)});
    EXPECT_TRUE(driver_->UntilResolved());
    return driver_->outcome(healed) == Outcome::kDelivered;
  }));
  EXPECT_EQ(producers_.made(), 2u);
}

TEST_F(KafkaSinkTest, APartitionWithoutALeaderIsFoundByTheFirstRecordOfItsTopic) {
  cluster_.CreateTopic("first-lost", 2);
  rd_kafka_mock_partition_set_leader(cluster_.get(), "first-lost", 0, -1);
  Open({}, {.stalled = 300'000});
  int lost = 0;
  while (KafkaPartition("key-" + std::to_string(lost), 2) != 0) {
    ++lost;
  }
  int led = 0;
  while (KafkaPartition("key-" + std::to_string(led), 2) != 1) {
    ++led;
  }
  const std::vector<TestRecord> both = {{"first-lost", "key-" + std::to_string(lost), "0", RecordForm::kStream, {}},
                                        {"first-lost", "key-" + std::to_string(led), "1", RecordForm::kStream, {}}};
  const uint64_t first = driver_->Submit(1, 1, both);
  ASSERT_TRUE(driver_->UntilResolved(20));
  EXPECT_EQ(driver_->error(first).code, kPartOfTopic);
  EXPECT_EQ(driver_->outcome(first + 1), Outcome::kAborted);
  const uint64_t again = driver_->Submit(1, 2, {both[1]});
  ASSERT_TRUE(driver_->UntilResolved(20));
  EXPECT_EQ(driver_->outcome(again), Outcome::kDelivered);
}

// Nothing else is sent: that the cluster answers is proof enough.
TEST_F(KafkaSinkTest, ATopicThatLosesItsLeaderIsInTroubleOnItsOwn) {
  if (rd_kafka_version() >= 0x02040000) {
    GTEST_SKIP() << "the mock cluster from 2.4 on crashes when a batch comes for a partition that has lost its leader";
  }
  cluster_.CreateTopic("deposed", 1);
  Open({}, {.stalled = 300'000});
  Warm("deposed", 1, 1);
  rd_kafka_mock_partition_set_leader(cluster_.get(), "deposed", 0, -1);
  const uint64_t one = driver_->Submit(1, 1, Numbered("deposed", 0, 2, 1));
  const uint64_t two = driver_->Submit(2, 1, Numbered("deposed", 2, 2, 1));
  ASSERT_TRUE(driver_->UntilResolved(30));
  EXPECT_EQ(driver_->outcome(one), Outcome::kFailed);
  EXPECT_EQ(driver_->outcome(one + 1), Outcome::kAborted);
  EXPECT_EQ(driver_->outcome(two), Outcome::kFailed);
  EXPECT_EQ(driver_->error(two).code, "STALLED");
  EXPECT_TRUE(sink_->health().up);
  rd_kafka_mock_partition_set_leader(cluster_.get(), "deposed", 0, 1);
}

// A broker that is away or hangs is no topic's fault.
TEST_F(KafkaSinkTest, NoTopicIsBlamedWhileNoBrokerAnswers) {
  MockCluster cluster(1);
  cluster.CreateTopic("hangs", 1);
  OpenAt(cluster, {}, {.stalled = 300'000});
  Warm("hangs", 1, 1);
  rd_kafka_mock_broker_set_rtt(cluster.get(), 1, 4000);
  driver_->Submit(1, 1, Numbered("hangs", 0, 10, 1));
  ASSERT_TRUE(driver_->Until([&] { return !sink_->health().up; }));
  EXPECT_EQ(sink_->health().error.error_class, ErrorClass::kDestination);
  ASSERT_TRUE(driver_->UntilResolved(20));
  EXPECT_EQ(driver_->Count(Outcome::kDelivered), 11u);
  EXPECT_EQ(producers_.made(), 1u);
  rd_kafka_mock_broker_set_rtt(cluster.get(), 1, 0);
  sink_->Close();
  sink_.reset();
  producers_.Join();
}

// The list of codes grows with every broker: destination trouble, and after a while the topic's, never the event's.
TEST_F(KafkaSinkTest, AnUnknownCodeIsTheTopicsTroubleAfterAWhile) {
  cluster_.CreateTopic("puzzle", 1);
  Open();
  Warm("puzzle", 1, 1);
  uint32_t epoch = 1;
  std::vector<ErrorClass> classes;
  for (int i = 0; i < 7; ++i) {
    cluster_.FailProduce({static_cast<rd_kafka_resp_err_t>(200)});
    const uint64_t seq = driver_->Submit(2, epoch++, Numbered("puzzle", 0, 1, 1));
    ASSERT_TRUE(driver_->UntilResolved(20));
    ASSERT_EQ(driver_->outcome(seq), Outcome::kFailed);
    EXPECT_EQ(driver_->error(seq).code, "KAFKA_200");
    classes.push_back(driver_->error(seq).error_class);
  }
  const ErrorClass D = ErrorClass::kDestination, T = ErrorClass::kTopic;
  EXPECT_EQ(classes, (std::vector<ErrorClass>{D, D, D, D, D, T, T}));
  const uint64_t seq = driver_->Submit(2, epoch++, Numbered("puzzle", 0, 1, 1));
  ASSERT_TRUE(driver_->UntilResolved(20));
  EXPECT_EQ(driver_->outcome(seq), Outcome::kDelivered);
  cluster_.FailProduce({static_cast<rd_kafka_resp_err_t>(200)});
  const uint64_t next = driver_->Submit(2, epoch++, Numbered("puzzle", 0, 1, 1));
  ASSERT_TRUE(driver_->UntilResolved(20));
  EXPECT_EQ(driver_->error(next).error_class, D);
}

// What ends producer after producer, though no record is to blame, is shown.
TEST_F(KafkaSinkTest, ProducersThatEndInARowAreAWarning) {
  cluster_.CreateTopic("fenced", 1);
  Open();
  Warm("fenced", 1, 1);
  uint32_t epoch = 1;
  for (int i = 0; i < 3; ++i) {
    EXPECT_TRUE(sink_->health().warning.ok());
    cluster_.FailProduce({RD_KAFKA_RESP_ERR_INVALID_PRODUCER_EPOCH});
    const uint64_t seq = driver_->Submit(2, epoch++, Numbered("fenced", 0, 1, 1));
    ASSERT_TRUE(driver_->UntilResolved(20));
    EXPECT_EQ(driver_->outcome(seq), Outcome::kAborted);
  }
  EXPECT_EQ(sink_->health().warning.code, "INVALID_PRODUCER_EPOCH");
  EXPECT_EQ(sink_->health().warning.error_class, ErrorClass::kFatalClient);
  driver_->Submit(2, epoch++, Numbered("fenced", 0, 1, 1));
  ASSERT_TRUE(driver_->UntilResolved(20));
  EXPECT_TRUE(sink_->health().warning.ok());
}

// A broker that refuses a record for its topic has answered: there is nothing to wait for before the next one.
TEST_F(KafkaSinkTest, DeniedTopicsOneAfterAnotherSlowNothingDown) {
  Open();
  constexpr int kTopics = 9;  // with a delay that doubles: 12.7 s
  const int64_t begin = MonotonicMicros();
  for (int i = 0; i < kTopics; ++i) {
    const std::string topic = "denied-" + std::to_string(i);
    cluster_.CreateTopic(topic, 1);
    cluster_.FailProduce({RD_KAFKA_RESP_ERR_TOPIC_AUTHORIZATION_FAILED});
    const uint64_t seq = driver_->Submit(1, static_cast<uint32_t>(i) + 1, Numbered(topic, 0, 1, 1));
    ASSERT_TRUE(driver_->UntilResolved());
    EXPECT_EQ(driver_->outcome(seq), Outcome::kFailed);
    EXPECT_EQ(driver_->error(seq).error_class, ErrorClass::kTopic);
  }
  EXPECT_LT(MonotonicMicros() - begin, 8'000'000);
}

// Where a topic is denied for long, only the first of its refusals ends a producer.
TEST_F(KafkaSinkTest, ATopicThatStaysDeniedEndsNoProducerAgain) {
  cluster_.CreateTopic("barred", 2);
  cluster_.CreateTopic("beside", 1);
  Open();
  Warm("barred", 1, 2);
  const auto refuse = [&](uint32_t epoch) {
    cluster_.FailProduce({RD_KAFKA_RESP_ERR_TOPIC_AUTHORIZATION_FAILED});
    // Of one key, thus of one request: another partition's would not be refused.
    const uint64_t seq = driver_->Submit(1, epoch, Numbered("barred", 0, 3, 1));
    ASSERT_TRUE(driver_->UntilResolved());
    ASSERT_EQ(driver_->outcome(seq), Outcome::kFailed);
    EXPECT_EQ(driver_->error(seq).code, "TOPIC_AUTHORIZATION_FAILED");
  };
  refuse(1);
  refuse(2);
  EXPECT_EQ(producers_.made(), 2u);
  for (uint32_t epoch = 3; epoch < 7; ++epoch) {
    driver_->Until([] { return false; }, 0.7);  // care of a record that is refused is over by then
    refuse(epoch);
    const uint64_t beside = driver_->Submit(2, epoch, Numbered("beside", epoch, 1, 1));
    ASSERT_TRUE(driver_->UntilResolved());
    EXPECT_EQ(driver_->outcome(beside), Outcome::kDelivered) << driver_->error(beside).message;
  }
  const uint64_t taken = driver_->Submit(1, 7, Numbered("barred", 0, 20, 5));
  ASSERT_TRUE(driver_->UntilResolved());
  EXPECT_EQ(driver_->outcome(taken + 19), Outcome::kDelivered);
  EXPECT_EQ(Numbers(ReadAll(cluster_.bootstrap(), "barred", 2)).size(), 20u);
  EXPECT_EQ(Numbers(ReadAll(cluster_.bootstrap(), "beside", 1)).size(), 4u);
  EXPECT_EQ(producers_.made(), 2u);
}

// Nothing else of its partition is in flight: the broker itself has said that it has it.
TEST_F(KafkaSinkTest, ALoneBatchThatTheBrokerHadIsDelivered) {
  cluster_.CreateTopic("had", 1);
  Open();
  Warm("had", 1, 1);
  cluster_.FailProduce({RD_KAFKA_RESP_ERR_DUPLICATE_SEQUENCE_NUMBER});
  const uint64_t seq = driver_->Submit(1, 1, Numbered("had", 0, 1, 1));
  ASSERT_TRUE(driver_->UntilResolved(20));
  EXPECT_EQ(driver_->outcome(seq), Outcome::kDelivered);
  EXPECT_EQ(producers_.made(), 1u);
}

// The library says of it in no event: a user who may see topics and write to none.
TEST_F(KafkaSinkTest, AUserWhoMayWriteNowhereIsToldSo) {
  cluster_.CreateTopic("seen", 1);
  std::vector<rd_kafka_resp_err_t> refused(100, RD_KAFKA_RESP_ERR_CLUSTER_AUTHORIZATION_FAILED);
  rd_kafka_mock_push_request_errors_array(cluster_.get(), 22, refused.size(), refused.data());  // InitProducerId
  Open();
  driver_->Submit(1, 1, Numbered("seen", 0, 1, 1));
  EXPECT_TRUE(driver_->Until([&] { return !sink_->health().up; }, 10));
  EXPECT_EQ(sink_->health().error.code, "CLUSTER_AUTHORIZATION_FAILED");
  EXPECT_EQ(sink_->health().error.error_class, ErrorClass::kConfig);
  rd_kafka_mock_clear_request_errors(cluster_.get(), 22);
}

const CheckupRow* RowOf(const std::vector<CheckupRow>& rows, const char* check) {
  for (const CheckupRow& row : rows) {
    if (row.check == check) {
      return &row;
    }
  }
  return nullptr;
}

// One refusal is none: so a broker answers that is just getting ids from the controller.
TEST_F(KafkaSinkTest, ACheckupTellsThatThereIsNoProducerId) {
  cluster_.CreateTopic("looked-at", 1);
  CheckupRequest request;
  request.topic = "looked-at";
  request.timeout_ms = 2000;
  request.config.name = "test";
  request.config.options["bootstrap.servers"] = cluster_.bootstrap();
  for (const size_t times : {size_t{1}, size_t{1000}}) {
    const std::vector<rd_kafka_resp_err_t> refused(times, RD_KAFKA_RESP_ERR_COORDINATOR_LOAD_IN_PROGRESS);
    rd_kafka_mock_push_request_errors_array(cluster_.get(), 22, refused.size(), refused.data());  // InitProducerId
    const std::vector<CheckupRow> rows = CheckUp(request);
    rd_kafka_mock_clear_request_errors(cluster_.get(), 22);
    ASSERT_NE(RowOf(rows, "topic"), nullptr);
    EXPECT_TRUE(RowOf(rows, "topic")->error.ok());
    const CheckupRow* row = RowOf(rows, "producer id");
    ASSERT_EQ(row != nullptr, times > 1);
    EXPECT_EQ(RowOf(rows, "rights") == nullptr, times > 1);
    if (row != nullptr) {
      EXPECT_EQ(row->error.code, "NO_PRODUCER_ID");
      EXPECT_NE(row->error.message.find("(" + cluster_.bootstrap()), std::string::npos) << row->error.message;
      EXPECT_NE(row->hint.find("controllers"), std::string::npos) << row->hint;
    }
  }
}

// Brokers get producer ids from the controller. Where they get none, no other reason is told; and as soon as they do,
// records flow: the topic is not let alone for longer and longer.
TEST_F(KafkaSinkTest, NoProducerIdIsToldAsWhatItIs) {
  MockCluster cluster;
  cluster.CreateTopic("idless", 1);
  std::vector<rd_kafka_resp_err_t> refused(1000, RD_KAFKA_RESP_ERR_COORDINATOR_LOAD_IN_PROGRESS);
  rd_kafka_mock_push_request_errors_array(cluster.get(), 22, refused.size(), refused.data());  // InitProducerId
  OpenAt(cluster, {}, {.stalled = 1'000'000});
  std::string told;
  for (uint32_t epoch = 1; epoch <= 3; ++epoch) {
    const uint64_t seq = driver_->Submit(1, epoch, Numbered("idless", 0, 1, 1));
    ASSERT_TRUE(driver_->UntilResolved(10));
    ASSERT_EQ(driver_->outcome(seq), Outcome::kFailed);
    EXPECT_EQ(driver_->error(seq).code, "STALLED");
    told = driver_->error(seq).message;
    EXPECT_NE(told.find("no producer id"), std::string::npos) << told;
    EXPECT_NE(told.find("Coordinator load in progress): is there an active controller?"), std::string::npos) << told;
    EXPECT_EQ(told.find("replicas"), std::string::npos) << told;
    ASSERT_TRUE(driver_->Until([&] { return producers_.made() == epoch + 1; }));
    const int64_t again = MonotonicMicros() + 1'100'000;
    driver_->Until([&] { return MonotonicMicros() > again; });
  }
  rd_kafka_mock_clear_request_errors(cluster.get(), 22);
  const uint64_t last = driver_->Submit(1, 4, Numbered("idless", 0, 1, 1));
  ASSERT_TRUE(driver_->UntilResolved(10));
  EXPECT_EQ(driver_->outcome(last), Outcome::kDelivered);
  sink_->Close();
  sink_.reset();
  producers_.Join();
}

}  // namespace
}  // namespace outbox::sink::kafka
