// Events of the library: delivery reports, and what they and its errors say about the destination.
#include <algorithm>
#include <climits>
#include <utility>

#include "base/fault_point.h"
#include "base/monotonic.h"
#include "sink/kafka/errors.h"
#include "sink/kafka/kafka_sink.h"
#include "sink/kafka/wall_ms.h"
#include "sink/went_back.h"

namespace outbox::sink::kafka {
namespace {

constexpr int64_t kServeMicros = 20'000;       // of one Poll
constexpr int kInvalidDifferentRecord = -138;  // librdkafka 2.0 has no name for it
constexpr int kNoSuchPartition = INT_MIN;      // ours: see NoSuchPartition()

// Whether an acknowledgement at this offset (-1: at none) proves that the records are there.
bool Proves(const Producer& producer, const Partition& partition, int64_t offset) {
  if (!producer.trusted()) {
    return false;
  }
  // Cut off, it may have been answered by another cluster of the same id, which took the first record of a partition
  // for that of another producer with its number. There is nothing to tell by, but that offsets go on where they were.
  return !producer.cut_off() || (partition.last_offset >= 0 && offset > partition.last_offset);
}

}  // namespace

void KafkaSink::ServeEvents(Producer* producer, int64_t now) {
  while (rd_kafka_event_t* event = producer->NextEvent()) {
    switch (rd_kafka_event_type(event)) {
      case RD_KAFKA_EVENT_DR:
        if (!Reports(producer, event, now)) {
          continue;
        }
        break;
      case RD_KAFKA_EVENT_ERROR:
        Trouble(producer, event, now);
        break;
      case RD_KAFKA_EVENT_DESCRIBECONFIGS_RESULT:
        LimitsAnswered(static_cast<Topic*>(rd_kafka_event_opaque(event)), event, now);
        break;
      case RD_KAFKA_EVENT_LOG:
        if (std::string no_id = NoProducerId(event); !no_id.empty()) {
          producer->NoteNoId(std::move(no_id), now);
        }
        if (settings_.log_to_stderr) {
          const char* facility = "";
          const char* text = "";
          int level = 0;
          rd_kafka_event_log(event, &facility, &text, &level);
          fprintf(stderr, "librdkafka: %s: %s\n", facility, text);
        }
        break;
      default:
        break;
    }
    rd_kafka_event_destroy(event);
    if (MonotonicMicros() - now > kServeMicros) {
      more_ = true;  // the descriptor tells only of a queue that was empty before
      return;
    }
  }
}

void KafkaSink::ServeKept(Producer* producer, int64_t now) {
  if (producer->trusted() && !producer->Known()) {
    return;
  }
  for (Producer::Report kept = producer->TakeKept(); kept.event != nullptr; kept = producer->TakeKept()) {
    ServeReport(*producer, kept, now);
    rd_kafka_event_destroy(kept.event);
  }
}

bool KafkaSink::Reports(Producer* producer, rd_kafka_event_t* event, int64_t now) {
  const size_t count = rd_kafka_event_message_count(event);  // of those that were not taken yet
  const rd_kafka_message_t* first = rd_kafka_event_message_next(event);
  if (first == nullptr) {
    return true;
  }
  OUTBOX_FAULT_POINT("sink.kafka.report");
  if (CodeOf(first->err) == RD_KAFKA_RESP_ERR_NO_ERROR && producer->trusted() && !producer->Known()) {
    producer->Keep({event, count, first});
    return false;
  }
  ServeReport(*producer, {event, count, first}, now);
  return true;
}

void KafkaSink::ServeReport(const Producer& producer, const Producer::Report& told, int64_t now) {
  const rd_kafka_message_t* first = told.first;
  Report report;
  report.topic = static_cast<TopicLink*>(rd_kafka_topic_opaque(first->rkt))->topic;
  report.partition = first->partition;
  report.asking = report.topic->state == TopicState::kAsking;
  if (report.asking && CodeOf(first->err) == RD_KAFKA_RESP_ERR_NO_ERROR) {
    Learned(report.topic, report.partition + 1);
  }
  Topic* topic = report.topic;
  Partition none;
  Partition* partition = &none;
  if (report.partition >= 0 && static_cast<size_t>(report.partition) < topic->partitions.size()) {
    partition = &topic->partitions[static_cast<size_t>(report.partition)];
  }
  ReadReport(producer, told, *partition, &report);
  in_library_ -= std::min(in_library_, report.count);
  topic->inflight -= std::min(topic->inflight, report.count);
  if (!report.asking) {
    partition->inflight -= std::min(partition->inflight, report.count);
    partition->inflight_bytes -= std::min(partition->inflight_bytes, report.bytes);
  }
  if (topic->care.taken() && (refused_.empty() || !closed_.found)) {
    closed_.suspect.reset();
  }
  if (refused_.empty()) {
    Acknowledged(report, partition, now);
  } else {
    Failed(report, now);
  }
  if (producers_.taking()) {
    ReleaseNext(topic, partition);
  }
  if (closed_.alone && topic->care.taken() && topic->inflight == 0) {
    ReleaseAll();
  }
}

// Outcomes of what was acknowledged; the others go to refused_.
void KafkaSink::ReadReport(const Producer& producer, const Producer::Report& told, const Partition& partition,
                           Report* report) {
  refused_.clear();
  const rd_kafka_message_t* message = told.first;
  // The library counts on from the first record's offset, also where it has none.
  const bool offsets = message->offset >= 0;
  // If so, the library has inferred the success from a later batch's. If the topic was recreated, the broker takes a
  // later batch without the earlier one, and the record is nowhere. Sent again, it may be there twice.
  const bool inferred = !offsets && !report->asking && partition.inflight > told.count;
  const bool proven = !inferred && Proves(producer, partition, message->offset);
  uint32_t slot = kMaxSlots;
  uint32_t spot = 0;
  for (; message != nullptr; message = rd_kafka_event_message_next(told.event)) {
    ++report->count;
    report->bytes += RecordBytes(message->key_len, message->len);
    const Opaque opaque = Opaque::Unpack(message->_private);
    if (CodeOf(message->err) == RD_KAFKA_RESP_ERR_NO_ERROR && !proven) {
      refused_.push_back({{opaque.slot, opaque.index, 0}, RD_KAFKA_RESP_ERR_DUPLICATE_SEQUENCE_NUMBER});
    } else if (CodeOf(message->err) == RD_KAFKA_RESP_ERR_NO_ERROR) {
      if (opaque.slot != slot) {
        slot = opaque.slot;
        spot = store_.AddSpot(slot, &report->topic->name, message->partition);
      }
      report->first = offsets && report->first < 0 ? message->offset : report->first;
      report->offset = offsets ? std::max(report->offset, message->offset) : -1;
      store_.Deliver(slot, opaque.index, spot, offsets ? message->offset : -1);
    } else {
      const int code = CodeOf(message->err);
      const bool outside = report->asking && opaque.fixed && code == RD_KAFKA_RESP_ERR__UNKNOWN_PARTITION;
      refused_.push_back({{opaque.slot, opaque.index, 0}, outside ? kNoSuchPartition : code});
      if (rd_kafka_message_status(message) == RD_KAFKA_MSG_STATUS_NOT_PERSISTED) {
        store_.Unsent(opaque.slot, opaque.index);
      }
    }
  }
}

void KafkaSink::Acknowledged(const Report& report, Partition* partition, int64_t now) {
  // Offsets that go back: the topic was recreated, and its broker does not know this producer yet.
  partition->warm = report.offset < 0 || report.offset >= partition->last_offset || partition->inflight == 0;
  partition->last_offset = report.offset;
  partition->moved_at = now;
  if (report.first >= 0) {
    if (const int64_t before = report.topic->WentBack(report.partition, report.first, report.offset); before >= 0) {
      health_.Lost(OffsetsWentBack(report.topic->name, report.partition, before, report.first, WallMs() * 1000), now);
    }
  }
  report.topic->Acknowledged(report.partition, report.count, report.bytes, now);
  producers_.Delivered();
  health_.Delivered(now);
}

// After a report: what waited for it is sent, first the records of its partition.
void KafkaSink::ReleaseNext(Topic* topic, Partition* partition) {
  if (!partition->waiting.empty()) {
    Release(topic, partition);
  }
  EndDrain(topic);
  if (!topic->waiting.empty()) {
    if (topic->state == TopicState::kUnknown) {
      AskAbout(topic);
    }
    ReleaseTopic(topic);
  }
}

// The number of partitions is known, or known again with nothing in flight.
void KafkaSink::Learned(Topic* topic, int32_t at_least) {
  const int32_t count = topic->link->partitions.load(std::memory_order_relaxed);
  topic->partitions.resize(static_cast<size_t>(std::max(count, at_least)));
  topic->state = TopicState::kReady;
  topic->counted_at = now_;
  topic->recount = false;
  topic->sticky = -1;
  topic->Counted(topic->partitions.size(), now_);
  stalled_.asks |= topic->fewer_at >= 0;
}

// The class of a refusal with this code at this moment: an error of unclear origin is charged to the topic after a
// while.
ErrorClass KafkaSink::Classify(Topic* topic, int32_t partition, const ErrorRule& rule, const RefusedRecord* record) {
  if (rule.code == RD_KAFKA_RESP_ERR_INVALID_TIMESTAMP && record != nullptr) {
    const Batch& batch = store_.at(record->ref.slot).batch;
    RecordReader reader(batch.records);
    for (uint32_t index = 0; index <= record->ref.index && reader.Next(&record_); ++index) {
    }
    return topic->limits.ClassOfTimestamp(record_.timestamp_ms, WallMs());
  }
  if (rule.note == Note::kCapped && rule.error_class == ErrorClass::kDestination &&
      topic->Puzzled(partition) > kCappedTries) {
    return ErrorClass::kTopic;
  }
  return rule.error_class;
}

Error KafkaSink::ErrorOf(const Topic& topic, int code, ErrorClass error_class) {
  std::string detail;
  if (code == RD_KAFKA_RESP_ERR_INVALID_TIMESTAMP) {
    detail = error_class == ErrorClass::kTopic
                 ? "the broker finds the event's time too far from its own: look at the clocks, and at the topic's "
                   "message.timestamp.before.max.ms and message.timestamp.after.max.ms"
                 : "the event is older than the topic's message.timestamp.before.max.ms (before Kafka 3.6 "
                   "message.timestamp.difference.max.ms)";
    if (error_class != ErrorClass::kTopic && !topic.limits.known()) {
      detail +=
          ", it seems, for the topic's settings are not known: to read them takes the right DescribeConfigs on it";
    }
  }
  Error error = MakeError(code, error_class, std::move(detail));
  error.message = "topic \"" + topic.name + "\": " + error.message;
  return error;
}

// Handles a broker's refusal of a single record of a careful topic: it has its outcome, and no other is concerned.
bool KafkaSink::RefusedAlone(const Report& report, int64_t now) {
  Topic* topic = report.topic;
  if (!topic->care.taken() || report.count != 1 || report.partition < 0) {
    return false;
  }
  const RefusedRecord& record = refused_.front();
  const ErrorRule& rule = RuleFor(record.code);
  if (rule.meaning == Meaning::kRetry || record.code < 0 ||
      (rule.error_class != ErrorClass::kMessage && rule.error_class != ErrorClass::kSolo &&
       rule.error_class != ErrorClass::kTopic)) {
    return false;
  }
  const ErrorClass error_class = Classify(topic, report.partition, rule, &record);
  topic->care.Refused(now);
  if (rule.error_class != ErrorClass::kTopic) {
    WantLimits(topic, record.code);
  }
  producers_.Charged();
  FailFlow(record.ref, ErrorOf(*topic, record.code, error_class));
  if (error_class == ErrorClass::kTopic) {
    topic->care.Denied(now);
    // Its next record goes as that of a new topic, once the cluster was asked: the library would refuse it unsent.
    topic->state = TopicState::kDraining;
    topic->recount = true;
    topic->trouble.Fail();
  } else if (report.asking) {
    Learned(topic, report.partition + 1);
  }
  return true;
}

// Every record of refused_ has its outcome after this, or when the producer has ended.
void KafkaSink::Failed(const Report& report, int64_t now) {
  if (RefusedAlone(report, now)) {
    return;
  }
  if (refused_.front().code == kNoSuchPartition) {
    Learned(report.topic, 1);  // the number of partitions is what it was refused by
    FailFlow(refused_.front().ref, NoSuchPartition(*report.topic));
    return;
  }
  // From 2.4 on the library names the invalid records of a batch; the others get a code of their own.
  const bool named = std::any_of(refused_.begin(), refused_.end(),
                                 [&](const RefusedRecord& record) { return record.code == kInvalidDifferentRecord; });
  bool charged = false;
  for (const RefusedRecord& record : refused_) {
    const ErrorRule& rule = RuleFor(record.code);
    if (rule.meaning == Meaning::kRetry) {
      if (rule.error_class != ErrorClass::kNone) {
        producers_.EndedBy(MakeError(record.code, rule.error_class, {}), /*first=*/true);
      }
      continue;  // aborted when the producer has ended
    }
    const bool culprit = named && record.code == RD_KAFKA_RESP_ERR_INVALID_RECORD;
    if (!charged || culprit) {
      Charge(report, record, culprit, now);
      charged = true;
    }
  }
  if (report.asking && charged &&
      rd_kafka_fatal_error(ProducerOf(report.topic)->handle(), nullptr, 0) == RD_KAFKA_RESP_ERR_NO_ERROR) {
    // Nothing was sent: the topic is missing or forbidden. Other topics go on with this producer, so nothing later
    // aborts what was not charged.
    for (const RefusedRecord& record : refused_) {
      const Batch& batch = store_.at(record.ref.slot).batch;
      gate_.Poison(batch.flow, batch.epoch);
      store_.Abort(record.ref.slot, record.ref.index);
    }
    report.topic->state = TopicState::kUnknown;
    report.topic->trouble.Fail();
    NoteMissing(refused_.front().code);
    return;
  }
  producers_.End(now);
}

// A record was refused, or the batch that it was in; `culprit`: for its sake. Errors that are the message's or the
// topic's fault are reported for each record, even if its flow has failed already: many topics may be missing at one
// moment.
void KafkaSink::Charge(const Report& report, const RefusedRecord& record, bool culprit, int64_t now) {
  Topic* topic = report.topic;
  const ErrorRule& rule = RuleFor(record.code);
  if (record.code == RD_KAFKA_RESP_ERR_MSG_SIZE_TOO_LARGE || record.code == RD_KAFKA_RESP_ERR_INVALID_RECORD ||
      record.code == RD_KAFKA_RESP_ERR_INVALID_TIMESTAMP) {
    WantLimits(topic, record.code);
  }
  if (rule.meaning == Meaning::kBatch) {
    topic->care.Refused(now);
  }
  if (rule.meaning == Meaning::kBatch && !culprit && report.count > 1) {
    // The culprit is unknown. All are aborted; when they come again, this topic takes them one by one.
    topic->window.Refused(report.count, report.bytes, rule.note == Note::kSize, now);
    return;
  }
  const ErrorClass error_class = Classify(topic, report.partition, rule, &record);
  const Batch& batch = store_.at(record.ref.slot).batch;
  if (error_class != ErrorClass::kMessage && error_class != ErrorClass::kTopic &&
      !gate_.Admits(batch.flow, batch.epoch)) {
    return;  // its flow has failed already; aborted with the producer
  }
  Error error = ErrorOf(*topic, record.code, error_class);
  if (error_class == ErrorClass::kMessage || error_class == ErrorClass::kSolo || error_class == ErrorClass::kTopic) {
    producers_.Charged();
  }
  if (error_class == ErrorClass::kTopic && report.partition >= 0) {  // a broker says so, not the library
    topic->care.Denied(now);
  }
  if (error_class == ErrorClass::kConfig) {
    health_.SetDownByFatal(error);
  }
  FailFlow(record.ref, std::move(error));
}

// An error that is not about records. What happens to them is told by their reports alone.
void KafkaSink::Trouble(Producer* producer, rd_kafka_event_t* event, int64_t now) {
  const char* said = rd_kafka_event_error_string(event);
  std::string text = said == nullptr ? "" : said;
  const int code = EventCode(rd_kafka_event_error(event), text);
  if (code != RD_KAFKA_RESP_ERR__FATAL && !settings_.files.empty()) {
    trouble_at_ = now;
    files_at_ = files_at_ < 0 ? now : files_at_;
  }
  if (code == RD_KAFKA_RESP_ERR__FATAL) {
    Error fatal = FatalError(producer->handle());
    if (fatal.error_class == ErrorClass::kConfig) {
      health_.SetDownByFatal(std::move(fatal));
    } else {
      producers_.EndedBy(std::move(fatal), /*first=*/false);
    }
    producers_.End(now);
  } else if (code == RD_KAFKA_RESP_ERR__ALL_BROKERS_DOWN) {
    health_.AllBrokersDown(code, text, in_library_ > 0 && producer == producers_.main() && !throttle_.Excuses(now),
                           now);
  } else if (EventClass(code) == ErrorClass::kConfig) {
    health_.Refused(MakeError(code, ErrorClass::kConfig, settings_.Explain(code, text)), now);
  } else if (code == RD_KAFKA_RESP_ERR__CRIT_SYS_RESOURCE) {
    // No thread for a broker: the library does not try again (it would know no broker at all), another handle does.
    health_.SetDown(MakeError(code, ErrorClass::kDestination, text), now);
    producers_.End(now);
  } else if (!text.empty()) {
    health_.ConnectionFailed(std::move(text), now);
  }
}

}  // namespace outbox::sink::kafka
