// How large the log is, and where what was written after a transaction begins, without reading it [P]: a look into the
// index by transaction id of each day table, and its size. Waits for no lock: what is locked against reading is left
// out.
//
// Plain; for use under a guard.
#pragma once

#include "pg/prelude.h"

namespace outbox::admin {

struct LogEstimate {
  struct Table {
    Oid oid;
    int day_from_today;  // 0: today (UTC); of the spare table PG_INT32_MIN
    bool readable;       // it could be locked, and stays so until the transaction ends, and looked into
    bool damaged;        // its file or its index cannot be read: nobody knows what is in it
    int64 bytes;         // with indexes and TOAST
    bool indexed;        // by transaction id
    uint64 largest_xid;  // 0: it is empty, or not indexed; of a damaged one at least what is in it
    uint64 least_xid;    // no row has a smaller one; 0: not known
    uint32 blocks;
  };
  Table* tables;  // by day, the spare table first
  int count;
  int today;  // days since 1970 (UTC), by the clock that is believed

  int64 bytes() const;
  // Day tables after today's, without a gap.
  int days_ahead() const;
  // Whether all tables could be read.
  bool whole() const;
  // The largest xid that a damaged table may hold; 0: none is.
  uint64 damaged_to() const;
};

// palloc'd. Raises an error where a table's file or index cannot be read.
LogEstimate* EstimateLog();
// The same; such a table is left out, as one that is locked. For code that owns things: not plain.
const LogEstimate* EstimateReadableLog();

// Where the rows of a transaction and of later ones begin in one of the tables.
struct LogBegin {
  bool found;        // there are some, and an index to find them by
  uint32 block;      // rows are appended: most later ones are in later blocks
  int64 created_at;  // of the first of them, Unix microseconds
};
LogBegin BeginInLog(const LogEstimate::Table& table, uint64 xid);

}  // namespace outbox::admin
