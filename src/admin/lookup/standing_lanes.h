// What waits behind lanes that stand where they are (paused, in trouble, without a worker) [P]: the keeper looks
// through the log for them while it grows, step by step, so that nobody has to when somebody asks. What it has found is
// in shared memory (pg::StandingSlot); readers find it by FindStanding() (route_waiting.h). What is known of a lane is
// good as long as it stands there and wants the same: a change of another route, or a pause, takes nothing of it.
#pragma once

#include <map>
#include <optional>
#include <vector>

#include "admin/lookup/route_waiting.h"
#include "admin/lookup/survey.h"
#include "base/lane_id.h"
#include "pg/prelude.h"

namespace outbox::admin {

// The keeper's.
class StandingLanes {
 public:
  StandingLanes();
  ~StandingLanes();
  StandingLanes(const StandingLanes&) = delete;
  StandingLanes& operator=(const StandingLanes&) = delete;
  // Takes some 100 ms at most, and a tenth of all time. In a transaction. Throws PgError.
  void Step();

 private:
  struct Kept;
  std::vector<const Position*> Stand(const Snapshot& now, const LaneViews& views, std::vector<LaneRecord>* lanes);
  std::optional<Snapshot> NextCut(const std::vector<const Position*>& from, const Snapshot& now) const;
  void Keep(const std::vector<LaneWaiting>& found, const Snapshot& until, std::vector<LaneRecord>* lanes);
  void Look(const std::vector<const Position*>& from, const Snapshot& now, int64_t until_time,
            std::vector<LaneRecord>* lanes);
  void Publish();

  std::map<LaneId, Kept> kept_;
  uint64 erasures_ = 0;     // DatabaseSlot.erasures at the last step
  uint64 stride_;           // transactions of one walk
  int64_t next_ = 0;        // MonotonicMicros()
  bool published_ = false;  // there is something in shared memory
};

}  // namespace outbox::admin
