#include "log/durable.h"

extern "C" {
#include "replication/syncrep.h"
#include "replication/walsender.h"
#include "replication/walsender_private.h"
}

namespace outbox::log {

// Without walsenders no standby could answer, whatever the setting says: the server does not wait then, either. The
// checkpointer keeps the flag for SyncRepWaitForLSN; minor releases of 2025 made it a bit of a byte.
bool StandbysAreAsked() {
#ifdef SYNC_STANDBY_DEFINED
  return max_wal_senders > 0 && (WalSndCtl->sync_standbys_status & SYNC_STANDBY_DEFINED) != 0;
#else
  return max_wal_senders > 0 && WalSndCtl->sync_standbys_defined;
#endif
}

bool MakeDurable(XLogRecPtr lsn) {
  XLogFlush(lsn);
  if (!StandbysAreAsked()) {
    return true;
  }
  LWLockAcquire(SyncRepLock, LW_SHARED);
  bool durable = WalSndCtl->lsn[SYNC_REP_WAIT_FLUSH] >= lsn;
  LWLockRelease(SyncRepLock);
  return durable;
}

}  // namespace outbox::log
