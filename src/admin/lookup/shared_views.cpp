#include "admin/lookup/shared_views.h"

#include <algorithm>

#include "admin/lookup/standstill.h"
#include "pg/process_slots.h"
#include "pg/worker_slot.h"

extern "C" {
#include "commands/dbcommands.h"
}

namespace outbox::admin {

namespace {

// The caller has the lock and has reserved the room: nothing is allocated under the lock.
void CopyWorkers(std::vector<WorkerView>* views) {
  for (int i = 0; i < pg::Shared()->workers_used; i++) {
    pg::WorkerSlot& slot = pg::Workers()[i];
    if (slot.state != pg::WorkerState::kFree) {
      views->push_back(
          {slot.kind, slot.state == pg::WorkerState::kRunning, pg_atomic_read_u32(&slot.stop) != 0, slot.database,
           slot.ordinal, slot.pid, slot.incarnation, slot.since, pg_atomic_read_u64(&slot.barrier_done), slot.trouble,
           slot.state == pg::WorkerState::kRunning ? static_cast<int64>(pg_atomic_read_u64(&slot.turn)) : 0});
    }
  }
}

void CopyLanes(Oid database, std::vector<OwnedLaneView>* views) {
  for (int i = 0; i < pg::Shared()->max_lanes; i++) {
    pg::LaneSlot& slot = pg::Lanes()[i];
    if (slot.database == database) {
      views->push_back({slot.view, slot.owner, pg::IsAlive(slot.owner), pg_atomic_read_u64(&slot.barrier),
                        pg::LastTurn(slot.owner)});
    }
  }
}

// What is worth anything of it.
void CopyStanding(Oid database, std::vector<pg::StandingSlot>* slots) {
  uint64 erasures = 0;
  for (int i = 0; i < pg::Shared()->max_databases; i++) {
    if (pg::Databases()[i].database == database) {
      erasures = pg_atomic_read_u64(&pg::Databases()[i].erasures);
    }
  }
  for (int i = 0; i < pg::Shared()->max_lanes; i++) {
    const pg::StandingSlot& slot = pg::StandingSlots()[i];
    if (slot.database == database && slot.erasures == erasures) {
      slots->push_back(slot);
    }
  }
}

void CopyDestinations(Oid database, std::vector<OwnedDestinationView>* views) {
  for (int i = 0; i < pg::Shared()->max_destinations; i++) {
    const pg::DestinationSlot& slot = pg::Destinations()[i];
    if (slot.database == database) {
      views->push_back({slot.view, slot.server, slot.name, pg::IsAlive(slot.owner)});
    }
  }
}

// Without the lock.
void SeeStandstills(std::vector<WorkerView>* workers) {
  const int64 relay = LongestTurn(pg::WorkerKind::kRelay);
  const int64 keeper = LongestTurn(pg::WorkerKind::kKeeper);
  for (WorkerView& worker : *workers) {
    worker.stands_since = StandsSince(worker.turn, worker.kind == pg::WorkerKind::kRelay ? relay : keeper);
  }
}

// Only relay workers have lanes.
void SeeStandstills(std::vector<OwnedLaneView>* lanes) {
  const int64 longest = LongestTurn(pg::WorkerKind::kRelay);
  for (OwnedLaneView& lane : *lanes) {
    lane.stands_since = StandsSince(lane.turn, longest);
  }
}

// What `copy` adds under the lock, room for as many as there can be having been made before. Nothing without preload.
template <typename Entry, typename Copy>
std::vector<Entry> ReadLocked(int pg::SharedState::*most, Copy&& copy) {
  std::vector<Entry> entries;
  if (pg::Shared() == nullptr) {
    return entries;
  }
  entries.reserve(static_cast<size_t>(pg::Shared()->*most));
  pg::Guard([&] {
    LWLockAcquire(pg::Shared()->lock, LW_SHARED);
    copy(&entries);
    LWLockRelease(pg::Shared()->lock);
  });
  return entries;
}

}  // namespace

Cell DatabaseName(Oid database) {
  const char* name = pg::Guard([database]() -> const char* { return get_database_name(database); });
  return name == nullptr ? Cell() : Cell(name);
}

const ErrorText* WhyUnclaimed(const std::vector<WorkerView>& workers) {
  const auto found = std::find_if(workers.begin(), workers.end(), [](const WorkerView& worker) {
    return worker.database == MyDatabaseId && worker.kind == pg::WorkerKind::kRelay && !worker.trouble.empty();
  });
  return found == workers.end() ? nullptr : &found->trouble;
}

int CountRelays(const std::vector<WorkerView>& workers) {
  return static_cast<int>(std::count_if(workers.begin(), workers.end(), [](const WorkerView& worker) {
    return worker.kind == pg::WorkerKind::kRelay && worker.running && !worker.stopping &&
           worker.database == MyDatabaseId;
  }));
}

std::vector<WorkerView> ReadWorkerViews() {
  auto views = ReadLocked<WorkerView>(&pg::SharedState::max_workers, CopyWorkers);
  SeeStandstills(&views);
  return views;
}

std::vector<OwnedLaneView> ReadLaneViews(Oid database) {
  auto views =
      ReadLocked<OwnedLaneView>(&pg::SharedState::max_lanes, [database](auto* to) { CopyLanes(database, to); });
  SeeStandstills(&views);
  return views;
}

std::vector<OwnedDestinationView> ReadDestinationViews(Oid database) {
  return ReadLocked<OwnedDestinationView>(&pg::SharedState::max_destinations,
                                          [database](auto* to) { CopyDestinations(database, to); });
}

std::vector<pg::StandingSlot> ReadStanding(Oid database) {
  return ReadLocked<pg::StandingSlot>(&pg::SharedState::max_lanes,
                                      [database](auto* to) { CopyStanding(database, to); });
}

bool TryReadSharedView(Oid database, SharedView* view) {
  constexpr int kTries = 20;
  constexpr long kNapMicros = 1000;
  if (pg::Shared() == nullptr) {
    return true;
  }
  view->workers.reserve(pg::Shared()->max_workers);
  view->lanes.reserve(pg::Shared()->max_lanes);
  view->destinations.reserve(pg::Shared()->max_destinations);
  view->standing.reserve(pg::Shared()->max_lanes);
  const bool read = pg::Guard([&] {
    for (int tries = 1; !LWLockConditionalAcquire(pg::Shared()->lock, LW_SHARED); tries++) {
      if (tries == kTries) {
        return false;
      }
      pg_usleep(kNapMicros);
    }
    CopyWorkers(&view->workers);
    CopyLanes(database, &view->lanes);
    CopyDestinations(database, &view->destinations);
    CopyStanding(database, &view->standing);
    view->no_slot = pg::HasNoSlot(database);
    for (int i = 0; i < pg::Shared()->max_databases; i++) {
      pg::DatabaseSlot& slot = pg::Databases()[i];
      if (slot.database == database) {
        view->relays_wanted = pg::RelaysWanted(slot);
        view->clock = pg_atomic_read_u64(&slot.clock);
      }
    }
    LWLockRelease(pg::Shared()->lock);
    return true;
  });
  SeeStandstills(&view->workers);
  SeeStandstills(&view->lanes);
  return read;
}

bool SendsTo(const std::vector<OwnedLaneView>& lanes, int64 route_id, Oid server) {
  return std::any_of(lanes.begin(), lanes.end(), [&](const OwnedLaneView& lane) {
    return lane.owned && lane.id.route_id == route_id && lane.server == server;
  });
}

LaneViews::LaneViews(const std::vector<OwnedLaneView>& views) {
  for (const OwnedLaneView& view : views) {
    const OwnedLaneView*& known = views_[view.id];
    known = known == nullptr || view.owned ? &view : known;
  }
}

const OwnedLaneView* LaneViews::Find(int64 route_id, int lane, int side) const {
  const auto found = views_.find({route_id, lane, side});
  return found == views_.end() ? nullptr : found->second;
}

bool LanePlaceIsFree() {
  bool free = false;
  pg::Guard([&] {
    LWLockAcquire(pg::Shared()->lock, LW_SHARED);
    for (int i = 0; i < pg::Shared()->max_lanes && !free; i++) {
      free = !pg::IsAlive(pg::Lanes()[i].owner);
    }
    LWLockRelease(pg::Shared()->lock);
  });
  return free;
}

std::set<std::pair<int64, int>> LanesNotShown(Access access, const LaneViews& views) {
  std::set<uint64> live;
  for (const WorkerView& worker : ReadWorkerViews()) {
    if (worker.running && worker.database == MyDatabaseId) {
      live.insert(worker.incarnation);
    }
  }
  if (live.empty()) {
    return {};
  }
  std::set<std::pair<int64, int>> lanes;
  for (const Row& row :
       RunSql(access, "SELECT route_id, lane, owner FROM outbox_internal.lane WHERE owner IS NOT NULL")) {
    const std::pair<int64, int> lane(Number(row[0]), static_cast<int>(Number(row[1])));
    if (live.contains(static_cast<uint64>(Number(row[2]))) && views.Find(lane.first, lane.second) == nullptr) {
      lanes.insert(lane);
    }
  }
  return lanes;
}

void RequirePreload() {
  if (pg::Shared() == nullptr) {
    throw pg::UserError{ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE, "no worker of outbox can run on this server",
                        "The module is not in shared_preload_libraries.",
                        "Add outbox to shared_preload_libraries in postgresql.conf, beside what is there, and restart "
                        "the server: shared_preload_libraries = 'outbox' where nothing is."};
  }
}

}  // namespace outbox::admin
