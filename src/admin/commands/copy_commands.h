// COPY into the tables and views of outbox [P]: what a restore may bring, and what would be lost.
//
// A COPY into outbox.event is refused where it would lose the events (emit/replica_role.h), and so is one that would
// mix a dump's positions with those in use.
#pragma once

#include "admin/commands/utility_hook.h"

namespace outbox::admin {

void CheckCopy(Node* statement);   // before it; throws
bool IsRestored(Node* statement);  // into a table of outbox; plain
// After it, throws: lanes that say that they are at home here, with the positions of a dump, are not taken for it where
// they came before the identity (pg_restore -j), by which the other tables are refused.
void CheckRestoredLanes(Node* statement);

// pg_restore -j copies the tables of an extension in any order, the largest first, whatever foreign keys say: a dump
// holds every row that they ask for, but parked events came before their routes. So a COPY into tables of outbox asks
// no foreign key; log_guard fires all the same.
extern const UtilityScope kWithoutForeignKeys;

}  // namespace outbox::admin
