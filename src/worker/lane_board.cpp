#include "worker/lane_board.h"

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

TimestampTz FromUnix(int64 micros) {
  return micros == 0 ? 0 : micros - kPgEpochMicros;
}

// Clipped to `size`. What a sink process said is UTF-8, what Postgres said is not in every database; who reads it has
// the database's encoding, and may not raise for it: elsewhere what is not ASCII becomes "?".
void CopyText(char* to, size_t size, const char* from, size_t length) {
  size_t kept = pg_mbcliplen(from, static_cast<int>(length), static_cast<int>(size) - 1);
  memcpy(to, from, kept);
  to[kept] = '\0';
  if (GetDatabaseEncoding() != PG_UTF8) {
    pg::KeepAscii(to, kept);
  }
}

// nullptr: no trouble.
template <typename Slot>
void WriteError(const Error* error, Slot* slot) {
  slot->error_class[0] = slot->error_code[0] = slot->error_message[0] = '\0';
  if (error != nullptr) {
    const char* error_class = ErrorClassName(error->error_class);
    CopyText(slot->error_class, sizeof(slot->error_class), error_class, strlen(error_class));
    CopyText(slot->error_code, sizeof(slot->error_code), error->code.data(), error->code.size());
    CopyText(slot->error_message, sizeof(slot->error_message), error->message.data(), error->message.size());
  }
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
    if (slot->database == database && slot->route_id == lane.route_id && slot->lane == lane.lane &&
        slot->side == lane.side) {
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
    found->side = lane.side;
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
    WriteError(status.error, slot);
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

DestinationSlot* TakeDestinationSlot(Oid database, Oid server, const char* name, uint64 incarnation) {
  DestinationSlot* found = nullptr;
  LWLockAcquire(Shared()->lock, LW_EXCLUSIVE);
  for (int i = 0; i < Shared()->max_destinations && found == nullptr; i++) {
    if (Destinations()[i].database == InvalidOid) {
      found = &Destinations()[i];
      memset(found, 0, sizeof(*found));
      found->database = database;
      found->server = server;
      namestrcpy(&found->name, name);
      found->owner = incarnation;
      found->since = found->updated_at = GetCurrentTimestamp();
      CopyText(found->state, sizeof(found->state), "closed", strlen("closed"));
    }
  }
  LWLockRelease(Shared()->lock);
  return found;
}

void WriteDestinationSlot(DestinationSlot* slot, uint64 incarnation, const relay::DestinationStatus& status) {
  LWLockAcquire(Shared()->lock, LW_EXCLUSIVE);
  if (slot->owner == incarnation) {
    slot->warning = status.reason.ok() && status.warning != nullptr;
    CopyText(slot->state, sizeof(slot->state), status.state, strlen(status.state));
    slot->since = status.since_unix == 0 ? slot->since : FromUnix(status.since_unix);
    slot->next_try = FromUnix(status.next_try_unix);
    slot->trips = status.trips;
    slot->deaths = status.deaths;
    WriteError(slot->warning ? status.warning : status.reason.ok() ? nullptr : &status.reason, slot);
    slot->updated_at = GetCurrentTimestamp();
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
