// Events of the library: delivery reports, and what they and its errors say about the destination.
#include <algorithm>
#include <cstdio>
#include <utility>

#include "base/fault_point.h"
#include "base/monotonic.h"
#include "sink/kafka/errors.h"
#include "sink/kafka/kafka_sink.h"

namespace outbox::sink::kafka {
namespace {

constexpr int64_t kServeMicros = 20'000;  // of one Poll
constexpr int64_t kProbeAgainMicros = 1'000'000;
constexpr int kInvalidDifferentRecord = -138;  // librdkafka 2.0 has no name for it

uint32_t InFlight(const Topic& topic, int32_t partition) {
  const auto at = static_cast<size_t>(partition);
  return at < topic.partitions.size() ? topic.partitions[at].inflight : 0;
}

}  // namespace

void KafkaSink::ServeEvents(Producer* producer, int64_t now) {
  while (rd_kafka_event_t* event = producer->NextEvent()) {
    switch (rd_kafka_event_type(event)) {
      case RD_KAFKA_EVENT_DR:
        Reports(event, now);
        break;
      case RD_KAFKA_EVENT_ERROR:
        Trouble(producer, event, now);
        break;
      case RD_KAFKA_EVENT_DESCRIBECONFIGS_RESULT:
        Answered(event, now);
        break;
      case RD_KAFKA_EVENT_LOG:
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

// The records of one event have one topic and partition and came back together: a batch that was acknowledged or
// refused, or what a purge brought back.
void KafkaSink::Reports(rd_kafka_event_t* event, int64_t now) {
  const rd_kafka_message_t* message = rd_kafka_event_message_next(event);
  if (message == nullptr) {
    return;
  }
  OUTBOX_FAULT_POINT("sink.kafka.report");
  Topic* topic = static_cast<TopicLink*>(rd_kafka_topic_opaque(message->rkt))->topic;
  const int32_t number = message->partition;
  const bool asking = topic->state == TopicState::kAsking;
  if (asking && CodeOf(message->err) == RD_KAFKA_RESP_ERR_NO_ERROR) {
    Learned(topic, message->partition + 1);
  }
  Partition none;
  Partition* partition = &none;
  if (!topic->partitions.empty() && message->partition >= 0 &&
      static_cast<size_t>(message->partition) < topic->partitions.size()) {
    partition = &topic->partitions[static_cast<size_t>(message->partition)];
  }
  refused_.clear();
  uint32_t count = 0;
  uint64_t bytes = 0;
  // The library counts on from the first record's offset, also where it has none.
  const bool offsets = message->offset >= 0;
  // If so, the library has inferred the success from a later batch's. If the topic was recreated, the broker takes a
  // later batch without the earlier one, and the record is nowhere. Sent again, it may be there twice.
  const bool inferred =
      !offsets && !asking && number >= 0 && InFlight(*topic, number) > rd_kafka_event_message_count(event);
  int64_t offset = -1;
  uint32_t slot = kMaxSlots;
  uint32_t spot = 0;
  for (; message != nullptr; message = rd_kafka_event_message_next(event)) {
    ++count;
    bytes += RecordBytes(message->key_len, message->len);
    const Opaque opaque = Opaque::Unpack(message->_private);
    if (CodeOf(message->err) == RD_KAFKA_RESP_ERR_NO_ERROR && inferred) {
      refused_.push_back({{opaque.slot, opaque.index, 0}, RD_KAFKA_RESP_ERR_DUPLICATE_SEQUENCE_NUMBER});
    } else if (CodeOf(message->err) == RD_KAFKA_RESP_ERR_NO_ERROR) {
      if (opaque.slot != slot) {
        slot = opaque.slot;
        spot = store_.AddSpot(slot, &topic->name, message->partition);
      }
      offset = offsets ? std::max(offset, message->offset) : -1;
      store_.Deliver(slot, opaque.index, spot, offsets ? message->offset : -1);
    } else {
      refused_.push_back({{opaque.slot, opaque.index, 0}, CodeOf(message->err)});
    }
  }
  in_library_ -= std::min(in_library_, count);
  topic->inflight -= std::min(topic->inflight, count);
  if (!asking) {
    partition->inflight -= std::min(partition->inflight, count);
    partition->inflight_bytes -= std::min(partition->inflight_bytes, bytes);
  }
  if (refused_.empty()) {
    // Offsets that go back: the topic was recreated, and its broker does not know this producer yet.
    partition->warm = offset < 0 || offset >= partition->last_offset || partition->inflight == 0;
    partition->last_offset = offset;
    partition->moved_at = now;
    topic->Acknowledged(number, count, bytes, now);
    delivered_at_ = now;
    failures_ = 0;
    down_by_fatal_ = false;
    ended_by_ = {};
    SetWarning({});
    SetUp();
  } else {
    Failed(topic, asking, number, count, bytes, now);
  }
  if (phase_ != Phase::kRunning) {
    return;
  }
  if (!partition->waiting.empty()) {
    Release(topic, partition);
  }
  if (topic->state == TopicState::kDraining && topic->inflight == 0 && topic->held == topic->waiting.size()) {
    if (!EndCare(topic)) {
      Learned(topic, 1);
    }
  }
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
  topic->sticky = -1;
}

// The class of a refusal with this code at this moment: an error of unclear origin is charged to the topic after a
// while.
ErrorClass KafkaSink::Classify(Topic* topic, int32_t partition, const ErrorRule& rule) {
  if (rule.note == Note::kCapped && rule.error_class == ErrorClass::kDestination &&
      topic->Puzzled(partition) > kCappedTries) {
    return ErrorClass::kTopic;
  }
  return rule.error_class;
}

// Handles the refusal of a single record of a careful topic: it has its outcome, and no other record is concerned.
bool KafkaSink::RefusedAlone(Topic* topic, bool asking, int32_t partition, uint32_t count, int64_t now) {
  if (!topic->careful || count != 1 || partition < 0) {
    return false;
  }
  const RefusedRecord& record = refused_.front();
  const ErrorRule& rule = RuleFor(record.code);
  if (rule.verdict != Verdict::kBatch ||
      (rule.error_class != ErrorClass::kMessage && rule.error_class != ErrorClass::kSolo)) {
    return false;
  }
  topic->BeCareful(now);
  WantLimits(topic, record.code);
  Error error = MakeError(record.code, rule.error_class, {});
  error.message = "topic \"" + topic->name + "\": " + error.message;
  failures_ = 0;
  FailFlow(record.held, std::move(error));
  if (asking) {
    Learned(topic, partition + 1);
  }
  return true;
}

// Every record of refused_ has its outcome after this, or when the producer has ended. Errors that are the message's or
// the topic's fault are reported for each record, even if its flow has failed already: many topics may be missing at
// one moment.
void KafkaSink::Failed(Topic* topic, bool asking, int32_t partition, uint32_t count, uint64_t bytes, int64_t now) {
  if (RefusedAlone(topic, asking, partition, count, now)) {
    return;
  }
  // From 2.4 on the library names the invalid records of a batch; the others get a code of their own.
  const bool named = std::any_of(refused_.begin(), refused_.end(),
                                 [&](const RefusedRecord& record) { return record.code == kInvalidDifferentRecord; });
  bool charged = false;
  for (const RefusedRecord& record : refused_) {
    const ErrorRule& rule = RuleFor(record.code);
    if (rule.verdict == Verdict::kRetry) {
      if (ended_by_.ok() && rule.error_class != ErrorClass::kNone) {
        ended_by_ = MakeError(record.code, rule.error_class, {});
      }
      continue;  // aborted when the producer has ended
    }
    const bool culprit = named && record.code == RD_KAFKA_RESP_ERR_INVALID_RECORD;
    if (charged && !culprit) {
      continue;
    }
    charged = true;
    if (record.code == RD_KAFKA_RESP_ERR_MSG_SIZE_TOO_LARGE || record.code == RD_KAFKA_RESP_ERR_INVALID_RECORD) {
      WantLimits(topic, record.code);
    }
    if (rule.verdict == Verdict::kBatch) {
      topic->BeCareful(now);
    }
    if (rule.verdict == Verdict::kBatch && !culprit && count > 1) {
      // The culprit is unknown. All are aborted; when they come again, this topic takes them one by one.
      topic->Refused(count, bytes, rule.note == Note::kSize, now);
      continue;
    }
    const ErrorClass error_class = Classify(topic, partition, rule);
    const Batch& batch = store_.at(record.held.slot).batch;
    if (error_class != ErrorClass::kMessage && error_class != ErrorClass::kTopic &&
        !gate_.Admits(batch.flow, batch.epoch)) {
      continue;  // its flow has failed already; aborted below
    }
    Error error = MakeError(record.code, error_class, {});
    error.message = "topic \"" + topic->name + "\": " + error.message;
    if (error_class == ErrorClass::kMessage || error_class == ErrorClass::kSolo) {
      failures_ = 0;  // the event is parked: many of them in a row are no reason to slow down
    }
    if (error_class == ErrorClass::kConfig) {
      down_by_fatal_ = true;
      SetDown(error, now);
    }
    FailFlow(record.held, std::move(error));
  }
  if (asking && charged &&
      rd_kafka_fatal_error(ProducerOf(topic)->handle(), nullptr, 0) == RD_KAFKA_RESP_ERR_NO_ERROR) {
    // Nothing was sent: the topic is missing or forbidden. Other topics go on with this producer, so nothing later
    // aborts what was not charged.
    for (const RefusedRecord& record : refused_) {
      const Batch& batch = store_.at(record.held.slot).batch;
      gate_.Poison(batch.flow, batch.epoch);
      store_.Abort(record.held.slot, record.held.index);
    }
    topic->state = TopicState::kUnknown;
    topic->failed = true;
    return;
  }
  EndProducer(now);
}

// An error that is not about records. What happens to them is told by their reports alone.
void KafkaSink::Trouble(Producer* producer, rd_kafka_event_t* event, int64_t now) {
  const int code = rd_kafka_event_error(event);
  const char* said = rd_kafka_event_error_string(event);
  std::string text = said == nullptr ? "" : said;
  if (code == RD_KAFKA_RESP_ERR__FATAL) {
    char why[512] = "";
    const int real = rd_kafka_fatal_error(producer->handle(), why, sizeof why);
    if (RuleFor(real).error_class == ErrorClass::kConfig) {
      down_by_fatal_ = true;
      SetDown(MakeError(real, ErrorClass::kConfig, why), now);
    } else {
      ended_by_ = MakeError(real, ErrorClass::kFatalClient, why);
    }
    EndProducer(now);
  } else if (code == RD_KAFKA_RESP_ERR__ALL_BROKERS_DOWN) {
    if (in_library_ == 0 && health_.up) {
      probe_at_ = probing_ ? probe_at_ : now;  // may be no more than idle connections that were closed
    } else if (health_.up || health_.error.error_class != ErrorClass::kConfig) {
      SetDown(MakeError(code, ErrorClass::kDestination, last_trouble_.empty() ? text : last_trouble_), now);
    }
  } else if (EventClass(code) == ErrorClass::kConfig) {
    SetDown(MakeError(code, ErrorClass::kConfig, text), now);
  } else if (code == RD_KAFKA_RESP_ERR__CRIT_SYS_RESOURCE) {
    // No thread for a broker: the library does not try again (it would know no broker at all), another handle does.
    SetDown(MakeError(code, ErrorClass::kDestination, text), now);
    EndProducer(now);
  } else if (!text.empty()) {
    last_trouble_ = std::move(text);
  }
}

// The answer to a probe: any answer from a broker will do.
void KafkaSink::Answered(rd_kafka_event_t* event, int64_t now) {
  if (void* topic = rd_kafka_event_opaque(event)) {
    LimitsAnswered(static_cast<Topic*>(topic), event, now);
    return;
  }
  probing_ = false;
  const int code = rd_kafka_event_error(event);
  if (code >= 0 || code == RD_KAFKA_RESP_ERR__UNSUPPORTED_FEATURE) {
    if (!down_by_fatal_) {
      SetUp();
    }
    return;
  }
  if (health_.up) {
    // Without an error about connections they are open, and no broker answers on them.
    SetDown(last_trouble_.empty()
                ? MakeError(RD_KAFKA_RESP_ERR__TIMED_OUT, ErrorClass::kDestination, "no broker answers")
                : MakeError(RD_KAFKA_RESP_ERR__ALL_BROKERS_DOWN, ErrorClass::kDestination, last_trouble_),
            now);
  }
  probe_at_ = now + kProbeAgainMicros;
}

}  // namespace outbox::sink::kafka
