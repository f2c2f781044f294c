// Who copies a replay [P]: a session holds its lock as long as it does. Plain code.
//
// A lock of the session, like that of a CREATE INDEX CONCURRENTLY: it outlives commits, and goes with the error or the
// process that ends the call. So a replay in state `copying` that nobody has locked was interrupted.
#pragma once

#include "pg/prelude.h"

namespace outbox::log {

// False: another session has it, and still after a moment.
bool LockReplay(uint64 number);
void UnlockReplay(uint64 number);

// Puts those into state `interrupted`. The keeper does it, in a transaction of its own. Throws PgError.
void MarkInterruptedReplays();

}  // namespace outbox::log
