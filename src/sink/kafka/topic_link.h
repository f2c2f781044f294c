// A topic as one instance of the library knows it [-].
#pragma once

#include <librdkafka/rdkafka.h>

#include <atomic>
#include <cstdint>

#include "sink/kafka/client_settings.h"

namespace outbox::sink::kafka {

struct Topic;

// What the partitioner knows of a topic: it may run in a library thread, so it lives as long as the handle.
struct TopicLink {
  Topic* topic = nullptr;  // for reports, on the sink's thread
  rd_kafka_topic_t* handle = nullptr;
  PartitionerFunction partitioner = nullptr;
  bool hash_null_keys = false;
  std::atomic<int32_t> partitions{0};  // as of the last record that the library was asked to place; 0: unknown
};

}  // namespace outbox::sink::kafka
