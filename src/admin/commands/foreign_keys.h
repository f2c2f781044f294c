// Foreign keys onto the tables of outbox [P]: nobody's. Workers delete and change rows there, in batches, and a row
// that something else refers to fails the batch: what they have sent is not noted, and is sent again after the next
// start. (Such a key is checked by triggers that count as internal: trigger_commands.h is not asked.)
#pragma once

namespace outbox::admin {

// Once per backend, from _PG_init: foreign keys that are made.
void InstallForeignKeyHook();

}  // namespace outbox::admin
