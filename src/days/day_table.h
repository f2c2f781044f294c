// Today's day table as an emitter sees it [P]. Plain code: raises Postgres errors, owns nothing.
//
// The parent is never opened or locked: an emit does not wait for sessions that work on it.
#pragma once

#include "days/columns.h"
#include "pg/prelude.h"

namespace outbox::days {

// Opens the day table with RowExclusiveLock; has it made if it is missing, and opens the spare table where that cannot
// be done at once. Refuses one that an emit cannot fill (55000: other first columns, constraints, storage). Close it
// with table_close(relation, NoLock).
Relation OpenDayTableForEmit(int32 day);
// Grows when anything about that table may have changed, its set of indexes too: for what is remembered of it. 0: it is
// not watched (the spare table, and one that is no longer the last that OpenDayTableForEmit opened).
uint64 EmitTableChanges(Oid table);

// Opens the day table for reading with AccessShareLock; nullptr if it is not there.
Relation OpenDayTableForReading(int32 day);
// Opens the spare table for reading with AccessShareLock; nullptr if it is not there.
Relation OpenSpareTableForReading();

// The first `columns` of a table's, to form a row of that many, or to take one apart. The same descriptor where the
// table has no more; else a copy.
TupleDesc FirstColumns(TupleDesc columns, int count);

// Has the day table made by a one-shot background worker, in a transaction of its own: made in the caller's, it would
// hold a lock on the parent until that commits, and a prepared transaction would block all sessions. Waits a second for
// it at most, and not at all if no worker is free; returns false if the table is still missing. A relation that
// has the name and is no partition makes room (day_table_ddl.cpp). Only where the caller
// holds a strong lock on the parent itself (CREATE EXTENSION and emit in one transaction) it is made in the caller's
// transaction.
bool HaveDayTableMade(int32 day);

}  // namespace outbox::days
