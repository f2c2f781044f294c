#include "admin/lookup/try_lock.h"

#include "pg/schemas.h"

extern "C" {
#include "catalog/pg_inherits.h"
#include "storage/lmgr.h"
#include "utils/rel.h"
#include "utils/relcache.h"
}

namespace outbox::admin {

namespace {

bool LockIndexes(Oid table) {
  Relation relation = RelationIdGetRelation(table);
  if (!RelationIsValid(relation)) {
    return false;
  }
  List* indexes = RelationGetIndexList(relation);
  RelationClose(relation);
  ListCell* cell = nullptr;
  foreach (cell, indexes) {
    if (!ConditionalLockRelationOid(lfirst_oid(cell), AccessShareLock)) {
      return false;
    }
  }
  list_free(indexes);
  return true;
}

}  // namespace

bool LockToLook(Oid table) {
  if (!OidIsValid(table) || !ConditionalLockRelationOid(table, AccessShareLock) || !LockIndexes(table)) {
    return false;
  }
  ListCell* cell = nullptr;
  foreach (cell, find_inheritance_children(table, NoLock)) {
    if (!LockToLook(lfirst_oid(cell))) {
      return false;
    }
  }
  return true;
}

bool LockToLook(const char* table) {
  return LockToLook(pg::FindOurRelation(table));
}

}  // namespace outbox::admin
