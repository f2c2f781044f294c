// Histograms, their last minute and hour, and commit times, against exact quantiles of the same values.
#include "base/histogram.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <memory>
#include <random>
#include <thread>
#include <vector>

#include "base/commit_times.h"
#include "base/monotonic.h"
#include "base/recent.h"
#include "base/route_figures.h"
#include "base/status.h"

namespace outbox {
namespace {

// Zero, like shared memory.
template <typename T>
std::unique_ptr<T> Zeroed() {
  return std::make_unique<T>();
}

TEST(Histogram, ValuesOnABoundBelongBelowIt) {
  EXPECT_EQ(LatencyBucket(-5), 0u);
  EXPECT_EQ(LatencyBucket(0), 0u);
  for (size_t i = 0; i < kLatencyBounds.size(); ++i) {
    EXPECT_EQ(LatencyBucket(kLatencyBounds[i]), i);
    EXPECT_EQ(LatencyBucket(kLatencyBounds[i] + 1), i + 1);
  }
  EXPECT_EQ(LatencyBucket(INT64_MAX), kLatencyBounds.size());
  EXPECT_TRUE(std::is_sorted(kLatencyBounds.begin(), kLatencyBounds.end()));
}

// The bounds that OpenTelemetry's conventions for messaging give, in seconds.
TEST(Histogram, HasTheBucketsOfOpenTelemetry) {
  for (const double bound : {0.005, 0.01, 0.025, 0.05, 0.075, 0.1, 0.25, 0.5, 0.75, 1.0, 2.5, 5.0, 7.5, 10.0}) {
    EXPECT_TRUE(std::binary_search(kLatencyBounds.begin(), kLatencyBounds.end(),
                                   static_cast<int64_t>(std::llround(bound * 1e6))))
        << bound;
  }
}

int64_t Exact(std::vector<int64_t> values, double quantile) {
  std::sort(values.begin(), values.end());
  const auto rank = static_cast<size_t>(std::ceil(quantile * static_cast<double>(values.size())));
  return values[rank == 0 ? 0 : rank - 1];
}

// The estimate is in the bucket of the exact quantile.
TEST(Histogram, QuantilesAreExactToABucket) {
  std::mt19937_64 random(7);
  for (int round = 0; round < 300; ++round) {
    std::lognormal_distribution<double> latency(3 + round % 13, 0.1 + round % 5);
    LatencyHistogram histogram{};
    std::vector<int64_t> values(1 + random() % 2000);
    uint64_t sum = 0;
    LatencyCounts counts;
    for (int64_t& value : values) {
      value = static_cast<int64_t>(std::min(latency(random), 1e12));
      histogram.Add(value, 1);
      sum += static_cast<uint64_t>(value);
      counts.max = std::max(counts.max, value);
    }
    histogram.Read(&counts);
    EXPECT_EQ(counts.total(), values.size());
    EXPECT_EQ(histogram.sum(), sum);
    double before = 0;
    for (const double quantile : {0.001, 0.25, 0.5, 0.9, 0.95, 0.99, 0.999, 1.0}) {
      const double estimate = counts.Quantile(quantile);
      const size_t bucket = LatencyBucket(Exact(values, quantile));
      const double from = bucket == 0 ? 0 : static_cast<double>(kLatencyBounds[bucket - 1]);
      EXPECT_GE(estimate, from) << quantile << " of " << values.size();
      if (bucket < kLatencyBounds.size()) {
        EXPECT_LE(estimate, static_cast<double>(kLatencyBounds[bucket])) << quantile << " of " << values.size();
      }
      EXPECT_LE(estimate, static_cast<double>(counts.max));
      EXPECT_GE(estimate, before);
      before = estimate;
    }
  }
}

TEST(Histogram, OfNothingAndOfOne) {
  LatencyCounts none;
  EXPECT_EQ(none.Quantile(0.99), 0);
  LatencyCounts one;
  one.buckets[kLatencyBuckets - 1] = 1;
  EXPECT_EQ(one.Quantile(0.5), static_cast<double>(kLatencyBounds.back()));
  one.max = kLatencyBounds.back() * 2;
  EXPECT_EQ(one.Quantile(0.5), static_cast<double>(one.max));
}

TEST(Histogram, ARunAddsTheSame) {
  std::mt19937_64 random(11);
  LatencyHistogram one{};
  LatencyHistogram other{};
  const int64_t now = 1'000'000'000;
  LatencyRun run(&other, now);
  int64_t most = 0;
  for (int i = 0; i < 100'000; ++i) {
    const int64_t value = static_cast<int64_t>(random() % (uint64_t{1} << (random() % 40))) - 3;
    one.Add(value, 1);
    run.Add(now - value);
    most = std::max(most, value);
  }
  run.Flush();
  EXPECT_EQ(run.longest(), most);
  EXPECT_EQ(one.sum(), other.sum());
  for (size_t i = 0; i < kLatencyBuckets; ++i) {
    EXPECT_EQ(one.bucket(i), other.bucket(i));
  }
}

void AddOne(Latency* latency, int64_t micros, int64_t now) {
  latency->Begin(now);
  latency->Add(micros, 1);
  latency->End(micros, now);
}

// What Read() says is what came in the periods that it covers, whatever the time between values.
TEST(Recent, IsWhatCameInThatTime) {
  std::mt19937_64 random(3);
  for (int round = 0; round < 200; ++round) {
    auto latency = Zeroed<Latency>();
    std::vector<std::pair<int64_t, int64_t>> came;  // when, and how long it took
    int64_t now = static_cast<int64_t>(random() % (1000 * kSecond));
    for (int i = 0; i < 200; ++i) {
      now += static_cast<int64_t>(random() % (uint64_t{1} << (10 + random() % 18)));
      const auto micros = static_cast<int64_t>(random() % (uint64_t{1} << (random() % 30)));
      AddOne(latency.get(), micros, now);
      came.emplace_back(now, micros);
      if (random() % 4 == 0) {
        now += static_cast<int64_t>(random() % (90 * kSecond));
        const int64_t first = std::max<int64_t>(now / (10 * kSecond) - 6, 0) * 10 * kSecond;
        uint64_t count = 0;
        int64_t most = 0;
        for (const auto& [at, took] : came) {
          if (at >= first) {
            ++count;
            most = std::max(most, took);
          }
        }
        LatencyCounts counts;
        int64_t covered = 0;
        latency->minute.Read(latency->all, now, &counts, &covered);
        EXPECT_EQ(counts.total(), count);
        EXPECT_EQ(counts.max, most);
        EXPECT_EQ(covered, now - first);
        EXPECT_LE(covered, 70 * kSecond);
      }
    }
  }
}

TEST(Recent, AnHourIsLongerThanAMinute) {
  auto latency = Zeroed<Latency>();
  const int64_t start = 100'000 * kSecond;
  AddOne(latency.get(), 700, start);
  AddOne(latency.get(), 900, start + 1800 * kSecond);
  LatencyCounts minute;
  LatencyCounts hour;
  int64_t covered = 0;
  latency->minute.Read(latency->all, start + 1801 * kSecond, &minute, &covered);
  latency->hour.Read(latency->all, start + 1801 * kSecond, &hour, &covered);
  EXPECT_EQ(minute.total(), 1u);
  EXPECT_EQ(minute.max, 900);
  EXPECT_EQ(hour.total(), 2u);
  EXPECT_GE(covered, 3600 * kSecond);
  EXPECT_LE(covered, 3900 * kSecond);
  latency->hour.Read(latency->all, start + 100'000 * kSecond, &hour, &covered);
  EXPECT_EQ(hour.total(), 0u);
  EXPECT_EQ(hour.max, 0);
}

TEST(Recent, BeginsAgainAfterAReset) {
  auto latency = Zeroed<Latency>();
  const int64_t now = 5000 * kSecond;
  for (int i = 0; i < 10; ++i) {
    AddOne(latency.get(), 700, now);
  }
  latency->Reset();
  LatencyCounts counts;
  int64_t covered = 0;
  latency->minute.Read(latency->all, now, &counts, &covered);
  EXPECT_EQ(counts.total(), 0u);
  EXPECT_EQ(counts.max, 0);
  AddOne(latency.get(), 5, now);
  latency->minute.Read(latency->all, now, &counts, &covered);
  EXPECT_EQ(counts.total(), 1u);
  EXPECT_EQ(counts.max, 5);
}

// Two workers with lanes of one route, and somebody who looks: nothing is lost, and nothing is seen that never was.
TEST(Recent, ManyWritersLoseNothing) {
  auto latency = Zeroed<Latency>();
  constexpr int kEach = 20'000;
  std::atomic<bool> done{false};
  const auto write = [&latency](int64_t micros) {
    for (int i = 0; i < kEach; ++i) {
      AddOne(latency.get(), micros, 1000 * kSecond + i * 3000);  // a minute of it
    }
  };
  std::thread reader([&] {
    while (!done) {
      LatencyCounts counts;
      int64_t covered = 0;
      latency->minute.Read(latency->all, 1060 * kSecond, &counts, &covered);
      ASSERT_LE(counts.total(), 3u * kEach);
      ASSERT_LE(counts.max, 9000);
    }
  });
  std::thread first(write, 300);
  std::thread second(write, 700);
  write(9000);
  first.join();
  second.join();
  done = true;
  reader.join();
  LatencyCounts all;
  latency->all.Read(&all);
  EXPECT_EQ(all.total(), 3u * kEach);
  LatencyCounts minute;
  int64_t covered = 0;
  latency->minute.Read(latency->all, 1059 * kSecond, &minute, &covered);
  EXPECT_EQ(minute.max, 9000);
}

TEST(CommitTimes, AreFoundUntilOverwritten) {
  auto times = Zeroed<CommitTimes>();
  const int64_t now = int64_t{40} * 24 * 3600 * kSecond;  // the machine has been up for forty days
  const uint64_t base = (uint64_t{5} << 32) + 17;         // in the sixth epoch
  EXPECT_EQ(times->Find(base, now), 0);
  for (uint64_t i = 0; i < 65536; ++i) {
    times->Note(base + i, now + static_cast<int64_t>(i));
  }
  for (const uint64_t i : {0, 1, 40'000, 65'535}) {
    EXPECT_EQ(times->Find(base + i, now + 100'000), now + static_cast<int64_t>(i));
  }
  times->Note(base + 65536, now);
  EXPECT_EQ(times->Find(base, now), 0) << "its place was taken";
  EXPECT_EQ(times->Find(base + 65536, now), now);
  // The worker's clock was read a moment before the commit.
  times->Note(base + 70'000, now + 50);
  EXPECT_EQ(times->Find(base + 70'000, now), now);
}

TEST(RouteFigures, HaveAPlaceForEachClassAndState) {
  EXPECT_STREQ(ErrorClassName(static_cast<ErrorClass>(kErrorClasses - 1)), ErrorClassName(ErrorClass::kInternal));
  auto figures = Zeroed<RouteFigures>();
  int counters = 0;
  figures->ForEach([&counters](Counter* counter) {
    Count(counter);
    ++counters;
  });
  EXPECT_EQ(ValueOf(figures->published), 1u);
  EXPECT_EQ(static_cast<size_t>(counters), 6 + kErrorClasses + kParkedStates + 2 * (kLatencyBuckets + 1));
  figures->Reset();
  figures->ForEach([](Counter* counter) { EXPECT_EQ(ValueOf(*counter), 0u); });
}

}  // namespace
}  // namespace outbox
