// Topics that take nothing: a partition without a leader, or with too few replicas, gives no report at all.
#include <algorithm>
#include <map>
#include <utility>

#include "sink/kafka/kafka_sink.h"

namespace outbox::sink::kafka {
namespace {

constexpr int64_t kSecond = 1'000'000;
constexpr int64_t kLongestMicros = 300 * kSecond;  // between two producers ended for one topic

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
    finding_since_ = 0;
    return;
  }
  std::vector<Topic*> waits;
  for (auto& [name, topic] : topics_) {
    if (Waits(*topic, now - stalled_micros_)) {
      waits.push_back(topic.get());
    }
  }
  if (waits.empty() || finding_since_ == 0) {
    finding_since_ = waits.empty() ? 0 : now;
    for (Topic* topic : waits) {
      Look(topic);
    }
    return;  // the answers bring us back
  }
  if (std::any_of(waits.begin(), waits.end(), [](const Topic* topic) { return topic->look.asked; })) {
    return;
  }
  if (answered_at_ < finding_since_ && now - answered_at_ > stalled_micros_ / 2) {
    if (!checking_) {  // the destination's trouble, if this is not answered either
      checking_ = true;
      check_at_ = -1;
      producer_->CheckConnection();
    }
    return;
  }
  finding_since_ = 0;
  for (Topic* topic : waits) {
    topic->stalled_until = now + std::min(stalled_micros_ << std::min(topic->stalls, 10u), kLongestMicros);
    ++topic->stalls;
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
    RecordRef ref;
    const Topic* topic;
  };
  std::map<uint32_t, First> flows;
  store_.ForEachOpen([&](uint32_t slot, StoredBatch& stored) {
    RecordReader reader(stored.batch.records);
    for (uint32_t index = 0; index < stored.batch.count && reader.Next(&record_); ++index) {
      if (stored.state[index] != RecordState::kOpen) {
        continue;
      }
      const Topic* topic = FindTopic(record_.topic);
      if (topic->stalls == 0) {
        continue;
      }
      const uint64_t seq = stored.batch.first_seq + index;
      auto [found, fresh] = flows.try_emplace(stored.batch.flow, First{seq, {slot, index, 0}, topic});
      if (!fresh && seq < found->second.seq) {
        found->second = {seq, {slot, index, 0}, topic};
      }
      break;
    }
  });
  for (const auto& [flow, first] : flows) {
    FailFlow(first.ref, StalledError(*first.topic));
    StoredBatch& stored = store_.at(first.ref.slot);
    if (stored.open == 0) {
      bytes->push_back(std::move(stored.batch.records));
    }
  }
}

// Whether a topic that stalled a producer still may not be tried: it may not while a partition has no leader, nor, if
// all have one, before its delay has passed.
bool KafkaSink::StillStalled(const Topic& topic) const {
  return topic.stalls > 0 && (topic.leaderless || now_ < topic.stalled_until);
}

// Asks the cluster about a topic; Looked() goes on with the answer. Returns false if the library refuses its name.
bool KafkaSink::Look(Topic* topic) {
  if (!OpenTopic(topic)) {
    return false;
  }
  if (!topic->look.asked) {
    topic->look.asked = true;
    topic->look.asked_before = next_seq_;
    ProducerOf(topic)->looker()->Ask(topic->link);
  }
  return true;
}

void KafkaSink::Looked(const TopicAnswer& answer) {
  answered_at_ = answer.answered ? now_ : answered_at_;
  if (finding_since_ != 0) {
    stalled_check_at_ = now_;
  }
  if (answer.link == nullptr) {
    Probed(answer.answered, now_);
    return;
  }
  Topic* topic = answer.link->topic;
  if (answer.link != topic->link || !topic->look.asked) {
    return;  // of a producer, or a care, that has ended
  }
  topic->Looked(answer, now_);
  if (phase_ == Phase::kRunning && topic->state == TopicState::kUnknown && !topic->waiting.empty()) {
    AskAbout(topic);
  }
}

}  // namespace outbox::sink::kafka
