// Undelivered events and rows, where the extension is of another version than the library [P]: its tables may have no
// triggers that ask (0.1's have none), so commands that take rows away are looked at. See ../guard/loss.h.
#pragma once

#include "admin/commands/access_hook.h"

namespace outbox::admin {

// Once per backend, from _PG_init.
void InstallOtherVersionHook();

// What TRUNCATE reaches, by CASCADE too, and partitions. The first is plain, the other one throws.
bool EmptiesOurTable(const ObjectAccess& access);
void CheckEmptied(const ObjectAccess& access);

}  // namespace outbox::admin
