// One day table of the log, opened for reading [P]. Plain code.
#pragma once

#include "days/columns.h"
#include "pg/prelude.h"

namespace outbox::days {

struct LogTable {
  Relation heap = nullptr;
  Relation index = nullptr;  // see OpenXidIndex; nullptr if it was dropped: the whole table is read then
};

// Opens and locks (AccessShareLock) for the rest of the transaction. Returns false if the table is gone. Raises an
// error if it is not a plain heap with the columns of the log.
bool OpenLogTable(Oid oid, LogTable* log_table);
// Keeps the locks.
void CloseLogTable(const LogTable& log_table);

// The index of a day table that reading by xid may rely on, opened with AccessShareLock; nullptr when there is none. It
// is a complete btree on exactly (xid), ascending: only there are the entries of one xid in the order of their rows.
// The index made by outbox is preferred to such an index made by a user.
Relation OpenXidIndex(Relation day_table);

// The scan calls whose arguments differ between versions.
IndexScanDesc BeginXidScan(const LogTable& log_table, int keys);

// The largest xid in the log table's index; false when it is empty or there is no index. A row of an aborted
// transaction may count.
bool LargestXid(const LogTable& log_table, uint64* xid);
bool LeastXid(const LogTable& log_table, uint64* xid);

}  // namespace outbox::days
