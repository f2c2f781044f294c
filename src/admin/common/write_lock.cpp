#include "admin/common/write_lock.h"

#include "pg/guard.h"
#include "pg/schemas.h"

extern "C" {
#include "catalog/pg_inherits.h"
#include "storage/lmgr.h"
}

namespace outbox::admin {

void LockToWrite(std::initializer_list<const char*> tables) {
  pg::Guard([tables] {
    for (const char* name : tables) {
      const Oid table = pg::FindOurRelation(name);
      if (OidIsValid(table)) {
        LockRelationOid(table, RowExclusiveLock);
      }
    }
  });
}

void LockPartitionsToWrite(const char* table) {
  pg::Guard([table] { (void)find_inheritance_children(pg::FindOurRelation(table), RowExclusiveLock); });
}

}  // namespace outbox::admin
