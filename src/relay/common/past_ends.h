// Where the newest records are that a destination acknowledged to other sinks than the one in hand [-]: those of a
// worker before this one, those whose process has died, and the other one of the two that a destination has. A sink
// knows by itself what it was told (sink/kafka/topic.h); but brokers that lose what they had not written to disk often
// do so together with the server that this worker runs in, and what one of the two sinks writes where the end was hides
// from the other one that it was there.
//
// A partition of one cluster only grows, whoever writes to it. So a record that was submitted when an acknowledgement
// had been told must be behind that. One that was submitted before says nothing: its own acknowledgement may have been
// told later.
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

  // The sink that tells of a place.
  struct Teller {
    bool second;                 // which of the two
    int64_t submitted;           // when the oldest of the records there was submitted, or before that
    const std::string& cluster;  // that it is connected to; "": not known yet, then the place waits until it is
  };

  // An offset that was acknowledged in that cluster to a worker before this one.
  void Add(std::string_view topic, int32_t partition, int64_t offset) {
    if (End* end = At(topic, partition); end != nullptr) {
      *end = {offset, -1, 0, cluster_};
    }
  }
  // The sink has delivered there. Returns what is to be told of it, of many partitions the first in a minute; else
  // ok(). `now`: monotonic, `wall`: Unix, both in microseconds.
  Error OnPlace(const Teller& teller, const sink::Place& place, int64_t now, int64_t wall);
  // Another sink, or another process of it: what the one before was told is another's.
  void Renew(bool second) {
    waiting_[second].clear();
    lives_[second] = ++newest_life_;
  }

 private:
  using View = std::tuple<std::string_view, int32_t>;
  struct Less {
    using is_transparent = void;
    bool operator()(const View& a, const View& b) const { return a < b; }
  };
  struct End {
    int64_t offset = -1;  // as it was told last, not the highest: where some was lost, that is no more
    int64_t told = -1;    // when
    uint32_t life = 0;    // to which sink; 0: before this worker
    std::string cluster = {};
  };
  struct Waiting {
    sink::Place place;
    int64_t submitted;
  };

  End* At(std::string_view topic, int32_t partition);  // made if it is new; nullptr: there are too many
  Error Check(const Teller& teller, const sink::Place& place, int64_t now, int64_t wall);

  std::string cluster_;                                         // of what is added
  std::map<std::tuple<std::string, int32_t>, End, Less> ends_;  // by topic and partition
  std::vector<Waiting> waiting_[2];                             // of each sink
  uint32_t lives_[2] = {1, 2};
  uint32_t newest_life_ = 2;
  int64_t told_at_ = -1;
};

}  // namespace outbox::relay
