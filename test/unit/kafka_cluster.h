// A mock cluster of librdkafka in this process, and a reader of what it holds.
#pragma once

#include <gtest/gtest.h>
#include <librdkafka/rdkafka.h>
#include <librdkafka/rdkafka_mock.h>

#include <map>
#include <optional>
#include <string>
#include <vector>

namespace outbox::sink::kafka {

struct Stored {
  int32_t partition;
  int64_t offset;
  std::optional<std::string> key;
  std::optional<std::string> body;
  std::map<std::string, std::string> headers;
};

inline rd_kafka_t* MakeClient(rd_kafka_type_t type, const std::map<std::string, std::string>& properties) {
  char text[512];
  rd_kafka_conf_t* conf = rd_kafka_conf_new();
  for (const auto& [name, value] : properties) {
    EXPECT_EQ(rd_kafka_conf_set(conf, name.c_str(), value.c_str(), text, sizeof text), RD_KAFKA_CONF_OK) << text;
  }
  rd_kafka_t* client = rd_kafka_new(type, conf, text, sizeof text);
  EXPECT_NE(client, nullptr) << text;
  return client;
}

// Everything in the topic now, partition by partition. The reader is kept: closing one takes a second.
inline std::vector<Stored> ReadAll(const std::string& bootstrap, const std::string& topic, int partitions) {
  struct Reader {
    rd_kafka_t* client = nullptr;
    std::string bootstrap;
    void Close() {
      if (client != nullptr) {
        rd_kafka_consumer_close(client);
        rd_kafka_destroy(client);
      }
    }
  };
  // Never closed at exit: librdkafka 2.0.2 can wait there for ever for a broker that was killed.
  static Reader& reader = *new Reader;
  if (reader.bootstrap != bootstrap) {
    reader.Close();
    reader.bootstrap = bootstrap;
    reader.client = MakeClient(RD_KAFKA_CONSUMER, {{"bootstrap.servers", bootstrap},
                                                   {"group.id", "reader"},
                                                   {"enable.auto.commit", "false"},
                                                   {"enable.partition.eof", "true"},
                                                   {"fetch.wait.max.ms", "50"},
                                                   {"fetch.error.backoff.ms", "10"},
                                                   {"log_level", "0"},
                                                   {"auto.offset.reset", "earliest"}});
    rd_kafka_poll_set_consumer(reader.client);
  }
  rd_kafka_t* client = reader.client;
  std::vector<Stored> stored;
  rd_kafka_topic_partition_list_t* list = rd_kafka_topic_partition_list_new(partitions);
  for (int32_t partition = 0; partition < partitions; ++partition) {
    rd_kafka_topic_partition_list_add(list, topic.c_str(), partition)->offset = RD_KAFKA_OFFSET_BEGINNING;
  }
  rd_kafka_assign(client, list);
  rd_kafka_topic_partition_list_destroy(list);
  for (int ended = 0, idle = 0; ended < partitions && idle < 100;) {
    rd_kafka_message_t* message = rd_kafka_consumer_poll(client, 100);
    if (message == nullptr) {
      ++idle;
      continue;
    }
    if (message->err == RD_KAFKA_RESP_ERR__PARTITION_EOF) {
      ++ended;
    } else if (message->err == RD_KAFKA_RESP_ERR_NO_ERROR) {
      Stored record{message->partition, message->offset, {}, {}, {}};
      if (message->key != nullptr) {
        record.key = std::string(static_cast<const char*>(message->key), message->key_len);
      }
      if (message->payload != nullptr) {
        record.body = std::string(static_cast<const char*>(message->payload), message->len);
      }
      rd_kafka_headers_t* headers = nullptr;
      if (rd_kafka_message_headers(message, &headers) == RD_KAFKA_RESP_ERR_NO_ERROR) {
        const char* name = nullptr;
        const void* value = nullptr;
        size_t size = 0;
        for (size_t i = 0; rd_kafka_header_get_all(headers, i, &name, &value, &size) == RD_KAFKA_RESP_ERR_NO_ERROR;
             ++i) {
          record.headers[name] = std::string(static_cast<const char*>(value), size);
        }
      }
      stored.push_back(std::move(record));
    }
    rd_kafka_message_destroy(message);
  }
  rd_kafka_assign(client, nullptr);
  return stored;
}

class MockCluster {
 public:
  explicit MockCluster(int brokers = 1)
      : host_(MakeClient(RD_KAFKA_PRODUCER, {{"client.id", "mock"}, {"log_level", "0"}})),
        cluster_(rd_kafka_mock_cluster_new(host_, brokers)) {}
  ~MockCluster() {
    rd_kafka_mock_cluster_destroy(cluster_);
    rd_kafka_destroy(host_);
  }
  MockCluster(const MockCluster&) = delete;
  MockCluster& operator=(const MockCluster&) = delete;

  std::string bootstrap() const { return rd_kafka_mock_cluster_bootstraps(cluster_); }
  rd_kafka_mock_cluster_t* get() const { return cluster_; }
  void CreateTopic(const std::string& name, int partitions) {
    ASSERT_EQ(rd_kafka_mock_topic_create(cluster_, name.c_str(), partitions, 1), RD_KAFKA_RESP_ERR_NO_ERROR);
  }
  // The next produce requests are answered with these codes.
  void FailProduce(const std::vector<rd_kafka_resp_err_t>& codes) {
    rd_kafka_mock_push_request_errors_array(cluster_, 0, codes.size(), codes.data());
  }
  // Between tests: no errors, no delay, the broker up. Destroying a cluster takes a second, so tests share one.
  void Heal() {
    rd_kafka_mock_clear_request_errors(cluster_, 0);
    rd_kafka_mock_broker_set_up(cluster_, 1);
    SetRoundTrip(0);
  }
  void SetRoundTrip(int milliseconds) { rd_kafka_mock_broker_set_rtt(cluster_, 1, milliseconds); }

 private:
  rd_kafka_t* host_;
  rd_kafka_mock_cluster_t* cluster_;
};

}  // namespace outbox::sink::kafka
