#include "log/window/durable.h"

extern "C" {
#include "replication/syncrep.h"
#include "replication/walsender.h"
#include "replication/walsender_private.h"
#include "utils/guc.h"
}

namespace outbox::log {

namespace {

// The checkpointer keeps the flag for SyncRepWaitForLSN. Minor releases of May 2025 made the byte that it was two bits,
// in the same place; so the server that runs says how to read it, not the one whose headers this was built with.
bool FlagIsOneOfTwoBits() {
  static const int version = atoi(GetConfigOption("server_version_num", false, false));
  switch (version / 10000) {
    case 15:
      return version >= 150013;
    case 16:
      return version >= 160009;
    case 17:
      return version >= 170005;
    default:
      return true;
  }
}

constexpr uint8 kStandbysAreDefined = 1 << 1;  // SYNC_STANDBY_DEFINED

uint8 Flags() {
#ifdef SYNC_STANDBY_DEFINED
  static_assert(SYNC_STANDBY_DEFINED == kStandbysAreDefined);
  return WalSndCtl->sync_standbys_status;
#else
  return WalSndCtl->sync_standbys_defined;
#endif
}

}  // namespace

// Without walsenders no standby could answer, whatever the setting says: the server does not wait then, either.
bool StandbysAreAsked() {
  return max_wal_senders > 0 && (FlagIsOneOfTwoBits() ? (Flags() & kStandbysAreDefined) != 0 : Flags() != 0);
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
