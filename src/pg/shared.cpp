#include "pg/shared.h"

#include "base/fault_point.h"
#include "pg/settings.h"
#include "pg/wall.h"

namespace outbox::pg {

namespace {

SharedState* shared = nullptr;
shmem_request_hook_type previous_request_hook = nullptr;
shmem_startup_hook_type previous_startup_hook = nullptr;

// People who redrive or replay at the same moment; who comes after is not shown.
constexpr int kMaxProgress = 64;
// Of all databases, each as often as there are workers that see it.
constexpr int kMaxTroubles = 512;

Size SharedSize() {
  Size size = MAXALIGN(sizeof(SharedState));
  size = add_size(size, MAXALIGN(mul_size(settings.max_databases, sizeof(DatabaseSlot))));
  size = add_size(size, MAXALIGN(mul_size(max_worker_processes, sizeof(WorkerSlot))));
  size = add_size(size, MAXALIGN(mul_size(settings.max_lanes, sizeof(LaneSlot))));
  size = add_size(size, MAXALIGN(mul_size(settings.max_destinations, sizeof(DestinationSlot))));
  size = add_size(size, MAXALIGN(mul_size(kMaxProgress, sizeof(ProgressSlot))));
  size = add_size(size, MAXALIGN(mul_size(settings.max_lanes, sizeof(StandingSlot))));
  size = add_size(size, MAXALIGN(mul_size(kMaxTroubles, sizeof(TroubleSlot))));
  return size;
}

void RequestHook() {
  if (previous_request_hook != nullptr) {
    previous_request_hook();
  }
  RequestAddinShmemSpace(SharedSize());
  RequestNamedLWLockTranche("outbox", 1);
}

void StartupHook() {
  if (previous_startup_hook != nullptr) {
    previous_startup_hook();
  }
  LWLockAcquire(AddinShmemInitLock, LW_EXCLUSIVE);
  bool found = false;
  shared = static_cast<SharedState*>(ShmemInitStruct("outbox", SharedSize(), &found));
  if (!found) {
    memset(shared, 0, SharedSize());
    shared->lock = &GetNamedLWLockTranche("outbox")->lock;
    shared->launcher_proc = -1;
    shared->max_databases = settings.max_databases;
    shared->max_workers = max_worker_processes;
    shared->max_lanes = settings.max_lanes;
    shared->max_destinations = settings.max_destinations;
    shared->max_progress = kMaxProgress;
    shared->max_troubles = kMaxTroubles;
    pg_atomic_init_u64(&shared->spare_writes, 0);
    pg_atomic_init_u64(&shared->used_xid, 0);
    StartWall();
    pg_atomic_init_u64(&shared->launcher_turn, 0);
    pg_atomic_init_u32(&shared->launcher_pending, 0);
    pg_atomic_init_u32(&shared->in_turn, 0);
    pg_atomic_init_u32(&shared->turn_pending, 0);
    pg_atomic_init_u32(&shared->places_found, kAllPlaces);
    for (int i = 0; i < shared->max_databases; i++) {
      DatabaseSlot* slot = &Databases()[i];
      pg_atomic_init_u64(&slot->clock, 0);
      pg_atomic_init_u64(&slot->clock_ceiling, 0);
      pg_atomic_init_u64(&slot->clock_at_start, 0);
      pg_atomic_init_u64(&slot->held_ceiling, 0);
      pg_atomic_init_u64(&slot->clock_resets, 0);
      pg_atomic_init_u32(&slot->ceiling_falls, 0);
      pg_atomic_init_u64(&slot->barrier, 0);
      pg_atomic_init_u64(&slot->barrier_done, 0);
      pg_atomic_init_u64(&slot->config_generation, 1);
      pg_atomic_init_u64(&slot->parked_generation, 1);
      pg_atomic_init_u64(&slot->erasures, 0);
      pg_atomic_init_u64(&slot->replays_left, 0);
      pg_atomic_init_u64(&slot->emitting_commits, 0);
      pg_atomic_init_u64(&slot->lone_emits.count, 0);
      pg_atomic_init_u64(&slot->lone_emits.last_at, 0);
      pg_atomic_init_u64(&slot->maker_started_at, 0);
      pg_atomic_init_u64(&slot->spare_told_at, 0);
    }
    for (int i = 0; i < shared->max_workers; i++) {
      pg_atomic_init_u32(&Workers()[i].pending, 0);
      pg_atomic_init_u32(&Workers()[i].stop, 0);
      pg_atomic_init_u32(&Workers()[i].lanes_freed, 0);
      pg_atomic_init_u32(&Workers()[i].quiet, 0);
      pg_atomic_init_u64(&Workers()[i].barrier_done, 0);
      pg_atomic_init_u64(&Workers()[i].turn, 0);
    }
    for (int i = 0; i < shared->max_lanes; i++) {
      pg_atomic_init_u64(&Lanes()[i].barrier, 0);
    }
    for (int i = 0; i < shared->max_progress; i++) {
      pg_atomic_init_u32(&ProgressSlots()[i].pid, 0);
      pg_atomic_init_u64(&ProgressSlots()[i].done, 0);
      pg_atomic_init_u64(&ProgressSlots()[i].total, 0);
    }
  }
  LWLockRelease(AddinShmemInitLock);
}

}  // namespace

SharedState* Shared() {
  return shared;
}

DatabaseSlot* Databases() {
  return reinterpret_cast<DatabaseSlot*>(reinterpret_cast<char*>(shared) + MAXALIGN(sizeof(SharedState)));
}

WorkerSlot* Workers() {
  return reinterpret_cast<WorkerSlot*>(reinterpret_cast<char*>(Databases()) +
                                       MAXALIGN(shared->max_databases * sizeof(DatabaseSlot)));
}

LaneSlot* Lanes() {
  return reinterpret_cast<LaneSlot*>(reinterpret_cast<char*>(Workers()) +
                                     MAXALIGN(shared->max_workers * sizeof(WorkerSlot)));
}

DestinationSlot* Destinations() {
  return reinterpret_cast<DestinationSlot*>(reinterpret_cast<char*>(Lanes()) +
                                            MAXALIGN(shared->max_lanes * sizeof(LaneSlot)));
}

ProgressSlot* ProgressSlots() {
  return reinterpret_cast<ProgressSlot*>(reinterpret_cast<char*>(Destinations()) +
                                         MAXALIGN(shared->max_destinations * sizeof(DestinationSlot)));
}

StandingSlot* StandingSlots() {
  return reinterpret_cast<StandingSlot*>(reinterpret_cast<char*>(ProgressSlots()) +
                                         MAXALIGN(shared->max_progress * sizeof(ProgressSlot)));
}

TroubleSlot* Troubles() {
  return reinterpret_cast<TroubleSlot*>(reinterpret_cast<char*>(StandingSlots()) +
                                        MAXALIGN(shared->max_lanes * sizeof(StandingSlot)));
}

void InstallSharedMemoryHooks() {
  previous_request_hook = shmem_request_hook;
  shmem_request_hook = RequestHook;
  previous_startup_hook = shmem_startup_hook;
  shmem_startup_hook = StartupHook;
}

namespace {

// Call with the lock held. `unused`: the first free one, if there is none of this database.
DatabaseSlot* LookForDatabase(Oid database, DatabaseSlot** unused) {
  *unused = nullptr;
  for (int i = 0; i < shared->max_databases; i++) {
    DatabaseSlot* slot = &Databases()[i];
    if (slot->database == database) {
      return slot;
    }
    if (slot->database == InvalidOid && *unused == nullptr) {
      *unused = slot;
    }
  }
  return nullptr;
}

}  // namespace

DatabaseSlot* FindDatabaseSlot(Oid database, bool create) {
  if (shared == nullptr) {
    return nullptr;
  }
  // Where all are taken, each emit() looks again and again.
  DatabaseSlot* unused = nullptr;
  LWLockAcquire(shared->lock, LW_SHARED);
  DatabaseSlot* found = LookForDatabase(database, &unused);
  LWLockRelease(shared->lock);
  if (found != nullptr || !create || unused == nullptr) {
    return found;
  }
  LWLockAcquire(shared->lock, LW_EXCLUSIVE);
  found = LookForDatabase(database, &unused);
  if (found == nullptr && unused != nullptr) {
    unused->database = database;
    unused->needs_discovery = false;
    unused->active = false;
    unused->closed = false;
    unused->relay_demand = 0;
    unused->relays_allowed = 0;
    unused->barred_by = 0;
    unused->held = {};
    pg_atomic_write_u64(&unused->clock, 0);
    pg_atomic_write_u64(&unused->clock_ceiling, 0);
    pg_atomic_write_u64(&unused->clock_at_start, 0);
    pg_atomic_write_u64(&unused->held_ceiling, 0);
    pg_atomic_write_u32(&unused->ceiling_falls, 0);
    pg_atomic_write_u64(&unused->barrier, 0);
    pg_atomic_write_u64(&unused->barrier_done, 0);
    pg_atomic_write_u64(&unused->maker_started_at, 0);
    pg_atomic_write_u64(&unused->spare_told_at, 0);
    pg_atomic_write_u64(&unused->emitting_commits, 0);
    pg_atomic_write_u64(&unused->lone_emits.count, 0);
    pg_atomic_write_u64(&unused->lone_emits.last_at, 0);  // the generations go on: somebody may have kept the last
    found = unused;
  }
  LWLockRelease(shared->lock);
  return found;
}

int MyProcIndex() {
#if PG_VERSION_NUM >= 170000
  return MyProcNumber;
#else
  return MyProc->pgprocno;
#endif
}

void WakeProc(int proc_index) {
  if (proc_index >= 0 && proc_index < static_cast<int>(ProcGlobal->allProcCount) && !OUTBOX_FAULT_FAILS("wake.latch")) {
    SetLatch(&ProcGlobal->allProcs[proc_index].procLatch);
  }
}

void WakeLauncher() {
  if (shared != nullptr) {
    pg_atomic_write_u32(&shared->launcher_pending, 1);
    WakeProc(shared->launcher_proc);
  }
}

void WakeLauncherForTurn() {
  if (shared != nullptr && pg_atomic_read_u32(&shared->in_turn) != 0 &&
      pg_atomic_read_u32(&shared->turn_pending) == 0 && pg_atomic_exchange_u32(&shared->turn_pending, 1) == 0) {
    WakeProc(shared->launcher_proc);
  }
}

void WakeWorkers(Oid database, bool force) {
  if (shared == nullptr) {
    return;
  }
  // No lock: a slot that changes hands meanwhile costs a needless wake-up, never a missed one, because a new worker
  // reads the log before it first waits. The barrier orders "my commit is visible" before "was the flag set?".
  pg_memory_barrier();
  bool relayed = false;
  for (int i = 0; i < shared->workers_used; i++) {
    WorkerSlot* slot = &Workers()[i];
    if (slot->state == WorkerState::kRunning && slot->database == database) {
      relayed = relayed || slot->kind == WorkerKind::kRelay;
      bool was_clear = pg_atomic_read_u32(&slot->pending) == 0 && pg_atomic_exchange_u32(&slot->pending, 1) == 0;
      if (was_clear || force) {
        WakeProc(slot->proc_number);
      }
    }
  }
  if (!relayed || force) {
    WakeLauncherForTurn();
  }
}

uint64 AskForBarrier(DatabaseSlot* slot) {
  const uint64 barrier = pg_atomic_add_fetch_u64(&slot->barrier, 1);
  WakeWorkers(MyDatabaseId, true);
  return barrier;
}

}  // namespace outbox::pg
