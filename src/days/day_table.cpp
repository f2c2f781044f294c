#include "days/day_table.h"

#include "base/fault_point.h"
#include "days/day_table_ddl.h"
#include "days/table_check.h"
#include "pg/held_lock.h"
#include "pg/server_versions.h"
#include "pg/transaction_end.h"

extern "C" {
#include "catalog/namespace.h"
#include "utils/inval.h"
#include "utils/rel.h"
}

namespace outbox::days {

namespace {

// The day table of the last emit. Cleared whenever anything about it changes in the catalogs.
struct {
  int32 day;
  Oid table;  // InvalidOid: nothing cached
  uint64 changes;
  pg::HeldLock lock;
} cached;

// Counts relevant invalidations, so that one that arrives while a table is being checked is not lost.
uint64 changes = 1;

void OnRelcacheInvalidation(Datum, Oid relation) {
  if (relation == InvalidOid || relation == cached.table) {
    changes++;
  }
}

// Emit writes rows by itself, without executor and constraint checks: it must know exactly what it writes to.
void CheckDayTable(Relation table, bool spare) {
  const char* wrong =
      WrongForWriting(table, kLogRules, kLogColumns, spare ? InvalidOid : DayTableParent(DayTableKind::kLog));
  if (wrong != nullptr) {
    ereport(ERROR,
            (errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
             errmsg("day table \"%s\" cannot take events", RelationGetRelationName(table)), errdetail("%s", wrong),
             errhint("Day tables belong to the extension, whose owner undoes what was changed on this one.")));
  }
}

void ClearCache() {
  cached.table = InvalidOid;
  cached.lock = {};
}

bool CacheIsGood(int32 day) {
  return OidIsValid(cached.table) && cached.day == day && cached.changes == changes;
}

// No session waits for another here: there is nothing to make, and no lock is taken that other emits do not take.
Relation OpenSpareTableForEmit(int32 day) {
  Oid spare = SpareTable();
  Relation table = OidIsValid(spare) ? try_table_open(spare, RowExclusiveLock) : nullptr;
  if (table == nullptr) {
    char name[NAMEDATALEN];
    DayTableName(DayTableKind::kLog, day, name);
    ereport(
        ERROR,
        (errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
         errmsg("there is no table for an event: neither \"%s\" nor \"log_spare\" is there", name),
         errhint("A keeper makes day tables where max_worker_processes has room for one. outbox_internal.log_spare "
                 "belongs to the extension: where outbox.version() shows two versions, ALTER EXTENSION outbox UPDATE "
                 "makes it; else the owner of the extension restores it.")));
  }
  CheckDayTable(table, true);
  pg::NoteEmittedToSpare();
  OUTBOX_FAULT_POINT("spare.opened");
  return table;
}

}  // namespace

TupleDesc FirstColumns(TupleDesc columns, int count) {
  if (columns->natts == count) {
    return columns;
  }
  TupleDesc first = CreateTemplateTupleDesc(count);
  for (int i = 1; i <= count; i++) {
    TupleDescCopyEntry(first, static_cast<AttrNumber>(i), columns, static_cast<AttrNumber>(i));
  }
  return pg::FinishColumns(first);
}

Relation OpenDayTableForEmit(int32 day) {
  static bool registered = false;
  if (!registered) {
    CacheRegisterRelcacheCallback(OnRelcacheInvalidation, static_cast<Datum>(0));
    registered = true;
  }
  for (;;) {
    if (CacheIsGood(day) && pg::Holds(cached.lock)) {
      Relation table = pg::OpenHeld(cached.table);
      if (table != nullptr) {
        return table;
      }
    }
    if (!CacheIsGood(day)) {
      ClearCache();
      Oid found = FindDayTable(DayTableKind::kLog, day);
      if (!OidIsValid(found)) {
        if (HaveDayTableMade(day)) {
          continue;
        }
        return OpenSpareTableForEmit(day);
      }
      cached.table = found;
      cached.day = day;
      cached.changes = changes - 1;  // has CheckDayTable run once it is open
    }
    // Opening takes the lock and then reads what invalidations there are.
    Relation table = pg::LockAndOpen(cached.table, RowExclusiveLock);
    if (table == nullptr) {  // dropped between lookup and lock
      ClearCache();
      continue;
    }
    if (CacheIsGood(day)) {
      pg::NoteHeld(&cached.lock);
      return table;
    }
    if (FindDayTable(DayTableKind::kLog, day) != RelationGetRelid(table)) {  // renamed or detached meanwhile
      table_close(table, RowExclusiveLock);
      ClearCache();
      continue;
    }
    uint64 before = changes;
    CheckDayTable(table, false);
    cached.changes = before;
    pg::NoteHeld(&cached.lock);
    return table;
  }
}

uint64 EmitTableChanges(Oid table) {
  return OidIsValid(table) && table == cached.table ? changes : 0;
}

Relation OpenDayTableForReading(int32 day) {
  Oid found = FindDayTable(DayTableKind::kLog, day);
  return OidIsValid(found) ? try_table_open(found, AccessShareLock) : nullptr;
}

Relation OpenSpareTableForReading() {
  Oid spare = SpareTable();
  return OidIsValid(spare) ? try_table_open(spare, AccessShareLock) : nullptr;
}

}  // namespace outbox::days
