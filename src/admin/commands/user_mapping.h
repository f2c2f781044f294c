// Which user mapping of a server counts [P]. Relay workers take the one of the server's owner, else that of the
// extension's owner, else that of PUBLIC (LoadDestinations in worker/destination.h). Another one is never used, and
// a password that is changed there changes nothing: so a session that writes one is warned, and doctor() looks.
#pragma once

#include "admin/lookup/used_mapping.h"

extern "C" {
#include "nodes/nodes.h"
}

namespace outbox::admin {

// After CREATE or ALTER USER MAPPING, and ALTER SERVER ... OWNER TO. Throw PgError.
void WarnOfUnusedMapping(Node* statement);
void WarnOfUnusedMappings(Node* statement);

}  // namespace outbox::admin
