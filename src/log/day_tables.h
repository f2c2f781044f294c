// Day tables as a whole [P]: which there are, making them ahead, dropping them when they have expired. C++ code that
// owns things; except for the two Read functions, each call runs its own short transactions and throws pg::PgError.
#pragma once

#include <cstdint>
#include <vector>

#include "log/day_table_ddl.h"

namespace outbox::log {

struct DayTable {
  Oid oid = InvalidOid;
  // kUnknownDay: the spare table, or attached to the parent under a name that is not a day table's. It is read, and
  // never dropped.
  int32_t day = 0;
};
inline constexpr int32_t kUnknownDay = INT32_MAX;

// Appends all tables of the kind (of the log: the spare one too) to `tables` (which must be declared outside of the
// guard), by day. Takes no lock on parent or leaf. Plain code for use inside a transaction.
void ReadDayTables(DayTableKind kind, std::vector<DayTable>* tables);

// Makes the tables of all kinds from the day of `now_micros` (Unix) to `days` days after it: one transaction each.
// Returns how many were missing. One that cannot be made is in the way of no other: the first error is thrown at the
// end.
int EnsureDaysAhead(int64_t now_micros, int days);

// What one call to a Drop function did.
struct DropReport {
  int dropped = 0;
  int waiting = 0;  // expired, but not finished by all lanes, or locked by somebody; tried again next time
};

// One that cannot be dropped (a view of somebody's depends on it) is in no other's way: the first error is thrown when
// all were tried.

// Drops day tables of the log that ended more than `retention_micros` ago, in which every lane of every route has
// finished everything and to which no unfinished transaction (open or prepared) can still write. Without any route
// retention alone decides. Never waits for a lock: what is locked is left for the next time.
DropReport DropExpiredLogTables(int64_t now_micros, int64_t retention_micros);

// Empties the spare table when all that is in it ended more than a day and `retention_micros` ago, under the same
// conditions. True when it did.
bool EmptySpareTable(int64_t now_micros, int64_t retention_micros);

// Whether anything was ever written to it since it was empty. Plain, inside a transaction.
bool SpareTableIsUsed();

// Drops day tables of the progress that ended more than a day ago and before the oldest day table of the log, after
// carrying the position of lanes whose newest row is there into outbox.lane.
DropReport DropExpiredProgressTables(int64_t now_micros);

// Drops day tables of the outcomes of parked events, which are kept as long as the log's.
DropReport DropExpiredOutcomeTables(int64_t now_micros, int64_t retention_micros);

// Drops day tables of the ticks that ended before today and that no lane needs: every lane's base covers all of them.
DropReport DropExpiredTickTables(int64_t now_micros);

}  // namespace outbox::log
