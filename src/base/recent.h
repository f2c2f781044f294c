// Latencies of the last minute and of the last hour [-], from a histogram that only grows: at the first value of each
// period what the histogram held by then is kept. The difference of now and then is what came since; nothing is ever
// set to zero, so nothing is lost while it turns, and no process waits.
//
// A minute is the current ten seconds and the six before, an hour the current five minutes and the twelve before: so
// they cover 60 to 70 seconds, and 60 to 65 minutes, and rates are of the time that they do cover.
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>

#include "base/histogram.h"

namespace outbox {

// All zero when made; in shared memory. Times in microseconds of the monotonic clock.
template <int64_t kPeriodMicros, int kPeriods>
class RecentLatency {
 public:
  // Call before each value that is added to the histogram.
  void Touch(const LatencyHistogram& histogram, int64_t now) {
    const int64_t period = 1 + now / kPeriodMicros;  // 0: none yet
    int64_t begun = begun_.load(std::memory_order_relaxed);
    if (begun >= period || !begun_.compare_exchange_strong(begun, period)) {
      return;
    }
    Kept& kept = kept_[static_cast<size_t>(period % kSlots)];
    kept.period.store(0, std::memory_order_release);
    for (size_t i = 0; i < kLatencyBuckets; ++i) {
      kept.before[i].store(static_cast<uint32_t>(histogram.bucket(i)), std::memory_order_relaxed);
    }
    kept.period.store(period, std::memory_order_release);
  }
  // With the value, for the largest one. What an older period had in this place goes.
  void NoteMax(int64_t micros, int64_t now) {
    const uint64_t period = static_cast<uint64_t>(1 + now / kPeriodMicros);
    std::atomic<uint64_t>& place = max_[period % kSlots];
    const uint64_t mine = (period & 0xFFFF) << 48 | (static_cast<uint64_t>(micros < 0 ? 0 : micros) & kMaxMask);
    uint64_t there = place.load(std::memory_order_relaxed);
    while ((there >> 48 != mine >> 48 || there < mine) &&
           !place.compare_exchange_weak(there, mine, std::memory_order_relaxed)) {
    }
  }
  // What came in the time until now, and how long that is. `histogram` is the one that Touch() was called with.
  void Read(const LatencyHistogram& histogram, int64_t now, LatencyCounts* counts, int64_t* covered) const {
    const int64_t last = 1 + now / kPeriodMicros;
    const int64_t first = last - (kPeriods - 1) > 1 ? last - (kPeriods - 1) : 1;
    *counts = {};
    *covered = now - (first - 1) * kPeriodMicros;
    const Kept* from = nullptr;  // at the beginning of the first period in which anything came
    for (const Kept& kept : kept_) {
      const int64_t period = kept.period.load(std::memory_order_acquire);
      if (period >= first && (from == nullptr || period < from->period.load(std::memory_order_relaxed))) {
        from = &kept;
      }
    }
    if (from == nullptr) {
      return;
    }
    for (size_t i = 0; i < kLatencyBuckets; ++i) {
      counts->buckets[i] = static_cast<uint32_t>(histogram.bucket(i)) - from->before[i].load(std::memory_order_relaxed);
    }
    for (int64_t period = first; period <= last; ++period) {
      const uint64_t there = max_[static_cast<size_t>(period % kSlots)].load(std::memory_order_relaxed);
      const auto micros = static_cast<int64_t>(there & kMaxMask);
      if (there >> 48 == (static_cast<uint64_t>(period) & 0xFFFF) && micros > counts->max) {
        counts->max = micros;
      }
    }
  }
  // Every word that is kept over a restart, which the clock outlives: with what the histogram holds.
  template <typename Fn>
  void ForEach(Fn&& fn) {
    fn(&begun_);
    for (Kept& kept : kept_) {
      fn(&kept.period);
      for (std::atomic<uint32_t>& before : kept.before) {
        fn(&before);
      }
    }
    for (std::atomic<uint64_t>& max : max_) {
      fn(&max);
    }
  }
  // The histogram was set to zero.
  void Reset() {
    for (Kept& kept : kept_) {
      kept.period.store(0, std::memory_order_relaxed);
    }
    for (std::atomic<uint64_t>& max : max_) {
      max.store(0, std::memory_order_relaxed);
    }
    begun_.store(0, std::memory_order_release);
  }

 private:
  static constexpr int64_t kSlots = kPeriods + 1;  // one more than are read: the one that is written next
  static constexpr uint64_t kMaxMask = (uint64_t{1} << 48) - 1;
  struct Kept {
    std::atomic<int64_t> period;  // 0: none
    // What each bucket held before the period's first value; the difference to 32 bits is exact up to 4 billion events.
    std::array<std::atomic<uint32_t>, kLatencyBuckets> before;
  };

  std::atomic<int64_t> begun_;  // the newest period
  std::array<Kept, static_cast<size_t>(kSlots)> kept_;
  std::array<std::atomic<uint64_t>, static_cast<size_t>(kSlots)> max_;  // period (16 bits) and microseconds
};

// A histogram with its last minute and hour.
struct Latency {
  LatencyHistogram all;
  RecentLatency<10'000'000, 7> minute;
  RecentLatency<300'000'000, 13> hour;

  // Call Begin() before the values of one moment, Add() for each.
  void Begin(int64_t now) {
    minute.Touch(all, now);
    hour.Touch(all, now);
  }
  void Add(int64_t micros, uint64_t count) { all.Add(micros, count); }
  void End(int64_t longest, int64_t now) {
    minute.NoteMax(longest, now);
    hour.NoteMax(longest, now);
  }
  void Reset() {
    all.ForEach([](Counter* counter) { counter->store(0, std::memory_order_relaxed); });
    minute.Reset();
    hour.Reset();
  }
};

}  // namespace outbox
