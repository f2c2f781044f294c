// How the tables of option rules are written [-]. For options.cpp and options_<kind>.cpp only.
#pragma once

#include <span>

#include "sink/options.h"

namespace outbox::sink {

std::span<const OptionRule> KafkaOptionRules();
std::span<const OptionRule> RedisOptionRules();
std::span<const OptionRule> LogOptionRules();

namespace rules {

constexpr OptionRule Text(OptionGroup group, const char* name, const char* help) {
  return {name, nullptr, group, ValueType::kText, 0, 0, nullptr, help};
}
constexpr OptionRule Typed(OptionGroup group, ValueType type, const char* name, const char* help) {
  return {name, nullptr, group, type, 0, 0, nullptr, help};
}
constexpr OptionRule Bool(OptionGroup group, const char* name, const char* help) {
  return {name, nullptr, group, ValueType::kBool, 0, 0, nullptr, help};
}
constexpr OptionRule Integer(OptionGroup group, const char* name, int64_t min, int64_t max, const char* help) {
  return {name, nullptr, group, ValueType::kInteger, min, max, nullptr, help};
}
constexpr OptionRule Enum(OptionGroup group, const char* name, const char* choices, const char* help) {
  return {name, nullptr, group, ValueType::kEnum, 0, 0, choices, help};
}
constexpr OptionRule Alias(const char* name, const char* canonical) {
  return {name, canonical, OptionGroup::kOwner, ValueType::kText, 0, 0, nullptr, ""};
}
// `why` is a whole sentence: it becomes the DETAIL.
constexpr OptionRule Fixed(const char* name, const char* why) {
  return {name, nullptr, OptionGroup::kFixed, ValueType::kText, 0, 0, nullptr, why};
}
constexpr OptionRule Never(const char* name, const char* why) {
  return {name, nullptr, OptionGroup::kNever, ValueType::kText, 0, 0, nullptr, why};
}
constexpr OptionRule Consumer(const char* name) {
  return {name, nullptr, OptionGroup::kConsumer, ValueType::kText, 0, 0, nullptr, ""};
}

}  // namespace rules
}  // namespace outbox::sink
