// Where a destination had acknowledged the newest records, as lanes have noted it [P behind, no Postgres type in
// sight]: the places of outbox_internal.progress. For use in a relay worker only, like PgLaneLog.
#pragma once

#include <cstdint>

#include "base/status.h"
#include "relay/common/past_ends.h"

namespace outbox::log {

// Of the cluster that was met last there; nothing of a destination that has none. Of each lane only the newest rows are
// looked at, and of a partition what was noted last: where more was lost before, that is the end that it has had since.
Status LoadNotedEnds(uint32_t server, relay::PastEnds* past);

}  // namespace outbox::log
