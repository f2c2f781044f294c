#include "pg/held_lock.h"

#include "pg/transaction.h"

extern "C" {
#include "storage/lmgr.h"
#include "utils/relcache.h"
}

namespace outbox::pg {

namespace {

uint32 rollbacks = 0;  // of savepoints, in this process

void OnSubtransactionEnd(SubXactEvent event, SubTransactionId, SubTransactionId, void*) {
  if (event == SUBXACT_EVENT_ABORT_SUB) {
    rollbacks++;
  }
}

}  // namespace

void NoteHeld(HeldLock* lock) {
  static bool registered = false;
  if (!registered) {
    RegisterSubXactCallback(OnSubtransactionEnd, nullptr);
    registered = true;
  }
  *lock = {CurrentTransaction(), rollbacks};
}

bool Holds(const HeldLock& lock) {
  return lock.transaction == CurrentTransaction() && lock.rollbacks == rollbacks &&
         lock.transaction != InvalidLocalTransactionId;
}

bool HoldsLock(Oid relation, LOCKMODE mode) {
  LOCKTAG tag;
  SET_LOCKTAG_RELATION(tag, MyDatabaseId, relation);
#if PG_VERSION_NUM >= 170000
  return LockHeldByMe(&tag, mode, false);
#else
  return LockHeldByMe(&tag, mode);
#endif
}

Relation OpenHeld(Oid relation) {
  Relation opened = RelationIdGetRelation(relation);
  if (opened != nullptr) {
    pgstat_init_relation(opened);  // as relation_open() does
  }
  return opened;
}

Relation LockAndOpen(Oid relation, LOCKMODE mode) {
  LockRelationOid(relation, mode);
  Relation opened = OpenHeld(relation);
  if (opened == nullptr) {
    UnlockRelationOid(relation, mode);
  }
  return opened;
}

}  // namespace outbox::pg
