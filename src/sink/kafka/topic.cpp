#include "sink/kafka/topic.h"

#include <algorithm>

namespace outbox::sink::kafka {
namespace {

constexpr uint64_t kNoCeiling = uint64_t{4} << 20;  // a window of this size limits nothing any more

}  // namespace

void Topic::Reset() {
  state = TopicState::kUnknown;
  link = nullptr;
  partitions.clear();
  waiting.clear();
  inflight = 0;
  held = 0;
  sticky = -1;
  failed = false;
}

void Topic::Refused(uint32_t count, uint64_t bytes, bool too_large) {
  window = 1;
  suspects = too_large ? 0 : count;  // a size is found by growing, and costs nobody else
  ceiling = too_large ? std::max<uint64_t>(bytes / 2, 1) : kNoCeiling;
}

void Topic::Acknowledged(uint32_t count, uint64_t bytes) {
  if (window == 0) {
    return;
  }
  if (suspects > 0) {
    suspects -= std::min<uint64_t>(suspects, count);
    return;
  }
  window = std::min(std::max(window, 2 * bytes), ceiling);
  if (window >= kNoCeiling) {
    window = 0;
  }
}

bool Topic::Admits(const Partition& partition, uint64_t bytes) const {
  if (partition.inflight == 0) {
    return true;
  }
  return partition.warm && (window == 0 || partition.inflight_bytes + bytes <= window);
}

}  // namespace outbox::sink::kafka
