// Day tables as a whole [P]: which there are, making them ahead. C++ code that owns things; EnsureDaysAhead() runs
// short transactions of its own and throws pg::PgError.
#pragma once

#include <cstdint>
#include <vector>

#include "days/day_table_ddl.h"

namespace outbox::days {

struct DayTable {
  Oid oid = InvalidOid;
  // kUnknownDay: the spare table, or attached to the parent under a name that is not a day table's. It is read, and
  // never dropped.
  int32_t day = 0;
};
inline constexpr int32_t kUnknownDay = INT32_MAX;

// Appends all tables of the kind (of the log: the spare one too) to `tables` (which must be declared outside of the
// guard), by day. Takes no lock on parent or log table. Plain code for use inside a transaction.
void ReadDayTables(DayTableKind kind, std::vector<DayTable>* tables);

// Makes the tables of all kinds from the day of `now_micros` (Unix) to `days` days after it: one transaction each.
// Returns how many were missing. A table that cannot be made does not keep the others: the first error is thrown at the
// end.
int EnsureDaysAhead(int64_t now_micros, int days);

}  // namespace outbox::days
