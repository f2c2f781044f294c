// Lanes of a worker that have nothing to do with parked events [P behind, no Postgres type in sight]. Each lane looks
// at outbox_internal.parked now and then, and whenever an operator has acted on it; where thousands of lanes do, nearly
// all of them for nothing, one statement answers for all. What it says is good for one turn, and until something is
// parked.
//
// Single-threaded. Owned by the worker; outlives its lanes.
#pragma once

#include <cstdint>
#include <vector>

#include "base/lane_id.h"

namespace outbox::parked {

class NothingParked {
 public:
  // `incarnation`: the worker's, as outbox_internal.lane.owner holds it.
  explicit NothingParked(uint64_t incarnation) : incarnation_(incarnation) {}

  // Something may be parked that was not: by anybody, as far as the worker knows; or by this process, just now.
  void Forget() { known_ = false; }
  static void ForgetAll() { parked_here++; }
  // True: the lane is the worker's, and nothing of its route is parked. False says nothing: the lane has to look, also
  // where the statement failed.
  bool For(const LaneId& lane);

 private:
  const uint64_t incarnation_;
  static inline uint64_t parked_here = 0;  // times that this process has parked something
  bool known_ = false;
  uint64_t known_of_ = 0;      // parked_here as of that
  std::vector<LaneId> lanes_;  // sorted
};

}  // namespace outbox::parked
