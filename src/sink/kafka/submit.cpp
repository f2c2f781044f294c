// From a batch into the library: which partition a record goes to, which records wait, what is refused at once.
#include <algorithm>
#include <queue>
#include <utility>

#include "base/fault_point.h"
#include "base/monotonic.h"
#include "sink/kafka/errors.h"
#include "sink/kafka/headers.h"
#include "sink/kafka/kafka_sink.h"
#include "sink/kafka/wall_ms.h"

namespace outbox::sink::kafka {
namespace {

constexpr int64_t kColdMicros = 300 * kSecond;  // a broker forgets idle producers; long before, ask again
constexpr int64_t kCountMicros = 1'000'000;     // look at the number of partitions this often
constexpr int64_t kAheadMs = 600'000;           // brokers refuse times further ahead

}  // namespace

void KafkaSink::Submit(Batch batch) {
  if (batch.count == 0 || producers_.closed()) {
    return;
  }
  if (!gate_.Admits(batch.flow, batch.epoch)) {
    store_.Refuse(batch);
    return;
  }
  now_ = MonotonicMicros();
  wall_ms_ = WallMs();
  next_seq_ = std::max(next_seq_, batch.first_seq + batch.count);
  const uint32_t slot = store_.Add(std::move(batch));
  StoredBatch& stored = store_.at(slot);
  const char* start = stored.batch.records.data();
  RecordReader reader(stored.batch.records);
  uint32_t index = 0;
  bool going = true;
  for (; going && index < stored.batch.count; ++index) {
    const RecordRef ref{slot, index, static_cast<uint32_t>(reader.at() - start)};
    if (index >= kMaxBatchRecords || !reader.Next(&record_)) {
      FailFlow(ref, {ErrorClass::kInternal, "MALFORMED", "the packed record cannot be read"});
      going = false;
      break;
    }
    Topic* topic = topics_.Find(record_.topic);
    if (topic->care.taken() && topic->state == TopicState::kReady && topic->care.over(now_)) {
      topic->state = TopicState::kDraining;
      EndCare(topic);
    }
    going = Dispatch(topic, ref, record_);
  }
  for (; !going && index < stored.batch.count; ++index) {
    // Records that would be refused in any case are reported now, which spares the owner a round for each.
    if (reader.Next(&record_)) {
      FailKnown(topics_.Find(record_.topic), {slot, index, 0}, record_);
    }
    store_.Unsent(slot, index);
    store_.Abort(slot, index);
  }
}

// Once none of its records is in the library or in line for a partition, the topic goes by the main producer again.
bool KafkaSink::EndCare(Topic* topic) {
  if (!topic->care.taken() || !topic->care.over(now_) || topic->inflight > 0 ||
      topic->waiting_records > topic->waiting.size()) {
    return false;
  }
  topic->EndCare();
  return true;
}

void KafkaSink::Wait(Topic* topic, std::deque<RecordRef>* queue, const RecordRef& ref, bool front) {
  if (front) {
    queue->push_front(ref);
  } else {
    queue->push_back(ref);
  }
  ++topic->waiting_records;
  ++waiting_records_;
}

RecordRef KafkaSink::Next(Topic* topic, std::deque<RecordRef>* queue) {
  const RecordRef ref = queue->front();
  queue->pop_front();
  --topic->waiting_records;
  --waiting_records_;
  return ref;
}

bool KafkaSink::Read(const RecordRef& ref, Record* record) {
  RecordReader reader(std::string_view(store_.at(ref.slot).batch.records).substr(ref.offset));
  return reader.Next(record);
}

bool KafkaSink::Dispatch(Topic* topic, const RecordRef& ref, const Record& record) {
  const int refusal = KnownToBeRefused(topic, record);
  if (refusal != 0 && record.key.data() == nullptr) {
    Refused(topic, ref, refusal);
    return false;
  }
  if (topic->state != TopicState::kReady || !producers_.taking()) {
    Wait(topic, &topic->waiting, ref);
    return topic->state != TopicState::kUnknown || !producers_.taking() || AskAbout(topic);
  }
  const int32_t number = PartitionFor(topic, ref, record);
  if (static_cast<size_t>(number) >= topic->partitions.size()) {
    return Outside(topic, ref, record);
  }
  Partition& partition = topic->partitions[static_cast<size_t>(number)];
  if (partition.inflight == 0 && partition.warm && now_ - partition.moved_at > kColdMicros) {
    partition.warm = false;
  }
  const bool leaderless = TakesNothing(*topic, record);
  if ((refusal != 0 || leaderless) && partition.inflight == 0 && partition.waiting.empty()) {
    if (refusal != 0) {
      Refused(topic, ref, refusal);
    } else {
      FailFlow(ref, topic->trouble.PartError(topic->name));
    }
    return false;
  }
  const bool others_wait = throttle_.on() && waiting_records_ > 0;
  if (refusal != 0 || leaderless || Held() || others_wait || !partition.waiting.empty() ||
      !topic->Admits(partition, RecordBytes(record.key.size(), record.body.size()))) {
    Wait(topic, &partition.waiting, ref);
    return true;
  }
  switch (Send(topic, number, ref, record)) {
    case Sent::kYes:
      return true;
    case Sent::kLater:
      Wait(topic, &partition.waiting, ref);
      return true;
    case Sent::kFailed:
      return false;
  }
  return false;
}

int32_t KafkaSink::PartitionFor(Topic* topic, const RecordRef& ref, const Record& record) {
  const auto count = static_cast<int32_t>(topic->partitions.size());
  if (record.partition >= 0) {
    return record.partition;
  }
  if (record.key.data() != nullptr || topic->link->hash_null_keys) {
    return ChoosePartition(*topic->link, record.key, count);
  }
  // Without a key, a batch stays together: fewer, larger requests.
  const uint64_t batch = store_.at(ref.slot).batch.first_seq;
  if (topic->sticky < 0 || topic->sticky_batch != batch) {
    topic->sticky = topic->sticky < 0 ? ChoosePartition(*topic->link, {}, count) : (topic->sticky + 1) % count;
    topic->sticky_batch = batch;
    if (topic->trouble.in_part()) {
      topic->sticky = topic->trouble.Led(topic->sticky) % count;
    }
  }
  return topic->sticky;
}

// A record asks for a partition above those that are known. The topic may have got more of them: then the library,
// which hears of that by and by, is asked as about a topic that is new.
bool KafkaSink::Outside(Topic* topic, const RecordRef& ref, const Record& record) {
  if (record.partition >= kMaxHint || now_ - topic->counted_at <= kCountMicros) {
    FailFlow(ref, NoSuchPartition(*topic));
    return false;
  }
  // What waits there already came later: this one has just been taken from the front.
  Wait(topic, &topic->waiting, ref, /*front=*/true);
  topic->state = TopicState::kDraining;
  topic->recount = true;
  if (!EndDrain(topic)) {
    return true;
  }
  return AskAbout(topic);
}

// Once none of its records is in the library or in line for a partition: its partitions are those that are known now.
bool KafkaSink::EndDrain(Topic* topic) {
  if (topic->state != TopicState::kDraining || topic->inflight > 0 || topic->waiting_records != topic->waiting.size()) {
    return false;
  }
  if (EndCare(topic)) {
    return true;
  }
  if (topic->recount) {
    topic->AskAgain();
  } else {
    Learned(topic, 1);
  }
  return true;
}

Error KafkaSink::NoSuchPartition(const Topic& topic) {
  return {ErrorClass::kMessage, "NO_SUCH_PARTITION",
          "topic \"" + topic.name + "\": the partition that the event asks for is not among its " +
              std::to_string(topic.partitions.size())};
}

// Sends the first record of a topic that this producer knows nothing of, alone. False: the flow of the record that was
// put in line last may have failed (the caller's own, or another's: then the caller goes on).
bool KafkaSink::AskAbout(Topic* topic) {
  const uint32_t last_slot = topic->waiting.back().slot;
  const uint32_t last_index = topic->waiting.back().index;
  while (topic->state == TopicState::kUnknown && !topic->waiting.empty() && !Held() &&
         now_ >= topic->limits.hold_until()) {
    const RecordRef ref = Next(topic, &topic->waiting);
    Record record;
    if (!Read(ref, &record)) {
      continue;
    }
    if (const int refusal = KnownToBeRefused(topic, record); refusal != 0) {
      Refused(topic, ref, refusal);  // nothing of the topic comes before it
      continue;
    }
    // The cluster is asked: the library itself would report what it knows until its next refresh.
    const Batch& batch = store_.at(ref.slot).batch;
    if (topic->trouble.MustAsk(batch.first_seq + ref.index, now_ < doubts_until_) && AskCluster(topic)) {
      Wait(topic, &topic->waiting, ref, /*front=*/true);
      break;
    }
    if (!OpenTopic(topic)) {
      Refused(topic, ref, RD_KAFKA_RESP_ERR_TOPIC_EXCEPTION);
    } else if (topic->trouble.failed()) {
      Refused(topic, ref, topic->trouble.code());
    } else if (topic->trouble.StillStalled(now_)) {
      FailFlow(ref, topic->trouble.StalledError(topic->name));
    } else if (TakesNothing(*topic, record)) {
      FailFlow(ref, topic->trouble.PartError(topic->name));
    } else if (Send(topic, -1, ref, record) == Sent::kLater) {
      Wait(topic, &topic->waiting, ref, /*front=*/true);
      break;
    }
  }
  if (topic->state == TopicState::kReady) {
    ReleaseTopic(topic);  // it is known by a record that asks for a partition which it has not
  }
  return IsOpen(store_.at(last_slot).state[last_index]);
}

bool KafkaSink::OpenTopic(Topic* topic) {
  if (topic->link == nullptr) {
    topic->link = ProducerOf(topic)->OpenTopic(topic->name, settings_, topic);
  }
  return topic->link != nullptr;
}

// `number` -1: let the library find it.
KafkaSink::Sent KafkaSink::Send(Topic* topic, int32_t number, const RecordRef& ref, const Record& record) {
  if (GoesAlone(*topic)) {
    return Sent::kLater;
  }
  const bool fixed = record.partition >= 0;
  Opaque opaque{.slot = ref.slot, .index = ref.index, .fixed = fixed};
  int32_t target = number;
  if (number < 0 && fixed) {
    opaque.hint = static_cast<uint16_t>(std::min(record.partition, kMaxHint - 1) + 1);
  } else if (number < 0 && topic->trouble.in_part() && Keyless(*topic, record)) {
    opaque.hint = static_cast<uint16_t>(std::min(topic->trouble.Led(0), kMaxHint - 1) + 1);
  } else if (number >= 0 && number < kMaxHint && now_ - topic->counted_at > kCountMicros) {
    // Through the partitioner once in a while: it sees the present number of partitions.
    topic->counted_at = now_;
    opaque.hint = static_cast<uint16_t>(number + 1);
    target = RD_KAFKA_PARTITION_UA;
  }
  if (const rd_kafka_resp_err_t error = Produce(topic, target, opaque, record); error != RD_KAFKA_RESP_ERR_NO_ERROR) {
    if (error == RD_KAFKA_RESP_ERR__UNKNOWN_PARTITION && number < 0 && fixed) {
      Learned(topic, 1);
      FailFlow(ref, NoSuchPartition(*topic));
      return Sent::kFailed;
    }
    return NotTaken(topic, number, ref, error);
  }
  ++in_library_;
  stalled_.lingers_until = now_ + settings_.linger_micros;
  throttle_.Sent(RecordBytes(record.key.size(), record.body.size()));
  ++topic->inflight;
  if (closed_.alone && topic->care.taken()) {
    closed_.suspect = {ref.slot, ref.index, topic, RecordBytes(record.key.size(), record.body.size()), now_};
  }
  if (number < 0) {
    topic->state = TopicState::kAsking;
    topic->asked_at = now_;
    topic->asking = ref;
    return Sent::kYes;
  }
  Partition& partition = topic->partitions[static_cast<size_t>(number)];
  if (partition.inflight++ == 0) {
    partition.moved_at = now_;
  }
  partition.inflight_bytes += RecordBytes(record.key.size(), record.body.size());
  if (target != number &&
      topic->link->partitions.load(std::memory_order_relaxed) != static_cast<int32_t>(topic->partitions.size())) {
    topic->state = TopicState::kDraining;
  }
  return Sent::kYes;
}

// The body is not copied: the batch keeps it until the report.
rd_kafka_resp_err_t KafkaSink::Produce(Topic* topic, int32_t partition, const Opaque& opaque, const Record& record) {
  rd_kafka_headers_t* headers = MakeHeaders(record);
  const int64_t timestamp = record.timestamp_ms > wall_ms_ + kAheadMs ? wall_ms_ : record.timestamp_ms;
  OUTBOX_FAULT_POINT("sink.kafka.produce");
  const rd_kafka_resp_err_t error = rd_kafka_producev(
      ProducerOf(topic)->handle(), RD_KAFKA_V_RKT(topic->link->handle), RD_KAFKA_V_PARTITION(partition),
      RD_KAFKA_V_MSGFLAGS(0), RD_KAFKA_V_KEY(record.key.data(), record.key.size()),
      RD_KAFKA_V_VALUE(const_cast<char*>(record.body.data()), record.body.size()), RD_KAFKA_V_TIMESTAMP(timestamp),
      RD_KAFKA_V_OPAQUE(opaque.Pack()), RD_KAFKA_V_HEADERS(headers), RD_KAFKA_V_END);
  if (error != RD_KAFKA_RESP_ERR_NO_ERROR && headers != nullptr) {
    rd_kafka_headers_destroy(headers);
  }
  return error;
}

KafkaSink::Sent KafkaSink::NotTaken(Topic* topic, int32_t number, const RecordRef& ref, rd_kafka_resp_err_t error) {
  if (error == RD_KAFKA_RESP_ERR__QUEUE_FULL) {
    full_ = true;
    return Sent::kLater;
  }
  // Said of a known partition: the topic was recreated with fewer.
  if (error == RD_KAFKA_RESP_ERR__FATAL || (error == RD_KAFKA_RESP_ERR__UNKNOWN_PARTITION && number >= 0)) {
    producers_.End(now_);
    return Sent::kLater;
  }
  Refused(topic, ref, error);
  return Sent::kFailed;
}

// Refused before anything was sent: only this record's flow is concerned.
void KafkaSink::Refused(Topic* topic, const RecordRef& ref, int code) {
  FailFlow(ref, RefusalOf(topic, code));
}

Error KafkaSink::RefusalOf(Topic* topic, int code) {
  const ErrorRule& rule = RuleFor(code);
  const ErrorClass error_class = rule.meaning == Meaning::kRetry               ? ErrorClass::kDestination
                                 : code == RD_KAFKA_RESP_ERR_INVALID_TIMESTAMP ? ErrorClass::kMessage
                                                                               : Classify(topic, -1, rule, nullptr);
  if (code == RD_KAFKA_RESP_ERR_INVALID_TIMESTAMP) {
    return ErrorOf(*topic, code, error_class);
  }
  std::string detail;
  if (error_class == ErrorClass::kTopic) {
    topic->trouble.Fail();
    detail = "topic \"" + topic->name + "\": " + CodeText(code);
  } else if (code == RD_KAFKA_RESP_ERR_MSG_SIZE_TOO_LARGE && topic->limits.fresh(now_)) {
    detail = "topic \"" + topic->name + "\": the record is larger than the topic's max.message.bytes";
  } else if (code == RD_KAFKA_RESP_ERR_INVALID_RECORD) {
    detail = "topic \"" + topic->name + "\": a compacted topic takes no record without a key";
  } else if (code == RD_KAFKA_RESP_ERR_MSG_SIZE_TOO_LARGE) {
    detail = "the record, key and headers included, is larger than message.max.bytes";
  }
  return MakeError(code, error_class, std::move(detail));
}

// Fails a record of a flow that has failed already, if it is known to be refused. Aborted records of its key still come
// before it: the engine does not park it before they are done (Parker::ForgetOvertaken).
void KafkaSink::FailKnown(Topic* topic, const RecordRef& ref, const Record& record) {
  if (const int code = KnownToBeRefused(topic, record); code != 0) {
    store_.Fail(ref.slot, ref.index, RefusalOf(topic, code));
  } else if (TakesNothing(*topic, record)) {
    store_.Fail(ref.slot, ref.index, topic->trouble.PartError(topic->name));
  }
}

// The record fails; nothing of its flow that waits may pass it any more.
void KafkaSink::FailFlow(const RecordRef& ref, Error error) {
  const StoredBatch& stored = store_.at(ref.slot);
  const uint32_t flow = stored.batch.flow;
  const uint32_t epoch = stored.batch.epoch;
  gate_.Poison(flow, epoch);
  store_.Fail(ref.slot, ref.index, std::move(error));
  if (waiting_records_ == 0) {
    return;
  }
  for (auto& [name, topic] : topics_) {
    if (topic->waiting_records == 0) {
      continue;
    }
    const auto drop = [&, topic = topic.get()](std::deque<RecordRef>* queue) {
      const size_t dropped = std::erase_if(*queue, [&](const RecordRef& waiting) {
        const Batch& batch = store_.at(waiting.slot).batch;
        if (batch.flow != flow || batch.epoch > epoch) {
          return false;
        }
        Record record;
        if ((topic->limits.known() || topic->trouble.in_part()) && Read(waiting, &record)) {
          FailKnown(topic, waiting, record);
        }
        store_.Unsent(waiting.slot, waiting.index);
        store_.Abort(waiting.slot, waiting.index);
        return true;
      });
      topic->waiting_records -= static_cast<uint32_t>(dropped);
      waiting_records_ -= static_cast<uint32_t>(dropped);
    };
    drop(&topic->waiting);
    for (Partition& partition : topic->partitions) {
      drop(&partition.waiting);
    }
  }
}

// True: the first record that waits for the partition waits no longer.
bool KafkaSink::ReleaseFirst(Topic* topic, Partition* partition) {
  if (!producers_.taking() || partition->waiting.empty() || Held()) {
    return false;
  }
  const auto number = static_cast<int32_t>(partition - topic->partitions.data());
  Record& record = record_;
  if (!Read(partition->waiting.front(), &record) ||
      !topic->Admits(*partition, RecordBytes(record.key.size(), record.body.size()))) {
    return false;
  }
  // In its turn: what comes before it in its partition has its outcome.
  const int refusal = KnownToBeRefused(topic, record);
  const bool leaderless = topic->trouble.in_part() && topic->trouble.Lacks(static_cast<size_t>(number));
  if ((refusal != 0 || leaderless) && partition->inflight > 0) {
    return false;
  }
  const RecordRef ref = Next(topic, &partition->waiting);
  if (refusal != 0) {
    Refused(topic, ref, refusal);
  } else if (leaderless) {
    FailFlow(ref, topic->trouble.PartError(topic->name));
  } else if (Send(topic, number, ref, record) == Sent::kLater) {
    Wait(topic, &partition->waiting, ref, /*front=*/true);
    return false;
  }
  return true;
}

void KafkaSink::Release(Topic* topic, Partition* partition) {
  if (throttle_.on()) {
    return;  // in its turn: ReleaseOldest
  }
  while (ReleaseFirst(topic, partition)) {
  }
}

// Where a quota lets less through than comes, what waits goes in the order it came, whatever it is for: else one
// partition, with always more to send, has all of the quota, and another nothing.
void KafkaSink::ReleaseOldest() {
  struct Front {
    uint64_t seq;
    Topic* topic;
    Partition* partition;
    bool operator<(const Front& other) const { return seq > other.seq; }  // the oldest is on top of the heap
  };
  const auto front = [this](Topic* topic, Partition* partition) {
    const RecordRef& ref = partition->waiting.front();
    return Front{store_.at(ref.slot).batch.first_seq + ref.index, topic, partition};
  };
  std::priority_queue<Front> fronts;
  for (auto& [name, topic] : topics_) {
    for (Partition& partition : topic->partitions) {
      if (!partition.waiting.empty()) {
        fronts.push(front(topic.get(), &partition));
      }
    }
  }
  while (!fronts.empty() && !Held()) {
    const Front next = fronts.top();
    fronts.pop();
    if (ReleaseFirst(next.topic, next.partition) && !next.partition->waiting.empty()) {
      fronts.push(front(next.topic, next.partition));
    }
  }
}

// What waited for the topic itself, in the order it came.
void KafkaSink::ReleaseTopic(Topic* topic) {
  while (!topic->waiting.empty() && topic->state == TopicState::kReady && producers_.taking()) {
    const RecordRef ref = Next(topic, &topic->waiting);
    if (Read(ref, &record_)) {
      Dispatch(topic, ref, record_);
    }
  }
}

void KafkaSink::ReleaseAll() {
  if (waiting_records_ == 0 || !producers_.taking()) {
    return;
  }
  wall_ms_ = WallMs();
  for (auto& [name, topic] : topics_) {
    if (topic->waiting_records == 0) {
      continue;
    }
    for (Partition& partition : topic->partitions) {
      Release(topic.get(), &partition);
    }
    if (topic->state == TopicState::kUnknown && !topic->waiting.empty()) {
      AskAbout(topic.get());
    }
    ReleaseTopic(topic.get());
  }
  if (throttle_.on() && !Held()) {
    ReleaseOldest();
  }
}

}  // namespace outbox::sink::kafka
