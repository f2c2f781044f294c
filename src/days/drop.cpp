#include "days/drop.h"

extern "C" {
#include "catalog/index.h"
#include "catalog/pg_inherits.h"
#include "commands/tablecmds.h"
#include "storage/bufmgr.h"
#include "storage/lmgr.h"
}

namespace outbox::days {

bool LockForDrop(DayTableKind kind, Oid table) {
  Oid parent = DayTableParent(kind);
  return ConditionalLockRelationOid(parent, AccessExclusiveLock) &&
         ConditionalLockRelationOid(table, AccessExclusiveLock);
}

bool SpareTableIsUsed() {
  return IsUsed(SpareTable());
}

bool IsUsed(Oid oid) {
  Relation table = OidIsValid(oid) ? try_table_open(oid, AccessShareLock) : nullptr;
  if (table == nullptr) {
    return false;
  }
  bool used = RelationGetNumberOfBlocks(table) > 0;
  table_close(table, AccessShareLock);
  return used;
}

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

List* LockDayTablesToEmpty(DayTableKind kind) {
  const Oid parent = DayTableParent(kind);
  LockRelationOid(parent, AccessExclusiveLock);
  return find_inheritance_children(parent, AccessExclusiveLock);
}

void EmptyDayTables(DayTableKind kind) {
  ListCell* cell;
  foreach (cell, LockDayTablesToEmpty(kind)) {
    GiveNewStorage(lfirst_oid(cell));
  }
}

}  // namespace outbox::days
