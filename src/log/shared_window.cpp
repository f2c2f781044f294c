#include "log/shared_window.h"

#include <algorithm>
#include <utility>

namespace outbox::log {

Event* WindowRows::Add(size_t bytes) {
  bytes_ += bytes;
  if (bytes_ > kMostBytes) {
    complete_ = false;
    chunk_ = EventChunk();
  }
  return complete_ ? &chunk_.events.emplace_back() : nullptr;
}

void SharedWindows::BeginTurn() {
  now_.reset();
  windows_.clear();
}

const SharedWindow* SharedWindows::Find(const Snapshot& base) const {
  const auto found =
      std::find_if(windows_.begin(), windows_.end(), [&](const SharedWindow& window) { return window.from == base; });
  return found == windows_.end() ? nullptr : &*found;
}

void SharedWindows::ChooseEnd(const Snapshot& base, Snapshot* now, uint64_t* durable_lsn) {
  if (now_ && now_->Covers(base)) {
    *now = *now_;
    *durable_lsn = durable_lsn_;
    return;
  }
  windows_.clear();
  now_ = *now;
  durable_lsn_ = *durable_lsn;
}

}  // namespace outbox::log
