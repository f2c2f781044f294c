// User mappings that no relay worker uses (admin/lookup/used_mapping.h) [P]. A password that is changed in one changes
// nothing: so a session that writes one is warned, and doctor() looks.
#pragma once

#include "admin/lookup/used_mapping.h"

extern "C" {
#include "nodes/nodes.h"
}

namespace outbox::admin {

// After CREATE or ALTER USER MAPPING, and ALTER SERVER ... OWNER TO, or what has done the same to a server. Throw
// PgError.
void WarnOfUnusedMapping(Node* statement);
void WarnOfUnusedMappings(Node* statement);
void WarnOfUnusedMappings(const std::string& server);

}  // namespace outbox::admin
