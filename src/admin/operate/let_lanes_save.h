// What was committed before a call is delivered and counted first [P]: for functions that decide by where lanes stand.
//
// A lane writes down within a quarter of a second what it has delivered. Who decides before that takes what consumers
// have for undelivered. So lanes that go on have a second to deliver and to save what was committed before; those that
// stand still (without a worker, paused, in trouble) are not waited for, nor are those that have much before them.
#pragma once

#include <set>
#include <string>

#include "admin/common/query.h"
#include "base/snapshot.h"

namespace outbox::admin {

struct AggregateKey {
  std::string type;  // in the database's encoding
  std::string id;
};

struct LanesSaved {
  Snapshot asked;  // the call's: what is visible in it was committed before
  // Routes, by id, that have something in hand of what was asked for: it may have been delivered without being saved.
  std::set<int64> in_hand;
};

// Of one route or of all (no route); with `key`, only that key's events are waited for. Takes a second at most,
// whatever the number of routes. Interruptible. Throws PgError.
LanesSaved LetLanesSave(const Cell& route, const AggregateKey* key);

}  // namespace outbox::admin
