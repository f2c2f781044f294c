// When transactions committed [-]: a ring in shared memory, written by each commit that emitted, read by the workers,
// which have the transaction id of each event. Without a lock: an entry is one word, the time with a part of the id, so
// that it is whole or another one's. What was overwritten (65,536 transactions later), came before a restart, or was
// committed by COMMIT PREPARED is not known.
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>

namespace outbox {

// All zero when made. Times in microseconds of the monotonic clock.
class CommitTimes {
 public:
  void Note(uint64_t xid, int64_t at) {
    entries_[xid % kEntries].store(Tag(xid) | (static_cast<uint64_t>(at) & kTimeMask), std::memory_order_relaxed);
  }
  // 0: not known.
  int64_t Find(uint64_t xid, int64_t now) const {
    const uint64_t entry = entries_[xid % kEntries].load(std::memory_order_relaxed);
    if (entry == 0 || (entry & ~kTimeMask) != Tag(xid)) {
      return 0;
    }
    const uint64_t ago = (static_cast<uint64_t>(now) - entry) & kTimeMask;
    return ago > kTimeMask / 2 ? now : now - static_cast<int64_t>(ago);  // `now` was read before the commit
  }

 private:
  static constexpr size_t kEntries = 65536;
  static constexpr int kTimeBits = 44;  // 203 days, of which the older half does not count
  static constexpr uint64_t kTimeMask = (uint64_t{1} << kTimeBits) - 1;
  static uint64_t Tag(uint64_t xid) { return (xid / kEntries) << kTimeBits; }

  std::array<std::atomic<uint64_t>, kEntries> entries_;
};

}  // namespace outbox
