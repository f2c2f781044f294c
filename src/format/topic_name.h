// What a topic and a header may be called [-]. Used by emit/ (explicit topic, user headers), admin/ (templates) and
// relay/ (the topic that a template gave), so that a bad name is found as early as possible and never asked of a
// broker.
//
// Each function returns nullptr for a good name, else the reason: a lower-case phrase that follows "topic name ..." or
// "header name ...", for example "is longer than 249 characters". Static storage.
#pragma once

#include <cstddef>
#include <string_view>

namespace outbox::format {

inline constexpr size_t kMaxKafkaTopic = 249;
inline constexpr size_t kMaxRedisTopic = 512;

// 1 to 249 of [A-Za-z0-9._-], and not "." or ".." (Kafka's own rule, org.apache.kafka.common.internals.Topic).
const char* BadKafkaTopic(std::string_view topic);
// One of [A-Za-z0-9._-].
bool IsKafkaTopicCharacter(char c);
// 1 to 512 bytes without NUL, CR and LF (ours: Redis itself takes anything).
const char* BadRedisTopic(std::string_view topic);

// Names that the wire formats use themselves: id, type, aggregate_type, content-type, content_type, created_at, key,
// payload, outbox-replay; also an empty name and one longer than 32,767 bytes. ASCII case does not matter.
const char* BadHeaderName(std::string_view name);

}  // namespace outbox::format
