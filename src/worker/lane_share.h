// How many of the database's lanes a relay worker should own [P]: its part, while the others have theirs. While a
// worker that died may be about to come back, its part is left free.
#pragma once

#include <algorithm>
#include <cstdint>

#include "relay/engine_clock.h"
#include "worker/relay_place.h"

namespace outbox::worker {

class LaneShare {
 public:
  // `clock` outlives it.
  LaneShare(const RelayPlace& place, relay::Clock* clock) : place_(place), clock_(clock) {}

  // Lanes are to be shared out again at the latest at `when`, monotonic microseconds.
  void DueAt(int64_t when) { next_ = std::min(next_, when); }
  // Returns true if they are to be now: it is time to, or workers came or went.
  bool Due();
  // How many of `all` lanes (of all routes) are this worker's part.
  int Of(int all);
  // As of the last time.
  int all() const { return all_; }

 private:
  const RelayPlace place_;
  relay::Clock* const clock_;
  int64_t next_ = 0;           // monotonic microseconds
  int64_t workers_since_ = 0;  // when their number last changed
  int workers_ = -1;
  int all_ = 0;
};

}  // namespace outbox::worker
