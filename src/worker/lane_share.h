// How many of the database's lanes a relay worker should own [P]: its part, while the others have theirs; the part of
// one that is away, too. That one gets it back when it has lasted for a second.
#pragma once

#include <algorithm>
#include <cstdint>

#include "relay/common/engine_clock.h"
#include "worker/relay_self.h"

namespace outbox::worker {

class LaneShare {
 public:
  // `clock` outlives it.
  LaneShare(const RelaySelf& self, relay::Clock* clock) : self_(self), clock_(clock) {}

  // Lanes are to be shared out again at the latest at `when`, monotonic microseconds.
  void DueAt(int64_t when) { next_ = std::min(next_, when); }
  // Returns true if they are to be now: it is time to, workers came or went, or lanes were given back.
  bool Due();
  // When to ask again at the latest.
  int64_t next() const { return next_; }
  // How many of `all` lanes (of all routes) are this worker's part.
  int Of(int all);
  // As of the last time.
  int all() const { return all_; }

 private:
  const RelaySelf self_;
  relay::Clock* const clock_;
  int64_t next_ = 0;           // monotonic microseconds
  int64_t last_ = 0;           // the same: when it was due
  int64_t alone_from_ = 0;     // the same: from then on the part of others is taken
  bool short_handed_ = false;  // fewer workers than there should be, or one of them has only just come
  int all_ = 0;
};

}  // namespace outbox::worker
