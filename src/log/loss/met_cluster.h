// Which cluster a destination is, as it was met last by any worker, also one that is no more [P behind, no Postgres
// type in sight]: outbox_internal.met_cluster. For use in a relay worker only, like PgLaneLog.
#pragma once

#include <cstdint>
#include <string>

#include "base/status.h"

namespace outbox::log {

// Writes it down where it is news, and nothing else. *former: the one that it takes the place of; "": none was known,
// or it is known already.
Status NoteCluster(uint32_t server, const std::string& cluster, std::string* former);

}  // namespace outbox::log
