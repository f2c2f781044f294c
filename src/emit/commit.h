// What a transaction that emits leaves behind in this process until it ends [P]. Plain code.
#pragma once

#include "pg/shared.h"

namespace outbox::emit {

// Once per process, from _PG_init: the list of transaction callbacks is never de-duplicated.
void RegisterTransactionCallbacks();

// Slot of this database in shared memory, found once and kept: the commit callback may neither search nor raise.
// nullptr without preload, and when all slots are taken.
pg::DatabaseSlot* MySlot();

// The current transaction has written an event to the table of `day`, or to the spare table: its commit wakes the
// workers.
void NoteEmitted(int32 day);
// From now on it writes to the spare table, too.
void NoteEmittedToSpare();
bool EmittedToSpare();
// Days that the current transaction wrote events to; false if it wrote none. Rolled back savepoints count too.
bool EmittedDays(int32* first, int32* last);

}  // namespace outbox::emit
