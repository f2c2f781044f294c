// A KafkaSink on the mock cluster, for tests.
#pragma once

#include <gtest/gtest.h>
#include <unistd.h>

#include <memory>
#include <set>

#include "base/murmur2.h"
#include "kafka_cluster.h"
#include "kafka_producer_watch.h"
#include "kafka_records.h"
#include "sink/kafka/errors.h"
#include "sink/kafka/kafka_sink.h"
#include "sink/places.h"
#include "sink_driver.h"

namespace outbox::sink::kafka {

class KafkaSinkTest : public testing::Test {
 protected:
  void Open(const Options& options = {}, Patience patience = {}) { OpenAt(cluster_, options, patience); }
  void OpenAt(MockCluster& cluster, const Options& options, Patience patience) {
    Settings settings = SettingsFor(cluster, options);
    settings.patience = patience;
    OpenWith(std::move(settings));
  }
  void OpenWith(Settings settings) {
    ASSERT_TRUE(KafkaSink::Make(std::move(settings), &sink_, producers_.life()).ok());
    driver_ = std::make_unique<Driver>(sink_.get());
  }
  static Settings SettingsFor(MockCluster& cluster, const Options& options) {
    SinkConfig config;
    config.name = "test";
    config.options = options;
    config.options["bootstrap.servers"] = cluster.bootstrap();
    Settings settings;
    EXPECT_TRUE(MakeSettings(config, &settings).ok());
    return settings;
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
    producers_.Join();
  }

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
  ProducerWatch producers_;
  std::unique_ptr<Sink> sink_;
  std::unique_ptr<Driver> driver_;
};

MockCluster* KafkaSinkTest::shared_ = nullptr;

}  // namespace outbox::sink::kafka
