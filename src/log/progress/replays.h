// Which replays are being copied [P]: the session that copies one holds its lock. Plain code.
//
// A lock of the session, like that of a CREATE INDEX CONCURRENTLY: it outlives commits, and goes with the error or the
// process that ends the call. So a replay in state `copying` whose lock is free was interrupted. The
// keeper is told when that happens.
#pragma once

#include "pg/prelude.h"

namespace outbox::log {

// Returns false if another session has it, and still has it after a moment.
bool LockReplay(uint64 number);
void UnlockReplay(uint64 number);

// Puts interrupted replays into state `interrupted`. Called by the keeper; runs a transaction of its own. Throws
// PgError.
void MarkInterruptedReplays();

}  // namespace outbox::log
