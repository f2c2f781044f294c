#include "log/progress/replays.h"

#include "pg/schemas.h"
#include "pg/shared.h"
#include "pg/sql.h"
#include "pg/transaction.h"

extern "C" {
#include "catalog/namespace.h"
#include "storage/lock.h"
#include "utils/resowner.h"
}

namespace outbox::log {

using namespace pg::sql;

namespace {

// The table's own oid is no class of objects that other code locks.
LOCKTAG TagOf(uint64 number) {
  LOCKTAG tag;
  Oid table = pg::FindOurRelation("replay");
  SET_LOCKTAG_OBJECT(tag, MyDatabaseId, table, static_cast<Oid>(number), 0);
  return tag;
}

bool Lock(uint64 number, bool of_session) {
  LOCKTAG tag = TagOf(number);
  return LockAcquire(&tag, ExclusiveLock, of_session, true) != LOCKACQUIRE_NOT_AVAIL;
}

bool copying = false;  // this session has the lock of a replay

// A transaction that fails lets go of the session's locks before this. The process may be on its way out: nothing here
// raises.
void OnRelease(ResourceReleasePhase phase, bool is_commit, bool is_top_level, void*) {
  if (phase != RESOURCE_RELEASE_AFTER_LOCKS || is_commit || !is_top_level || !copying) {
    return;
  }
  copying = false;
  if (pg::DatabaseSlot* slot = pg::FindDatabaseSlot(MyDatabaseId, false); slot != nullptr) {
    pg_atomic_fetch_add_u64(&slot->replays_left, 1);
    pg::WakeWorkers(MyDatabaseId, true);
  }
}

void TellWhenLeft() {
  static bool registered = false;
  if (!registered) {
    RegisterResourceReleaseCallback(OnRelease, nullptr);
    registered = true;
  }
}

}  // namespace

bool LockReplay(uint64 number) {
  TellWhenLeft();
  // The keeper holds it for a moment when it checks.
  for (int tries = 0; tries < 10; tries++) {
    if (Lock(number, true)) {
      copying = true;
      return true;
    }
    CHECK_FOR_INTERRUPTS();
    pg_usleep(20000);
  }
  return false;
}

void UnlockReplay(uint64 number) {
  LOCKTAG tag = TagOf(number);
  (void)LockRelease(&tag, ExclusiveLock, true);
  copying = false;
}

void MarkInterruptedReplays() {
  static Statement copying = {
      "SELECT number FROM outbox.replay WHERE state = 'copying' FOR UPDATE SKIP LOCKED", 0, {}, nullptr};
  static Statement mark = {
      "UPDATE outbox.replay SET state = 'interrupted' WHERE number = ANY ($1)", 1, {INT8ARRAYOID}, nullptr};
  pg::InTransaction(CurrentMemoryContext, [&] {
    RunStatement(&copying, nullptr);
    Column numbers(SPI_processed);
    for (uint64 row = 0; row < SPI_processed; row++) {
      bool isnull = false;
      Datum number = ResultDatum(row, 0, &isnull);
      if (Lock(static_cast<uint64>(DatumGetInt64(number)), false)) {
        numbers.Add(number);
      }
    }
    if (numbers.count > 0) {
      Datum values[] = {numbers.Array(INT8OID)};
      RunStatement(&mark, values);
    }
  });
}

}  // namespace outbox::log
