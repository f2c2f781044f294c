// Putting a lane back whose destination has lost what it had acknowledged [P behind, no Postgres type in sight].
//
// A Redis that comes back from its disk, or a replica in its place, is what the earlier server was at some moment:
// snapshot, append-only file and replication all keep the order of the commands. The ids of stream entries are that
// server's clock, so the last id of all streams (outbox.server_run.survived) tells the moment: what was acknowledged
// under a later id is gone, and what was under an earlier one is there, unless it was deleted: so a stream that is
// missing while younger ones exist counts as deleted.
#pragma once

#include <cstdint>
#include <string>

#include "base/lane_id.h"
#include "base/status.h"
#include "relay/lane_log.h"

// The row's places were acknowledged by another run of the same configured address.
#define OUTBOX_EARLIER_RUN(row, run)            \
  "(" row ".run <> " run " AND split_part(" row \
  ".run, '.', 1)"                               \
  " = split_part(" run ", '.', 1))"

namespace outbox::log {

// See LaneLog::Rewind. Only progress since the lane was last put somewhere else counts. It is kept as long as the log:
// if none of it is old enough, the lane goes back to where it began, and sends again all that the log has since then.
Status RewindLane(const LaneId& lane, uint64_t incarnation, const std::string& run, relay::Loss* loss, bool* owner);

}  // namespace outbox::log
