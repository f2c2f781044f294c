#include "worker/lane_board.h"

#include <algorithm>

#include "base/fault_point.h"
#include "pg/encoding.h"

extern "C" {
#include "mb/pg_wchar.h"
}

namespace outbox::worker {

namespace {

using pg::Destinations;
using pg::DestinationSlot;
using pg::Lanes;
using pg::LaneSlot;
using pg::Shared;

// Texts from a sink process are UTF-8, those from Postgres are not in every database. Readers use the database's
// encoding, and must not raise because of it: in databases that are not UTF-8, what is not ASCII becomes "?".
void FitEncoding(ErrorText* text) {
  if (GetDatabaseEncoding() != PG_UTF8) {
    pg::KeepAscii(text->code, strlen(text->code));
    pg::KeepAscii(text->message, strlen(text->message));
  }
}

void ClearLocked(LaneSlot* slot) {
  slot->database = InvalidOid;
  slot->owner = 0;
  pg_atomic_write_u64(&slot->barrier, 0);
}

}  // namespace

void TakeLaneSlots(Oid database, uint64 incarnation, std::span<TakenSlot> lanes) {
  const auto take = [&](LaneSlot* slot, TakenSlot* taken) {
    taken->slot = slot;
    slot->database = database;
    slot->owner = incarnation;
    slot->view = LaneView{};
    slot->view.id = taken->lane;
    pg_atomic_write_u64(&slot->barrier, 0);
  };
  LWLockAcquire(Shared()->lock, LW_EXCLUSIVE);
  // Its last owner may still be there, or have died.
  for (int i = 0; i < Shared()->max_lanes; i++) {
    LaneSlot* slot = &Lanes()[i];
    if (slot->database != database) {
      continue;
    }
    const auto known = std::lower_bound(lanes.begin(), lanes.end(), slot->view.id,
                                        [](const TakenSlot& taken, const LaneId& id) { return taken.lane < id; });
    if (known != lanes.end() && known->lane == slot->view.id && known->slot == nullptr) {
      take(slot, &*known);
    }
  }
  auto next = lanes.begin();
  for (int i = 0; i < Shared()->max_lanes; i++) {
    next = std::find_if(next, lanes.end(), [](const TakenSlot& taken) { return taken.slot == nullptr; });
    if (next == lanes.end()) {
      break;
    }
    if (Lanes()[i].database == InvalidOid) {
      take(&Lanes()[i], &*next);
    }
  }
  LWLockRelease(Shared()->lock);
}

void WriteLaneSlot(LaneSlot* slot, uint64 incarnation, const LaneView& view, uint64 barrier) {
  LWLockAcquire(Shared()->lock, LW_EXCLUSIVE);
  OUTBOX_FAULT_POINT("board.locked");
  if (slot->owner == incarnation) {
    slot->view = view;
    FitEncoding(&slot->view.trouble);
    pg_atomic_write_u64(&slot->barrier, barrier);
  }
  LWLockRelease(Shared()->lock);
}

void FreeLaneSlot(LaneSlot* slot, uint64 incarnation) {
  LWLockAcquire(Shared()->lock, LW_EXCLUSIVE);
  if (slot->owner == incarnation) {
    ClearLocked(slot);
  }
  LWLockRelease(Shared()->lock);
}

DestinationSlot* TakeDestinationSlot(Oid database, Oid server, const char* name, uint64 incarnation) {
  DestinationSlot* found = nullptr;
  LWLockAcquire(Shared()->lock, LW_EXCLUSIVE);
  for (int i = 0; i < Shared()->max_destinations && found == nullptr; i++) {
    if (Destinations()[i].database == InvalidOid) {
      found = &Destinations()[i];
      found->database = database;
      found->server = server;
      namestrcpy(&found->name, name);
      found->owner = incarnation;
      found->warned[0] = '\0';
      found->view = DestinationView{};
      found->view.since_unix = pg::UnixNow();
    }
  }
  LWLockRelease(Shared()->lock);
  return found;
}

void WriteDestinationSlot(DestinationSlot* slot, uint64 incarnation, const DestinationView& view) {
  LWLockAcquire(Shared()->lock, LW_EXCLUSIVE);
  if (slot->owner == incarnation) {
    const int64 since = view.since_unix != 0 ? view.since_unix : slot->view.since_unix;
    slot->view = view;
    slot->view.since_unix = since;
    FitEncoding(&slot->view.trouble);
  }
  LWLockRelease(Shared()->lock);
}

void FreeDestinationSlot(DestinationSlot* slot, uint64 incarnation) {
  LWLockAcquire(Shared()->lock, LW_EXCLUSIVE);
  if (slot->owner == incarnation) {
    slot->database = InvalidOid;
    slot->owner = 0;
  }
  LWLockRelease(Shared()->lock);
}

void FreeLaneSlots(uint64 incarnation) {
  LWLockAcquire(Shared()->lock, LW_EXCLUSIVE);
  for (int i = 0; i < Shared()->max_destinations; i++) {
    if (Destinations()[i].owner == incarnation) {
      Destinations()[i].database = InvalidOid;
      Destinations()[i].owner = 0;
    }
  }
  for (int i = 0; i < Shared()->max_lanes; i++) {
    if (Lanes()[i].owner == incarnation && Lanes()[i].database != InvalidOid) {
      ClearLocked(&Lanes()[i]);
    }
  }
  LWLockRelease(Shared()->lock);
}

}  // namespace outbox::worker
