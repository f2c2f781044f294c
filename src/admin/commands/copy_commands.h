// COPY into the tables and views of outbox [P]: what a restore may bring, and what would be lost.
//
// A COPY into outbox.event is refused where it would lose the events (emit/replica_role.h), and so is one that would
// mix a dump's positions with those in use.
#pragma once

#include "admin/commands/utility_hook.h"

namespace outbox::admin {

void CheckCopy(Node* statement);   // before it; throws
bool IsRestored(Node* statement);  // into a table of outbox; plain

// pg_restore -j copies the tables of an extension in any order, the largest first, whatever foreign keys say: a dump
// holds every row that they ask for, but parked events came before their routes. So a COPY into tables of outbox asks
// no foreign key; log_guard fires all the same.
extern const UtilityScope kWithoutForeignKeys;

}  // namespace outbox::admin
