// What triggers note of the statement that fires them, for those that it fires after them [P].
//
// One statement concerns many rows and, as TRUNCATE ... CASCADE, many tables: what it was asked about once it is not
// asked about again. A note lies in the memory of its statement and goes with it, whether it succeeds or not: neither
// the number of a command nor that of a savepoint tells two statements apart. For BEFORE triggers, of any table;
// others find nothing, and have statement_notes.h. All throw.
#pragma once

#include "pg/prelude.h"

namespace outbox::admin {

// What the statement has been let do under outbox.allow_loss is told once. `what`: a route, or kEverything. While
// outbox.allow_loss is off it was let do nothing.
bool WarnedOf(int64 what);
void NoteWarned(int64 what);

// What a TRUNCATE empties with all that hangs on it: it was asked about, and goes.
enum class Emptied : unsigned char { kRoutes, kLog };
bool Empties(Emptied what);
void NoteEmpties(Emptied what);

}  // namespace outbox::admin
