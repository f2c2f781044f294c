// When the triggers of outbox fire: always, or (ignore_replicated) for logical replication [P].
#pragma once

#include "pg/prelude.h"

namespace outbox::admin {

// As ALTER TABLE ... ENABLE ALWAYS (or REPLICA) TRIGGER does it, under a lock that no emitter waits for. Plain.
void SetFiring(Oid relation, Oid trigger, bool always);
// After a command that has switched triggers of a table on, which makes of "always" what session_replication_role
// switches off again: they fire as they should. But not log_guard, which the keeper looks after, with the rows that
// came past it (RepairGuards). Throws.
void LetGuardsFire(Oid table);

}  // namespace outbox::admin
