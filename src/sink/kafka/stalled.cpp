#include "sink/kafka/stalled.h"

#include <algorithm>
#include <map>
#include <utility>

#include "base/monotonic.h"
#include "sink/kafka/errors.h"
#include "sink/kafka/kafka_sink.h"
#include "sink/went_back.h"

namespace outbox::sink::kafka {
namespace {

// The library repeats what it says of a broker every 30 s.
constexpr int64_t kSaidMicros = 60 * kSecond;
constexpr int64_t kDoubtMicros = 3600 * kSecond;  // after a topic that was missing
constexpr int64_t kSendingMicros = 5 * kSecond;   // bytes on a slow way come in bursts

bool Waits(const Partition& partition, int64_t since) {
  return partition.inflight > 0 && partition.moved_at < since;
}

// The brokers from which records of the topic wait for an answer, by what the cluster has said of it. The record that
// is to find out about the topic may be for any of them.
std::vector<std::string> Awaited(const Topic& topic, int64_t since) {
  if (topic.state == TopicState::kAsking) {
    return topic.trouble.leaders();
  }
  std::vector<std::string> awaited;
  for (size_t i = 0; i < std::min(topic.partitions.size(), topic.trouble.leaders().size()); ++i) {
    if (Waits(topic.partitions[i], since)) {
      awaited.push_back(topic.trouble.leaders()[i]);
    }
  }
  return awaited;
}

}  // namespace

bool Waits(const Topic& topic, int64_t since) {
  return (topic.state == TopicState::kAsking && topic.asked_at < since) ||
         std::any_of(topic.partitions.begin(), topic.partitions.end(),
                     [since](const Partition& partition) { return Waits(partition, since); });
}

bool KafkaSink::Keyless(const Topic& topic, const Record& record) const {
  return record.partition < 0 && record.key.data() == nullptr && !topic.link->hash_null_keys;
}

// Whether the record can only go to a partition that has no leader.
bool KafkaSink::Lacks(const Topic& topic, const Record& record) const {
  if (!topic.trouble.lacks_some() || topic.link == nullptr || Keyless(topic, record)) {
    return false;
  }
  const size_t count = topic.partitions.empty() ? topic.trouble.leaders().size() : topic.partitions.size();
  const int32_t number =
      record.partition >= 0 ? record.partition : ChoosePartition(*topic.link, record.key, static_cast<int32_t>(count));
  return topic.trouble.Lacks(static_cast<size_t>(number));
}

bool KafkaSink::TakesNothing(const Topic& topic, const Record& record) const {
  return topic.trouble.in_part() && Lacks(topic, record);
}

// Whether nothing of the topic waits since then but what is for partitions without a leader.
bool KafkaSink::OnlyLeaderless(const Topic& topic, int64_t since) {
  if (!topic.trouble.lacks_some()) {
    return false;
  }
  if (topic.state == TopicState::kAsking) {
    Record record;
    return Read(topic.asking, &record) && (Keyless(topic, record) || Lacks(topic, record));
  }
  for (size_t i = 0; i < topic.partitions.size(); ++i) {
    if (Waits(topic.partitions[i], since) && !topic.trouble.Lacks(i)) {
      return false;
    }
  }
  return true;
}

// While records are refused for partitions that have no leader: have they one by now? And where a topic seems to have
// fewer partitions than it had: has it?
void KafkaSink::AskForPartitions(int64_t now) {
  stalled_.asks = false;
  for (auto& [name, topic] : topics_) {
    stalled_.asks |= topic->trouble.in_part() || topic->fewer_at >= 0;
    if (topic->trouble.in_part() || topic->SeemsToHaveFewer(now)) {
      AskCluster(topic.get());
    }
  }
}

// Does nothing while it may be the destination's trouble: a record must have been delivered, or a broker have answered,
// just now.
void KafkaSink::FindStalled(int64_t now) {
  producers_.ForEach([&](Producer* each) {
    stalled_.sending_until = each->Sending() ? now + kSendingMicros : stalled_.sending_until;
  });
  const bool sending = in_library_ > 0 && now < stalled_.sending_until;
  const bool throttled = in_library_ + waiting_records_ > 0 && throttle_.Excuses(now);
  health_.SetSending(sending || throttled || (in_library_ > 0 && now < stalled_.lingers_until));
  if (in_library_ == 0 || !health_.up()) {
    stalled_.asking_since = 0;
    return;
  }
  const int64_t said_since = now - kSaidMicros;
  // What goes out slowly may be for any of them: then it is too early to say that one takes nothing.
  const int64_t long_enough = now - settings_.patience.stalled;
  const int64_t long_since = sending ? 0 : throttled ? std::min(long_enough, throttle_.heard_to()) : long_enough;
  // Where a broker refuses, it gets no better by waiting for as long.
  const int64_t early_since = health_.refuses(said_since) ? now - settings_.patience.refused : long_since;
  const auto refusal = [&](const Topic& topic) { return health_.refusal(Awaited(topic, early_since), said_since); };
  std::vector<Topic*> waits;
  std::vector<Topic*> early;
  bool others = false;  // wait for brokers that do not refuse
  for (auto& [name, topic] : topics_) {
    if (Waits(*topic, long_since)) {
      waits.push_back(topic.get());
    } else if (Waits(*topic, early_since) && topic->trouble.MayStallEarly(now - settings_.patience.stalled)) {
      const bool known = !topic->trouble.leaders().empty();
      if (known && refusal(*topic).ok()) {
        others = true;
      } else {
        early.push_back(topic.get());
      }
    }
  }
  const bool only_early = waits.empty();
  // Each end of a producer puts off when those others count as stalled, so they are let have their time in between.
  if (!only_early || !others || now >= stalled_.early_at) {
    waits.insert(waits.end(), early.begin(), early.end());
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
  const bool answered = health_.answered_at() >= stalled_.asking_since;
  if (!answered && !only_early && now - health_.answered_at() > settings_.patience.stalled / 2) {
    if (health_.AskNow()) {  // the destination's trouble, if this is not answered either
      producers_.main()->CheckConnection();
    }
    return;
  }
  stalled_.asking_since = 0;
  for (Topic* topic : waits) {
    Error refused = refusal(*topic);
    if (!Waits(*topic, long_since)) {
      if (refused.ok() || !answered) {
        continue;
      }
      stalled_.early_at = now + 2 * settings_.patience.stalled;
    }
    topic->trouble.NoteClosed(closed_.SmallOf(*topic));
    topic->trouble.NoteNoId(ProducerOf(topic)->no_id(long_enough));
    topic->trouble.Stall(now, settings_.patience.stalled, health_.said(said_since, now), std::move(refused),
                         OnlyLeaderless(*topic, Waits(*topic, long_since) ? long_since : early_since));
    stalled_.found = true;
  }
  if (stalled_.found) {
    producers_.End(now);
  }
}

// The producer has gone: the library has let go of the records, and what it could still report it has reported. Of each
// flow the first open record of a stalled topic fails; where only partitions of it take nothing, the first for these.
void KafkaSink::FailStalled(std::vector<std::string>* bytes) {
  if (!std::exchange(stalled_.found, false)) {
    return;
  }
  struct First {
    uint64_t seq;
    RecordRef ref;
    const Topic* topic;
    bool part;
  };
  std::map<uint32_t, First> flows;
  store_.ForEachOpen([&](uint32_t slot, StoredBatch& stored) {
    RecordReader reader(stored.batch.records);
    for (uint32_t index = 0; index < stored.batch.count && reader.Next(&record_); ++index) {
      if (!IsOpen(stored.state[index])) {
        continue;
      }
      const Topic* topic = topics_.Find(record_.topic);
      const bool part = TakesNothing(*topic, record_);
      if (!topic->trouble.stalled() || !(part || topic->trouble.StillStalled(now_))) {
        continue;
      }
      const uint64_t seq = stored.batch.first_seq + index;
      auto [found, fresh] = flows.try_emplace(stored.batch.flow, First{seq, {slot, index, 0}, topic, part});
      if (!fresh && seq < found->second.seq) {
        found->second = {seq, {slot, index, 0}, topic, part};
      }
      break;
    }
  });
  for (const auto& [flow, first] : flows) {
    const TopicTrouble& trouble = first.topic->trouble;
    FailFlow(first.ref, first.part ? trouble.PartError(first.topic->name) : trouble.StalledError(first.topic->name));
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

// The library takes 5 s to find that a topic is missing, and its first record cannot be taken back meanwhile, so that a
// lane that drains waits for it. A cluster that makes no topics may be asked instead, and taken at its word.
void KafkaSink::NoteMissing(int code) {
  if (MissingTopic(code)) {
    doubts_until_ = now_ + kDoubtMicros;
  }
}

void KafkaSink::TellGone(Topic* topic, size_t count, int64_t now) {
  int64_t before = -1;
  if (const int32_t gone = topic->TakeGone(count, &before); gone >= 0) {
    health_.Lost(PartitionGone(topic->name, gone, before, count), now);
  }
}

void KafkaSink::ClusterAnswered(const TopicAnswer& answer) {
  if (answer.answered) {
    health_.AnsweredSomething(now_);
  }
  if (stalled_.asking_since != 0) {
    stalled_.next_at = now_;
  }
  if (answer.link == nullptr) {
    // A throttled connection brings no answers.
    health_.Answered(answer.answered || (health_.up() && throttle_.Excuses(now_)), in_library_ > 0, now_);
    return;
  }
  Topic* topic = answer.link->topic;
  if (answer.link != topic->link || !topic->trouble.asked()) {
    return;  // of a producer, or a care, that has ended
  }
  topic->trouble.Answered(answer, now_);
  NoteMissing(answer.answered ? answer.code : RD_KAFKA_RESP_ERR_NO_ERROR);
  if (topic->SeemsToHaveFewer(now_) && answer.answered) {
    topic->fewer_at = -1;  // where it is missing by now, it is counted again when it is there
    if (answer.code == RD_KAFKA_RESP_ERR_NO_ERROR) {
      TellGone(topic, answer.leaders.size(), now_);
    }
  }
  if (producers_.taking() && topic->state == TopicState::kUnknown && !topic->waiting.empty()) {
    AskAbout(topic);
  }
}

}  // namespace outbox::sink::kafka
