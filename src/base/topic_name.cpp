#include "base/topic_name.h"

#include <algorithm>
#include <array>

namespace outbox {

namespace {

constexpr std::array<bool, 256> MakePortableCharacters() {
  std::array<bool, 256> good{};
  for (int c = 0; c < 256; ++c) {
    good[c] =
        (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '.' || c == '_' || c == '-';
  }
  return good;
}
constexpr std::array<bool, 256> kPortableCharacters = MakePortableCharacters();

// Of Kafka, whatever its release: an older one lets anybody have some of these, until it is updated.
constexpr std::array<std::string_view, 4> kBrokersOwn = {"__consumer_offsets", "__transaction_state",
                                                         "__share_group_state", "__cluster_metadata"};

}  // namespace

bool IsPortableTopicCharacter(char c) {
  return kPortableCharacters[static_cast<unsigned char>(c)];
}

const char* BadPortableTopic(std::string_view topic) {
  if (topic.empty()) {
    return "is empty";
  }
  if (topic.size() > kMaxPortableTopic) {
    return "is longer than 249 characters";
  }
  if (topic == "." || topic == "..") {
    return "is \".\" or \"..\"";
  }
  if (std::find(kBrokersOwn.begin(), kBrokersOwn.end(), topic) != kBrokersOwn.end()) {
    return "is one that Kafka keeps for itself";
  }
  if (!std::all_of(topic.begin(), topic.end(), IsPortableTopicCharacter)) {
    return "has characters other than letters, digits, \".\", \"_\" and \"-\"";
  }
  return nullptr;
}

bool IsFreeTopicCharacter(char c) {
  return c != '\0' && c != '\r' && c != '\n';
}

const char* BadFreeTopic(std::string_view topic) {
  if (topic.empty()) {
    return "is empty";
  }
  if (topic.size() > kMaxFreeTopic) {
    return "is longer than 512 bytes";
  }
  if (!std::all_of(topic.begin(), topic.end(), IsFreeTopicCharacter)) {
    return "has a zero byte or a line end";
  }
  return nullptr;
}

}  // namespace outbox
