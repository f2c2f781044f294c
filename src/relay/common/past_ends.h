// Where the newest records are that a destination acknowledged to earlier sinks [-]: those of a worker before this one,
// and those whose process has died. A sink knows by itself what it was told (sink/kafka/topic.h); but brokers that lose
// what they had not written to disk often do so together with the server that this worker runs in.
//
// A partition of one cluster only grows, whoever writes to it. So the first place there that a sink is told must be
// behind all that earlier ones were.
//
// Single-threaded. Owned by the destination.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <tuple>
#include <utility>
#include <vector>

#include "base/status.h"
#include "sink/sink.h"

namespace outbox::relay {

class PastEnds {
 public:
  static constexpr size_t kMost = 4096;  // partitions; of more than these nothing is known

  PastEnds() = default;
  explicit PastEnds(std::string cluster) : cluster_(std::move(cluster)) {}

  // An offset that was acknowledged in that cluster.
  void Add(std::string_view topic, int32_t partition, int64_t offset) { Set({topic, partition}, offset, &past_); }
  // The sink has delivered there. `cluster`: that it is connected to; "": not known yet, then the place waits until it
  // is. Returns what is to be told of it, of many partitions the first in a minute; else ok(). `now`: monotonic,
  // `wall`: Unix, both in microseconds.
  Error OnPlace(const sink::Place& place, const std::string& cluster, int64_t now, int64_t wall);
  // Another sink, or another process of it: what this one was told is of the past.
  void Renew();

 private:
  using View = std::tuple<std::string_view, int32_t>;
  struct Less {
    using is_transparent = void;
    bool operator()(const View& a, const View& b) const { return a < b; }
  };
  using Ends = std::map<std::tuple<std::string, int32_t>, int64_t, Less>;  // by topic and partition

  static void Set(const View& at, int64_t offset, Ends* ends);
  Error Check(const sink::Place& place, int64_t now, int64_t wall);

  std::string cluster_;  // whose offsets these are
  Ends past_;            // what the sink has not come to yet
  Ends present_;         // of this sink: what it was told last, not the highest: where some was lost, that is no more
  std::vector<sink::Place> waiting_;
  int64_t told_at_ = -1;
};

}  // namespace outbox::relay
