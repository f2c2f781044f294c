// How far apart turns begin while records flow to a destination [-].
//
// Why: what a turn, a frame to the sink, a request and its answer cost is the same for one record and for ten. At
// thousands of commits a second a turn for each leaves worker, sink and broker no time on a small machine, and the
// records that come meanwhile wait in a queue. A turn that begins a little later finds several. Where little goes on
// nothing is gained and every record would wait; so the distance grows with the rate of records, up to what the kind
// of destination gains from (SinkKind::gather_micros). docs/performance.md has what was measured.
#pragma once

#include <algorithm>
#include <cstdint>
#include <limits>

namespace outbox::relay {

class TurnSpacing {
 public:
  explicit TurnSpacing(int64_t most) : most_(most) {}

  void OnSubmitted(uint64_t records) { records_ += records; }

  static constexpr int64_t kAny = std::numeric_limits<int64_t>::max();
  // Microseconds from the beginning of one turn to that of the next; kAny: no record has been sent lately. Call once a
  // turn, when it has ended.
  int64_t Apart(int64_t now) {
    const int64_t elapsed = now - since_;
    if (elapsed >= kMeasureMicros) {
      per_second_ = static_cast<double>(records_) * 1e6 / static_cast<double>(elapsed);
      records_ = 0;
      since_ = now;
    }
    if (per_second_ <= 0) {
      return kAny;
    }
    const double apart = kLeast + std::max(per_second_ - kFromRate, 0.0) * kGrowth;
    return static_cast<int64_t>(std::min(apart, static_cast<double>(most_)));
  }

 private:
  static constexpr int64_t kMeasureMicros = 50'000;  // after a quiet time its first turn counts by all of it
  static constexpr double kLeast = 250;              // microseconds
  static constexpr double kFromRate = 1000;          // records a second; at this rate turns are apart by themselves
  static constexpr double kGrowth = 750.0 / 4000;    // microseconds for each more: 1 ms at 5,000

  const int64_t most_;
  uint64_t records_ = 0;
  int64_t since_ = 0;
  double per_second_ = 0;
};

}  // namespace outbox::relay
