#include "admin/common/write_lock.h"

#include "pg/guard.h"
#include "pg/schemas.h"

extern "C" {
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

}  // namespace outbox::admin
