// How many events are parked, by lane and state [P].
#pragma once

#include <map>
#include <utility>

#include "admin/query.h"

namespace outbox::admin {

struct ParkedCount {
  int64 retrying = 0;
  int64 blocked = 0;
  int64 scheduled = 0;
  int64 dead = 0;
  bool capped = false;  // counting stopped: of some state there are at least as many

  int64 all() const { return retrying + blocked + scheduled + dead; }
  void Add(const ParkedCount& other) {
    retrying += other.retrying;
    blocked += other.blocked;
    scheduled += other.scheduled;
    dead += other.dead;
    capped = capped || other.capped;
  }
};

// No more than this many of a lane and state are counted: that takes 1 ms if the pages are known to be all visible,
// else some 10 ms.
inline constexpr int64 kParkedCountLimit = 10000;

// Counts for every lane, by route id and lane. Reads only parked_count_idx, which has a few bytes a row, not the rows,
// each of which is a full copy of an event. Throws PgError.
std::map<std::pair<int64, int>, ParkedCount> CountParked(Access access);

}  // namespace outbox::admin
