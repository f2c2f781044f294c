// The numbers of the records of one sink after the other [-], and since when those that have no outcome are on their
// way: what was told before that, they come after.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <iterator>
#include <string>
#include <utility>

#include "sink/sink.h"

namespace outbox::relay {

class Submissions {
 public:
  // Of the next record. Goes on with a new sink: never reused.
  uint64_t next_seq() const { return next_seq_; }
  sink::Batch Take(uint32_t flow, uint32_t epoch, uint32_t count, std::string records, int64_t now) {
    sink::Batch batch;
    batch.flow = flow;
    batch.epoch = epoch;
    batch.first_seq = next_seq_;
    batch.count = count;
    batch.records = std::move(records);
    // Of too many moments the later ones are taken for an earlier.
    if (moments_.empty() || (moments_.back().at != now && moments_.size() < kMost)) {
      moments_.push_back({next_seq_, 0, now});
    }
    moments_.back().left += count;
    next_seq_ += count;
    return batch;
  }
  void Resolved(uint64_t first_seq, uint64_t count) {
    auto moment = std::upper_bound(moments_.begin(), moments_.end(), first_seq,
                                   [](uint64_t seq, const Moment& one) { return seq < one.first_seq; });
    for (moment -= moment == moments_.begin() ? 0 : 1; count > 0 && moment != moments_.end(); ++moment) {
      const auto next = std::next(moment);
      const uint64_t end = next == moments_.end() ? next_seq_ : next->first_seq;
      const uint64_t here = std::min(count, end - std::min(end, first_seq));
      moment->left -= std::min(here, moment->left);
      count -= here;
      first_seq = std::max(first_seq, end);
    }
    while (!moments_.empty() && moments_.front().left == 0) {
      moments_.pop_front();
    }
  }
  // The sink has gone: what it has not told it never tells.
  void Forget() { moments_.clear(); }
  // When the oldest record without an outcome was submitted, or before that; 0: there is none.
  int64_t oldest() const { return moments_.empty() ? 0 : moments_.front().at; }

 private:
  static constexpr size_t kMost = 1024;
  struct Moment {
    uint64_t first_seq;
    uint64_t left;  // records without an outcome
    int64_t at;     // monotonic microseconds
  };

  uint64_t next_seq_ = 1;
  std::deque<Moment> moments_;
};

}  // namespace outbox::relay
