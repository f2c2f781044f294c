#include "sink/went_back.h"

#include <cstdio>

namespace outbox::sink {
namespace {

// Which of the two it was, no broker tells: it has elected a replica that lacked it (an unclean election), has come
// back with a log directory of before, or the topic has nothing but its name in common with the former one.
Error Lost(const std::string& topic, int32_t partition, int64_t before, const std::string& now) {
  return {ErrorClass::kDestination, "OFFSETS_WENT_BACK",
          "topic \"" + topic + "\" has lost what it had acknowledged, or was made anew: partition " +
              std::to_string(partition) + " had acknowledged up to offset " + std::to_string(before) + ", and " + now};
}

}  // namespace

Error OffsetsWentBack(const std::string& topic, int32_t partition, int64_t before, int64_t offset, int64_t wall) {
  const int64_t second = wall / 1'000'000 % 86400;
  char at[16];
  snprintf(at, sizeof at, "%02d:%02d:%02d", static_cast<int>(second / 3600), static_cast<int>(second / 60 % 60),
           static_cast<int>(second % 60));
  return Lost(topic, partition, before, std::string("at ") + at + " UTC a later event at " + std::to_string(offset));
}

Error PartitionGone(const std::string& topic, int32_t partition, int64_t before, size_t count) {
  return Lost(topic, partition, before, "the topic's number of partitions is " + std::to_string(count) + " now");
}

}  // namespace outbox::sink
