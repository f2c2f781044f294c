// Locks that the current transaction took and still has [P]. Plain code.
//
// A lock that is held costs a third of an insert to ask for again, and so does the look whether the relation is there.
// What opens the same relation over and over notes that it has locked it, and from then on opens it without.
#pragma once

#include "pg/prelude.h"

namespace outbox::pg {

// What is noted of one lock (always the same mode on the same relation); zero: it is not held.
struct HeldLock {
  LocalTransactionId transaction;
  uint32 rollbacks;
};

// The lock was taken just now, or before in this transaction, and nothing will release it before the transaction ends.
void NoteHeld(HeldLock* lock);
// Whether it is still held for certain. A savepoint that is rolled back may take locks along, also of a cursor that is
// older than it; then this is false until the lock is taken again.
bool Holds(const HeldLock& lock);

// Whether this transaction has the relation locked in exactly this mode, by whatever took the lock.
bool HoldsLock(Oid relation, LOCKMODE mode);

// Opens a relation whose lock is held, to be closed as always; nullptr: it is gone (dropped by this transaction
// itself).
Relation OpenHeld(Oid relation);
// Locks it first; nullptr, and no lock: it is gone. As try_relation_open(), without a look into the catalog where the
// relation is known.
Relation LockAndOpen(Oid relation, LOCKMODE mode);

}  // namespace outbox::pg
