// Foreign keys onto the tables of outbox [P]: nobody's. Workers delete and change rows there, in batches, and a row
// that something else refers to fails the batch: what they have sent is not noted, and is sent again after the next
// start. (Such a key is checked by triggers that count as internal: trigger_commands.h is not asked.)
#pragma once

#include "admin/commands/access_hook.h"

namespace outbox::admin {

// Whatever command has made it. Throws.
void CheckMadeConstraint(const ObjectAccess& access);

}  // namespace outbox::admin
