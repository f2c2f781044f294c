// Has the current transaction changed anything but the outbox [P]? Plain code.
//
// An event that is not in the transaction of the change it tells of is the dual write that an outbox is there to end: a
// crash in between loses one of the two. In autocommit every statement is a transaction of its own, so that an emit()
// behind the change looks the same as one within it; here the two are told apart, for certain or not at all.
//
// What decides are the rows that PostgreSQL itself counts for this transaction, by table: rows of tables and catalogs,
// inserted, updated, deleted or truncated by whatever statement, trigger or function, less those of a savepoint that
// was rolled back. Not counted, and so no change: sequences, locks (SELECT ... FOR UPDATE), NOTIFY, and what is
// written elsewhere (foreign tables). The inbox is no part of the outbox: an event may tell of what was received. With
// track_counts off nothing is counted, and nothing is said.
#pragma once

#include "pg/prelude.h"

namespace outbox::pg {

// Before the commit (or prepare) of a transaction whose events stand. Returns true if it has certainly changed nothing
// else, and outbox.lone_emit does not allow that; then warns once in a session, or raises 25000, as it says.
bool JudgeLoneEmit();

}  // namespace outbox::pg
