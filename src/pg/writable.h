// Functions that change something [P].
#pragma once

#include "pg/prelude.h"

extern "C" {
#include "miscadmin.h"
}

namespace outbox::pg {

// Raises on a standby and in a read-only transaction (25006). `function`: with its brackets, "outbox.skip()". Said of
// the function that was called: what refuses else is a statement within it, which nobody has typed. Plain code.
inline void RequireWritable(const char* function) {
  PreventCommandDuringRecovery(function);
  PreventCommandIfReadOnly(function);
}

}  // namespace outbox::pg
