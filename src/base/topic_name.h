// Names of topics [-], as destinations take them. Each kind of destination has a rule of its own (sink/kind.h); these
// two are what such rules are made of.
//
// The functions over names return nullptr for a good one, else the reason: a lower-case phrase that follows "topic name
// ...", for example "is longer than 249 characters". Static storage.
#pragma once

#include <cstddef>
#include <string_view>

namespace outbox {

inline constexpr size_t kMaxPortableTopic = 249;
inline constexpr size_t kMaxFreeTopic = 512;

// Names that every destination takes, and so those that an event may ask for: 1 to 249 of [A-Za-z0-9._-], and not "."
// or "..", nor one that Kafka's brokers let nobody make or write to. (Kafka's own rules,
// org.apache.kafka.common.internals.Topic.)
const char* BadPortableTopic(std::string_view topic);
// One of [A-Za-z0-9._-].
bool IsPortableTopicCharacter(char c);

// For destinations to which a name is just text: 1 to 512 bytes without NUL, CR and LF.
const char* BadFreeTopic(std::string_view topic);
bool IsFreeTopicCharacter(char c);

}  // namespace outbox
