#include "parked/erasures.h"

#include <utility>

#include "pg/schemas.h"
#include "pg/transaction_end.h"

extern "C" {
#include "miscadmin.h"
#include "storage/lmgr.h"
#include "storage/lock.h"
}

namespace outbox::parked {

namespace {

// The table's own oid is no class of objects that other code locks. The table itself is locked by operators, too, for
// as long as they like.
LOCKTAG ParkingTag() {
  LOCKTAG tag;
  SET_LOCKTAG_OBJECT(tag, MyDatabaseId, pg::FindOurRelation("parked"), 0, 0);
  return tag;
}

}  // namespace

uint64_t Erasures::Count() {
  pg::DatabaseSlot* slot = pg::MyDatabaseSlot();
  return slot == nullptr ? 0 : pg_atomic_read_u64(&slot->erasures);
}

bool Erasures::TakeNew() {
  const uint64_t count = Count();
  return std::exchange(put_down_, count) != count;
}

void Erasures::RefuseErased() const {
  BeginCopy();
  pg_memory_barrier();
  if (Count() != put_down_) {
    ereport(ERROR, (errcode(ERRCODE_LOCK_NOT_AVAILABLE),
                    errmsg("events were erased that may be among those to be parked; they are read again")));
  }
}

// Nobody takes a lock that this one would wait for.
void BeginCopy() {
  const LOCKTAG tag = ParkingTag();
  (void)LockAcquire(&tag, ShareLock, false, false);
}

void AwaitParking() {
  WaitForLockers(ParkingTag(), ExclusiveLock, false);
}

}  // namespace outbox::parked
