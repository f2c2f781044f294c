// What a cluster says of itself and of one topic, asked by a client of its own while somebody waits [-]: for
// outbox.test_server(). See kafka_checkup.h.
#pragma once

#include <librdkafka/rdkafka.h>

#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "sink/kafka/errors.h"

namespace outbox::sink::kafka {

// A broker that leads partitions of the topic.
struct PartitionLeader {
  int32_t id = -1;
  std::string address;                      // as it is advertised
  int32_t partition = 0;                    // the first that it leads
  int code = RD_KAFKA_RESP_ERR__TIMED_OUT;  // what became of a question to it; until it is known

  // It has let us in, and has answered, whatever that was: the library's own codes are negative.
  bool answers() const {
    return code >= RD_KAFKA_RESP_ERR_NO_ERROR && code != RD_KAFKA_RESP_ERR_SASL_AUTHENTICATION_FAILED;
  }
};

// How many replicas a partition has.
struct PartitionReplicas {
  int32_t partition = 0;
  int in_sync = 0;
  int all = 0;
};

// What is looked at of the topic's settings, where the user may read them.
struct TopicSettings {
  int min_in_sync = 0;        // min.insync.replicas; 0: not known
  int64_t retention_ms = -1;  // retention.ms; negative: nothing is deleted for its age, or it is not known
  bool forbidden = false;     // it may not
  bool own_time = false;      // message.timestamp.type=CreateTime: that counts from the record's time
};

// The cluster's answer about itself and the topic.
struct ClusterAnswer {
  bool came = false;  // else there was none in time
  int brokers = 0;
  std::string from;     // which of them answered
  std::string cluster;  // its id; "": it has none
  int topic_code = 0;
  std::string alike;  // a topic beside which one that is missing cannot be made; "": none is known
  int partitions = 0;
  bool leaderless = false;
  std::vector<PartitionLeader> leaders;  // that of partition 0 first
  size_t untried = 0;                    // leaders beyond those
  std::vector<PartitionReplicas> replicas;
  TopicSettings settings;
};

// Asks in a thread, because the library's call waits, and what is wrong is often known long before its time is over.
// Shared by both; the thread may outlive the checkup.
class ClusterQuestion {
 public:
  // `topic` "": about the cluster only. The handle lives to the end of the process. Throws std::system_error where
  // there is no thread.
  static std::shared_ptr<ClusterQuestion> Ask(rd_kafka_t* handle, std::string topic, int timeout_ms);
  // Waits for so long at most. Returns true when there is an answer, or will be none.
  bool Wait(int64_t micros, ClusterAnswer* answer);

 private:
  void Run(rd_kafka_t* handle, const std::string& topic, int timeout_ms);
  void AskLeaders(rd_kafka_t* handle, const std::string& topic, const ClusterAnswer& answer, int64_t by);
  template <typename Change>
  void Publish(const Change& change);

  std::mutex mutex_;  // of all below
  std::condition_variable done_;
  ClusterAnswer answer_;
  bool over_ = false;
};

}  // namespace outbox::sink::kafka
