// Tables that a function is going to write to, locked for that before it reads them [P].
//
// REINDEX TABLE takes the table in a lock that readers do not wait for, and then one index after the other. A function
// that has read through one of these and comes to write only then waits for REINDEX, which waits for it: a deadlock.
#pragma once

#include <initializer_list>

#include "pg/prelude.h"

namespace outbox::admin {

// In RowExclusiveLock, until the transaction ends. `tables`: of outbox, by their names alone. Throws PgError.
void LockToWrite(std::initializer_list<const char*> tables);
// Not that table, but the partitions that it has.
void LockPartitionsToWrite(const char* table);

}  // namespace outbox::admin
