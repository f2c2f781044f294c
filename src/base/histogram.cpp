#include "base/histogram.h"

#include <algorithm>

namespace outbox {

size_t LatencyBucket(int64_t micros) {
  return static_cast<size_t>(std::lower_bound(kLatencyBounds.begin(), kLatencyBounds.end(), micros) -
                             kLatencyBounds.begin());
}

LatencySpan LatencySpanOf(int64_t since, int64_t now) {
  const size_t bucket = LatencyBucket(now - since);
  const int64_t last = bucket == 0 ? now : now - kLatencyBounds[bucket - 1] - 1;
  const int64_t first = bucket == kLatencyBounds.size() ? INT64_MIN + 1 : now - kLatencyBounds[bucket];
  return {bucket, static_cast<uint64_t>(first), static_cast<uint64_t>(last) - static_cast<uint64_t>(first)};
}

uint64_t LatencyCounts::total() const {
  uint64_t sum = 0;
  for (const uint64_t bucket : buckets) {
    sum += bucket;
  }
  return sum;
}

double LatencyCounts::Quantile(double quantile) const {
  const uint64_t all = total();
  if (all == 0) {
    return 0;
  }
  const double rank = std::clamp(quantile, 0.0, 1.0) * static_cast<double>(all);
  double below = 0;
  double value = 0;
  for (size_t i = 0; i < kLatencyBuckets; ++i) {
    const double here = static_cast<double>(buckets[i]);
    if (here == 0) {
      continue;
    }
    const double from = i == 0 ? 0 : static_cast<double>(kLatencyBounds[i - 1]);
    if (i == kLatencyBounds.size()) {
      value = max == 0 ? from : static_cast<double>(max);
    } else {
      const double share = std::clamp((rank - below) / here, 0.0, 1.0);
      value = from + (static_cast<double>(kLatencyBounds[i]) - from) * share;
    }
    below += here;
    if (below >= rank) {
      break;
    }
  }
  return max == 0 ? value : std::min(value, static_cast<double>(max));
}

}  // namespace outbox
