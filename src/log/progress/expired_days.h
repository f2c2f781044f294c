// Dropping day tables that have expired [P]: which of them no lane needs any more. How: days/drop.h. C++ code that owns
// things; each call runs its own short transactions and throws pg::PgError.
#pragma once

#include "days/drop.h"

namespace outbox::log {

// A table that cannot be dropped (a user's view depends on it) does not keep the others: the first error is thrown when
// all were tried.

// Drops day tables of the log that ended more than `retention_micros` ago, in which every lane of every route has
// finished everything and to which no unfinished transaction (open or prepared) can still write. Without any route
// retention alone decides. Never waits for a lock: what is locked is left for the next time.
days::DropReport DropExpiredLogTables(int64_t now_micros, int64_t retention_micros);

// Drops one of them in the caller's transaction, which has SPI connected as the tables' owner: under the same
// conditions, but that retention, and the end of the day, are the caller's to look at. Plain.
bool DropFinishedLogTable(const days::DayTable& table);

// Bytes on disk of all day tables of the log and of the spare one, with indexes and TOAST. Plain, inside a transaction.
int64_t LogBytes();

// Drops days that have ended, oldest first, until the log has no more than `most_bytes`: under the same conditions, but
// that retention is not waited for. What some lane has not finished stays, however large that is.
days::DropReport DropLogTablesToFit(int64_t now_micros, int64_t most_bytes);

// Empties the spare table when all that is in it ended more than a day and `retention_micros` ago, under the same
// conditions. Returns true if it did.
bool EmptySpareTable(int64_t now_micros, int64_t retention_micros);

// Drops day tables of the progress that ended more than a day ago and before the oldest day table of the log, after
// carrying the position of lanes whose newest row is there into outbox_internal.lane.
days::DropReport DropExpiredProgressTables(int64_t now_micros);

// Drops day tables of the outcomes of parked events, which are kept as long as the log's.
days::DropReport DropExpiredOutcomeTables(int64_t now_micros, int64_t retention_micros);

// Drops day tables of the keys of emits, and empties their spare table, when all that is in it ended so long ago.
days::DropReport DropExpiredEmitKeys(int64_t now_micros, int64_t retention_micros);

// Drops day tables of the ticks that ended before today and that no lane needs: every lane's base covers all of them.
days::DropReport DropExpiredTickTables(int64_t now_micros);

}  // namespace outbox::log
