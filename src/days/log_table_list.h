// Which day tables of the log a window has to look into [P]. One list per process; kept between windows.
#pragma once

#include <cstdint>
#include <vector>

#include "days/day_tables.h"

namespace outbox::days {

// Rows that adopt() has moved out of a dump have numbers below all transaction ids. Their days are the dump's: adopt()
// writes into days that are over here, and into days to come.
constexpr uint64_t kAdoptedEnd = 503;

struct LogTableEntry {
  Oid oid = InvalidOid;
  int32_t day = 0;
  // The day is over and the log table gets no more rows: largest_xid is final. Windows above it skip the log table.
  bool closed = false;
  // The clock had not come to it when the list was handed out, nor ever before: no row with a transaction id that can
  // be seen is in it.
  bool to_come = false;
  // It was opened before its day, once, and held nothing: after reset_clock() a day to come can hold rows of when it
  // had come.
  bool empty = false;
  // The spare table, and nothing was written into it.
  bool unused = false;
  uint64_t largest_xid = 0;
  // The next xid when this process first saw the shared clock past the day; 0: not yet. An emitter has its xid before
  // it reads the clock, so a transaction that can still write into the log table has a smaller one.
  uint64_t writers_below = 0;
};

// An index into it fits the 16 bits of a RowLocation: a location is valid only with the list it was made with.
struct LogTableList {
  std::vector<LogTableEntry> tables;
  uint64_t version = 0;  // changes whenever a table came or went
};

// This process' list, read again if the set of day tables may have changed. Call after the snapshot that ends the
// window was taken: a transaction that committed into a table before that snapshot locked it after it was attached, and
// the invalidation that attaching sends comes before the lock. Plain except for the vector; under a guard.
LogTableList* CurrentLogTables();

// Returns false if a window with this lowest xid finds nothing in the log table: it is not opened then (it may be
// locked).
inline bool CanHold(const LogTableEntry& log_table, uint64_t lowest) {
  return !log_table.unused &&
         (lowest < kAdoptedEnd || !(log_table.to_come || (log_table.closed && log_table.largest_xid < lowest)));
}

// Marks leaves that are unused or to come, as seen by a snapshot taken before this call, and those that can be closed:
// the shared clock is past the day, and every transaction that had an xid by then has finished. There is no time-out:
// an emitter that is stopped for hours between reading the clock and its insert keeps its log table open. Needs an
// active snapshot.
void JudgeLogTables(LogTableList* list);

}  // namespace outbox::days
