// Undelivered events and rows, where the extension is of another version than the library [P]: its tables may have no
// triggers that ask (0.1's have none), so commands that take rows away are looked at. See ../guard/loss.h.
#pragma once

#include "pg/prelude.h"

namespace outbox::admin {

// Once per backend, from _PG_init.
void InstallOtherVersionHooks();

}  // namespace outbox::admin
