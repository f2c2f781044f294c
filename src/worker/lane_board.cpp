#include "worker/lane_board.h"

extern "C" {
#include "mb/pg_wchar.h"
}

namespace outbox::worker {

namespace {

using pg::Lanes;
using pg::LaneSlot;
using pg::Shared;

TimestampTz FromUnix(int64 micros) {
  return micros == 0 ? 0 : micros - kPgEpochMicros;
}

void CopyText(char* to, size_t size, const char* from, size_t length) {
  size_t kept = pg_mbcliplen(from, static_cast<int>(length), static_cast<int>(size) - 1);
  memcpy(to, from, kept);
  to[kept] = '\0';
}

void ClearLocked(LaneSlot* slot) {
  slot->database = InvalidOid;
  slot->owner = 0;
  pg_atomic_write_u64(&slot->barrier, 0);
}

}  // namespace

LaneSlot* TakeLaneSlot(Oid database, const LaneId& lane, uint64 incarnation) {
  LaneSlot* found = nullptr;
  LWLockAcquire(Shared()->lock, LW_EXCLUSIVE);
  for (int i = 0; i < Shared()->max_lanes; i++) {
    LaneSlot* slot = &Lanes()[i];
    if (slot->database == database && slot->route_id == lane.route_id && slot->lane == lane.lane) {
      found = slot;
      break;
    }
    if (slot->database == InvalidOid && found == nullptr) {
      found = slot;
    }
  }
  if (found != nullptr) {
    found->database = database;
    found->route_id = lane.route_id;
    found->lane = lane.lane;
    found->owner = incarnation;
    found->state[0] = '\0';
    found->delivered_to = found->delivered_count = found->parked_count = 0;
    found->inflight_count = found->inflight_bytes = 0;
    found->next_try = found->error_since = 0;
    found->error_class[0] = found->error_code[0] = found->error_message[0] = '\0';
    found->updated_at = GetCurrentTimestamp();
    pg_atomic_write_u64(&found->barrier, 0);
  }
  LWLockRelease(Shared()->lock);
  return found;
}

void WriteLaneSlot(LaneSlot* slot, uint64 incarnation, const relay::LaneStatus& status) {
  LWLockAcquire(Shared()->lock, LW_EXCLUSIVE);
  if (slot->owner == incarnation) {
    CopyText(slot->state, sizeof(slot->state), status.state, strlen(status.state));
    slot->delivered_to = status.delivered_to;
    slot->delivered_count = status.delivered_count;
    slot->parked_count = status.parked_count;
    slot->inflight_count = status.inflight_count;
    slot->inflight_bytes = status.inflight_bytes;
    slot->next_try = FromUnix(status.next_try_unix);
    slot->error_since = FromUnix(status.error_since_unix);
    slot->error_class[0] = slot->error_code[0] = slot->error_message[0] = '\0';
    if (status.error != nullptr) {
      const Error& error = *status.error;
      const char* error_class = ErrorClassName(error.error_class);
      CopyText(slot->error_class, sizeof(slot->error_class), error_class, strlen(error_class));
      CopyText(slot->error_code, sizeof(slot->error_code), error.code.data(), error.code.size());
      CopyText(slot->error_message, sizeof(slot->error_message), error.message.data(), error.message.size());
    }
    slot->updated_at = GetCurrentTimestamp();
    pg_atomic_write_u64(&slot->barrier, status.barrier_done);
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

void FreeLaneSlots(uint64 incarnation) {
  LWLockAcquire(Shared()->lock, LW_EXCLUSIVE);
  for (int i = 0; i < Shared()->max_lanes; i++) {
    if (Lanes()[i].owner == incarnation && Lanes()[i].database != InvalidOid) {
      ClearLocked(&Lanes()[i]);
    }
  }
  LWLockRelease(Shared()->lock);
}

}  // namespace outbox::worker
