#include "format/topic_name.h"

#include <algorithm>
#include <array>

namespace outbox::format {

namespace {

constexpr std::array<bool, 256> MakeKafkaCharacters() {
  std::array<bool, 256> good{};
  for (int c = 0; c < 256; ++c) {
    good[c] =
        (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '.' || c == '_' || c == '-';
  }
  return good;
}
constexpr std::array<bool, 256> kKafkaCharacters = MakeKafkaCharacters();

constexpr std::string_view kReservedHeaders[] = {"id",         "type", "aggregate_type", "content-type", "content_type",
                                                 "created_at", "key",  "payload",        "outbox-replay"};
constexpr size_t kMaxHeaderName = 32767;

bool EqualsIgnoringCase(std::string_view text, std::string_view lower) {
  return std::equal(text.begin(), text.end(), lower.begin(), lower.end(),
                    [](char a, char b) { return (a >= 'A' && a <= 'Z' ? static_cast<char>(a + 32) : a) == b; });
}

}  // namespace

bool IsKafkaTopicCharacter(char c) {
  return kKafkaCharacters[static_cast<unsigned char>(c)];
}

const char* BadKafkaTopic(std::string_view topic) {
  if (topic.empty()) {
    return "is empty";
  }
  if (topic.size() > kMaxKafkaTopic) {
    return "is longer than 249 characters";
  }
  if (topic == "." || topic == "..") {
    return "is \".\" or \"..\"";
  }
  if (!std::all_of(topic.begin(), topic.end(), IsKafkaTopicCharacter)) {
    return "has characters other than letters, digits, \".\", \"_\" and \"-\"";
  }
  return nullptr;
}

const char* BadRedisTopic(std::string_view topic) {
  if (topic.empty()) {
    return "is empty";
  }
  if (topic.size() > kMaxRedisTopic) {
    return "is longer than 512 bytes";
  }
  if (std::any_of(topic.begin(), topic.end(), [](char c) { return c == '\0' || c == '\r' || c == '\n'; })) {
    return "has a zero byte or a line end";
  }
  return nullptr;
}

const char* BadHeaderName(std::string_view name) {
  if (name.empty()) {
    return "is empty";
  }
  if (name.size() > kMaxHeaderName) {
    return "is longer than 32767 bytes";
  }
  if (std::any_of(std::begin(kReservedHeaders), std::end(kReservedHeaders),
                  [&](std::string_view reserved) { return EqualsIgnoringCase(name, reserved); })) {
    return "is reserved";
  }
  return nullptr;
}

}  // namespace outbox::format
