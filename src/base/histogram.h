// Histograms of latencies [-]: counts by fixed buckets, written by many and read by anyone without a lock, and what can
// be said from them.
//
// The buckets are those that OpenTelemetry's conventions for messaging give (5 ms to 10 s), finer ones below, where a
// healthy destination of one's own is, and a few above, where a backlog is. A value belongs to the first bucket whose
// bound is not below it, as Prometheus has it ("le"). Microseconds everywhere.
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>

namespace outbox {

inline constexpr std::array<int64_t, 26> kLatencyBounds = {
    250,       500,       750,       1'000,      1'500,      2'000,      3'000,       4'000,        5'000,
    10'000,    25'000,    50'000,    75'000,     100'000,    250'000,    500'000,     750'000,      1'000'000,
    2'500'000, 5'000'000, 7'500'000, 10'000'000, 30'000'000, 60'000'000, 300'000'000, 1'800'000'000};
inline constexpr size_t kLatencyBuckets = kLatencyBounds.size() + 1;  // the last one is without a bound

// The bucket of a value; of a negative one (a clock went back) the first.
size_t LatencyBucket(int64_t micros);

static_assert(std::atomic<uint64_t>::is_always_lock_free);

// Adds without an order: a reader may see a value in a bucket that it does not see in the sum yet.
using Counter = std::atomic<uint64_t>;
inline void Count(Counter* counter, uint64_t more = 1) {
  counter->fetch_add(more, std::memory_order_relaxed);
}
inline uint64_t ValueOf(const Counter& counter) {
  return counter.load(std::memory_order_relaxed);
}

// A copy, to calculate with.
struct LatencyCounts {
  std::array<uint64_t, kLatencyBuckets> buckets{};
  int64_t max = 0;  // 0: not known

  uint64_t total() const;
  // The value that a share of `quantile` (0 to 1) of all values does not exceed: exact up to the width of its bucket,
  // within which values are taken to be spread evenly; never above max. Of what is beyond the last bound: max, or that
  // bound. 0 when there are none.
  double Quantile(double quantile) const;
};

// All zero when made; lies in shared memory, so it holds no pointer.
class LatencyHistogram {
 public:
  void Add(int64_t micros, uint64_t count) {
    Count(&buckets_[LatencyBucket(micros)], count);
    Count(&sum_, static_cast<uint64_t>(micros < 0 ? 0 : micros) * count);
  }
  // Values of one bucket, with their sum.
  void AddSome(size_t bucket, uint64_t count, uint64_t sum) {
    Count(&buckets_[bucket], count);
    Count(&sum_, sum);
  }
  uint64_t bucket(size_t i) const { return ValueOf(buckets_[i]); }
  uint64_t sum() const { return ValueOf(sum_); }
  void Read(LatencyCounts* counts) const {
    for (size_t i = 0; i < kLatencyBuckets; ++i) {
      counts->buckets[i] = bucket(i);
    }
  }
  template <typename Fn>
  void ForEach(Fn&& fn) {
    for (Counter& bucket : buckets_) {
      fn(&bucket);
    }
    fn(&sum_);
  }

 private:
  std::array<Counter, kLatencyBuckets> buckets_;
  Counter sum_;
};

// When those of one bucket began that end now: `from` to `from + width`, as numbers that wrap around.
struct LatencySpan {
  size_t bucket = 0;
  uint64_t from = uint64_t{1} << 63;  // before all time: none has begun yet
  uint64_t width = 0;
};
// `since` is not above `now`.
LatencySpan LatencySpanOf(int64_t since, int64_t now);

// Adds to a histogram how long things took until `now`, those of one bucket that come one after the other at once.
// Flush() in the end. All in registers: a comparison and three additions for each.
class LatencyRun {
 public:
  LatencyRun(LatencyHistogram* histogram, int64_t now) : histogram_(histogram), now_(now), earliest_(now) {}
  // One that began then; after `now` counts as `now`: a clock went back.
  void Add(int64_t since) {
    if (static_cast<uint64_t>(since) - span_.from > span_.width) [[unlikely]] {
      Flush();
      since = since < now_ ? since : now_;
      span_ = LatencySpanOf(since, now_);
    }
    ++count_;
    sum_ += static_cast<uint64_t>(since);
    earliest_ = since < earliest_ ? since : earliest_;
  }
  void Flush() {
    if (count_ > 0) {
      histogram_->AddSome(span_.bucket, count_, count_ * static_cast<uint64_t>(now_) - sum_);
      count_ = sum_ = 0;
    }
  }
  int64_t longest() const { return now_ - earliest_; }

 private:
  LatencyHistogram* const histogram_;
  const int64_t now_;
  LatencySpan span_;
  uint64_t count_ = 0;
  uint64_t sum_ = 0;
  int64_t earliest_;
};

}  // namespace outbox
