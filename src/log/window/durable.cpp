#include "log/window/durable.h"

#include "base/fault_point.h"

extern "C" {
#include "replication/syncrep.h"
#include "replication/walsender.h"
#include "replication/walsender_private.h"
#include "utils/guc.h"
}

namespace outbox::log {

namespace {

// The checkpointer keeps the flag for SyncRepWaitForLSN. Minor releases of May 2025 made the byte that it was two bits,
// in the same place; so the server that runs says how to read it, not the one whose headers this was built with. (Of
// the byte nobody can tell whether it was looked at: those servers' own commits do not wait then, either.)
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

constexpr uint8 kFlagsAreSet = 1 << 0;         // SYNC_STANDBY_INIT
constexpr uint8 kStandbysAreDefined = 1 << 1;  // SYNC_STANDBY_DEFINED

uint8 Flags() {
  const auto without = static_cast<uint8>(OUTBOX_FAULT_VALUE("durable.unset"));
#ifdef SYNC_STANDBY_DEFINED
  static_assert(SYNC_STANDBY_INIT == kFlagsAreSet && SYNC_STANDBY_DEFINED == kStandbysAreDefined);
  return static_cast<uint8>(WalSndCtl->sync_standbys_status & ~without);
#else
  return static_cast<uint8>(WalSndCtl->sync_standbys_defined & ~without);
#endif
}

}  // namespace

// Without walsenders no standby could answer, whatever the setting says: the server does not wait then, either.
bool StandbysAreAsked() {
  if (max_wal_senders <= 0) {
    return false;
  }
  const uint8 flags = Flags();
  if (!FlagIsOneOfTwoBits()) {
    return flags != 0;
  }
  // After a start workers may be earlier than the checkpointer: then the setting tells, as it does to who commits.
  return (flags & kFlagsAreSet) != 0 ? (flags & kStandbysAreDefined) != 0
                                     : SyncRepStandbyNames != nullptr && SyncRepStandbyNames[0] != '\0';
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
