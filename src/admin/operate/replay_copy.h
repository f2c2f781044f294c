// Copying what a replay sends again from the log into outbox_internal.parked [P], batch by batch, and its row in
// outbox.replay.
#pragma once

#include "admin/common/batches.h"
#include "admin/operate/replay_plan.h"

namespace outbox::admin {

struct Replay {
  Cell number;  // nothing: not begun
  ReplayRequest request;
  ReplayPlan plan;
  std::string from_id, to_id;  // of the plan's routes, which may be given other names meanwhile
  double per_second = 0;
  Cell rate;  // as given
  int64 copied = 0;
  std::string planned_for;  // version of the route that the plan's lanes and topics belong to
};

// Looks up what it sends, and for which version of the route that is. Throws.
void MakePlan(Replay* replay);

// From now on this session copies it, until the transaction fails or CopyReplay() ends. Throws if another session does.
void LockReplay(const Replay& replay);

// Copies what has been planned, and what did not fit into the plan. One without a number gets its row; one that has one
// is locked. Commits as it goes. Ends early, with a notice, if it is cancelled.
void CopyReplay(Batches* batches, Replay* replay, const Cell& reason);

}  // namespace outbox::admin
