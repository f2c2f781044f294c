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

// The HINT of what does not go during recovery: how a server that waits at its target gets out of it, or `on_standby`,
// which is a literal where it is given: scripts/check-errors reads both. Plain code.
inline constexpr const char* kPausedAtTarget =
    "Recovery is paused at its target: SELECT pg_wal_replay_resume() ends it.";
inline const char* RecoveryHint(const char* on_standby) {
  return IsPausedAtTarget() ? kPausedAtTarget : on_standby;
}

}  // namespace outbox::pg
