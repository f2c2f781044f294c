// Putting a lane back whose destination has lost what it had acknowledged [P behind, no Postgres type in sight].
//
// A Redis that comes back from its disk, or a replica in its place, is what the earlier server was at some moment:
// snapshot, append-only file and replication all keep the order of the commands. The ids of stream entries are that
// server's clock, so the last id of all streams before it came back (outbox_internal.server_run.survived) tells the
// moment: what was acknowledged under a later id is gone, and what was under an earlier one is there, unless it was
// deleted: so a stream that is missing while younger ones exist counts as deleted. Where ids are ahead of the clock:
// memory_end.h.
#pragma once

#include <cstdint>
#include <string>

#include "base/lane_id.h"
#include "base/status.h"
#include "relay/common/lane_log.h"

namespace outbox::log {

// See LaneLog::Rewind. What counts is what this server has acknowledged at this address, to the lane since seek() put
// it somewhere else, and to lanes that the route had before their number changed since then. Progress is kept as long
// as the log: where none of it is old enough the lane goes to where they began, and sends all again that the log has
// since then. A loss of what is older is said. What other destinations had since the first of what is lost comes here
// as well.
//
// What was delivered from outbox_internal.parked is known event by event (outbox_internal.outcome.acknowledged). What
// of that is lost is parked again, unless a lane reads it again anyway; and a lane that reads again passes over all
// else that was parked (outbox_internal.lane.repeats_to).
//
// A side lane is put back by itself. For a topic that is back with its lane since, one is made again: so that no other
// topic goes back for it.
Status RewindLane(const LaneId& lane, uint64_t incarnation, const std::string& server_run, bool resend,
                  relay::Loss* loss);

}  // namespace outbox::log
