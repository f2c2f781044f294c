#include "sink/kafka/producer.h"

#include <algorithm>
#include <system_error>
#include <thread>
#include <utility>

#include "base/murmur2.h"
#include "sink/kafka/signals_blocked.h"
#include "sink/kafka/topic_settings.h"

namespace outbox::sink::kafka {
namespace {

// Called by the library when it chooses a record's partition, with the topic's current number of partitions.
int32_t Partition(const rd_kafka_topic_t*, const void* key, size_t key_size, int32_t partitions, void* topic_opaque,
                  void* message_opaque) {
  auto* link = static_cast<TopicLink*>(topic_opaque);
  link->partitions.store(partitions, std::memory_order_relaxed);
  const Opaque opaque = Opaque::Unpack(message_opaque);
  const int32_t wanted = int32_t{opaque.hint} - 1;
  if (wanted >= 0 && (wanted < partitions || opaque.fixed)) {
    return wanted;  // the library refuses what is too high
  }
  return ChoosePartition(*link, {static_cast<const char*>(key), key == nullptr ? 0 : key_size}, partitions);
}

struct Retired {
  std::shared_ptr<void> after;
  std::unique_ptr<Producer> producer;  // members are destroyed last come first
};

}  // namespace

int32_t ChoosePartition(const TopicLink& link, std::string_view key, int32_t partitions) {
  if (key.data() == nullptr && !link.hash_null_keys) {
    static std::atomic<uint32_t> next{0};
    return static_cast<int32_t>(next.fetch_add(1, std::memory_order_relaxed) % static_cast<uint32_t>(partitions));
  }
  if (link.partitioner == nullptr) {
    return KafkaPartition(key, partitions);
  }
  return link.partitioner(link.handle, key.data() == nullptr ? "" : key.data(), key.size(), partitions, nullptr,
                          nullptr);
}

Status Producer::Make(const Settings& settings, int event_fd, bool gapless, std::unique_ptr<Producer>* producer) {
  rd_kafka_conf_t* conf = nullptr;
  if (Status status = settings.MakeConf(&conf); !status.ok()) {
    return status;
  }
  std::unique_ptr<Producer> made(new Producer(event_fd));
  rd_kafka_conf_set_opaque(conf, &made->connections_);
  rd_kafka_conf_set_connect_cb(conf, Connections::Connect);
  rd_kafka_conf_set_closesocket_cb(conf, Connections::Close);
  rd_kafka_conf_set_throttle_cb(conf, Connections::Throttled);
  char text[512];
  if (!gapless) {
    rd_kafka_conf_set(conf, "enable.gapless.guarantee", "false", text, sizeof text);
  }
  {
    SignalsBlocked blocked;
    made->handle_ = rd_kafka_new(RD_KAFKA_PRODUCER, conf, text, sizeof text);
  }
  if (made->handle_ == nullptr) {
    rd_kafka_conf_destroy(conf);
    // A lack of threads or descriptors is temporary; any other failure is in the options.
    const bool passes = rd_kafka_last_error() == RD_KAFKA_RESP_ERR__CRIT_SYS_RESOURCE;
    return Status(passes ? ErrorClass::kDestination : ErrorClass::kConfig, "CLIENT", settings.WhyNone(text));
  }
  made->queue_ = rd_kafka_queue_get_main(made->handle_);
  rd_kafka_set_log_queue(made->handle_, made->queue_);
  // Written only when the queue goes from empty to not empty: enable, drain, then wait.
  const uint64_t one = 1;
  rd_kafka_queue_io_event_enable(made->queue_, event_fd, &one, sizeof one);
  made->metadata_ = std::make_unique<MetadataThread>(made->handle_, &made->connections_, event_fd);
  *producer = std::move(made);
  return Status();
}

Producer::~Producer() {
  if (handle_ == nullptr) {
    return;
  }
  Mute();
  metadata_.reset();
  for (const Report& report : kept_) {
    rd_kafka_event_destroy(report.event);
  }
  rd_kafka_purge(handle_, RD_KAFKA_PURGE_F_QUEUE | RD_KAFKA_PURGE_F_INFLIGHT | RD_KAFKA_PURGE_F_NON_BLOCKING);
  for (const auto& link : links_) {
    rd_kafka_topic_destroy(link->handle);
  }
  rd_kafka_queue_destroy(queue_);
  rd_kafka_destroy_flags(handle_, RD_KAFKA_DESTROY_F_NO_CONSUMER_CLOSE);
}

void Producer::Mute() {
  rd_kafka_queue_io_event_enable(queue_, -1, nullptr, 0);
  connections_.Mute();
  metadata_->Mute();
}

void Producer::AskWho(int64_t now) {
  if (ask_who_at() < 0 || now < ask_who_at_) {
    return;
  }
  asked_who_ = true;
  metadata_->AskWho(links_.empty() ? nullptr : links_.front().get());
}

void Producer::Met(uint64_t connections, uint64_t losses) {
  known_ = std::max(known_, connections);
  losses_before_ = met_ ? losses_before_ : losses;
  met_ = true;
}

void Producer::WhoAnswered(int64_t next) {
  asked_who_ = false;
  ask_who_at_ = next;
}

Producer::Report Producer::TakeKept() {
  Report report;
  if (!kept_.empty()) {
    report = kept_.front();
    kept_.pop_front();
  }
  return report;
}

TopicLink* Producer::OpenTopic(const std::string& name, const Settings& settings, Topic* topic) {
  auto link = std::make_unique<TopicLink>();
  link->topic = topic;
  link->partitioner = settings.partitioner;
  link->hash_null_keys = settings.hash_null_keys;
  rd_kafka_topic_conf_t* conf = rd_kafka_default_topic_conf_dup(handle_);
  rd_kafka_topic_conf_set_partitioner_cb(conf, Partition);
  rd_kafka_topic_conf_set_opaque(conf, link.get());
  link->handle = rd_kafka_topic_new(handle_, name.c_str(), conf);
  if (link->handle == nullptr) {
    rd_kafka_topic_conf_destroy(conf);
    return nullptr;
  }
  links_.push_back(std::move(link));
  return links_.back().get();
}

void Producer::DescribeTopic(const std::string& name, Topic* topic, int timeout_ms) {
  AskForSettings(handle_, name, timeout_ms, topic, queue_);
}

void DestroyInThread(std::unique_ptr<Producer> producer, std::shared_ptr<void> after) {
  // If no thread can be started it is destroyed here and now, however long that takes.
  auto last = std::make_unique<Retired>(Retired{std::move(after), std::move(producer)});
  SignalsBlocked blocked;
  try {
    std::thread([last = std::move(last)]() mutable { last.reset(); }).detach();
  } catch (const std::system_error&) {
  }
}

}  // namespace outbox::sink::kafka
