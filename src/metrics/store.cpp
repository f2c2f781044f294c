#include "metrics/store.h"

#include <algorithm>

#include "base/monotonic.h"
#include "metrics/stats_file.h"
#include "pg/log_line.h"
#include "pg/settings.h"
#include "pg/worker_slot.h"

extern "C" {
#include "access/twophase.h"
}

namespace outbox::metrics {

namespace {

Store* store = nullptr;
shmem_request_hook_type previous_request_hook = nullptr;
shmem_startup_hook_type previous_startup_hook = nullptr;

constexpr Size kHead = MAXALIGN(sizeof(Store));

template <typename Slot>
Size SizeOf(int count) {
  return MAXALIGN(mul_size(static_cast<Size>(count), sizeof(Slot)));
}

int PreparedSlotCount() {
  return Max(max_prepared_xacts, 1);
}

Size SharedSize() {
  Size size = add_size(kHead, alignof(EmittedStripe));
  size = add_size(size, SizeOf<DatabaseFigures>(pg::settings.max_databases));
  size = add_size(size, SizeOf<RouteSlot>(pg::settings.max_series));
  size = add_size(size, SizeOf<DestinationFigures>(pg::settings.max_destinations));
  size = add_size(size, SizeOf<WorkerFigures>(max_worker_processes));
  return add_size(size, SizeOf<PreparedEmit>(PreparedSlotCount()));
}

void RequestHook() {
  if (previous_request_hook != nullptr) {
    previous_request_hook();
  }
  RequestAddinShmemSpace(SharedSize());
  RequestNamedLWLockTranche("outbox_metrics", 1);
}

void SaveAtShutdown(int code, Datum) {
  if (code == 0 && store != nullptr) {  // not after a crash
    SaveStats();
  }
}

void StartupHook() {
  if (previous_startup_hook != nullptr) {
    previous_startup_hook();
  }
  LWLockAcquire(AddinShmemInitLock, LW_EXCLUSIVE);
  bool found = false;
  store = static_cast<Store*>(ShmemInitStruct("outbox metrics", SharedSize(), &found));
  if (!found) {
    memset(static_cast<void*>(store), 0, SharedSize());
    store->lock = &GetNamedLWLockTranche("outbox_metrics")->lock;
    store->max_databases = pg::settings.max_databases;
    store->max_routes = pg::settings.max_series;
    store->max_destinations = pg::settings.max_destinations;
    store->max_workers = max_worker_processes;
    store->max_prepared = PreparedSlotCount();
    store->started_at = pg::UnixNow();
  }
  LWLockRelease(AddinShmemInitLock);
  if (!found) {
    LoadStats();
  }
  if (!IsUnderPostmaster) {
    on_shmem_exit(SaveAtShutdown, static_cast<Datum>(0));
  }
}

char* FirstArray() {
  char* end = reinterpret_cast<char*>(store) + kHead;
  const auto at = reinterpret_cast<uintptr_t>(end);
  return end + (TYPEALIGN(alignof(EmittedStripe), at) - at);
}

// Whether a worker shows a lane of the route: then it may count in the route's slot.
bool IsShown(Oid database, int64_t route_id) {
  for (int i = 0; i < pg::Shared()->max_lanes; i++) {
    const pg::LaneSlot& lane = pg::Lanes()[i];
    if (lane.database == database && lane.view.id.route_id == route_id) {
      return true;
    }
  }
  return false;
}

bool IsDestinationShown(Oid database, Oid server) {
  for (int i = 0; i < pg::Shared()->max_destinations; i++) {
    const pg::DestinationSlot& shown = pg::Destinations()[i];
    if (shown.database == database && shown.server == server) {
      return true;
    }
  }
  return false;
}

bool MayBeTaken(const RouteSlot& slot, Oid database, const LiveRoutes& live) {
  const Oid owner = slot.database.load();
  if (owner != database) {
    return IsGone(owner);
  }
  return !std::binary_search(live.ids, live.ids + live.count, slot.route_id) && !IsShown(database, slot.route_id);
}

void TellFull(std::atomic<uint32>* told, const char* what, int places, const char* setting) {
  if (told->exchange(1) == 0) {
    ereport(LOG, (errmsg("outbox: not every %s has figures of its own", what),
                  errdetail("All %d places are taken; further ones are counted under \"other\".", places),
                  errhint("Raise %s and restart the server.", setting),
                  pg::LogEvent("no_figures_slot", {{"setting", setting}})));
  }
}

}  // namespace

Store* Figures() {
  return store;
}

DatabaseFigures* DatabaseSlots() {
  return reinterpret_cast<DatabaseFigures*>(FirstArray());
}

RouteSlot* RouteSlots() {
  return reinterpret_cast<RouteSlot*>(FirstArray() + SizeOf<DatabaseFigures>(store->max_databases));
}

DestinationFigures* DestinationSlots() {
  return reinterpret_cast<DestinationFigures*>(reinterpret_cast<char*>(RouteSlots()) +
                                               SizeOf<RouteSlot>(store->max_routes));
}

WorkerFigures* WorkerSlots() {
  return reinterpret_cast<WorkerFigures*>(reinterpret_cast<char*>(DestinationSlots()) +
                                          SizeOf<DestinationFigures>(store->max_destinations));
}

PreparedEmit* PreparedSlots() {
  return reinterpret_cast<PreparedEmit*>(reinterpret_cast<char*>(WorkerSlots()) +
                                         SizeOf<WorkerFigures>(store->max_workers));
}

bool IsGone(Oid database) {
  for (int i = 0; i < pg::Shared()->max_databases; i++) {
    if (pg::Databases()[i].database == database) {
      return false;
    }
  }
  return true;
}

void InstallSharedMemoryHooks() {
#ifdef OUTBOX_WITHOUT_FIGURES
  return;  // to find out what they cost: scripts/bench-metrics
#endif
  previous_request_hook = shmem_request_hook;
  shmem_request_hook = RequestHook;
  previous_startup_hook = shmem_startup_hook;
  shmem_startup_hook = StartupHook;
}

Emitted DatabaseFigures::TotalEmitted() const {
  Emitted total;
  for (const EmittedStripe& stripe : emitted) {
    total.transactions += ValueOf(stripe.transactions);
    total.events += ValueOf(stripe.events);
    total.bytes += ValueOf(stripe.bytes);
    total.repeated += ValueOf(stripe.repeated);
  }
  return total;
}

DatabaseFigures* FindDatabase(Oid database, bool create) {
  if (store == nullptr || database == InvalidOid) {
    return nullptr;
  }
  for (int i = 0; i < store->max_databases; i++) {
    if (DatabaseSlots()[i].database.load(std::memory_order_acquire) == database) {
      return &DatabaseSlots()[i];
    }
  }
  if (!create) {
    return nullptr;
  }
  LWLockAcquire(pg::Shared()->lock, LW_SHARED);  // whose slots tell which databases there are
  LWLockAcquire(store->lock, LW_EXCLUSIVE);
  DatabaseFigures* found = nullptr;
  DatabaseFigures* unused = nullptr;
  for (int i = 0; i < store->max_databases; i++) {
    DatabaseFigures* slot = &DatabaseSlots()[i];
    const Oid owner = slot->database.load();
    bool free = owner == InvalidOid;
    found = owner == database ? slot : found;
    if (!free && unused == nullptr) {
      free = true;
      for (int j = 0; j < pg::Shared()->max_databases && free; j++) {
        free = pg::Databases()[j].database != owner;
      }
    }
    unused = free && (unused == nullptr || owner == InvalidOid) ? slot : unused;
  }
  if (found == nullptr && unused != nullptr) {
    found = unused;
    found->ForEach([](Counter* counter) { counter->store(0, std::memory_order_relaxed); });
    found->other.Reset();
    found->reset_at = pg::UnixNow();
    found->database.store(database, std::memory_order_release);
  }
  LWLockRelease(store->lock);
  LWLockRelease(pg::Shared()->lock);
  return found;
}

RouteFigures* TakeRoute(Oid database, int64_t route_id, Oid server, const LiveRoutes& live) {
  DatabaseFigures* own = FindDatabase(database, true);
  if (own == nullptr) {
    return nullptr;
  }
  LWLockAcquire(pg::Shared()->lock, LW_SHARED);
  LWLockAcquire(store->lock, LW_EXCLUSIVE);
  RouteSlot* found = nullptr;
  RouteSlot* unused = nullptr;
  for (int i = 0; i < store->max_routes && found == nullptr; i++) {
    RouteSlot* slot = &RouteSlots()[i];
    const Oid owner = slot->database.load();
    if (owner == database && slot->route_id == route_id && slot->server == server) {
      found = slot;
    } else if (owner == InvalidOid && unused == nullptr) {
      unused = slot;
    }
  }
  for (int i = 0; i < store->max_routes && found == nullptr && unused == nullptr; i++) {
    if (MayBeTaken(RouteSlots()[i], database, live)) {
      unused = &RouteSlots()[i];
    }
  }
  if (found == nullptr && unused != nullptr) {
    found = unused;
    found->database.store(InvalidOid, std::memory_order_release);
    found->figures.Reset();
    found->figures.drain.Reset();
    found->route_id = route_id;
    found->server = server;
    found->database.store(database, std::memory_order_release);
  }
  LWLockRelease(store->lock);
  LWLockRelease(pg::Shared()->lock);
  if (found == nullptr) {
    TellFull(&store->told_routes, "route", store->max_routes, "outbox.max_series");
    return &own->other;
  }
  return &found->figures;
}

int FreeRouteSlots(Oid database, const LiveRoutes& live) {
  if (store == nullptr) {
    return 0;
  }
  LWLockAcquire(pg::Shared()->lock, LW_SHARED);
  LWLockAcquire(store->lock, LW_SHARED);
  int free = 0;
  for (int i = 0; i < store->max_routes; i++) {
    const RouteSlot& slot = RouteSlots()[i];
    free += slot.database.load() == InvalidOid || MayBeTaken(slot, database, live) ? 1 : 0;
  }
  LWLockRelease(store->lock);
  LWLockRelease(pg::Shared()->lock);
  return free;
}

DestinationCounters* TakeDestination(Oid database, Oid server) {
  DatabaseFigures* own = FindDatabase(database, true);
  if (own == nullptr) {
    return nullptr;
  }
  LWLockAcquire(pg::Shared()->lock, LW_SHARED);
  LWLockAcquire(store->lock, LW_EXCLUSIVE);
  DestinationFigures* found = nullptr;
  DestinationFigures* unused = nullptr;
  DestinationFigures* left = nullptr;  // by one that no worker uses
  for (int i = 0; i < store->max_destinations && found == nullptr; i++) {
    DestinationFigures* slot = &DestinationSlots()[i];
    const Oid owner = slot->database.load();
    if (owner == database && slot->server == server) {
      found = slot;
    } else if (owner == InvalidOid) {
      unused = unused == nullptr ? slot : unused;
    } else if (left == nullptr && (IsGone(owner) || !IsDestinationShown(owner, slot->server))) {
      left = slot;
    }
  }
  if (found == nullptr && (unused != nullptr || left != nullptr)) {
    found = unused != nullptr ? unused : left;
    found->database.store(InvalidOid, std::memory_order_release);
    found->figures.ForEach([](Counter* counter) { counter->store(0, std::memory_order_relaxed); });
    found->figures.down_since.store(0, std::memory_order_relaxed);
    found->server = server;
    found->database.store(database, std::memory_order_release);
  }
  LWLockRelease(store->lock);
  LWLockRelease(pg::Shared()->lock);
  if (found == nullptr) {
    TellFull(&store->told_destinations, "destination", store->max_destinations, "outbox.max_destinations");
    return &own->other_destinations;
  }
  return &found->figures;
}

bool HasSlot(Oid database, int64_t route_id, Oid server) {
  for (int i = 0; i < store->max_routes; i++) {
    const RouteSlot& slot = RouteSlots()[i];
    if (slot.database.load() == database && slot.route_id == route_id && slot.server == server) {
      return true;
    }
  }
  return false;
}

bool HasSlot(Oid database, Oid server) {
  for (int i = 0; i < store->max_destinations; i++) {
    const DestinationFigures& slot = DestinationSlots()[i];
    if (slot.database.load() == database && slot.server == server) {
      return true;
    }
  }
  return false;
}

const WorkerFigures* FindWorker(uint64 incarnation) {
  for (int i = 0; i < store->max_workers; i++) {
    if (WorkerSlots()[i].incarnation.load() == incarnation) {
      return &WorkerSlots()[i];
    }
  }
  return nullptr;
}

void NoteTurn(bool woken) {
  pg::WorkerSlot* slot = pg::MyWorkerSlot();
  if (store == nullptr || slot == nullptr) {
    return;
  }
  pg_atomic_write_u64(&slot->turn, static_cast<uint64>(MonotonicMicros()));
  WorkerFigures* figures = &WorkerSlots()[slot - pg::Workers()];
  if (figures->incarnation.load(std::memory_order_relaxed) != slot->incarnation) {
    figures->turns.store(0, std::memory_order_relaxed);
    figures->wakes.store(0, std::memory_order_relaxed);
    figures->incarnation.store(slot->incarnation, std::memory_order_relaxed);
  }
  Count(&figures->turns);
  Count(&figures->wakes, woken ? 1 : 0);
  figures->last_turn.store(pg::UnixNow(), std::memory_order_relaxed);
}

void NoteRestart(Oid database, pg::WorkerKind kind) {
  DatabaseFigures* figures = FindDatabase(database, true);
  if (figures != nullptr) {
    Count(&figures->restarts[kind == pg::WorkerKind::kKeeper ? 0 : 1]);
  }
}

void Reset(Oid database) {
  DatabaseFigures* own = FindDatabase(database, true);
  if (own == nullptr) {
    return;
  }
  own->ForEach([](Counter* counter) { counter->store(0, std::memory_order_relaxed); });
  own->other.Reset();
  for (int i = 0; i < store->max_routes; i++) {
    if (RouteSlots()[i].database.load() == database) {
      RouteSlots()[i].figures.Reset();
    }
  }
  for (int i = 0; i < store->max_destinations; i++) {
    if (DestinationSlots()[i].database.load() == database) {
      DestinationSlots()[i].figures.ForEach([](Counter* counter) { counter->store(0, std::memory_order_relaxed); });
    }
  }
  own->reset_at = pg::UnixNow();
}

}  // namespace outbox::metrics
