// What is to be done when the current transaction ends [P]: one set of notes, one callback. Plain code.
#pragma once

#include "pg/shared.h"

namespace outbox::pg {

// What counts along with transactions. Both are called at every end of one, of a savepoint: nothing may raise or
// allocate in COMMIT and ABORT.
struct TransactionCounter {
  void (*transaction_ends)(XactEvent);  // before the workers are woken
  void (*savepoint_ends)(SubXactEvent);
};

// Once per process, from _PG_init: the list of transaction callbacks is never de-duplicated.
void RegisterTransactionEnd(const TransactionCounter& counter);

// Slot of this database in shared memory, made if there is room, found once and kept. nullptr without preload, and
// while all slots are taken; then each call looks again, for whatever is reckoned without a slot is void as soon as
// there is one. Raises nothing.
DatabaseSlot* MyDatabaseSlot();

// The current transaction has written an event to the table of `day`, or to the spare table: its commit wakes the
// workers.
void NoteEmitted(int32 day);
// What NoteEmitted() told of is the caller's own event, and not one that is adopted; until a savepoint takes it back.
void NoteCallerEmitted();
// The current transaction has written to the spare table, too.
void NoteEmittedToSpare();
bool EmittedToSpare();
// Days that the current transaction wrote events to; false if it wrote none. Rolled back savepoints count too.
bool EmittedDays(int32* first, int32* last);

// It changes routes: when it commits, the database's config_generation goes up and its workers wake. Such a transaction
// cannot be prepared, because no callback runs at COMMIT PREPARED, unless a savepoint has taken all of that back.
// Raises nothing.
void NoteConfigChange();
// It changes parked events by hand: the same for parked_generation, which goes up on abort as well: rows that this
// transaction had locked are free again, and a lane may have passed them over meanwhile. Raises nothing.
void NoteParkedChange();
// It has erased undelivered events: workers put down what they have read and not delivered, and read it again. Raises
// nothing.
void NoteErasure();
// It changes destinations: config_generation goes up. It may be prepared; the workers' slow looks find the change then.
void NoteDestinationChange();
// Wakes the launcher when it commits; with `discover`, that then looks at this database. Without preload: nothing.
void WakeLauncherAtCommit(bool discover);

}  // namespace outbox::pg
