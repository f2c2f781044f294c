// Functions that change something, and servers that take no changes [P].
#pragma once

#include "pg/prelude.h"

extern "C" {
#include "access/xlogrecovery.h"
#include "miscadmin.h"
}

namespace outbox::pg {

// Raises on a standby and in a read-only transaction (25006). `function`: with its brackets, "outbox.skip()". Said of
// the function that was called: what refuses else is a statement within it, which nobody has typed. Plain code.
inline void RequireWritable(const char* function) {
  PreventCommandDuringRecovery(function);
  PreventCommandIfReadOnly(function);
}

// Whether recovery has come to its target and waits there: no primary can be asked instead. Plain code.
inline bool IsPausedAtTarget() {
  return recoveryTarget != RECOVERY_TARGET_UNSET && GetRecoveryPauseState() == RECOVERY_PAUSED;
}

}  // namespace outbox::pg

// The HINT of what does not go during recovery: how a server that waits at its target gets out of it, or `on_standby`,
// a literal. A macro, so that scripts/check-errors reads both texts where they are given.
#define OUTBOX_PAUSED_AT_TARGET "Recovery is paused at its target: SELECT pg_wal_replay_resume() ends it."
#define OUTBOX_RECOVERY_HINT(on_standby) (::outbox::pg::IsPausedAtTarget() ? OUTBOX_PAUSED_AT_TARGET : (on_standby))
