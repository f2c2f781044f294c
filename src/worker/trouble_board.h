// Which relay worker of a database says which trouble [P]. Several workers may see the same: a destination that is
// down, a topic that takes nothing, each for its own lanes, and not at the same moment, since each tries again by its
// own clock. Trouble that overlaps in time is the same trouble. Of each class of its errors one worker tells; its end
// is told by the last one that had it. In shared memory, where there is room (pg::TroubleSlot); else each speaks for
// itself.
//
// Plain; takes the lock. Times are of the monotonic clock, which is the same in all processes.
#pragma once

#include <cstdint>
#include <string>

#include "base/status.h"
#include "pg/shared.h"

namespace outbox::worker {

class TroubleBoard {
 public:
  TroubleBoard(Oid database, uint64 incarnation) : database_(database), incarnation_(incarnation) {}

  // A topic of a route; of a destination `route_id` is 0, and that its name.
  static uint64 Name(int64_t route_id, const std::string& topic);

  // This worker has it, and an error of it is to be told: false if the trouble has been told with that code, or with
  // one of the same class within `again`. What happens once (`once`: a server has lost something) is the same to a
  // worker that notices it later than the others, also where they are done with it.
  bool MaySay(uint64 trouble, const Error& error, int64_t now, int64_t again, bool once = false) const;
  // This worker, which had it, has it no more: whether no other one has and it was told, so that its end is to be told.
  bool End(uint64 trouble) const;

 private:
  const Oid database_;
  const uint64 incarnation_;
};

}  // namespace outbox::worker
