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

// Of a lane and state no more than this many are counted: 1 ms where the pages are known to be all visible, where not
// some 10 ms.
inline constexpr int64 kParkedCountLimit = 10000;

// By route id and lane; of every lane. In parked_count_idx alone, which is a few bytes a row: the rows themselves, a
// full copy of each event, are not read. Throws PgError.
std::map<std::pair<int64, int>, ParkedCount> CountParked(Access access);

}  // namespace outbox::admin
