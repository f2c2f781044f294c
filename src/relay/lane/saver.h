// Saves the progress of all lanes of the engine together [-]: one transaction and one flush, not one for each lane.
//
// Lanes ask for it in their step, and are told of the result at the end of the pass. Those that only moved past what is
// not theirs do not wait for a flush, and are few at a time, so that no lane waits for them. A lane whose save failed
// is saved with fewer and fewer others, each time, until it is alone or it works: what is locked of one lane keeps no
// other for long.
//
// Single-threaded. Owned by the engine.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "relay/common/lane_log.h"
#include "relay/common/turn.h"

namespace outbox::relay {

class Lane;

class Saver {
 public:
  Saver() = default;
  Saver(const Saver&) = delete;
  Saver& operator=(const Saver&) = delete;

  // The lane's progress is to be saved in this pass. `moved`: its position only moved, and may wait for a later one.
  void Ask(Lane* lane, bool moved) { (moved ? moved_ : asked_).push_back(lane); }
  // Saves what was asked for since the last call. Returns true if any of it was saved, or a lane is lost.
  bool Save(TurnContext* turn);
  // When to call again for lanes that had to wait, monotonic microseconds; kNever.
  int64_t next_time() const { return next_time_; }

 private:
  bool SaveSome(size_t begin, size_t end, TurnContext* turn);

  std::vector<Lane*> asked_;
  std::vector<Lane*> moved_;
  std::vector<ProgressSave> saves_;
  int64_t next_time_ = kNever;
};

}  // namespace outbox::relay
