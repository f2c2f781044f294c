#include "days/log_table_list.h"

#include "base/fault_point.h"
#include "days/day_table_ddl.h"
#include "days/log_table.h"
#include "pg/clock.h"
#include "pg/shared.h"

#include <algorithm>
#include <new>

extern "C" {
#include "storage/bufmgr.h"
#include "storage/sinval.h"
#include "utils/inval.h"
}

namespace outbox::days {

namespace {

// Everything that outlives a call; leaked on purpose, so that no jump and no exit order can matter.
struct State {
  Oid parent = InvalidOid;
  uint64_t changes = 1;       // counted by the callback
  uint64_t changes_read = 0;  // when the list was last read
  uint64_t resets_seen = 0;   // of the clock
  LogTableList list;
  std::vector<DayTable> tables;
  std::vector<LogTableEntry> before;
  Oid spare = InvalidOid;     // had no page when it was last looked at,
  uint64_t spare_writes = 0;  // which was after so many writes
};

State* state = nullptr;

void OnRelcacheInvalidation(Datum, Oid relation) {
  if (relation == InvalidOid || relation == state->parent) {
    state->changes++;
  }
}

// No reading above this was ever handed out. After a start the clock itself may stand below earlier readings, until a
// process has read the ceiling that was stored for this database.
int64_t HighestReading(int64_t reading) {
  pg::DatabaseSlot* slot = pg::FindDatabaseSlot(MyDatabaseId, false);
  const uint64 ceiling = slot == nullptr ? 0 : pg_atomic_read_u64(&slot->clock_ceiling);
  return reading == 0 || ceiling <= 1 ? INT64_MAX : std::max(reading, static_cast<int64_t>(ceiling));
}

// Whether a row has ever been written into the table since it was last emptied as a whole.
bool WasWritten(Oid oid) {
  Relation table = try_table_open(oid, AccessShareLock);
  if (table == nullptr) {
    return false;
  }
  const bool written = RelationGetNumberOfBlocks(table) > 0;
  table_close(table, NoLock);
  return written;
}

// A writer increments the count after its row is in the table, and before it commits. So what a snapshot taken before
// this call can see has been counted; and as nothing was in the table after `spare_writes` had been read, what came
// into it later is counted above that. A prepared transaction's rows have been there since before the server started.
bool SpareIsUnused(Oid spare) {
  if (pg::Shared() == nullptr) {
    return false;
  }
  pg_memory_barrier();  // the snapshot was before
  const uint64 writes = pg_atomic_read_u64(&pg::Shared()->spare_writes);
  if (state->spare == spare && state->spare_writes == writes) {
    return true;
  }
  state->spare = InvalidOid;
  pg_memory_barrier();  // the table is looked at afterwards
  const bool empty = !WasWritten(spare);
  OUTBOX_FAULT_POINT("spare.looked");
  if (empty) {
    state->spare = spare;
    state->spare_writes = writes;
  }
  return empty;
}

}  // namespace

LogTableList* CurrentLogTables() {
  if (state == nullptr) {
    state = new State;
    CacheRegisterRelcacheCallback(OnRelcacheInvalidation, Datum(0));
  }
  AcceptInvalidationMessages();
  // A clock that was put back goes into days that were over. reset_clock() counts that before it commits, and its
  // commit is before the snapshot that ends this window if that shows a row dated by the new clock.
  uint64_t resets = pg::ClockResets();
  if (resets != state->resets_seen) {
    state->resets_seen = resets;
    for (LogTableEntry& log_table : state->list.tables) {
      log_table.closed = false;
      log_table.empty = false;
      log_table.writers_below = 0;
    }
  }
  if (state->changes_read == state->changes) {
    return &state->list;
  }
  uint64_t changes = state->changes;  // a change during the read counts for the next time
  state->parent = DayTableParent(DayTableKind::kLog);
  state->tables.clear();
  ReadDayTables(DayTableKind::kLog, &state->tables);
  state->before.swap(state->list.tables);
  state->list.tables.clear();
  for (const DayTable& table : state->tables) {
    LogTableEntry entry;
    entry.oid = table.oid;
    entry.day = table.day;
    auto known = std::find_if(state->before.begin(), state->before.end(), [&](const LogTableEntry& log_table) {
      return log_table.oid == table.oid && log_table.day == table.day;
    });
    state->list.tables.push_back(known != state->before.end() ? *known : entry);
  }
  state->list.version++;
  state->changes_read = changes;
  return &state->list;
}

void JudgeLogTables(LogTableList* list) {
  // 0 without preload: then no order is promised, and no log table is ever closed.
  int64_t reading = pg::LastReading();
  const int64_t highest = HighestReading(reading);
  const Oid spare = SpareTable();
  pg_read_barrier();  // the next xid is read after the clock
  for (LogTableEntry& entry : list->tables) {
    entry.unused = entry.oid == spare && SpareIsUnused(spare);
    const bool ahead = entry.day != kUnknownDay && DayStartMicros(entry.day) > highest;
    entry.empty = ahead && (entry.empty || !WasWritten(entry.oid));
    entry.to_come = ahead && entry.empty;
    if (ahead || entry.closed || entry.day == kUnknownDay || reading < DayStartMicros(entry.day + 1)) {
      continue;
    }
    if (entry.writers_below == 0) {
      OUTBOX_FAULT_POINT("log_table.day_over");
      entry.writers_below = U64FromFullTransactionId(ReadNextFullTransactionId());
    }
    TransactionId bound = static_cast<TransactionId>(entry.writers_below);
    bool all_finished = TransactionIdFollowsOrEquals(GetActiveSnapshot()->xmin, bound);
    LogTable log_table;
    if (!all_finished || !OpenLogTable(entry.oid, &log_table)) {
      continue;
    }
    if (log_table.index != nullptr) {
      uint64 largest = 0;
      LargestXid(log_table, &largest);  // stays 0 in an empty table
      OUTBOX_FAULT_POINT("log_table.closing");
      entry.largest_xid = largest;
      entry.closed = true;
    }
    CloseLogTable(log_table);
  }
}

}  // namespace outbox::days
