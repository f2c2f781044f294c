// Undelivered events and what is dropped [P]: the extension, its schema, a destination, a day table, a table that says
// what is undelivered; by any command (DROP OWNED BY, CASCADE). See loss.h.
#pragma once

#include "pg/prelude.h"

namespace outbox::admin {

// Once per backend, from _PG_init.
void InstallDropHook();

// Before every utility statement: what is dropped from here on is dropped by it. Plain.
void NoteCommand(Node* statement);

}  // namespace outbox::admin
