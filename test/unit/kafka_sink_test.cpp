// matrix: D6 D10 D15
// The Kafka sink against librdkafka's mock cluster: order, one record alone where a partition is cold, what is refused
// and what happens to everything around it. The mock does not check sequence numbers (a real broker's tests do).
#include <gtest/gtest.h>
#include <unistd.h>

#include <memory>
#include <set>

#include "base/murmur2.h"
#include "kafka_cluster.h"
#include "kafka_records.h"
#include "sink/kafka/errors.h"
#include "sink/kafka/kafka_sink.h"
#include "sink/places.h"
#include "sink_driver.h"

namespace outbox::sink::kafka {
namespace {

class KafkaSinkTest : public testing::Test {
 protected:
  void Open(const Options& options = {}) {
    SinkConfig config;
    config.name = "test";
    config.options = options;
    config.options["bootstrap.servers"] = cluster_.bootstrap();
    ASSERT_TRUE(KafkaSink::Make(config, &sink_).ok());
    driver_ = std::make_unique<Driver>(sink_.get());
  }
  static void SetUpTestSuite() {
    if (shared_ == nullptr) {
      shared_ = new MockCluster;
    }
  }
  void TearDown() override {
    cluster_.Heal();
    if (sink_ != nullptr) {
      sink_->Close();
    }
    sink_.reset();
    EXPECT_TRUE(WaitForRetired(20000));
  }
  KafkaSink& kafka() { return static_cast<KafkaSink&>(*sink_); }

  // One record per partition is acknowledged, so that none is cold.
  void Warm(const std::string& topic, uint32_t flow, int partitions) {
    std::vector<TestRecord> records;
    for (int32_t partition = 0; partition < partitions; ++partition) {
      int i = 0;
      while (KafkaPartition("warm-" + std::to_string(i), partitions) != partition) {
        ++i;
      }
      records.push_back({topic, "warm-" + std::to_string(i), "-1", RecordForm::kStream, {}});
    }
    driver_->Submit(flow, 1, records);
    ASSERT_TRUE(driver_->UntilResolved());
    ASSERT_EQ(driver_->Count(Outcome::kDelivered), driver_->submitted());
  }
  static MockCluster* shared_;  // lives as long as the process
  MockCluster& cluster_ = *shared_;
  std::unique_ptr<Sink> sink_;
  std::unique_ptr<Driver> driver_;
};

MockCluster* KafkaSinkTest::shared_ = nullptr;

TEST_F(KafkaSinkTest, DeliversInOrderToTheJavaPartition) {
  cluster_.CreateTopic("orders", 5);
  Open();
  for (int i = 0; i < 10; ++i) {
    driver_->Submit(static_cast<uint32_t>(i % 2), 1, Numbered("orders", i * 500, 500, 40, i % 2 == 0 ? "a-" : "b-"));
  }
  ASSERT_TRUE(driver_->UntilResolved(30));
  EXPECT_EQ(driver_->Count(Outcome::kDelivered), 5000u);
  const std::vector<Stored> stored = ReadAll(cluster_.bootstrap(), "orders", 5);
  ExpectOrdered(stored, 5000);
  for (const Stored& record : stored) {
    ASSERT_EQ(record.partition, KafkaPartition(*record.key, 5));
  }
  EXPECT_EQ(kafka().producers(), 1u);
}

TEST_F(KafkaSinkTest, EveryPartOfARecordArrives) {
  cluster_.CreateTopic("parts", 1);
  Open();
  std::string packed;
  Record record;
  record.topic = "parts";
  record.fields = {{"id", "1"}, {"empty", ""}, {"bytes", std::string_view("\0\xff", 2)}};
  record.key = "k";
  record.body = std::string_view("b\0dy", 4);
  ASSERT_TRUE(PackRecord(record, &packed));
  record.fields.clear();
  record.body = {};
  ASSERT_TRUE(PackRecord(record, &packed));  // a tombstone
  record.key = {};
  record.body = "";
  ASSERT_TRUE(PackRecord(record, &packed));  // no key, empty body
  record.key = "";
  ASSERT_TRUE(PackRecord(record, &packed));  // an empty key is a key
  sink_->Submit({1, 1, 0, 4, packed});
  std::vector<Result> results;
  const int64_t end = MonotonicMicros() + 10'000'000;
  uint32_t delivered = 0;
  while (delivered < 4 && MonotonicMicros() < end) {
    results.clear();
    sink_->Poll(&results);
    for (const Result& result : results) {
      ASSERT_EQ(result.outcome, Outcome::kDelivered);
      delivered += result.count;
    }
    usleep(1000);
  }
  ASSERT_EQ(delivered, 4u);
  const std::vector<Stored> stored = ReadAll(cluster_.bootstrap(), "parts", 1);
  ASSERT_EQ(stored.size(), 4u);
  EXPECT_EQ(stored[0].key, "k");
  EXPECT_EQ(stored[0].body, std::string("b\0dy", 4));
  EXPECT_EQ(stored[0].headers,
            (std::map<std::string, std::string>{{"id", "1"}, {"empty", ""}, {"bytes", std::string("\0\xff", 2)}}));
  EXPECT_EQ(stored[1].key, "k");
  EXPECT_FALSE(stored[1].body.has_value());
  EXPECT_FALSE(stored[2].key.has_value());
  EXPECT_TRUE(stored[2].body.has_value());
  EXPECT_EQ(stored[2].body, "");
  EXPECT_EQ(stored[3].key, "");
}

TEST_F(KafkaSinkTest, AColdPartitionTakesOneRecordAlone) {
  cluster_.CreateTopic("cold", 1);
  Open();
  cluster_.SetRoundTrip(300);
  driver_->Submit(1, 1, Numbered("cold", 0, 100, 3));
  driver_->Turn();
  EXPECT_EQ(rd_kafka_outq_len(kafka().handle()), 1);
  ASSERT_TRUE(driver_->Until([&] { return driver_->outcome(0) == Outcome::kDelivered; }));
  EXPECT_EQ(rd_kafka_outq_len(kafka().handle()), 99);
  cluster_.SetRoundTrip(0);
  ASSERT_TRUE(driver_->UntilResolved());
  ExpectOrdered(ReadAll(cluster_.bootstrap(), "cold", 1), 100);
}

TEST_F(KafkaSinkTest, AnOversizeRecordConcernsItsFlowOnly) {
  cluster_.CreateTopic("sizes", 2);
  Open({{"message.max.bytes", "2000"}});
  Warm("sizes", 9, 2);
  std::vector<TestRecord> records = Numbered("sizes", 0, 10, 1);
  records[4].body = std::string(3000, 'x');
  const uint64_t first = driver_->Submit(1, 1, records);
  const uint64_t other = driver_->Submit(2, 1, Numbered("sizes", 100, 10, 1));
  ASSERT_TRUE(driver_->UntilResolved());
  for (uint64_t i = 0; i < 10; ++i) {
    EXPECT_EQ(driver_->outcome(first + i),
              i < 4 ? Outcome::kDelivered : (i == 4 ? Outcome::kFailed : Outcome::kAborted))
        << i;
    EXPECT_EQ(driver_->outcome(other + i), Outcome::kDelivered);
  }
  EXPECT_EQ(driver_->error(first + 4).error_class, ErrorClass::kMessage);
  EXPECT_EQ(driver_->error(first + 4).code, "MSG_SIZE_TOO_LARGE");
  EXPECT_EQ(kafka().producers(), 1u);
  // The old epoch is over; the next one is taken.
  const uint64_t late = driver_->Submit(1, 1, Numbered("sizes", 5, 1, 1));
  const uint64_t again = driver_->Submit(1, 2, Numbered("sizes", 5, 5, 1));
  ASSERT_TRUE(driver_->UntilResolved());
  EXPECT_EQ(driver_->outcome(late), Outcome::kAborted);
  EXPECT_EQ(driver_->outcome(again), Outcome::kDelivered);
}

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
  if (code != RD_KAFKA_RESP_ERR_REQUEST_TIMED_OUT && code != RD_KAFKA_RESP_ERR_NOT_LEADER_FOR_PARTITION &&
      code != RD_KAFKA_RESP_ERR_NOT_ENOUGH_REPLICAS) {
    EXPECT_GE(kafka().producers(), 2u);
  }
  EXPECT_EQ(static_cast<int>(Numbers(ReadAll(cluster_.bootstrap(), topic, 3)).size()), 800 - charged);
}

// Also codes that the library retries by itself: it takes a later success for an earlier one's, which is not so where
// the broker takes any sequence number, as the mock does (and a real one for a topic that was made anew).
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
  EXPECT_EQ(driver_->error(seq).error_class, ErrorClass::kMessage);
  EXPECT_EQ(driver_->error(seq).code, "INVALID_RECORD");
  const uint64_t next = driver_->Submit(2, 2, Numbered("alone", 1, 1, 1));
  ASSERT_TRUE(driver_->UntilResolved());
  EXPECT_EQ(driver_->outcome(next), Outcome::kDelivered);
  EXPECT_EQ(kafka().producers(), 2u);
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
  EXPECT_EQ(kafka().producers(), 1u);
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
  EXPECT_EQ(kafka().producers(), 1u);
}

// One broker is slow and its topic counts as stalled: the library still has the record that is named, and reports it
// later. That report must not be taken for another record's.
TEST_F(KafkaSinkTest, AStalledRecordIsFailedOnlyWhenTheLibraryHasLetGo) {
  MockCluster cluster(2);
  cluster.CreateTopic("slow", 1);
  cluster.CreateTopic("fine", 1);
  rd_kafka_mock_partition_set_leader(cluster.get(), "slow", 0, 1);
  rd_kafka_mock_partition_set_leader(cluster.get(), "fine", 0, 2);
  SinkConfig config;
  config.options["bootstrap.servers"] = cluster.bootstrap();
  ASSERT_TRUE(KafkaSink::Make(config, &sink_).ok());
  driver_ = std::make_unique<Driver>(sink_.get());
  kafka().set_stalled_micros(300'000);
  Warm("slow", 1, 1);
  Warm("fine", 2, 1);
  rd_kafka_mock_broker_set_rtt(cluster.get(), 1, 2500);
  const uint64_t slow = driver_->Submit(1, 1, Numbered("slow", 0, 1, 1));
  ASSERT_TRUE(driver_->Until([&] {
    driver_->Submit(2, 1, Numbered("fine", 0, 1, 1));
    return driver_->outcome(slow) != Outcome{} || rd_kafka_outq_len(kafka().handle()) > 20 ||
           driver_->submitted() - driver_->resolved() > 20;
  }));
  const uint64_t next = driver_->Submit(3, 1, Numbered("slow", 1, 1, 1));  // held by the sink: the producer is ending
  ASSERT_TRUE(driver_->UntilResolved(10));
  EXPECT_EQ(driver_->outcome(slow), Outcome::kDelivered);
  EXPECT_EQ(driver_->outcome(next), Outcome::kAborted);
  rd_kafka_mock_broker_set_rtt(cluster.get(), 1, 0);
  sink_->Close();
  sink_.reset();
  EXPECT_TRUE(WaitForRetired(20000));
  EXPECT_EQ(ReadAll(cluster.bootstrap(), "slow", 1).size(), 2u);
}

TEST_F(KafkaSinkTest, ATopicWithoutALeaderIsInTroubleWhileOthersFlow) {
  cluster_.CreateTopic("led", 1);
  cluster_.CreateTopic("leaderless", 1);
  Open();
  kafka().set_stalled_micros(300'000);
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
  ASSERT_TRUE(driver_->Until([&] { return kafka().producers() == 2; }));
  // Tried again and again it costs nobody a producer, and fails at once.
  uint32_t epoch = 2;
  for (int i = 0; i < 20; ++i) {
    const uint64_t again = driver_->Submit(2, epoch++, Numbered("leaderless", 0, 1, 1));
    const uint64_t other = driver_->Submit(1, 2, Numbered("led", 0, 1, 1));
    ASSERT_TRUE(driver_->Until([&] { return driver_->outcome(again) != Outcome{}; }, 2));
    EXPECT_EQ(driver_->error(again).code, "STALLED");
    ASSERT_TRUE(driver_->UntilResolved());
    EXPECT_EQ(driver_->outcome(other), Outcome::kDelivered);
  }
  EXPECT_EQ(kafka().producers(), 2u);
  // It heals by itself.
  rd_kafka_mock_partition_set_leader(cluster_.get(), "leaderless", 0, 1);
  uint64_t healed = 0;
  ASSERT_TRUE(driver_->Until([&] {
    healed = driver_->Submit(2, epoch++, Numbered("leaderless", 0, 1, 1));
    EXPECT_TRUE(driver_->UntilResolved());
    return driver_->outcome(healed) == Outcome::kDelivered;
  }));
  EXPECT_EQ(kafka().producers(), 2u);
}

// Nothing else is sent: that the cluster answers is proof enough.
TEST_F(KafkaSinkTest, ATopicThatLosesItsLeaderIsInTroubleOnItsOwn) {
  cluster_.CreateTopic("deposed", 1);
  Open();
  kafka().set_stalled_micros(300'000);
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
TEST_F(KafkaSinkTest, NoTopicIsBlamedWhileNobodyAnswers) {
  MockCluster cluster(1);
  cluster.CreateTopic("hangs", 1);
  SinkConfig config;
  config.options["bootstrap.servers"] = cluster.bootstrap();
  ASSERT_TRUE(KafkaSink::Make(config, &sink_).ok());
  driver_ = std::make_unique<Driver>(sink_.get());
  kafka().set_stalled_micros(300'000);
  Warm("hangs", 1, 1);
  rd_kafka_mock_broker_set_rtt(cluster.get(), 1, 4000);
  driver_->Submit(1, 1, Numbered("hangs", 0, 10, 1));
  ASSERT_TRUE(driver_->Until([&] { return !sink_->health().up; }));
  EXPECT_EQ(sink_->health().error.error_class, ErrorClass::kDestination);
  ASSERT_TRUE(driver_->UntilResolved(20));
  EXPECT_EQ(driver_->Count(Outcome::kDelivered), 11u);
  EXPECT_EQ(kafka().producers(), 1u);
  rd_kafka_mock_broker_set_rtt(cluster.get(), 1, 0);
  sink_->Close();
  sink_.reset();
  EXPECT_TRUE(WaitForRetired(20000));
}

// The list of codes grows with every broker: destination trouble, and after a while the topic's, never the event's.
TEST_F(KafkaSinkTest, ACodeNobodyKnowsIsTheTopicsAfterAWhile) {
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

// What ends producer after producer though nobody is to blame is shown.
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

// Every record is within what was told of its flow and partition, and both ends are records of the flow.
TEST_F(KafkaSinkTest, PlacesAreWhereTheRecordsAre) {
  cluster_.CreateTopic("places", 3);
  Open();
  for (int i = 0; i < 6; ++i) {
    const uint32_t flow = static_cast<uint32_t>(i % 2);
    driver_->Submit(flow, 1, Numbered("places", i * 300, 300, 40, flow == 0 ? "a-" : "b-"));
  }
  ASSERT_TRUE(driver_->UntilResolved(30));
  ASSERT_EQ(driver_->Count(Outcome::kDelivered), 1800u);
  Places merged;
  for (const Place& place : driver_->places()) {
    EXPECT_EQ(place.topic, "places");
    merged.Add(place);
  }
  std::map<std::pair<uint32_t, int32_t>, std::pair<int64_t, int64_t>> wanted;
  for (const Stored& record : ReadAll(cluster_.bootstrap(), "places", 3)) {
    const uint32_t flow = record.key->starts_with("a-") ? 0 : 1;
    auto [found, fresh] = wanted.try_emplace({flow, record.partition}, record.offset, record.offset);
    found->second.first = std::min(found->second.first, record.offset);
    found->second.second = std::max(found->second.second, record.offset);
  }
  std::vector<Place> places;
  merged.Take(&places);
  EXPECT_EQ(places.size(), wanted.size());
  for (const Place& place : places) {
    const auto& range = wanted[{place.flow, place.partition}];
    EXPECT_EQ(place.first, std::to_string(range.first)) << place.flow << "/" << place.partition;
    EXPECT_EQ(place.last, std::to_string(range.second)) << place.flow << "/" << place.partition;
  }
}

TEST_F(KafkaSinkTest, RecordsWithoutAKeyAreSpread) {
  cluster_.CreateTopic("spread", 4);
  Open();
  for (int i = 0; i < 40; ++i) {
    driver_->Submit(1, 1, {{"spread", "", "a", RecordForm::kStream, {}}, {"spread", "", "b", RecordForm::kStream, {}}});
    ASSERT_TRUE(driver_->UntilResolved());
  }
  std::map<int32_t, int> per_partition;
  for (const Stored& record : ReadAll(cluster_.bootstrap(), "spread", 4)) {
    EXPECT_FALSE(record.key.has_value());
    ++per_partition[record.partition];
  }
  EXPECT_EQ(per_partition.size(), 4u);
}

TEST_F(KafkaSinkTest, CloseForgetsWhatIsUnresolved) {
  cluster_.CreateTopic("closed", 1);
  Open();
  rd_kafka_mock_broker_set_down(cluster_.get(), 1);
  driver_->Submit(1, 1, Numbered("closed", 0, 1000, 5));
  driver_->Turn();
  sink_->Close();
  std::vector<Result> results;
  sink_->Poll(&results);
  EXPECT_TRUE(results.empty());
  std::vector<WaitSpec> waits;
  sink_->AppendWaits(&waits);
  EXPECT_TRUE(waits.empty());
}

// The library's default for GSSAPI is to run kinit in a shell.
TEST(KafkaSink, KerberosRunsNoProgram) {
  SinkConfig config;
  config.options = {{"security.protocol", "sasl_plaintext"}, {"sasl.mechanism", "GSSAPI"}};
  Settings settings;
  ASSERT_TRUE(MakeSettings(config, &settings).ok());
  rd_kafka_conf_t* conf = nullptr;
  ASSERT_TRUE(settings.MakeConf(&conf).ok());
  char value[256] = "";
  size_t size = sizeof value;
  if (rd_kafka_conf_get(conf, "sasl.kerberos.kinit.cmd", value, &size) == RD_KAFKA_CONF_OK) {
    EXPECT_STREQ(value, ":");
    size = sizeof value;
    EXPECT_EQ(rd_kafka_conf_get(conf, "sasl.kerberos.min.time.before.relogin", value, &size), RD_KAFKA_CONF_OK);
    EXPECT_STREQ(value, "0");
  }
  rd_kafka_conf_destroy(conf);
}

TEST(KafkaSink, ABadOptionIsConfiguration) {
  SinkConfig config;
  config.options = {{"linger.ms", "soon"}, {"sasl.password", "hunter2"}};
  std::unique_ptr<Sink> sink;
  const Status status = KafkaSink::Make(config, &sink);
  EXPECT_EQ(status.error().error_class, ErrorClass::kConfig);
  EXPECT_NE(status.error().message.find("linger.ms"), std::string::npos);
  EXPECT_EQ(status.error().message.find("hunter2"), std::string::npos);
}

}  // namespace
}  // namespace outbox::sink::kafka
