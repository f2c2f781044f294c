// What is told where a destination has acknowledged at a place that it had acknowledged before [-].
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

#include "base/status.h"

namespace outbox::sink {

// The code of what follows.
inline constexpr const char* kOffsetsWentBack = "OFFSETS_WENT_BACK";

// A partition only grows. `before`: the newest offset that was acknowledged until then; `offset`: the later event's;
// `wall`: when, in Unix microseconds.
Error OffsetsWentBack(const std::string& topic, int32_t partition, int64_t before, int64_t offset, int64_t wall);
// Nor does a topic get fewer partitions. `before`: as above, in one that is no more; `count`: how many there are.
Error PartitionGone(const std::string& topic, int32_t partition, int64_t before, size_t count);

}  // namespace outbox::sink
