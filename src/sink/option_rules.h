// Helpers for a kind's table of option rules, and its checks [-]. For options.cpp here and in the folders of kinds.
#pragma once

#include "sink/options.h"

namespace outbox::sink {

inline constexpr const char* kInvalidValue = "22023";

inline bool HasOption(const Options& options, const char* name) {
  return options.count(name) != 0;
}

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
// The rule with `values` (separated by |) for superusers only. `why` is a whole sentence: it becomes the DETAIL.
constexpr OptionRule Reserved(OptionRule rule, const char* values, const char* why) {
  rule.reserved = values;
  rule.why_reserved = why;
  return rule;
}
// The rule with what other users can do instead, a whole sentence: it becomes the HINT.
constexpr OptionRule Instead(const char* instead, OptionRule rule) {
  rule.instead = instead;
  return rule;
}
constexpr OptionRule Alias(const char* name, const char* canonical) {
  return {name, canonical, OptionGroup::kOwner, ValueType::kText, 0, 0, nullptr, ""};
}
// `why` is a whole sentence: it becomes the DETAIL.
// `to`: values that may be given all the same, separated by |: those that it has anyway. nullptr: none.
constexpr OptionRule Fixed(const char* name, const char* why, const char* to = nullptr) {
  OptionRule rule = {name, nullptr, OptionGroup::kFixed, ValueType::kText, 0, 0, nullptr, why};
  rule.fixed_to = to;
  return rule;
}
constexpr OptionRule Never(const char* name, const char* why) {
  return {name, nullptr, OptionGroup::kNever, ValueType::kText, 0, 0, nullptr, why};
}
constexpr OptionRule Consumer(const char* name) {
  return {name, nullptr, OptionGroup::kConsumer, ValueType::kText, 0, 0, nullptr, ""};
}

}  // namespace rules
}  // namespace outbox::sink
