// matrix: D19 R1
// KafkaSink with several topics in trouble at one moment: every record gets its outcome, healthy topics flow.
#include <gtest/gtest.h>

#include <random>

#include "kafka_sink_fixture.h"

namespace outbox::sink::kafka {
namespace {

// Sends as a lane does: in order, again what was aborted, and each topic in trouble goes on alone, as a side lane.
class Sender {
 public:
  Sender(Driver* driver, uint32_t first_flow) : driver_(driver), next_flow_(first_flow) {
    flows_.emplace_back(Flow{next_flow_++, 1, {}, {}, {}});
  }

  void Add(const TestRecord& record) {
    for (Flow& flow : flows_) {
      if (flow.topic == record.topic) {
        flow.ready.push_back(record);
        return;
      }
    }
    flows_.front().ready.push_back(record);
  }
  // One turn: what has its outcome is settled, what is ready is sent. A flow sends nothing while it waits for outcomes
  // after a failure, as a lane that drains.
  void Step() {
    for (size_t i = 0; i < flows_.size(); ++i) {
      Settle(i);
    }
    for (Flow& flow : flows_) {
      if (!flow.sent.empty() || flow.ready.empty()) {
        continue;
      }
      const size_t count = flow.topic.empty() ? flow.ready.size() : 1;
      std::vector<TestRecord> batch(flow.ready.begin(), flow.ready.begin() + static_cast<std::ptrdiff_t>(count));
      flow.ready.erase(flow.ready.begin(), flow.ready.begin() + static_cast<std::ptrdiff_t>(count));
      const uint64_t seq = driver_->Submit(flow.number, flow.epoch, batch);
      for (size_t j = 0; j < batch.size(); ++j) {
        flow.sent.push_back({seq + j, batch[j]});
      }
    }
  }
  size_t left() const {
    size_t left = 0;
    for (const Flow& flow : flows_) {
      left += flow.ready.size() + flow.sent.size();
    }
    return left;
  }
  size_t sides() const { return flows_.size() - 1; }
  const std::map<std::string, int>& delivered() const { return delivered_; }
  const std::map<std::string, Error>& errors() const { return errors_; }

 private:
  struct Sent {
    uint64_t seq;
    TestRecord record;
  };
  struct Flow {
    uint32_t number;
    uint32_t epoch;
    std::string topic;  // "": the lane's
    std::deque<TestRecord> ready;
    std::vector<Sent> sent;
  };

  void Settle(size_t at) {
    for (const Sent& sent : flows_[at].sent) {
      if (driver_->outcome(sent.seq) == Outcome{}) {
        return;
      }
    }
    std::vector<Sent> settled = std::exchange(flows_[at].sent, {});
    std::deque<TestRecord> again;
    bool undone = false;
    for (Sent& sent : settled) {
      const Outcome outcome = driver_->outcome(sent.seq);
      if (outcome == Outcome::kDelivered) {
        ++delivered_[sent.record.topic];
        continue;
      }
      undone = true;
      if (outcome == Outcome::kFailed) {
        const Error& error = driver_->error(sent.seq);
        errors_[sent.record.topic] = error;
        if (error.error_class == ErrorClass::kTopic && flows_[at].topic.empty()) {
          Leave(sent.record.topic);
        }
      }
      again.push_back(std::move(sent.record));
    }
    flows_[at].epoch += undone ? 1 : 0;
    again.insert(again.end(), flows_[at].ready.begin(), flows_[at].ready.end());
    flows_[at].ready.clear();
    for (TestRecord& record : again) {
      if (flows_[at].topic.empty()) {
        Add(record);
      } else {
        flows_[at].ready.push_back(std::move(record));
      }
    }
  }
  void Leave(const std::string& topic) {
    for (const Flow& flow : flows_) {
      if (flow.topic == topic) {
        return;
      }
    }
    flows_.push_back({next_flow_++, 1, topic, {}, {}});
  }

  Driver* driver_;
  uint32_t next_flow_;
  std::deque<Flow> flows_;
  std::map<std::string, int> delivered_;
  std::map<std::string, Error> errors_;
};

class KafkaTopicsTest : public KafkaSinkTest {
 protected:
  // librdkafka 2.8 crashes where a topic's error comes with its partitions, of which it knows none. Only its mock
  // cluster sends such an answer, for every error but this one; a broker sends no partitions of a topic that it
  // refuses.
  static constexpr bool AnswerCrashes(int version) { return version >= 0x02080000 && version < 0x02090000; }
  void SetError(const std::string& topic, rd_kafka_resp_err_t error) {
    if (error != RD_KAFKA_RESP_ERR_NO_ERROR && AnswerCrashes(rd_kafka_version())) {
      error = RD_KAFKA_RESP_ERR_UNKNOWN_TOPIC_OR_PART;
    }
    rd_kafka_mock_topic_set_error(cluster_.get(), topic.c_str(), error);
  }
};

class KafkaMissingTest : public KafkaTopicsTest, public testing::WithParamInterface<int> {};

TEST_P(KafkaMissingTest, AllAtOnceAndTheOthersFlow) {
  const int missing = GetParam();
  const std::string prefix = "many" + std::to_string(missing) + "-";
  const std::string good = prefix + "good";
  cluster_.CreateTopic(good, 1);
  std::vector<TestRecord> records;
  for (int i = 0; i < missing; ++i) {
    const std::string topic = prefix + std::to_string(i);
    SetError(topic, i % 2 == 1 && missing % 2 == 1 ? RD_KAFKA_RESP_ERR_TOPIC_AUTHORIZATION_FAILED
                                                   : RD_KAFKA_RESP_ERR_UNKNOWN_TOPIC_OR_PART);
    records.push_back({topic, "k", std::to_string(i), RecordForm::kStream, {}});
  }
  records.push_back({good, "k", "good", RecordForm::kStream, {}});
  Open({{"topic.metadata.propagation.max.ms", "300"}},
       {.stalled = 1'000'000});  // the library says nothing of the forbidden ones here
  Sender sender(driver_.get(), 1);
  for (const TestRecord& record : records) {
    sender.Add(record);
  }
  ASSERT_TRUE(driver_->Until([&] { return sender.Step(), sender.delivered().count(good) == 1; }, 20));
  ASSERT_TRUE(driver_->Until([&] { return sender.Step(), sender.sides() == static_cast<size_t>(missing); }, 20));
  for (const auto& [topic, error] : sender.errors()) {
    EXPECT_EQ(error.error_class, ErrorClass::kTopic) << topic;
    EXPECT_NE(error.message.find(topic), std::string::npos);
  }
  for (const TestRecord& record : records) {
    SetError(record.topic, RD_KAFKA_RESP_ERR_NO_ERROR);
  }
  ASSERT_TRUE(driver_->Until([&] { return sender.Step(), sender.left() == 0; }, 30));
  EXPECT_EQ(sender.delivered().size(), records.size());
  EXPECT_TRUE(sink_->health().up);
}

// Odd ones: every second is forbidden.
INSTANTIATE_TEST_SUITE_P(Topics, KafkaMissingTest, testing::Values(1, 2, 3, 18, 65));

// What a topic is asked about first is refused after its flow has failed, and flows of other lanes wait behind it.
TEST_F(KafkaTopicsTest, TwoLanesWithTheSameMissingTopics) {
  for (int i = 0; i < 3; ++i) {
    SetError("same-" + std::to_string(i), RD_KAFKA_RESP_ERR_UNKNOWN_TOPIC_OR_PART);
  }
  Open({{"topic.metadata.propagation.max.ms", "300"}});
  for (uint32_t flow = 1; flow <= 3; ++flow) {
    std::vector<TestRecord> records;
    for (int i = 0; i < 6; ++i) {
      records.push_back(
          {"same-" + std::to_string((i + static_cast<int>(flow)) % 3), "k", "v", RecordForm::kStream, {}});
    }
    driver_->Submit(flow, 1, records);
  }
  ASSERT_TRUE(driver_->UntilResolved(20));
  EXPECT_GE(driver_->Count(Outcome::kFailed), 3u);
  EXPECT_EQ(driver_->Count(Outcome::kDelivered), 0u);
  EXPECT_EQ(producers_.made(), 1u);
}

// What is asked about topics in trouble costs the others nothing, however long the answers take.
TEST_F(KafkaTopicsTest, NoCallWaitsForTheCluster) {
  constexpr int64_t kRoundTripMs = 200;
  constexpr uint32_t kTopics = 4;
  for (uint32_t i = 0; i < kTopics; ++i) {
    SetError("slow-" + std::to_string(i), RD_KAFKA_RESP_ERR_UNKNOWN_TOPIC_OR_PART);
  }
  Open({{"topic.metadata.propagation.max.ms", "300"}});
  int64_t quickest = INT64_MAX;  // of some, as the machine may be busy
  for (uint32_t epoch = 1; epoch <= 4; ++epoch) {
    const int64_t begin = MonotonicMicros();
    for (uint32_t i = 0; i < kTopics; ++i) {
      driver_->Submit(i, epoch, {{"slow-" + std::to_string(i), "k", "v", RecordForm::kStream, {}}});
    }
    if (epoch == 1) {
      ASSERT_TRUE(driver_->UntilResolved(20));
      cluster_.SetRoundTrip(kRoundTripMs);
      continue;
    }
    quickest = std::min(quickest, MonotonicMicros() - begin);
    ASSERT_TRUE(driver_->UntilResolved(20));
  }
  EXPECT_EQ(driver_->Count(Outcome::kFailed), driver_->submitted());
  EXPECT_LT(quickest, kRoundTripMs * 1000);
}

// Nothing is delivered that could show that the cluster is well, and it answers slowly.
TEST_F(KafkaTopicsTest, ForbiddenAloneAtASlowCluster) {
  if (AnswerCrashes(rd_kafka_version())) {
    GTEST_SKIP() << "no topic can be forbidden at the mock cluster of this library";
  }
  SetError("forbidden-alone", RD_KAFKA_RESP_ERR_TOPIC_AUTHORIZATION_FAILED);
  cluster_.SetRoundTrip(800);  // more than is waited for what the cluster knows of one topic
  Open({}, {.stalled = 1'000'000});
  driver_->Submit(1, 1, {{"forbidden-alone", "k", "v", RecordForm::kStream, {}}});
  ASSERT_TRUE(driver_->UntilResolved(30));
  EXPECT_EQ(driver_->error(0).error_class, ErrorClass::kTopic);
}

// Any number of topics, any trouble, at any moment.
class KafkaAnyTroubleTest : public KafkaTopicsTest, public testing::WithParamInterface<int> {
 protected:
  // Until nothing is left. False: nothing of it went for 20 s. How long it takes in all is the machine's business.
  bool Drains(const std::function<size_t()>& left) {
    for (size_t before = left(); before > 0;) {
      size_t now = before;
      if (!driver_->Until([&] { return (now = left()) < before; }, 20)) {
        return false;
      }
      before = now;
    }
    return true;
  }
};

TEST_P(KafkaAnyTroubleTest, EachRecordHasOneOutcomeAndHealthyTopicsFlow) {
  std::minstd_rand random(static_cast<unsigned>(GetParam()));
  const auto below = [&](int n) { return static_cast<int>(random() % static_cast<unsigned>(n)); };
  const int topics = 1 + below(40);
  const std::string prefix = "any" + std::to_string(GetParam()) + "-";
  const std::string good = prefix + "good";
  cluster_.CreateTopic(good, 2);
  const auto trouble = [&](int i) {
    static constexpr rd_kafka_resp_err_t kErrors[] = {
        RD_KAFKA_RESP_ERR_UNKNOWN_TOPIC_OR_PART, RD_KAFKA_RESP_ERR_TOPIC_AUTHORIZATION_FAILED,
        RD_KAFKA_RESP_ERR_TOPIC_EXCEPTION, RD_KAFKA_RESP_ERR_LEADER_NOT_AVAILABLE, RD_KAFKA_RESP_ERR_NO_ERROR};
    SetError(prefix + std::to_string(i), kErrors[below(5)]);
  };
  for (int i = 0; i < topics; ++i) {
    trouble(i);
  }
  Open({{"topic.metadata.propagation.max.ms", "200"}, {"retry.backoff.ms", "10"}}, {.stalled = 1'000'000});
  std::deque<Sender> lanes;
  for (uint32_t lane = 0; lane < 1 + static_cast<uint32_t>(below(3)); ++lane) {
    lanes.emplace_back(driver_.get(), 1000 * (lane + 1));
  }
  int sent = 0;
  int good_sent = 0;
  const int64_t end = MonotonicMicros() + 1'500'000;
  while (MonotonicMicros() < end) {
    for (Sender& lane : lanes) {
      for (int i = below(4); i > 0; --i) {
        const bool healthy = below(3) == 0;
        good_sent += healthy;
        lane.Add({healthy ? good : prefix + std::to_string(below(topics)),
                  "k" + std::to_string(below(5)),
                  std::to_string(sent++),
                  RecordForm::kStream,
                  {}});
      }
      lane.Step();
    }
    if (below(10) == 0) {
      trouble(below(topics));
    }
    if (below(60) == 0) {
      static constexpr rd_kafka_resp_err_t kRefusals[] = {
          RD_KAFKA_RESP_ERR_TOPIC_AUTHORIZATION_FAILED, RD_KAFKA_RESP_ERR_POLICY_VIOLATION,
          RD_KAFKA_RESP_ERR_INVALID_RECORD, RD_KAFKA_RESP_ERR_OUT_OF_ORDER_SEQUENCE_NUMBER};
      cluster_.FailProduce({kRefusals[below(4)]});
    }
    driver_->Turn(5000);
  }
  // Half stay in trouble to the end: what is healthy flows all the same.
  rd_kafka_mock_clear_request_errors(cluster_.get(), 0);
  const auto good_left = [&] {
    int delivered = 0;
    for (Sender& lane : lanes) {
      lane.Step();
      delivered += lane.delivered().count(good) != 0 ? lane.delivered().at(good) : 0;
    }
    return static_cast<size_t>(good_sent - delivered);
  };
  EXPECT_TRUE(Drains(good_left)) << good_left() << " of " << good_sent;
  for (int i = 0; i < topics; ++i) {
    SetError(prefix + std::to_string(i), RD_KAFKA_RESP_ERR_NO_ERROR);
  }
  const auto left = [&] {
    size_t count = 0;
    for (Sender& lane : lanes) {
      lane.Step();
      count += lane.left();
    }
    return count;
  };
  EXPECT_TRUE(Drains(left)) << left() << " of " << sent;
  EXPECT_TRUE(driver_->UntilResolved());
}

INSTANTIATE_TEST_SUITE_P(Seeds, KafkaAnyTroubleTest, testing::Range(1, 4));

}  // namespace
}  // namespace outbox::sink::kafka
