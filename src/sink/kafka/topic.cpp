#include "sink/kafka/topic.h"

#include <algorithm>
#include <cstddef>
#include <utility>

#include "base/monotonic.h"

namespace outbox::sink::kafka {
namespace {

constexpr int64_t kFewerMicros = 10 * kSecond;

}  // namespace

void Topic::LineUp() {
  for (auto partition = partitions.rbegin(); partition != partitions.rend(); ++partition) {
    waiting.insert(waiting.begin(), partition->waiting.begin(), partition->waiting.end());
    partition->waiting.clear();
  }
}

void Topic::Reset() {
  state = TopicState::kUnknown;
  link = nullptr;
  partitions.clear();
  inflight = 0;
  sticky = -1;
  trouble.ProducerEnded();
  limits.ProducerEnded();
  care.ProducerEnded();
  recount = false;
}

void Topic::AskAgain() {
  state = TopicState::kUnknown;
  partitions.clear();
  sticky = -1;
  recount = false;
}

void Topic::EndCare() {
  care.End();
  trouble.ForgetAnswers();
  state = TopicState::kUnknown;
  link = nullptr;
  partitions.clear();
  sticky = -1;
}

void Topic::Acknowledged(int32_t partition, uint32_t count, uint64_t bytes, int64_t now) {
  trouble.Acknowledged(partition);
  care.Acknowledged(now);
  window.Acknowledged(count, bytes, now);
  if (static_cast<size_t>(partition) + 1 < puzzles.size()) {
    puzzles[static_cast<size_t>(partition) + 1] = 0;
  }
  if (!puzzles.empty()) {
    puzzles[0] = 0;
  }
}

int64_t Topic::WentBack(int32_t partition, int64_t first, int64_t last) {
  const auto at = static_cast<size_t>(partition);
  if (at >= ends.size()) {
    ends.resize(at + 1, -1);
  }
  const int64_t before = std::exchange(ends[at], last);
  return first <= before ? before : -1;
}

void Topic::Counted(size_t count, int64_t now) {
  const auto gone = ends.begin() + static_cast<std::ptrdiff_t>(std::min(count, ends.size()));
  const bool fewer = std::any_of(gone, ends.end(), [](int64_t end) { return end >= 0; });
  fewer_at = !fewer ? -1 : fewer_at < 0 ? now + kFewerMicros : fewer_at;
}

int32_t Topic::TakeGone(size_t count, int64_t* before) {
  int32_t first = -1;
  for (size_t i = ends.size(); i > count; --i) {
    first = ends[i - 1] >= 0 ? static_cast<int32_t>(i - 1) : first;
  }
  *before = first >= 0 ? ends[static_cast<size_t>(first)] : -1;
  ends.resize(std::min(ends.size(), count));
  return first;
}

uint32_t Topic::Puzzled(int32_t partition) {
  const auto at = static_cast<size_t>(partition) + 1;
  puzzles.resize(std::max(puzzles.size(), at + 1));
  return ++puzzles[at];
}

bool Topic::Admits(const Partition& partition, uint64_t bytes) const {
  if (partition.inflight == 0) {
    return true;
  }
  return !care.taken() && partition.warm && window.Admits(partition.inflight_bytes, bytes);
}

Topic* TopicTable::Find(std::string_view name) {
  if (last_ != nullptr && last_->name == name) {
    return last_;
  }
  auto found = topics_.find(name);
  if (found == topics_.end()) {
    found = topics_.emplace(std::string(name), std::make_unique<Topic>(name, raise_micros_)).first;
  }
  return last_ = found->second.get();
}

void TopicTable::Clear() {
  topics_.clear();
  last_ = nullptr;
}

}  // namespace outbox::sink::kafka
