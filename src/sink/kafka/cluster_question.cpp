#include "sink/kafka/cluster_question.h"

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <string_view>
#include <system_error>
#include <thread>
#include <utility>

#include "base/monotonic.h"
#include "sink/kafka/errors.h"
#include "sink/kafka/metadata.h"
#include "sink/kafka/producer.h"
#include "sink/kafka/signals_blocked.h"
#include "sink/kafka/topic_settings.h"

namespace outbox::sink::kafka {
namespace {

// Leaders of one topic that are tried, all at once.
constexpr size_t kMostLeaders = 16;
// For the topic's settings, which not every user may ask for.
constexpr int64_t kSettingsMicros = 2000 * kMilli;

int Left(int64_t by) {
  return static_cast<int>(std::max<int64_t>(1, (by - MonotonicMicros()) / kMilli));
}

// The topic, of those that this user may see, whose name differs from this one in dots and underscores only.
std::string Alike(rd_kafka_t* handle, const std::string& topic, int timeout_ms) {
  const auto flat = [](std::string name) {
    std::replace(name.begin(), name.end(), '.', '_');
    return name;
  };
  std::string alike;
  const rd_kafka_metadata_t* all = nullptr;
  if (flat(topic).find('_') == std::string::npos ||
      rd_kafka_metadata(handle, 1, nullptr, &all, timeout_ms) != RD_KAFKA_RESP_ERR_NO_ERROR) {
    return alike;
  }
  for (int i = 0; i < all->topic_cnt; ++i) {
    const std::string name = all->topics[i].topic;
    if (name != topic && flat(name) == flat(topic) && !MissingTopic(CodeOf(all->topics[i].err))) {
      alike = name;
    }
  }
  rd_kafka_metadata_destroy(all);
  return alike;
}

TopicSettings SettingsOf(rd_kafka_t* handle, const std::string& topic, int64_t by) {
  rd_kafka_queue_t* queue = rd_kafka_queue_new(handle);
  AskForSettings(handle, topic, Left(by), nullptr, queue);
  TopicSettings settings;
  bool deletes = false;
  if (rd_kafka_event_t* event = rd_kafka_queue_poll(queue, Left(by)); event != nullptr) {
    const int code = ReadSettings(event, [&](std::string_view name, const char* value) {
      const std::string_view text = value;
      if (name == "min.insync.replicas") {
        settings.min_in_sync = std::atoi(value);
      } else if (name == "retention.ms") {
        settings.retention_ms = std::strtoll(value, nullptr, 10);
      } else if (name == "message.timestamp.type") {
        settings.own_time = text == "CreateTime";
      } else if (name == "cleanup.policy") {
        deletes = text.find("delete") != std::string_view::npos;
      }
    });
    settings.forbidden = code == RD_KAFKA_RESP_ERR_TOPIC_AUTHORIZATION_FAILED;
    rd_kafka_event_destroy(event);
  }
  rd_kafka_queue_destroy(queue);
  settings.retention_ms = deletes ? settings.retention_ms : -1;
  return settings;
}

void NoteLeader(const rd_kafka_metadata_t& metadata, const rd_kafka_metadata_partition_t& partition,
                ClusterAnswer* answer) {
  for (PartitionLeader& known : answer->leaders) {
    if (known.id == partition.leader) {
      known.partition = std::min(known.partition, partition.id);
      return;
    }
  }
  answer->leaders.push_back({partition.leader, AddressOf(metadata, partition.leader), partition.id});
}

void ReadTopic(const rd_kafka_metadata_t& metadata, ClusterAnswer* answer) {
  if (metadata.topic_cnt != 1) {
    answer->topic_code = RD_KAFKA_RESP_ERR__UNKNOWN_TOPIC;
    return;
  }
  const rd_kafka_metadata_topic_t& topic = metadata.topics[0];
  answer->topic_code = CodeOf(topic.err);
  answer->partitions = topic.partition_cnt;
  for (int i = 0; i < topic.partition_cnt; ++i) {
    const rd_kafka_metadata_partition_t& partition = topic.partitions[i];
    answer->leaderless |= partition.leader < 0;
    answer->replicas.push_back({partition.id, partition.isr_cnt, partition.replica_cnt});
    if (partition.leader >= 0) {
      NoteLeader(metadata, partition, answer);
    }
  }
  std::sort(answer->leaders.begin(), answer->leaders.end(),
            [](const PartitionLeader& a, const PartitionLeader& b) { return a.partition < b.partition; });
  answer->untried = answer->leaders.size() - std::min(answer->leaders.size(), kMostLeaders);
  answer->leaders.resize(std::min(answer->leaders.size(), kMostLeaders));
}

}  // namespace

std::shared_ptr<ClusterQuestion> ClusterQuestion::Ask(rd_kafka_t* handle, std::string topic, int timeout_ms) {
  auto question = std::make_shared<ClusterQuestion>();
  const SignalsBlocked blocked;
  std::thread([question, handle, topic = std::move(topic), timeout_ms] {
    question->Run(handle, topic, timeout_ms);
  }).detach();
  return question;
}

bool ClusterQuestion::Wait(int64_t micros, ClusterAnswer* answer) {
  std::unique_lock lock(mutex_);
  done_.wait_for(lock, std::chrono::microseconds(micros), [this] { return over_; });
  *answer = answer_;
  return over_;
}

void ClusterQuestion::Run(rd_kafka_t* handle, const std::string& topic, int timeout_ms) {
  const int64_t by = MonotonicMicros() + timeout_ms * kMilli;
  ClusterAnswer answer;
  rd_kafka_topic_t* only = topic.empty() ? nullptr : rd_kafka_topic_new(handle, topic.c_str(), nullptr);
  const rd_kafka_metadata_t* metadata = nullptr;
  if (rd_kafka_metadata(handle, 0, only, &metadata, timeout_ms) == RD_KAFKA_RESP_ERR_NO_ERROR) {
    answer.came = true;
    answer.brokers = metadata->broker_cnt;
    answer.from = metadata->orig_broker_name == nullptr ? "" : metadata->orig_broker_name;
    // Without a topic the answer has whatever topics the client knows of, and says nothing about any.
    if (!topic.empty()) {
      ReadTopic(*metadata, &answer);
    }
    rd_kafka_metadata_destroy(metadata);
    if (char* cluster = rd_kafka_clusterid(handle, 0); cluster != nullptr) {  // came with the answer
      answer.cluster = cluster;
      rd_kafka_mem_free(handle, cluster);
    }
  }
  Publish([&](ClusterAnswer* told) { *told = answer; });
  if (answer.came && MissingTopic(answer.topic_code)) {
    const std::string alike = Alike(handle, topic, Left(by));
    Publish([&](ClusterAnswer* told) { told->alike = alike; });
  }
  if (!answer.leaders.empty()) {
    AskLeaders(handle, topic, answer, by);
  }
  Publish([this](ClusterAnswer*) { over_ = true; });
}

void ClusterQuestion::AskLeaders(rd_kafka_t* handle, const std::string& topic, const ClusterAnswer& answer,
                                 int64_t by) {
  std::vector<std::thread> threads;
  for (size_t i = 0; i < answer.leaders.size(); ++i) {
    const auto ask = [this, handle, &topic, i, partition = answer.leaders[i].partition, by] {
      int64_t low = 0;
      int64_t high = 0;
      const int code =
          CodeOf(rd_kafka_query_watermark_offsets(handle, topic.c_str(), partition, &low, &high, Left(by)));
      Publish([i, code](ClusterAnswer* told) { told->leaders[i].code = code; });
    };
    try {
      threads.emplace_back(ask);
    } catch (const std::system_error&) {
      ask();  // one after the other, then
    }
  }
  const TopicSettings settings = SettingsOf(handle, topic, std::min(by, MonotonicMicros() + kSettingsMicros));
  Publish([settings](ClusterAnswer* told) { told->settings = settings; });
  for (std::thread& thread : threads) {
    thread.join();
  }
}

template <typename Change>
void ClusterQuestion::Publish(const Change& change) {
  const std::lock_guard lock(mutex_);
  change(&answer_);
  done_.notify_one();
}

}  // namespace outbox::sink::kafka
