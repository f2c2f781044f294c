// What was committed before a call is delivered and counted first [P]: for functions that decide by where lanes stand.
//
// A lane writes down within a quarter of a second what it has delivered. Who decides before that takes what consumers
// have for undelivered. So lanes that go on have a second to deliver and to save what was committed before; those that
// stand still (without a worker, paused, in trouble) are not waited for, nor are those that have much before them.
// Whether such a lane has moved by the time that something was done about what it had left is asked afterwards.
#pragma once

#include <map>
#include <set>
#include <string>
#include <vector>

#include "admin/common/query.h"
#include "base/snapshot.h"

namespace outbox::admin {

struct AggregateKey {
  std::string type;  // in the database's encoding
  std::string id;
};

// Lanes of a route that stood still with something left of what was asked for, and what shows that nobody has touched
// them since.
struct StillLanes {
  struct Free {  // without an owner; nobody may claim it without writing its row
    int lane = 0;
    std::string version;  // of its row
  };
  std::vector<Free> free;
  bool paused = false;       // others, by somebody
  uint64 configuration = 0;  // no pause has ended before that changes
};

struct LanesSaved {
  Snapshot asked;                        // the call's: what is visible in it was committed before
  std::map<int64, StillLanes> standing;  // by route
};

// Of one route or of all (no route); with `key`, only that key's events are waited for. Takes a second at most,
// whatever the number of routes. Interruptible. Throws PgError.
LanesSaved LetLanesSave(const Cell& route, const AggregateKey* key);

// Of routes with something left: those whose lanes stood still, and have stood still ever since, so that none of it can
// have been sent. A worker may start, and a pause may end, right behind a look: what was done about what is left must
// be committed before this is asked. Throws PgError.
std::set<int64> StillStanding(const LanesSaved& saved);

}  // namespace outbox::admin
