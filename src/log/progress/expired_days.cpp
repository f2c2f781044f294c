#include "log/progress/expired_days.h"

#include "base/fault_point.h"
#include "days/day_tables.h"
#include "days/log_table.h"
#include "log/progress/lane_tables.h"
#include "log/window/window_scan.h"
#include "log/window/xid_fate.h"
#include "pg/sql.h"
#include "pg/transaction.h"

extern "C" {
#include "storage/bufmgr.h"
#include "storage/lmgr.h"
#include "storage/procarray.h"
}

namespace outbox::log {

using namespace pg::sql;

namespace {

using days::kDayMicros;

// What every lane and side lane has finished with: the base of its position. A lane that came with a dump and is not
// adopted yet has finished with nothing of this log: its position is made of another server's numbers. Uncommitted
// routes do not count: what expires before they commit is not theirs.
void ReadLaneBases(std::vector<Snapshot>* bases) {
  static Statement all = {
      "SELECT CASE WHEN l.home = outbox_internal.home() THEN p.window_from::text ELSE '3:3:' END"
      " FROM outbox_internal.position p JOIN outbox_internal.lane l ON l.route_id = p.route_id AND l.lane = p.lane",
      0,
      {},
      nullptr};
  bases->clear();
  RunStatement(&all, nullptr);
  bases->reserve(SPI_processed);
  for (uint64 row = 0; row < SPI_processed; row++) {
    ReadSnapshotText(ResultText(row, 0), &bases->emplace_back());
  }
}

uint64_t LowestXmin(const std::vector<Snapshot>& bases) {
  uint64_t lowest = UINT64_MAX;
  for (const Snapshot& base : bases) {
    lowest = Min(lowest, base.xmin);
  }
  return lowest;
}

// A visitor that only finds out whether there is any row.
class AnyRow final : public RowVisitor {
 public:
  void Row(const RowView&, uint64_t) override { found = true; }
  bool found = false;
};

bool HasRow(const WindowBounds& window, const days::LogTableList& leaves) {
  AnyRow row;
  ScanState state;
  Scanned scanned = Scanned::kMore;
  while (!row.found && scanned != Scanned::kAll) {
    state = scanned == Scanned::kRewritten ? ScanState() : state;
    scanned = ScanWindow(window, kBeforeAllTime, leaves, 10'000, &state, &row);
  }
  return row.found;
}

// Is there a committed row that a lane has not finished with? Each lane's question is a window: from its base to the
// end of time; rows of unfinished transactions are another matter (they hold a lock).
struct Outstanding {
  std::vector<Snapshot> bases;
  WindowBounds window;
  days::LogTableList list;

  bool Find(Oid table) {
    ReadLaneBases(&bases);
    days::LogTable log_table;
    if (bases.empty() || !days::OpenLogTable(table, &log_table)) {
      return false;
    }
    uint64 largest = 0;
    bool known = log_table.index != nullptr;
    bool any = known && days::LargestXid(log_table, &largest);
    days::CloseLogTable(log_table);
    if (known && (!any || largest < LowestXmin(bases))) {
      return false;
    }
    list.tables.assign(1, days::LogTableEntry());
    list.tables[0].oid = table;
    for (const Snapshot& base : bases) {
      window.from = base;
      window.to = base;
      window.to.xmin = window.to.xmax = UINT64_MAX;
      window.to.xip.clear();
      window.xids = WindowXids(window.from, window.to);
      if (HasRow(window, list)) {
        return true;
      }
    }
    return false;
  }
};

// Is there a committed row between the two? Then a lane that stands at the first has a use for ticks up to the second.
struct Between {
  WindowBounds window;

  bool Find(const Snapshot& base, const Snapshot& tick) {
    window.Set(base, tick);
    return HasRow(window, *days::CurrentLogTables());
  }
};

}  // namespace

bool DropFinishedLogTable(const days::DayTable& table) {
  static auto* outstanding = new Outstanding;  // leaked on purpose: its memory is used again
  // First without the lock, so that a lane that lags disturbs no session; then under it, because a transaction can
  // commit in between. An unfinished one, open or prepared, holds RowExclusiveLock on the log table and wins.
  if (outstanding->Find(table.oid)) {
    return false;
  }
  OUTBOX_FAULT_POINT("drop.checked");
  if (!days::LockForDrop(days::DayTableKind::kLog, table.oid) || outstanding->Find(table.oid)) {
    return false;
  }
  OUTBOX_FAULT_POINT("drop.locked");
  days::DropDayTable(days::DayTableKind::kLog, table.day);
  OUTBOX_FAULT_POINT("drop.uncommitted");
  return true;
}

days::DropReport DropExpiredLogTables(int64_t now_micros, int64_t retention_micros) {
  return days::DropEach(days::DayTableKind::kLog, now_micros - retention_micros, DropFinishedLogTable);
}

int64_t LogBytes() {
  static Statement bytes = {
      "SELECT sum(pg_total_relation_size(relation))::bigint FROM outbox_internal.log_table", 0, {}, nullptr};
  RunStatement(&bytes, nullptr);
  return SPI_processed > 0 ? ResultInt64(0, 0) : 0;
}

namespace {

// As drop_expired() does, in the transaction that drops it: people will ask where the day is that was to be kept.
void AuditEarlyDrop(const char* log_table, int64_t bytes, int64_t most_bytes) {
  static Statement put = {
      "INSERT INTO outbox.audit (who, action, detail, reason) VALUES (CURRENT_USER, 'drop_expired',"
      " jsonb_build_object('log_table', $1, 'bytes', $2, 'max_log_size', $3), 'the log was larger than"
      " outbox.max_log_size')",
      3,
      {TEXTOID, INT8OID, INT8OID},
      nullptr};
  Datum values[] = {CStringGetTextDatum(log_table), Int64GetDatum(bytes), Int64GetDatum(most_bytes)};
  RunStatement(&put, values);
}

int64_t BytesOf(Oid table) {
  static Statement size = {"SELECT pg_total_relation_size($1)", 1, {OIDOID}, nullptr};
  Datum values[] = {ObjectIdGetDatum(table)};
  RunStatement(&size, values);
  return ResultInt64(0, 0);
}

}  // namespace

days::DropReport DropLogTablesToFit(int64_t now_micros, int64_t most_bytes) {
  return days::DropEach(days::DayTableKind::kLog, now_micros, [most_bytes](const days::DayTable& table) {
    if (LogBytes() <= most_bytes) {
      return false;
    }
    const char* name = psprintf("%s.%s", get_namespace_name(get_rel_namespace(table.oid)), get_rel_name(table.oid));
    const int64_t bytes = BytesOf(table.oid);
    const bool dropped = DropFinishedLogTable(table);
    if (dropped) {
      AuditEarlyDrop(name, bytes, most_bytes);
    }
    return dropped;
  });
}

namespace {

// created_at of what it holds, Unix microseconds; 0: nothing is visible. The first is of its newest transaction, by
// index: one that began earlier may have written later.
int64_t AnswerOf(Statement* statement) {
  RunStatement(statement, nullptr);
  bool null = true;
  Datum at = SPI_processed > 0 ? ResultDatum(0, 0, &null) : static_cast<Datum>(0);
  return null ? 0 : DatumGetTimestampTz(at) + kPgEpochMicros;
}
int64_t LateInSpare() {
  static Statement late = {
      "SELECT created_at FROM outbox_internal.log_spare ORDER BY xid DESC LIMIT 1", 0, {}, nullptr};
  return AnswerOf(&late);
}
int64_t NewestInSpare() {
  static Statement newest = {"SELECT max(created_at) FROM outbox_internal.log_spare", 0, {}, nullptr};
  return AnswerOf(&newest);
}
int64_t OldestInSpare() {
  static Statement oldest = {"SELECT min(created_at) FROM outbox_internal.log_spare", 0, {}, nullptr};
  return AnswerOf(&oldest);
}

// `end`, or where the log begins if that is earlier: what became of its events is kept as long as they are. `days` is
// room for its tables. In a transaction.
int64_t UpToTheLog(int64_t end, std::vector<days::DayTable>* days) {
  days::ReadDayTables(days::DayTableKind::kLog, days);
  for (const days::DayTable& day : *days) {
    if (day.day != days::kUnknownDay) {
      end = Min(end, days::DayStartMicros(day.day));
    }
  }
  const int64_t spare = days::SpareTableIsUsed() ? OldestInSpare() : 0;
  return spare != 0 ? Min(end, spare) : end;
}

}  // namespace

bool EmptySpareTable(int64_t now_micros, int64_t retention_micros) {
  Outstanding outstanding;
  bool emptied = false;
  pg::InTransaction(CurrentMemoryContext, [&] {
    const auto kept = [&](int64_t created_at) { return created_at + kDayMicros > now_micros - retention_micros; };
    if (!days::SpareTableIsUsed() || kept(LateInSpare())) {
      return;
    }
    Oid spare = days::SpareTable();
    // As for a day table.
    if (outstanding.Find(spare)) {
      return;
    }
    if (!ConditionalLockRelationOid(spare, AccessExclusiveLock) || outstanding.Find(spare) || kept(NewestInSpare())) {
      return;
    }
    days::GiveNewStorage(spare);
    emptied = true;
  });
  return emptied;
}

namespace {

// Lanes, and side lanes, whose newest progress row is older than $1. `since` is compared because a fork, a seek or a
// change of the lanes may commit while the statement waits for the row: the progress that was chosen belongs to the old
// position then.
void CarryPositions(int64_t before_micros) {
  static Statement carry = {
      "UPDATE outbox_internal.lane AS t SET window_from = p.window_from, window_to = p.window_to, done_to = p.done_to"
      " FROM outbox_internal.lane_position p WHERE p.saved_at < $1 AND NOT p.carried"
      " AND t.route_id = p.route_id AND t.lane = p.lane AND t.since = p.since",
      1,
      {TIMESTAMPTZOID},
      nullptr};
  Datum values[] = {TimeDatum(before_micros)};
  RunStatement(&carry, values);
  static Statement carry_sides = {
      "UPDATE outbox_internal.side_lane AS t SET window_from = p.window_from, window_to = p.window_to, done_to = "
      "p.done_to"
      " FROM outbox_internal.side_lane_position p WHERE p.saved_at < $1 AND NOT p.carried"
      " AND t.route_id = p.route_id AND t.lane = p.lane AND t.side = p.side AND t.since = p.since",
      1,
      {TIMESTAMPTZOID},
      nullptr};
  RunStatement(&carry_sides, values);
}

bool AllCarried(int64_t before_micros) {
  static Statement missing = {
      "(SELECT 1 FROM outbox_internal.lane_position WHERE saved_at < $1 AND NOT carried LIMIT 1)"
      " UNION ALL (SELECT 1 FROM outbox_internal.side_lane_position WHERE saved_at < $1 AND NOT carried LIMIT 1)",
      1,
      {TIMESTAMPTZOID},
      nullptr};
  Datum values[] = {TimeDatum(before_micros)};
  RunStatement(&missing, values);
  return SPI_processed == 0;
}

}  // namespace

days::DropReport DropExpiredProgressTables(int64_t now_micros) {
  // Progress is kept as long as the log: it is needed to rewind after a destination went back by days, and it tells
  // where an event is.
  int64_t end = now_micros - kDayMicros;
  bool any = false;
  std::vector<days::DayTable> tables;
  std::vector<days::DayTable> days;
  pg::InTransaction(CurrentMemoryContext, [&] {
    end = UpToTheLog(end, &days);
    days::ReadDayTables(days::DayTableKind::kProgress, &tables);
    any = !tables.empty() && tables.front().day != days::kUnknownDay &&
          days::DayStartMicros(tables.front().day) + kDayMicros <= end;
    if (any) {
      CarryPositions(end);
      OUTBOX_FAULT_POINT("carry.uncommitted");
    }
  });
  if (!any) {
    return {};
  }
  return days::DropEach(days::DayTableKind::kProgress, end, [&](const days::DayTable& table) {
    if (!days::LockForDrop(days::DayTableKind::kProgress, table.oid) ||
        !AllCarried(days::DayStartMicros(table.day) + kDayMicros)) {
      return false;
    }
    days::DropDayTable(days::DayTableKind::kProgress, table.day);
    OUTBOX_FAULT_POINT("drop.progress.uncommitted");
    return true;
  });
}

namespace {

// Whether a table has the outcome of an event that was created then or later: one that a clock dated which was ahead.
bool HasOutcomeOf(const days::DayTable& table, int64_t created_from) {
  static Statement any = {
      "SELECT 1 FROM outbox_internal.outcome WHERE at >= $1 AND at < $2 AND created_at >= $3 LIMIT 1",
      3,
      {TIMESTAMPTZOID, TIMESTAMPTZOID, TIMESTAMPTZOID},
      nullptr};
  const int64_t start = days::DayStartMicros(table.day);
  Datum values[] = {TimeDatum(start), TimeDatum(start + kDayMicros), TimeDatum(created_from)};
  RunStatement(&any, values);
  return SPI_processed > 0;
}

}  // namespace

days::DropReport DropExpiredOutcomeTables(int64_t now_micros, int64_t retention_micros) {
  // What was given up stays so, however long a lane keeps the log, and wherever a route is moved (window/settled.h).
  int64_t end = now_micros - retention_micros;
  std::vector<days::DayTable> days;
  pg::InTransaction(CurrentMemoryContext, [&] { end = UpToTheLog(end, &days); });
  return days::DropEach(days::DayTableKind::kOutcome, end, [&](const days::DayTable& table) {
    if (HasOutcomeOf(table, end) || !days::LockForDrop(days::DayTableKind::kOutcome, table.oid)) {
      return false;
    }
    days::DropDayTable(days::DayTableKind::kOutcome, table.day);
    return true;
  });
}

namespace {

// When the newest key of the spare table was taken, Unix microseconds; 0: nothing is visible.
int64_t NewestSpareKey() {
  static Statement newest = {
      "SELECT k.at FROM outbox_internal.emit_key_spare k ORDER BY k.at DESC LIMIT 1", 0, {}, nullptr};
  return AnswerOf(&newest);
}

void EmptySpareKeyTable(int64_t before_micros) {
  const Oid spare = days::SpareKeyTable();
  if (!days::IsUsed(spare) || NewestSpareKey() >= before_micros) {
    return;
  }
  // A transaction that has taken a key holds a lock until it ends, so that none commits between look and lock.
  if (ConditionalLockRelationOid(spare, AccessExclusiveLock) && NewestSpareKey() < before_micros) {
    days::GiveNewStorage(spare);
  }
}

}  // namespace

days::DropReport DropExpiredEmitKeys(int64_t now_micros, int64_t retention_micros) {
  const int64_t end = now_micros - retention_micros;
  days::DropReport report = days::DropEach(days::DayTableKind::kEmitKey, end, [](const days::DayTable& table) {
    if (!days::LockForDrop(days::DayTableKind::kEmitKey, table.oid)) {
      return false;
    }
    days::DropDayTable(days::DayTableKind::kEmitKey, table.day);
    return true;
  });
  pg::InTransaction(CurrentMemoryContext, [end] { EmptySpareKeyTable(end - kDayMicros); });
  return report;
}

days::DropReport DropExpiredTickTables(int64_t now_micros) {
  std::vector<Snapshot> bases;
  Snapshot last;
  Between between;
  int64_t today = days::DayStartMicros(days::DayOfMicros(now_micros));
  return days::DropEach(days::DayTableKind::kTick, today, [&](const days::DayTable& table) {
    static Statement newest = {"SELECT snapshot FROM outbox_internal.tick WHERE at < $1 ORDER BY at DESC LIMIT 1",
                               1,
                               {TIMESTAMPTZOID},
                               nullptr};
    Datum values[] = {TimeDatum(days::DayStartMicros(table.day) + kDayMicros)};
    RunStatement(&newest, values);
    if (SPI_processed > 0) {
      ReadSnapshotText(ResultText(0, 0), &last);
      ReadLaneBases(&bases);
      for (const Snapshot& base : bases) {
        // The position of an idle lane is not saved while no event comes.
        if (!base.Covers(last) && between.Find(base, last)) {
          return false;
        }
      }
    }
    if (!days::LockForDrop(days::DayTableKind::kTick, table.oid)) {
      return false;
    }
    days::DropDayTable(days::DayTableKind::kTick, table.day);
    OUTBOX_FAULT_POINT("drop.tick.uncommitted");
    return true;
  });
}

}  // namespace outbox::log
