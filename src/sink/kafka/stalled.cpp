#include "sink/kafka/stalled.h"

#include <algorithm>
#include <map>
#include <utility>

#include "sink/kafka/kafka_sink.h"

namespace outbox::sink::kafka {
namespace {

// The library repeats what it says of a broker every 30 s.
constexpr int64_t kSaidMicros = int64_t{60} * 1'000'000;

}  // namespace

bool Waits(const Topic& topic, int64_t since) {
  return (topic.state == TopicState::kAsking && topic.asked_at < since) ||
         std::any_of(topic.partitions.begin(), topic.partitions.end(), [since](const Partition& partition) {
           return partition.inflight > 0 && partition.moved_at < since;
         });
}

// Does nothing while it may be the destination's trouble: a record must have been delivered, or a broker have answered,
// just now.
void KafkaSink::FindStalled(int64_t now) {
  if (in_library_ == 0 || !health_.up()) {
    stalled_.asking_since = 0;
    return;
  }
  std::vector<Topic*> waits;
  for (auto& [name, topic] : topics_) {
    if (Waits(*topic, now - settings_.patience.stalled)) {
      waits.push_back(topic.get());
    }
  }
  if (waits.empty() || stalled_.asking_since == 0) {
    stalled_.asking_since = waits.empty() ? 0 : now;
    for (Topic* topic : waits) {
      AskCluster(topic);
    }
    return;  // the answers bring us back
  }
  if (std::any_of(waits.begin(), waits.end(), [](const Topic* topic) { return topic->trouble.asked(); })) {
    return;
  }
  if (health_.answered_at() < stalled_.asking_since && now - health_.answered_at() > settings_.patience.stalled / 2) {
    if (health_.AskNow()) {  // the destination's trouble, if this is not answered either
      producers_.main()->CheckConnection();
    }
    return;
  }
  stalled_.asking_since = 0;
  for (Topic* topic : waits) {
    topic->trouble.Stall(now, settings_.patience.stalled, health_.said(now - kSaidMicros),
                         health_.refusal(topic->trouble.leaders(), now - kSaidMicros));
  }
  stalled_.found = true;
  producers_.End(now);
}

// The producer has gone: the library has let go of the records, and what it could still report it has reported. Of each
// flow the first open record of a stalled topic fails.
void KafkaSink::FailStalled(std::vector<std::string>* bytes) {
  if (!std::exchange(stalled_.found, false)) {
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
      if (!IsOpen(stored.state[index])) {
        continue;
      }
      const Topic* topic = topics_.Find(record_.topic);
      if (!topic->trouble.stalled()) {
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
    FailFlow(first.ref, first.topic->trouble.StalledError(first.topic->name));
    StoredBatch& stored = store_.at(first.ref.slot);
    if (stored.open == 0) {
      bytes->push_back(std::move(stored.batch.records));
    }
  }
}

// Asks the cluster about a topic; ClusterAnswered() goes on with the answer. Returns false if the library refuses its
// name.
bool KafkaSink::AskCluster(Topic* topic) {
  if (!OpenTopic(topic)) {
    return false;
  }
  if (!topic->trouble.asked()) {
    topic->trouble.Ask(next_seq_);
    ProducerOf(topic)->metadata()->Ask(topic->link);
  }
  return true;
}

void KafkaSink::ClusterAnswered(const TopicAnswer& answer) {
  if (answer.answered) {
    health_.AnsweredSomething(now_);
  }
  if (stalled_.asking_since != 0) {
    stalled_.next_at = now_;
  }
  if (answer.link == nullptr) {
    health_.Answered(answer.answered, in_library_ > 0, now_);
    return;
  }
  Topic* topic = answer.link->topic;
  if (answer.link != topic->link || !topic->trouble.asked()) {
    return;  // of a producer, or a care, that has ended
  }
  topic->trouble.Answered(answer, now_);
  if (producers_.taking() && topic->state == TopicState::kUnknown && !topic->waiting.empty()) {
    AskAbout(topic);
  }
}

}  // namespace outbox::sink::kafka
