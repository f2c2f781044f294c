// DROP, ALTER and copying of a database [P]: before 19 nothing makes a background worker let go of its database, and
// these commands wait five seconds and fail. So, once it is sure that the issuer may do it, the database is barred and
// its workers are asked to leave; afterwards, whatever happened, the bar is lifted and the launcher brings them back
// where the database still is. Plain code.
#pragma once

#include "admin/commands/utility_hook.h"

namespace outbox::admin {

bool RenamesDatabase(Node* statement);

extern const UtilityScope kNeedsDatabase;  // for itself
extern const UtilityScope kDropsDatabase;  // and gone afterwards

}  // namespace outbox::admin
