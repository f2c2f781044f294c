// How large the log is, and about how many rows it has behind a position, without reading it [P]: a look into the index
// by transaction id of each day table, and its size. Waits for no lock: what is locked against reading is left out.
//
// Plain; for use under a guard.
#pragma once

#include "pg/prelude.h"

namespace outbox::admin {

struct LogEstimate {
  struct Table {
    Oid oid;
    int day_from_today;     // 0: today (UTC); of the spare table PG_INT32_MIN
    bool readable;          // it could be locked, and stays so until the transaction ends
    int64 bytes;            // with indexes and TOAST
    uint64 largest_xid;     // 0: it is empty
    double rows_per_block;  // 0: not known
    uint32 blocks;
  };
  Table* tables;
  int count;
  int today;  // days since 1970 (UTC), by the clock that is believed

  int64 bytes() const;
  // Day tables after today's, without a gap.
  int days_ahead() const;
  // Whether all tables could be read.
  bool whole() const;
};

// palloc'd.
LogEstimate* EstimateLog();

struct Behind {
  double rows;       // of transactions from `xid` on
  int64 created_at;  // of the first of them, Unix microseconds; 0: there is none
};
Behind EstimateBehind(const LogEstimate& log, uint64 xid);

}  // namespace outbox::admin
