// matrix: D6 D10 D15
// The Kafka sink against librdkafka's mock cluster: order, one record alone where a partition is cold, what is refused
// and what happens to everything around it. The mock does not check sequence numbers (a real broker's tests do).
#include <gtest/gtest.h>

#include "kafka_sink_fixture.h"

namespace outbox::sink::kafka {
namespace {

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
  EXPECT_EQ(producers_.made(), 1u);
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

// The first record of a topic among them, which the library is asked about; and others by their keys between them.
TEST_F(KafkaSinkTest, ARecordMayAskForItsPartition) {
  cluster_.CreateTopic("asked", 5);
  Open();
  std::vector<TestRecord> records = Numbered("asked", 0, 500, 7);
  for (size_t i = 0; i < records.size(); i += 2) {
    records[i].partition = static_cast<int32_t>(4 - i / 2 % 5);
  }
  driver_->Submit(1, 1, records);
  ASSERT_TRUE(driver_->UntilResolved());
  ASSERT_EQ(driver_->Count(Outcome::kDelivered), 500u);
  const std::vector<Stored> stored = ReadAll(cluster_.bootstrap(), "asked", 5);
  ASSERT_EQ(stored.size(), 500u);
  for (const Stored& record : stored) {
    const int i = std::stoi(*record.body);
    EXPECT_EQ(record.partition, i % 2 == 0 ? 4 - i / 2 % 5 : KafkaPartition(*record.key, 5)) << i;
  }
}

// It is the event's own trouble, not the topic's: before anything is known of the topic, when it is known, when it has
// been known for long, and sixty-five times.
TEST_F(KafkaSinkTest, APartitionThatIsNotThere) {
  cluster_.CreateTopic("short", 3);
  Open();
  const auto asks = [](int number, int32_t partition) {
    TestRecord record = Numbered("short", number, 1, 1)[0];
    record.partition = partition;
    return record;
  };
  const uint64_t first = driver_->Submit(1, 1, {asks(0, 3), asks(1, 2)});
  const uint64_t other = driver_->Submit(2, 1, {asks(2, 1), asks(3, 0), asks(4, Record::kByKey)});
  ASSERT_TRUE(driver_->UntilResolved());
  EXPECT_EQ(driver_->outcome(first), Outcome::kFailed);
  EXPECT_EQ(driver_->error(first).error_class, ErrorClass::kMessage);
  EXPECT_EQ(driver_->error(first).code, "NO_SUCH_PARTITION");
  EXPECT_EQ(driver_->outcome(first + 1), Outcome::kAborted);
  for (uint64_t i = 0; i < 3; ++i) {
    EXPECT_EQ(driver_->outcome(other + i), Outcome::kDelivered) << i;
  }
  for (uint32_t i = 0; i < 65; ++i) {
    const int32_t partition = i % 3 == 0 ? 3 : i % 3 == 1 ? 65'533 : INT32_MAX;
    const uint64_t asked = driver_->Submit(1, 2 + i, {asks(5, 2), asks(6, partition)});
    if (i % 32 == 1) {
      driver_->Until([] { return false; }, 1.1);  // the sink asks again what it has known for a second
    }
    ASSERT_TRUE(driver_->UntilResolved());
    EXPECT_EQ(driver_->outcome(asked), Outcome::kDelivered) << i;
    EXPECT_EQ(driver_->outcome(asked + 1), Outcome::kFailed) << i;
    EXPECT_EQ(driver_->error(asked + 1).code, "NO_SUCH_PARTITION") << i;
  }
  EXPECT_EQ(producers_.made(), 1u);
  EXPECT_EQ(ReadAll(cluster_.bootstrap(), "short", 3).size(), 3u + 65u);
}

TEST_F(KafkaSinkTest, AColdPartitionTakesOneRecordAlone) {
  cluster_.CreateTopic("cold", 1);
  Open();
  cluster_.SetRoundTrip(300);
  driver_->Submit(1, 1, Numbered("cold", 0, 100, 3));
  driver_->Turn();
  EXPECT_EQ(rd_kafka_outq_len(producers_.handle()), 1);
  ASSERT_TRUE(driver_->Until([&] { return driver_->outcome(0) == Outcome::kDelivered; }));
  EXPECT_EQ(rd_kafka_outq_len(producers_.handle()), 99);
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
  EXPECT_EQ(producers_.made(), 1u);
  // The old epoch is over; the next one is taken.
  const uint64_t late = driver_->Submit(1, 1, Numbered("sizes", 5, 1, 1));
  const uint64_t again = driver_->Submit(1, 2, Numbered("sizes", 5, 5, 1));
  ASSERT_TRUE(driver_->UntilResolved());
  EXPECT_EQ(driver_->outcome(late), Outcome::kAborted);
  EXPECT_EQ(driver_->outcome(again), Outcome::kDelivered);
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
