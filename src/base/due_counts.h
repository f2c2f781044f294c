// Events with a deliver_at, counted by that [-]: how many are due at some moment, and since when the first of them.
// What is not due is not waiting. Exact for a thousand times; of more, times are told apart by the second, the minute,
// and so on, and an event counts as due up to so much later than it is.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <map>
#include <utility>

namespace outbox {

// Of events that wait: how many, and since when the first of them has (Unix microseconds; 0: not known, or none does).
struct DueEvents {
  uint64_t count = 0;
  int64_t since = 0;

  void Add(const DueEvents& more) {
    count += more.count;
    since = since == 0 || (more.since != 0 && more.since < since) ? more.since : since;
  }
};

class DueCounts {
 public:
  static constexpr size_t kMost = 1024;  // times

  bool empty() const { return all_ == 0; }
  uint64_t all() const { return all_; }
  void Add(int64_t due, uint64_t count = 1) {
    all_ += count;
    counts_[Key(due)] += count;
    while (counts_.size() > kMost) {
      Coarsen();
    }
  }
  void Add(const DueCounts& more) {
    for (const auto& [due, count] : more.counts_) {
      Add(due, count);
    }
  }
  // One that was added is gone.
  void Remove(int64_t due) {
    const auto found = counts_.find(Key(due));
    if (found != counts_.end()) {
      --all_;
      if (--found->second == 0) {
        counts_.erase(found);
      }
    }
  }
  DueEvents At(int64_t now) const {
    DueEvents due;
    for (auto at = counts_.begin(); at != counts_.end() && at->first <= now; ++at) {
      due.Add({at->second, at->first});
    }
    return due;
  }
  // The same, and they are counted no more.
  DueEvents Take(int64_t now) {
    const DueEvents due = At(now);
    counts_.erase(counts_.begin(), counts_.upper_bound(now));
    all_ -= due.count;
    return due;
  }
  void Clear() {
    counts_.clear();
    all_ = 0;
    unit_ = 1;
  }

 private:
  // Rounded up: each unit is a multiple of the one before, so it does not matter when that was done.
  int64_t Key(int64_t due) const {
    const int64_t over = due % unit_;
    return over <= 0 ? due - over : due > std::numeric_limits<int64_t>::max() - unit_ ? due : due - over + unit_;
  }
  void Coarsen() {
    unit_ = unit_ == 1 ? 1'000'000 : unit_ * 64;
    std::map<int64_t, uint64_t> counts;
    for (const auto& [due, count] : counts_) {
      counts[Key(due)] += count;
    }
    counts_ = std::move(counts);
  }

  std::map<int64_t, uint64_t> counts_;
  uint64_t all_ = 0;
  int64_t unit_ = 1;  // microseconds
};

}  // namespace outbox
