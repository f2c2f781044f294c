#include "sink/kafka/batch_window.h"

#include <algorithm>

#include "base/monotonic.h"

namespace outbox::sink::kafka {
namespace {

constexpr int64_t kRaiseStepMicros = 5'000'000;
constexpr int64_t kLongestRaiseMicros = 3600 * kSecond;
constexpr uint64_t kNoCeiling = uint64_t{4} << 20;   // above what any topic is limited to on purpose
constexpr uint64_t kWholeBatch = uint64_t{1} << 20;  // a window that takes the library's largest batch needs no limit

}  // namespace

void BatchWindow::Refused(uint32_t count, uint64_t bytes, bool too_large, int64_t now) {
  bytes_ = 1;
  suspects_ = too_large ? 0 : count;  // the size limit is found by growing, at no cost to other records
  if (!too_large) {
    ceiling_ = ceiling_ == 0 ? kNoCeiling : ceiling_;
    return;
  }
  ceiling_ = std::max<uint64_t>(bytes / 2, 1);
  raise_after_ = raised_ ? std::min(2 * raise_after_, kLongestRaiseMicros) : raise_after_;
  raised_ = false;
  raise_at_ = now + raise_after_;
}

// With some room: RecordBytes leaves out what headers take. Only ever lowers the window: a refused batch is better
// evidence, and more is tried in time.
void BatchWindow::Limit(uint64_t most) {
  const uint64_t allowed = std::max<uint64_t>(most - most / 4, 1);
  if (allowed < kWholeBatch && (ceiling_ == 0 || allowed < ceiling_)) {
    ceiling_ = allowed;
    bytes_ = bytes_ == 0 ? allowed : std::min(bytes_, allowed);
  }
}

void BatchWindow::Acknowledged(uint32_t count, uint64_t bytes, int64_t now) {
  if (bytes_ == 0) {
    return;
  }
  if (suspects_ > 0) {
    suspects_ -= std::min<uint64_t>(suspects_, count);
    return;
  }
  if (ceiling_ < kNoCeiling && now >= raise_at_) {
    ceiling_ *= 2;
    raised_ = true;
    raise_at_ = now + std::min(kRaiseStepMicros, raise_after_);
  }
  bytes_ = std::min(std::max(bytes_, 2 * bytes), ceiling_);
  if (ceiling_ >= kNoCeiling && bytes_ >= kWholeBatch) {
    bytes_ = 0;
    ceiling_ = 0;
  }
}

}  // namespace outbox::sink::kafka
