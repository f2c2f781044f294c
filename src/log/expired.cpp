// Dropping day tables that have had their time [P]. Locks are taken by single conditional attempts, parent before leaf:
// a queued AccessExclusiveLock on the parent would stop every session that reads through it.
#include "base/fault_point.h"
#include "log/day_tables.h"
#include "log/lane_tables.h"
#include "log/leaf.h"
#include "log/position_sql.h"
#include "log/statement.h"
#include "log/window_scan.h"
#include "log/xid_fate.h"
#include "pg/transaction.h"

extern "C" {
#include "catalog/index.h"
#include "commands/tablecmds.h"
#include "storage/bufmgr.h"
#include "storage/lmgr.h"
#include "storage/procarray.h"
}

namespace outbox::log {

namespace {

constexpr int64_t kDay = static_cast<int64_t>(SECS_PER_DAY) * USECS_PER_SEC;

// What every lane and side lane has finished with: the base of its position. One that came by a dump and is not adopted
// yet has finished with nothing of this log: its position is made of another server's numbers. Uncommitted routes do
// not count; what they miss expired.
void ReadLaneBases(std::vector<Snapshot>* bases) {
  static Statement all = {
      "SELECT CASE WHEN h.home OPERATOR(pg_catalog.=) outbox._home() THEN r.window_from::text ELSE '3:3:' END"
      " FROM " OUTBOX_POSITIONS
      " r JOIN outbox.lane h ON h.route_id OPERATOR(pg_catalog.=) r.route_id AND h.lane OPERATOR(pg_catalog.=) r.lane",
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

// A visitor that only wants to know whether there is a row at all.
class AnyRow final : public RowVisitor {
 public:
  void Row(const RowView&, uint64_t) override { found = true; }
  bool found = false;
};

bool HasRow(const WindowBounds& window, const LeafList& leaves) {
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
  LeafList list;

  bool Find(Oid table) {
    ReadLaneBases(&bases);
    Leaf leaf;
    if (bases.empty() || !OpenLeaf(table, &leaf)) {
      return false;
    }
    uint64 largest = 0;
    bool known = leaf.index != nullptr;
    bool any = known && LargestXid(leaf, &largest);
    CloseLeaf(leaf);
    if (known && (!any || largest < LowestXmin(bases))) {
      return false;
    }
    list.leaves.assign(1, LeafEntry());
    list.leaves[0].oid = table;
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
    return HasRow(window, *CurrentLeafList());
  }
};

// Both locks or none of use: what was got goes with the transaction.
bool LockForDrop(DayTableKind kind, Oid table) {
  Oid parent = DayTableParent(kind);
  return ConditionalLockRelationOid(parent, AccessExclusiveLock) &&
         ConditionalLockRelationOid(table, AccessExclusiveLock);
}

bool StillDayTable(DayTableKind kind, const DayTable& table) {
  return FindDayTable(kind, table.day) == table.oid;
}

// Runs `drop` for every table of the kind that ended at or before `end`, each in a transaction of its own; true from it
// means dropped. An error leaves the table for the next time, like a lock, and is thrown when the others are done.
template <typename Drop>
DropReport DropEach(DayTableKind kind, int64_t end, Drop drop) {
  std::vector<DayTable> tables;
  MemoryContext context = CurrentMemoryContext;
  pg::InTransaction(context, [&] { ReadDayTables(kind, &tables); });
  DropReport report;
  std::exception_ptr first;
  for (const DayTable& table : tables) {
    if (table.day == kUnknownDay || DayStartMicros(table.day) + kDay > end) {
      continue;
    }
    bool dropped = false;
    try {
      pg::InTransaction(context, [&] { dropped = StillDayTable(kind, table) && drop(table); });
    } catch (const pg::PgError&) {
      first = first ? first : std::current_exception();
      dropped = false;
    }
    (dropped ? report.dropped : report.waiting)++;
  }
  if (first) {
    std::rethrow_exception(first);
  }
  return report;
}

}  // namespace

DropReport DropExpiredLogTables(int64_t now_micros, int64_t retention_micros) {
  Outstanding outstanding;
  return DropEach(DayTableKind::kLog, now_micros - retention_micros, [&](const DayTable& table) {
    // First without a lock, so that a lane that lags costs nobody anything; then under it, because a transaction can
    // commit in between. An unfinished one, open or prepared, holds RowExclusiveLock on the leaf and wins.
    if (outstanding.Find(table.oid)) {
      return false;
    }
    OUTBOX_FAULT_POINT("drop.checked");
    if (!LockForDrop(DayTableKind::kLog, table.oid) || outstanding.Find(table.oid)) {
      return false;
    }
    OUTBOX_FAULT_POINT("drop.locked");
    DropDayTable(DayTableKind::kLog, table.day);
    OUTBOX_FAULT_POINT("drop.uncommitted");
    return true;
  });
}

bool SpareTableIsUsed() {
  Oid spare = SpareTable();
  Relation table = OidIsValid(spare) ? try_table_open(spare, AccessShareLock) : nullptr;
  if (table == nullptr) {
    return false;
  }
  bool used = RelationGetNumberOfBlocks(table) > 0;
  table_close(table, AccessShareLock);
  return used;
}

namespace {

// created_at of its newest transaction's events, Unix microseconds; 0: nothing is visible. Older transactions may have
// written a little later.
int64_t NewestInSpare() {
  static Statement newest = {"SELECT created_at FROM outbox.log_spare ORDER BY xid DESC LIMIT 1", 0, {}, nullptr};
  RunStatement(&newest, nullptr);
  bool null = true;
  Datum at = SPI_processed > 0 ? ResultDatum(0, 0, &null) : static_cast<Datum>(0);
  return null ? 0 : DatumGetTimestampTz(at) + kPgEpochMicros;
}

// As TRUNCATE, which would fire triggers and travel through publications FOR ALL TABLES.
void GiveNewStorage(Oid oid) {
  Relation table = table_open(oid, NoLock);
  CheckTableNotInUse(table, "TRUNCATE");
  Oid toast = table->rd_rel->reltoastrelid;
  Relation toast_table = OidIsValid(toast) ? table_open(toast, AccessExclusiveLock) : nullptr;
  for (Relation relation : {table, toast_table}) {
    if (relation != nullptr) {
#if PG_VERSION_NUM >= 160000
      RelationSetNewRelfilenumber(relation, relation->rd_rel->relpersistence);
#else
      RelationSetNewRelfilenode(relation, relation->rd_rel->relpersistence);
#endif
      table_close(relation, NoLock);
    }
  }
  ReindexParams params = {};
#if PG_VERSION_NUM >= 170000
  reindex_relation(nullptr, oid, REINDEX_REL_PROCESS_TOAST, &params);
#else
  reindex_relation(oid, REINDEX_REL_PROCESS_TOAST, &params);
#endif
}

}  // namespace

bool EmptySpareTable(int64_t now_micros, int64_t retention_micros) {
  Outstanding outstanding;
  bool emptied = false;
  pg::InTransaction(CurrentMemoryContext, [&] {
    if (!SpareTableIsUsed() || NewestInSpare() + kDay > now_micros - retention_micros) {
      return;
    }
    Oid spare = SpareTable();
    // As for a day table.
    if (outstanding.Find(spare)) {
      return;
    }
    if (!ConditionalLockRelationOid(spare, AccessExclusiveLock) || outstanding.Find(spare)) {
      return;
    }
    GiveNewStorage(spare);
    emptied = true;
  });
  return emptied;
}

namespace {

// Lanes, and side lanes, whose newest progress row is not newer than $1, with that row.
#define OUTBOX_LAST_PROGRESS(table, who, newest)                         \
  table " " who ", LATERAL " newest                                      \
        " p WHERE p.at OPERATOR(pg_catalog.<) $1"                        \
        " AND (" who ".window_from::text, " who ".window_to::text, " who \
        ".done_to) IS DISTINCT FROM"                                     \
        " (p.window_from::text, p.window_to::text, p.done_to)"
#define OUTBOX_LAST_LANE_PROGRESS OUTBOX_LAST_PROGRESS("outbox.lane", "l", OUTBOX_NEWEST_PROGRESS)
#define OUTBOX_LAST_SIDE_PROGRESS OUTBOX_LAST_PROGRESS("outbox.side_lane", "s", OUTBOX_NEWEST_SIDE_PROGRESS)

// `since`: a fork, a seek or a change of the lanes that commits while the statement waits for its row has given it
// another position, of which the progress it was chosen for knows nothing.
void CarryPositions(int64_t before_micros) {
  static Statement carry = {
      "UPDATE outbox.lane AS t SET window_from = c.window_from, window_to = c.window_to, done_to = c.done_to"
      " FROM (SELECT l.route_id, l.lane, l.since, p.window_from, p.window_to, p.done_to"
      " FROM " OUTBOX_LAST_LANE_PROGRESS
      ") c WHERE t.route_id OPERATOR(pg_catalog.=) c.route_id AND t.lane OPERATOR(pg_catalog.=) c.lane"
      " AND t.since OPERATOR(pg_catalog.=) c.since",
      1,
      {TIMESTAMPTZOID},
      nullptr};
  Datum values[] = {TimestampTzGetDatum(before_micros - kPgEpochMicros)};
  RunStatement(&carry, values);
  static Statement carry_sides = {
      "UPDATE outbox.side_lane AS t SET window_from = c.window_from, window_to = c.window_to, done_to = c.done_to"
      " FROM (SELECT s.route_id, s.lane, s.side, s.since, p.window_from, p.window_to, p.done_to"
      " FROM " OUTBOX_LAST_SIDE_PROGRESS
      ") c WHERE t.route_id OPERATOR(pg_catalog.=) c.route_id AND t.lane OPERATOR(pg_catalog.=) c.lane"
      " AND t.side OPERATOR(pg_catalog.=) c.side AND t.since OPERATOR(pg_catalog.=) c.since",
      1,
      {TIMESTAMPTZOID},
      nullptr};
  RunStatement(&carry_sides, values);
}

bool AllCarried(int64_t before_micros) {
  static Statement missing = {"(SELECT 1 FROM " OUTBOX_LAST_LANE_PROGRESS
                              " LIMIT 1) UNION ALL (SELECT 1 FROM " OUTBOX_LAST_SIDE_PROGRESS " LIMIT 1)",
                              1,
                              {TIMESTAMPTZOID},
                              nullptr};
  Datum values[] = {TimestampTzGetDatum(before_micros - kPgEpochMicros)};
  RunStatement(&missing, values);
  return SPI_processed == 0;
}

#undef OUTBOX_LAST_SIDE_PROGRESS
#undef OUTBOX_LAST_LANE_PROGRESS
#undef OUTBOX_LAST_PROGRESS

}  // namespace

DropReport DropExpiredProgressTables(int64_t now_micros) {
  // As long as the log: a destination that goes back by days is put back by it, and it tells where an event is.
  int64_t end = now_micros - kDay;
  bool any = false;
  std::vector<DayTable> tables;
  std::vector<DayTable> days;
  pg::InTransaction(CurrentMemoryContext, [&] {
    ReadDayTables(DayTableKind::kLog, &days);
    if (!days.empty() && days.front().day != kUnknownDay) {
      end = Min(end, DayStartMicros(days.front().day));
    }
    ReadDayTables(DayTableKind::kProgress, &tables);
    any = !tables.empty() && tables.front().day != kUnknownDay && DayStartMicros(tables.front().day) + kDay <= end;
    if (any) {
      CarryPositions(end);
      OUTBOX_FAULT_POINT("carry.uncommitted");
    }
  });
  if (!any) {
    return {};
  }
  return DropEach(DayTableKind::kProgress, end, [&](const DayTable& table) {
    if (!LockForDrop(DayTableKind::kProgress, table.oid) || !AllCarried(DayStartMicros(table.day) + kDay)) {
      return false;
    }
    DropDayTable(DayTableKind::kProgress, table.day);
    OUTBOX_FAULT_POINT("drop.progress.uncommitted");
    return true;
  });
}

DropReport DropExpiredOutcomeTables(int64_t now_micros, int64_t retention_micros) {
  return DropEach(DayTableKind::kOutcome, now_micros - retention_micros, [&](const DayTable& table) {
    if (!LockForDrop(DayTableKind::kOutcome, table.oid)) {
      return false;
    }
    DropDayTable(DayTableKind::kOutcome, table.day);
    return true;
  });
}

DropReport DropExpiredTickTables(int64_t now_micros) {
  std::vector<Snapshot> bases;
  Snapshot last;
  Between between;
  int64_t today = DayStartMicros(DayOfMicros(now_micros));
  return DropEach(DayTableKind::kTick, today, [&](const DayTable& table) {
    static Statement newest = {
        "SELECT snapshot FROM outbox.tick WHERE at OPERATOR(pg_catalog.<) $1 ORDER BY at DESC LIMIT 1",
        1,
        {TIMESTAMPTZOID},
        nullptr};
    Datum values[] = {TimestampTzGetDatum(DayStartMicros(table.day) + kDay - kPgEpochMicros)};
    RunStatement(&newest, values);
    if (SPI_processed > 0) {
      ReadSnapshotText(ResultText(0, 0), &last);
      ReadLaneBases(&bases);
      for (const Snapshot& base : bases) {
        // An idle lane's position is not written down while nothing comes.
        if (!base.Covers(last) && between.Find(base, last)) {
          return false;
        }
      }
    }
    if (!LockForDrop(DayTableKind::kTick, table.oid)) {
      return false;
    }
    DropDayTable(DayTableKind::kTick, table.day);
    OUTBOX_FAULT_POINT("drop.tick.uncommitted");
    return true;
  });
}

}  // namespace outbox::log
