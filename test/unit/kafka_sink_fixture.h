// A KafkaSink on the mock cluster, for tests.
#pragma once

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

}  // namespace outbox::sink::kafka
