#include "admin/shared_look.h"

#include <cstdio>
#include <ctime>

namespace outbox::admin {

namespace {

bool IsAlive(uint64 incarnation) {
  for (int i = 0; incarnation != 0 && i < pg::Shared()->workers_used; i++) {
    const pg::WorkerSlot& slot = pg::Workers()[i];
    if (slot.state == pg::WorkerState::kRunning && slot.incarnation == incarnation) {
      return true;
    }
  }
  return false;
}

template <size_t N>
void CopyText(char (&to)[N], const char (&from)[N]) {
  memcpy(to, from, N);
  to[N - 1] = '\0';
}

void Copy(pg::LaneSlot& slot, LaneLook* look) {
  look->route_id = slot.route_id;
  look->lane = slot.lane;
  look->side = slot.side;
  look->owner = slot.owner;
  look->owned = IsAlive(slot.owner);
  look->delivered_to = slot.delivered_to;
  look->inflight_count = slot.inflight_count;
  look->next_try = slot.next_try;
  look->barrier = pg_atomic_read_u64(&slot.barrier);
  look->error_since = slot.error_since;
  CopyText(look->state, slot.state);
  CopyText(look->error_class, slot.error_class);
  CopyText(look->error_code, slot.error_code);
  CopyText(look->error_message, slot.error_message);
}

}  // namespace

std::vector<WorkerLook> LookAtWorkers() {
  std::vector<WorkerLook> looks;
  if (pg::Shared() == nullptr) {
    return looks;
  }
  looks.reserve(pg::Shared()->max_workers);  // nothing is allocated under the lock
  pg::Guard([&] {
    LWLockAcquire(pg::Shared()->lock, LW_SHARED);
    for (int i = 0; i < pg::Shared()->workers_used; i++) {
      pg::WorkerSlot& slot = pg::Workers()[i];
      if (slot.state != pg::WorkerState::kFree) {
        looks.push_back({slot.kind, slot.state == pg::WorkerState::kRunning, pg_atomic_read_u32(&slot.stop) != 0,
                         slot.database, slot.ordinal, slot.pid, slot.incarnation, slot.since,
                         pg_atomic_read_u64(&slot.barrier_done)});
      }
    }
    LWLockRelease(pg::Shared()->lock);
  });
  return looks;
}

std::vector<LaneLook> LookAtLanes(Oid database) {
  std::vector<LaneLook> looks;
  if (pg::Shared() == nullptr) {
    return looks;
  }
  looks.reserve(pg::Shared()->max_lanes);
  pg::Guard([&] {
    LWLockAcquire(pg::Shared()->lock, LW_SHARED);
    for (int i = 0; i < pg::Shared()->max_lanes; i++) {
      pg::LaneSlot& slot = pg::Lanes()[i];
      if (slot.database == database) {
        looks.emplace_back();
        Copy(slot, &looks.back());
      }
    }
    LWLockRelease(pg::Shared()->lock);
  });
  return looks;
}

std::vector<DestinationLook> LookAtDestinations(Oid database) {
  std::vector<DestinationLook> looks;
  if (pg::Shared() == nullptr) {
    return looks;
  }
  looks.resize(static_cast<size_t>(pg::Shared()->max_destinations));
  for (DestinationLook& look : looks) {
    look.name.reserve(NAMEDATALEN);
  }
  size_t count = 0;
  pg::Guard([&] {
    LWLockAcquire(pg::Shared()->lock, LW_SHARED);
    for (int i = 0; i < pg::Shared()->max_destinations; i++) {
      pg::DestinationSlot& slot = pg::Destinations()[i];
      if (slot.database == database) {
        DestinationLook& look = looks[count++];
        look.server = slot.server;
        look.name = NameStr(slot.name);
        look.owner = slot.owner;
        look.alive = IsAlive(slot.owner);
        look.since = slot.since;
        look.next_try = slot.next_try;
        look.trips = slot.trips;
        look.deaths = slot.deaths;
        look.warning = slot.warning;
        CopyText(look.state, slot.state);
        CopyText(look.error_class, slot.error_class);
        CopyText(look.error_code, slot.error_code);
        CopyText(look.error_message, slot.error_message);
      }
    }
    LWLockRelease(pg::Shared()->lock);
  });
  looks.resize(count);
  return looks;
}

const LaneLook* FindLook(const std::vector<LaneLook>& looks, int64 route_id, int lane, int side) {
  const LaneLook* found = nullptr;
  for (const LaneLook& look : looks) {
    // A worker that died may have left its slot behind: the living owner's counts.
    if (look.route_id == route_id && look.lane == lane && look.side == side && (found == nullptr || look.owned)) {
      found = &look;
    }
  }
  return found;
}

std::string UnixMicrosText(int64 micros) {
  int64 fraction = micros % USECS_PER_SEC;
  time_t seconds = static_cast<time_t>(micros / USECS_PER_SEC);
  if (fraction < 0) {
    fraction += USECS_PER_SEC;
    seconds--;
  }
  struct tm utc = {};
  gmtime_r(&seconds, &utc);
  char text[64];
  std::snprintf(text, sizeof(text), "%04d-%02d-%02d %02d:%02d:%02d.%06d+00", utc.tm_year + 1900, utc.tm_mon + 1,
                utc.tm_mday, utc.tm_hour, utc.tm_min, utc.tm_sec, static_cast<int>(fraction));
  return text;
}

Cell UnixMicrosCell(int64 micros) {
  return micros == 0 ? Cell() : UnixMicrosText(micros);
}

Cell TimestampCell(TimestampTz at) {
  return at == 0 ? Cell() : UnixMicrosCell(at + kPgEpochMicros);
}

Cell TextCell(const char* text) {
  return text[0] == '\0' ? Cell() : Cell(text);
}

void RequirePreload() {
  if (pg::Shared() == nullptr) {
    throw pg::UserError{ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE, "no worker of outbox can run on this server",
                        "The module is not in shared_preload_libraries.",
                        "Add shared_preload_libraries = 'outbox' to postgresql.conf and restart the server."};
  }
}

}  // namespace outbox::admin
