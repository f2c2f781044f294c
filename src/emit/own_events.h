// The events of the current transaction, read back [P]. Plain code.
//
// A session that searches for one by its id does so again, as an ORM does before each insert: so from the first time on
// the transaction remembers where its rows are, and finding one costs the same whatever else it has emitted. A
// transaction that never asks pays nothing.
#pragma once

#include "pg/prelude.h"

namespace outbox::emit {

struct OwnScan;

// All rows that were emitted before command `before` and that `reader` may see (emitters.h), or those of the `count`
// ids: sorted, without repeats, to be kept until the end. Takes AccessShareLock on the day tables that were written to,
// and is ended, or forgotten by an error, in the transaction that began it. Lives in the current memory context.
OwnScan* BeginOwnScan(Oid reader, CommandId before);
OwnScan* BeginOwnScan(Oid reader, CommandId before, const pg_uuid_t* ids, int count);
// The next row, in no order; nullptr: no more. Good until the next call, or until the current memory context is reset.
// `desc` has the columns of the log.
HeapTuple NextOwn(OwnScan* scan, TupleDesc* desc);
void EndOwnScan(OwnScan* scan);

// qsort()s and bsearch()es ids.
int CompareIds(const void* a, const void* b);

// Notes a row that was written. Costs nothing unless the transaction has searched by id.
void NoteOwnEvent(Relation table, const pg_uuid_t* id, const ItemPointerData* place);

}  // namespace outbox::emit
