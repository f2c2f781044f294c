// What topics are known to refuse. A record that a broker refuses costs a producer, and with it a moment of every topic
// and lane; where one in ten is refused for the same setting of its topic, that is nearly all the time. So the setting
// is asked for after the first, and the next are refused here: max.message.bytes, and cleanup.policy (a compacted topic
// takes no record without a key). Without the right to ask (DescribeConfigs) the topic is careful (topic.h).
#include <algorithm>
#include <cstdlib>
#include <string_view>

#include "sink/kafka/kafka_sink.h"

namespace outbox::sink::kafka {
namespace {

constexpr int64_t kSecond = 1'000'000;
constexpr int64_t kFreshMicros = 2 * kSecond;    // a limit may be raised at any time, with a redrive at once
constexpr int64_t kAgainMicros = kSecond;        // asked again so often while something is refused by the answer
constexpr int64_t kUsedMicros = 60 * kSecond;    // and for so long after
constexpr int64_t kInVainMicros = 60 * kSecond;  // without the right to ask, or an answer
constexpr int64_t kHoldMicros = kSecond / 2;     // records wait so long for the answer: each may cost a producer
constexpr int kAskMs = 5000;

// The least size of a batch with this record.
uint64_t LeastBytes(const Record& record) {
  uint64_t bytes = record.key.size() + record.body.size();
  for (const Field& field : record.fields) {
    bytes += field.name.size() + field.value.size();
  }
  return bytes;
}

}  // namespace

int KafkaSink::KnownToBeRefused(Topic* topic, const Record& record) {
  Topic::Limits& limits = topic->limits;
  if (limits.until == 0) {
    return 0;
  }
  const bool too_large = limits.max_bytes != 0 && !settings_.compresses && LeastBytes(record) > limits.max_bytes;
  const bool keyless = limits.compacted && record.key.data() == nullptr;
  if ((!too_large && !keyless) || now_ >= limits.until) {
    return 0;
  }
  limits.used_at = now_;
  return too_large ? RD_KAFKA_RESP_ERR_MSG_SIZE_TOO_LARGE : RD_KAFKA_RESP_ERR_INVALID_RECORD;
}

// A record was refused for what may be the topic's settings. Until they are known the topic's other records wait,
// unless it is already known that there is no answer.
void KafkaSink::WantLimits(Topic* topic, int code) {
  if (code == RD_KAFKA_RESP_ERR_MSG_SIZE_TOO_LARGE && settings_.compresses) {
    return;
  }
  Topic::Limits& limits = topic->limits;
  limits.wanted = true;
  limits.used_at = now_;
  if (now_ >= limits.until && (limits.until != 0 || limits.asked_at == 0)) {
    limits.hold_until = now_ + kHoldMicros;
    limits_at_ = now_;
  } else if (limits_at_ < 0) {
    limits_at_ = now_;
  }
}

// Sends on what waited for the answer, when it came or took too long.
void KafkaSink::EndHold(Topic* topic) {
  topic->limits.hold_until = 0;
  if (phase_ == Phase::kRunning && !topic->waiting.empty()) {
    if (topic->state == TopicState::kUnknown) {
      AskAbout(topic);
    }
    ReleaseTopic(topic);
  }
}

void KafkaSink::AskForLimits(int64_t now) {
  limits_at_ = -1;
  for (auto& [name, topic] : topics_) {
    Topic::Limits& limits = topic->limits;
    if (limits.wanted && now - limits.used_at > kUsedMicros) {
      limits = Topic::Limits{};
    }
    if (!limits.wanted) {
      continue;
    }
    const int64_t pause = limits.hold_until != 0                      ? 0
                          : limits.until == 0 && limits.asked_at != 0 ? kInVainMicros
                                                                      : kAgainMicros;
    if (!limits.asked && now - limits.asked_at >= pause) {
      limits.asked = true;
      limits.asked_at = now;
      producer_->DescribeTopic(name, topic.get(), kAskMs);
    }
    if (limits.hold_until != 0 && now >= limits.hold_until) {
      EndHold(topic.get());
    }
    const int64_t next = limits.hold_until != 0 ? limits.hold_until : now + kAgainMicros;
    limits_at_ = limits_at_ < 0 ? next : std::min(limits_at_, next);
  }
}

void KafkaSink::LimitsAnswered(Topic* topic, rd_kafka_event_t* event, int64_t now) {
  Topic::Limits& limits = topic->limits;
  limits.asked = false;
  limits.until = 0;
  ReadLimits(&limits, event, now);
  if (limits.until != 0 && topic->careful && topic->state == TopicState::kUnknown && topic->inflight == 0) {
    topic->EndCare();  // it can be known before
  }
  if (limits.until != 0 && limits.max_bytes != 0 && !settings_.compresses) {
    topic->LimitBatches(limits.max_bytes);
  }
  EndHold(topic);
}

void KafkaSink::ReadLimits(Topic::Limits* into, rd_kafka_event_t* event, int64_t now) {
  Topic::Limits& limits = *into;
  const rd_kafka_DescribeConfigs_result_t* result = rd_kafka_event_DescribeConfigs_result(event);
  size_t count = 0;
  const rd_kafka_ConfigResource_t** resources =
      result == nullptr ? nullptr : rd_kafka_DescribeConfigs_result_resources(result, &count);
  if (CodeOf(rd_kafka_event_error(event)) != RD_KAFKA_RESP_ERR_NO_ERROR || count != 1 ||
      rd_kafka_ConfigResource_error(resources[0]) != RD_KAFKA_RESP_ERR_NO_ERROR) {
    return;
  }
  const rd_kafka_ConfigEntry_t** entries = rd_kafka_ConfigResource_configs(resources[0], &count);
  for (size_t i = 0; i < count; ++i) {
    const char* value = rd_kafka_ConfigEntry_value(entries[i]);
    if (value == nullptr) {
      continue;
    }
    const std::string_view name = rd_kafka_ConfigEntry_name(entries[i]);
    if (name == "max.message.bytes") {
      limits.max_bytes = std::strtoull(value, nullptr, 10);
    } else if (name == "cleanup.policy") {
      limits.compacted = std::string_view(value).find("compact") != std::string_view::npos;
    }
  }
  limits.until = now + kFreshMicros;
}

}  // namespace outbox::sink::kafka
