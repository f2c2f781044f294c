// Topics that take nothing: a partition without a leader, or with too few replicas, gives no report at all.
#include <algorithm>
#include <map>
#include <utility>

#include "base/monotonic.h"
#include "sink/kafka/kafka_sink.h"

namespace outbox::sink::kafka {
namespace {

constexpr int64_t kSecond = 1'000'000;
constexpr int64_t kLongestMicros = 300 * kSecond;  // between two producers ended for one topic
constexpr int64_t kLookMicros = kSecond / 5;       // look for leaders at most this often
constexpr int kLookMs = 100;                       // and wait so long for a broker
constexpr int kProofMs = 500;                      // the same while nothing is delivered
constexpr int kProbeMs = 2000;

bool Waits(const Topic& topic, int64_t since) {
  return (topic.state == TopicState::kAsking && topic.asked_at < since) ||
         std::any_of(topic.partitions.begin(), topic.partitions.end(), [since](const Partition& partition) {
           return partition.inflight > 0 && partition.moved_at < since;
         });
}

}  // namespace

Error StalledError(const Topic& topic) {
  return {ErrorClass::kTopic, "STALLED",
          "topic \"" + topic.name + "\" takes nothing though the cluster answers: " +
              (topic.leaderless ? "a partition has no leader"
                                : "a partition may have too few replicas in sync, or a broker that hangs")};
}

// Does nothing while it may be the destination's trouble: a record must have been delivered, or a broker have answered,
// just now.
void KafkaSink::FindStalled(int64_t now) {
  if (in_library_ == 0 || !health_.up) {
    return;
  }
  const auto waits = [&](const auto& entry) { return Waits(*entry.second, now - stalled_micros_); };
  const auto first = std::find_if(topics_.begin(), topics_.end(), waits);
  if (first == topics_.end()) {
    return;
  }
  if (now - delivered_at_ > stalled_micros_ / 2 && !LookForLeaders(first->second.get(), kProofMs)) {
    if (!probing_) {  // the destination's trouble, if this is not answered either
      probing_ = true;
      probe_at_ = -1;
      producer_->Probe(kProbeMs);
    }
    return;
  }
  for (auto& [name, topic] : topics_) {
    if (Waits(*topic, now - stalled_micros_)) {
      LookForLeaders(topic.get(), kLookMs);
      topic->stalled_until = now + std::min(stalled_micros_ << std::min(topic->stalls, 10u), kLongestMicros);
      ++topic->stalls;
    }
  }
  ending_stalled_ = true;
  EndProducer(now);
}

// The producer has gone: the library has let go of the records, and what it could still report it has reported. Of each
// flow the first open record of a stalled topic fails.
void KafkaSink::FailStalled(std::vector<std::string>* bytes) {
  if (!std::exchange(ending_stalled_, false)) {
    return;
  }
  struct First {
    uint64_t seq;
    Held held;
    const Topic* topic;
  };
  std::map<uint32_t, First> flows;
  store_.ForEachOpen([&](uint32_t slot, Hold& hold) {
    RecordReader reader(hold.batch.records);
    for (uint32_t index = 0; index < hold.batch.count && reader.Next(&record_); ++index) {
      if (hold.state[index] != RecordState::kOpen) {
        continue;
      }
      const Topic* topic = FindTopic(record_.topic);
      if (topic->stalls == 0) {
        continue;
      }
      const uint64_t seq = hold.batch.first_seq + index;
      auto [found, fresh] = flows.try_emplace(hold.batch.flow, First{seq, {slot, index, 0}, topic});
      if (!fresh && seq < found->second.seq) {
        found->second = {seq, {slot, index, 0}, topic};
      }
      break;
    }
  });
  for (const auto& [flow, first] : flows) {
    FailFlow(first.held, StalledError(*first.topic));
    Hold& hold = store_.at(first.held.slot);
    if (hold.open == 0) {
      bytes->push_back(std::move(hold.batch.records));
    }
  }
}

// Whether a topic that stalled a producer still may not be tried: it may not while a partition has no leader, nor, if
// all have one, before its delay has passed.
bool KafkaSink::StillStalled(Topic* topic) {
  if (topic->stalls == 0) {
    return false;
  }
  const bool was_leaderless = topic->leaderless;
  if (now_ - topic->leaders_seen_at >= kLookMicros) {
    LookForLeaders(topic, kLookMs);
  }
  return topic->leaderless || (!was_leaderless && now_ < topic->stalled_until);
}

// Returns false if there is no answer in time. The only call here that blocks, so all those of one turn together last a
// second at most: a sink process that is silent for 10 s is taken for hung.
bool KafkaSink::AskMetadata(Topic* topic, int timeout_ms, const rd_kafka_metadata_t** metadata) {
  const int64_t begin = MonotonicMicros();
  const int left_ms = static_cast<int>(std::max<int64_t>(1, (kSecond - waited_) / 1000));
  const rd_kafka_resp_err_t error =
      rd_kafka_metadata(ProducerOf(topic)->handle(), 0, topic->link->handle, metadata, std::min(timeout_ms, left_ms));
  waited_ += MonotonicMicros() - begin;
  return error == RD_KAFKA_RESP_ERR_NO_ERROR;
}

// Returns false if no broker answered in time. Called only for topics in trouble.
bool KafkaSink::LookForLeaders(Topic* topic, int timeout_ms) {
  topic->leaders_seen_at = now_;
  if (topic->link == nullptr) {
    topic->link = ProducerOf(topic)->OpenTopic(topic->name, settings_, topic);
  }
  const rd_kafka_metadata_t* metadata = nullptr;
  if (topic->link == nullptr || !AskMetadata(topic, timeout_ms, &metadata)) {
    return false;
  }
  if (metadata->topic_cnt == 1) {
    const rd_kafka_metadata_topic_t& seen = metadata->topics[0];
    topic->leaderless =
        CodeOf(seen.err) == RD_KAFKA_RESP_ERR_LEADER_NOT_AVAILABLE ||
        std::any_of(seen.partitions, seen.partitions + seen.partition_cnt,
                    [](const rd_kafka_metadata_partition_t& partition) { return partition.leader < 0; });
  }
  rd_kafka_metadata_destroy(metadata);
  return true;
}

}  // namespace outbox::sink::kafka
