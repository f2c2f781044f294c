// Locks for looking, without waiting [P]: figures are not worth holding up a scrape behind a TRUNCATE or a REINDEX that
// itself waits for somebody.
//
// Plain; for use under a guard.
#pragma once

#include "pg/prelude.h"

namespace outbox::admin {

// Whether the table, its partitions and the indexes of them all could be locked against being changed, at once. What
// was locked stays so until the transaction ends, as with any query that reads it. False also where there is no such
// table.
bool LockToLook(Oid table);
// A table of outbox by its name.
bool LockToLook(const char* table);

}  // namespace outbox::admin
