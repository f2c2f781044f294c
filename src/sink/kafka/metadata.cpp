#include "sink/kafka/metadata.h"

#include <sys/eventfd.h>

#include <algorithm>
#include <iterator>
#include <system_error>
#include <utility>

#include "sink/kafka/producer.h"
#include "sink/kafka/signals_blocked.h"

namespace outbox::sink::kafka {

std::string AddressOf(const rd_kafka_metadata_t& metadata, int32_t broker) {
  for (int i = 0; i < metadata.broker_cnt; ++i) {
    if (metadata.brokers[i].id == broker) {
      return std::string(metadata.brokers[i].host) + ":" + std::to_string(metadata.brokers[i].port);
    }
  }
  return "";
}

bool SpeaksOf(const std::string& text, const std::string& address) {
  const std::string name = address + "/";
  return !address.empty() && (text.starts_with(name) || text.find("//" + name) != std::string::npos);
}

MetadataThread::~MetadataThread() {
  {
    const std::lock_guard lock(mutex_);
    ending_ = true;
  }
  wake_.notify_one();
  if (thread_.joinable()) {
    thread_.join();
  }
}

void MetadataThread::Ask(const Question& question) {
  if (!thread_.joinable()) {
    const SignalsBlocked blocked;
    try {
      thread_ = std::thread([this] { Run(); });
    } catch (const std::system_error&) {
      // No thread to be had: it is as if no broker answered.
    }
  }
  const std::lock_guard lock(mutex_);
  if (!thread_.joinable()) {
    answers_.push_back({.link = question.link, .who = question.who});
    static_cast<void>(eventfd_write(event_fd_, 1));
    return;
  }
  asked_.push_back(question);
  wake_.notify_one();
}

void MetadataThread::Take(std::vector<TopicAnswer>* answers) {
  const std::lock_guard lock(mutex_);
  answers->insert(answers->end(), std::make_move_iterator(answers_.begin()), std::make_move_iterator(answers_.end()));
  answers_.clear();
}

void MetadataThread::Mute() {
  const std::lock_guard lock(mutex_);
  event_fd_ = -1;
}

void MetadataThread::Run() {
  std::unique_lock lock(mutex_);
  while (true) {
    wake_.wait(lock, [this] { return ending_ || !asked_.empty(); });
    if (ending_) {
      return;
    }
    const Question question = asked_.front();
    asked_.pop_front();
    lock.unlock();
    TopicAnswer answer = Look(question);
    const bool answered = answer.answered;
    lock.lock();
    answers_.push_back(std::move(answer));
    if (!answered) {  // nor would the others be, one timeout after the other
      std::erase_if(asked_, [this](const Question& other) {
        if (other.link != nullptr) {
          answers_.push_back({.link = other.link});
        }
        return other.link != nullptr;
      });
    }
    if (event_fd_ >= 0) {
      static_cast<void>(eventfd_write(event_fd_, 1));
    }
  }
}

TopicAnswer MetadataThread::Look(const Question& question) const {
  TopicAnswer answer{.link = question.link, .who = question.who, .connections = connections_->begun()};
  const rd_kafka_metadata_t* metadata = nullptr;
  if (rd_kafka_metadata(handle_, 0, question.topic, &metadata, question.timeout_ms) != RD_KAFKA_RESP_ERR_NO_ERROR) {
    return answer;
  }
  answer.answered = true;
  answer.losses = connections_->losses();
  if (char* cluster = rd_kafka_clusterid(handle_, 0); cluster != nullptr) {  // as of this answer, or a later one
    answer.cluster = cluster;
    rd_kafka_mem_free(handle_, cluster);
  }
  answer.code = RD_KAFKA_RESP_ERR__UNKNOWN_TOPIC;
  if (metadata->topic_cnt == 1) {
    const rd_kafka_metadata_topic_t& topic = metadata->topics[0];
    answer.code = CodeOf(topic.err);
    answer.leaderless =
        answer.code == RD_KAFKA_RESP_ERR_LEADER_NOT_AVAILABLE ||
        std::any_of(topic.partitions, topic.partitions + topic.partition_cnt,
                    [](const rd_kafka_metadata_partition_t& partition) { return partition.leader < 0; });
    answer.leaders.resize(static_cast<size_t>(topic.partition_cnt));
    answer.lacking.resize(static_cast<size_t>(topic.partition_cnt));
    answer.in_sync.resize(static_cast<size_t>(topic.partition_cnt));
    for (int i = 0; i < topic.partition_cnt; ++i) {
      const rd_kafka_metadata_partition_t& partition = topic.partitions[i];
      if (partition.id >= 0 && partition.id < topic.partition_cnt) {
        answer.leaders[static_cast<size_t>(partition.id)] = AddressOf(*metadata, partition.leader);
        answer.lacking[static_cast<size_t>(partition.id)] = partition.leader < 0;
        answer.in_sync[static_cast<size_t>(partition.id)] = partition.isr_cnt;
      }
    }
  }
  rd_kafka_metadata_destroy(metadata);
  return answer;
}

}  // namespace outbox::sink::kafka
