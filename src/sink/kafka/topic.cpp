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

void Topic::LearnLimit(uint64_t refused_bytes, bool too_large) {
  window = 1;  // one record at a time, to begin with
  ceiling = too_large ? std::max<uint64_t>(refused_bytes / 2, 1) : kNoCeiling;
}

void Topic::Acknowledged(uint64_t bytes) {
  if (window == 0) {
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
