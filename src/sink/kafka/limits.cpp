#include "sink/kafka/limits.h"

#include <algorithm>
#include <cstdlib>
#include <string_view>

#include "base/monotonic.h"
#include "sink/kafka/kafka_sink.h"
#include "sink/kafka/topic_settings.h"

namespace outbox::sink::kafka {
namespace {

constexpr int64_t kFreshMicros = 2 * kSecond;    // a limit may be raised at any time, with a redrive at once
constexpr int64_t kAgainMicros = kSecond;        // asked again so often while something is refused by the answer
constexpr int64_t kUsedMicros = 60 * kSecond;    // and for so long after
constexpr int64_t kInVainMicros = 60 * kSecond;  // without the right to ask, or an answer
constexpr int64_t kHoldMicros = kSecond / 2;     // records wait so long for the answer: each may cost a producer
constexpr int kAskMs = 5000;
constexpr int64_t kSameMs = 1000;    // clocks differ by so much where nothing is wrong
constexpr int64_t kClockMs = 60000;  // see clock_until_ms_

// The least size of a batch with this record.
uint64_t LeastBytes(const Record& record) {
  uint64_t bytes = record.key.size() + record.body.size();
  for (const Field& field : record.fields) {
    bytes += field.name.size() + field.value.size();
  }
  return bytes;
}

}  // namespace

int TopicLimits::Refuses(const Record& record, bool compresses, int64_t now, int64_t wall_ms) {
  if (until_ == 0) {
    return 0;
  }
  const bool too_large = max_bytes_ != 0 && !compresses && LeastBytes(record) > max_bytes_;
  const bool keyless = compacted_ && record.key.data() == nullptr;
  const bool too_old = wall_ms - record.timestamp_ms - kSameMs > most_age_ms_;
  if ((!too_large && !keyless && !too_old) || now >= until_) {
    return 0;
  }
  used_at_ = now;
  return too_large ? RD_KAFKA_RESP_ERR_MSG_SIZE_TOO_LARGE
         : keyless ? RD_KAFKA_RESP_ERR_INVALID_RECORD
                   : RD_KAFKA_RESP_ERR_INVALID_TIMESTAMP;
}

ErrorClass TopicLimits::ClassOfTimestamp(int64_t timestamp_ms, int64_t wall_ms) {
  const int64_t age = wall_ms - timestamp_ms;
  if (known()) {
    return age > most_age_ms_ ? ErrorClass::kMessage : ErrorClass::kTopic;
  }
  if (age > kSameMs && wall_ms >= clock_until_ms_) {
    const bool in_vain = asked_at_ != 0 && question_ != Question::kAsked;
    const bool too_old = in_vain && age >= refused_age_ms_;
    refused_age_ms_ = std::min(refused_age_ms_, age);
    return too_old ? ErrorClass::kMessage : ErrorClass::kSolo;
  }
  if (age <= kSameMs) {
    clock_until_ms_ = wall_ms + kClockMs;
    refused_age_ms_ = kAnyAge;
  }
  return ErrorClass::kTopic;
}

bool TopicLimits::Want(int64_t now) {
  question_ = std::max(question_, Question::kWanted);
  used_at_ = now;
  if (now < until_ || (until_ == 0 && asked_at_ != 0)) {
    return false;
  }
  hold_until_ = now + kHoldMicros;
  return true;
}

bool TopicLimits::Wanted(int64_t now) {
  if (question_ != Question::kNone && now - used_at_ > kUsedMicros) {
    *this = TopicLimits();
  }
  return question_ != Question::kNone;
}

bool TopicLimits::Ask(int64_t now) {
  const int64_t pause = hold_until_ != 0 ? 0 : until_ == 0 && asked_at_ != 0 ? kInVainMicros : kAgainMicros;
  if (question_ != Question::kWanted || now - asked_at_ < pause) {
    return false;
  }
  question_ = Question::kAsked;
  asked_at_ = now;
  return true;
}

int64_t TopicLimits::next_at(int64_t now) const {
  return hold_until_ != 0 ? hold_until_ : now + kAgainMicros;
}

void TopicLimits::ProducerEnded() {
  if (question_ == Question::kAsked) {
    question_ = Question::kWanted;
    asked_at_ = 0;
  }
}

void TopicLimits::Answered(rd_kafka_event_t* event, int64_t now) {
  question_ = std::min(question_, Question::kWanted);
  until_ = 0;
  int64_t most_age_ms = kAnyAge;
  bool takes_any_age = false;
  const int code = ReadSettings(event, [&](std::string_view name, const char* value) {
    if (name == "message.timestamp.before.max.ms" || name == "message.timestamp.difference.max.ms") {
      // Brokers since 3.6 have both, the second for topics that were made before.
      most_age_ms = std::min<int64_t>(most_age_ms, std::strtoll(value, nullptr, 10));
    } else if (name == "message.timestamp.type") {
      // The broker puts its own time into each record, and looks at no other.
      takes_any_age = std::string_view(value) == "LogAppendTime";
    } else if (name == "max.message.bytes") {
      max_bytes_ = std::strtoull(value, nullptr, 10);
    } else if (name == "cleanup.policy") {
      compacted_ = std::string_view(value).find("compact") != std::string_view::npos;
    }
  });
  if (code == RD_KAFKA_RESP_ERR_NO_ERROR) {
    most_age_ms_ = takes_any_age ? kAnyAge : most_age_ms;
    until_ = now + kFreshMicros;
  }
}

// A record was refused with this code: if that may be for the topic's settings, they are asked for.
void KafkaSink::WantLimits(Topic* topic, int code) {
  if (code == RD_KAFKA_RESP_ERR_MSG_SIZE_TOO_LARGE && settings_.compresses) {
    return;
  }
  if (topic->limits.Want(now_) || limits_at_ < 0) {
    limits_at_ = now_;
  }
}

// Sends on what waited for the answer, when it came or took too long.
void KafkaSink::EndHold(Topic* topic) {
  topic->limits.EndHold();
  if (producers_.taking() && !topic->waiting.empty()) {
    if (topic->state == TopicState::kUnknown) {
      AskAbout(topic);
    }
    ReleaseTopic(topic);
  }
}

void KafkaSink::AskForLimits(int64_t now) {
  limits_at_ = -1;
  for (auto& [name, topic] : topics_) {
    TopicLimits& limits = topic->limits;
    if (!limits.Wanted(now)) {
      continue;
    }
    if (limits.Ask(now)) {
      producers_.main()->DescribeTopic(name, topic.get(), kAskMs);
    }
    if (limits.hold_until() != 0 && now >= limits.hold_until()) {
      EndHold(topic.get());
    }
    const int64_t next = limits.next_at(now);
    limits_at_ = limits_at_ < 0 ? next : std::min(limits_at_, next);
  }
}

void KafkaSink::LimitsAnswered(Topic* topic, rd_kafka_event_t* event, int64_t now) {
  topic->limits.Answered(event, now);
  if (topic->limits.known() && topic->care.taken() && topic->state == TopicState::kUnknown && topic->inflight == 0) {
    topic->EndCare();  // it can be known before
  }
  if (topic->limits.known() && topic->limits.max_bytes() != 0 && !settings_.compresses) {
    topic->window.Limit(topic->limits.max_bytes());
  }
  EndHold(topic);
}

}  // namespace outbox::sink::kafka
