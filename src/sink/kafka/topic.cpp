#include "sink/kafka/topic.h"

#include <librdkafka/rdkafka.h>

#include <algorithm>

#include "sink/kafka/looker.h"

namespace outbox::sink::kafka {
namespace {

constexpr int64_t kShortestCare = 500'000;
constexpr int64_t kLongestCare = 8'000'000;
constexpr int64_t kCarelessMicros = 60'000'000;  // after so long without a refusal earlier ones do not count
constexpr int64_t kRaiseStepMicros = 5'000'000;
constexpr int64_t kLongestRaiseMicros = int64_t{3600} * 1'000'000;
constexpr uint64_t kNoCeiling = uint64_t{4} << 20;   // above what any topic is limited to on purpose
constexpr uint64_t kWholeBatch = uint64_t{1} << 20;  // a window that takes the library's largest batch needs no limit

}  // namespace

void Topic::Fail() {
  if (!failed) {
    failed = true;
    look.before = 0;
  }
}

void Topic::Looked(const TopicAnswer& answer, int64_t now) {
  look = {false, 0, look.asked_before, answer.code};
  failed = answer.answered && answer.code != RD_KAFKA_RESP_ERR_NO_ERROR &&
           answer.code != RD_KAFKA_RESP_ERR_LEADER_NOT_AVAILABLE;
  if (answer.answered && leaderless && !answer.leaderless) {
    stalled_until = now;  // it has leaders again: another producer may be risked
  }
  leaderless = answer.answered ? answer.leaderless : leaderless;
}

void Topic::Reset() {
  state = TopicState::kUnknown;
  link = nullptr;
  partitions.clear();
  waiting.clear();
  inflight = 0;
  waiting_records = 0;
  sticky = -1;
  failed = false;
  look = Look{};
  careful = to_be_careful;
  limits.asked_at = limits.asked ? 0 : limits.asked_at;  // it will not be answered: ask the next producer at once
  limits.asked = false;
}

void Topic::BeCareful(int64_t now) {
  if (!to_be_careful) {
    careful_for = careful_until != 0 && now - careful_until < kCarelessMicros ? std::min(4 * careful_for, kLongestCare)
                                                                              : kShortestCare;
  }
  to_be_careful = true;
  careful_until = now + careful_for;
}

void Topic::EndCare() {
  careful = to_be_careful = false;
  state = TopicState::kUnknown;
  link = nullptr;
  look = Look{};
  partitions.clear();
  sticky = -1;
}

void Topic::Refused(uint32_t count, uint64_t bytes, bool too_large, int64_t now) {
  window = 1;
  suspects = too_large ? 0 : count;  // the size limit is found by growing, at no cost to other records
  if (!too_large) {
    ceiling = ceiling == 0 ? kNoCeiling : ceiling;
    return;
  }
  ceiling = std::max<uint64_t>(bytes / 2, 1);
  raise_after = raised ? std::min(2 * raise_after, kLongestRaiseMicros) : raise_after;
  raised = false;
  raise_at = now + raise_after;
}

// With some room: RecordBytes leaves out what headers take. Only ever lowers the window: a refused batch is better
// evidence, and more is tried in time.
void Topic::LimitBatches(uint64_t most) {
  const uint64_t allowed = std::max<uint64_t>(most - most / 4, 1);
  if (allowed < kWholeBatch && (ceiling == 0 || allowed < ceiling)) {
    ceiling = allowed;
    window = window == 0 ? allowed : std::min(window, allowed);
  }
}

void Topic::Acknowledged(int32_t partition, uint32_t count, uint64_t bytes, int64_t now) {
  failed = false;
  stalls = 0;
  leaderless = false;
  if (static_cast<size_t>(partition) + 1 < puzzles.size()) {
    puzzles[static_cast<size_t>(partition) + 1] = 0;
  }
  if (!puzzles.empty()) {
    puzzles[0] = 0;
  }
  if (window == 0) {
    return;
  }
  if (suspects > 0) {
    suspects -= std::min<uint64_t>(suspects, count);
    return;
  }
  if (ceiling < kNoCeiling && now >= raise_at) {
    ceiling *= 2;
    raised = true;
    raise_at = now + std::min(kRaiseStepMicros, raise_after);
  }
  window = std::min(std::max(window, 2 * bytes), ceiling);
  if (ceiling >= kNoCeiling && window >= kWholeBatch) {
    window = 0;
    ceiling = 0;
  }
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
  return !careful && partition.warm && (window == 0 || partition.inflight_bytes + bytes <= window);
}

}  // namespace outbox::sink::kafka
