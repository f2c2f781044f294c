#include "pg/worker_slot.h"

#include "base/monotonic.h"

extern "C" {
#include <signal.h>
#include "utils/array.h"
}

namespace outbox::pg {

namespace {

WorkerSlot* my_slot = nullptr;
SlotTicket my_ticket;

uint64 RandomIncarnation() {
  uint64 value = 0;
  while (value == 0) {
    if (!pg_strong_random(&value, sizeof(value))) {
      value = (static_cast<uint64>(GetCurrentTimestamp()) << 20) ^ static_cast<uint64>(MyProcPid);
    }
  }
  return value;
}

DatabaseSlot* FindDatabaseLocked(Oid database) {
  for (int i = 0; i < Shared()->max_databases; i++) {
    if (Databases()[i].database == database) {
      return &Databases()[i];
    }
  }
  return nullptr;
}

bool BarredLocked(Oid database) {
  DatabaseSlot* slot = FindDatabaseLocked(database);
  return slot != nullptr && slot->barred_by != 0;
}

bool OwnsLocked(const SlotTicket& ticket) {
  return ticket.slot >= 0 && Workers()[ticket.slot].state != WorkerState::kFree &&
         Workers()[ticket.slot].incarnation == ticket.incarnation;
}

void ClearLocked(WorkerSlot* slot) {
  slot->state = WorkerState::kFree;
  slot->database = InvalidOid;
  slot->pid = 0;
  slot->proc_number = -1;
  slot->incarnation = 0;
  slot->shares_since = 0;
  slot->trouble = {};
}

void ReleaseAtExit(int code, Datum arg) {
  if (my_slot != nullptr) {
    my_slot = nullptr;
    FreeWorkerSlot(my_ticket, false);
    WakeLauncher();
    if (my_ticket.kind == WorkerKind::kRelay) {
      NoteLanesFreed();
    }
  }
}

}  // namespace

void TakeWorkerSlot(SlotTicket* ticket) {
  ticket->slot = -1;
  ticket->incarnation = RandomIncarnation();
  LWLockAcquire(Shared()->lock, LW_EXCLUSIVE);
  if (!BarredLocked(ticket->database)) {
    for (int i = 0; i < Shared()->max_workers; i++) {
      WorkerSlot* slot = &Workers()[i];
      if (slot->state != WorkerState::kFree) {
        continue;
      }
      slot->kind = ticket->kind;
      slot->database = ticket->database;
      slot->ordinal = ticket->ordinal;
      slot->pid = 0;
      slot->proc_number = -1;
      slot->incarnation = ticket->incarnation;
      slot->since = GetCurrentTimestamp();
      slot->shares_since = 0;
      slot->trouble = {};
      pg_atomic_write_u32(&slot->pending, 0);
      pg_atomic_write_u32(&slot->stop, 0);
      pg_atomic_write_u32(&slot->lanes_freed, 0);
      pg_atomic_write_u32(&slot->quiet, 0);
      pg_atomic_write_u64(&slot->barrier_done, 0);
      pg_atomic_write_u64(&slot->turn, 0);
      slot->state = WorkerState::kStarting;
      if (Shared()->workers_used <= i) {
        Shared()->workers_used = i + 1;
      }
      ticket->slot = i;
      break;
    }
  }
  LWLockRelease(Shared()->lock);
}

void FreeWorkerSlot(const SlotTicket& ticket, bool starting_only) {
  LWLockAcquire(Shared()->lock, LW_EXCLUSIVE);
  if (OwnsLocked(ticket) && !(starting_only && Workers()[ticket.slot].state != WorkerState::kStarting)) {
    ClearLocked(&Workers()[ticket.slot]);
  }
  LWLockRelease(Shared()->lock);
}

WorkerSlot* MoveIntoSlot(const SlotTicket& ticket) {
  WorkerSlot* found = nullptr;
  LWLockAcquire(Shared()->lock, LW_EXCLUSIVE);
  if (OwnsLocked(ticket) && Workers()[ticket.slot].state == WorkerState::kStarting) {
    WorkerSlot* slot = &Workers()[ticket.slot];
    if (BarredLocked(ticket.database)) {
      ClearLocked(slot);
    } else {
      slot->pid = MyProcPid;
      slot->proc_number = MyProcIndex();
      // From here on commits wake this worker. It reads the log before it first waits, so none is missed.
      pg_write_barrier();
      slot->state = WorkerState::kRunning;
      found = slot;
    }
  }
  LWLockRelease(Shared()->lock);
  if (found != nullptr) {
    my_slot = found;
    my_ticket = ticket;
    on_shmem_exit(ReleaseAtExit, static_cast<Datum>(0));
  }
  return found;
}

WorkerSlot* MyWorkerSlot() {
  return my_slot;
}

WorkerState SlotState(const SlotTicket& ticket) {
  WorkerState state = WorkerState::kFree;
  LWLockAcquire(Shared()->lock, LW_SHARED);
  if (OwnsLocked(ticket)) {
    state = Workers()[ticket.slot].state;
  }
  LWLockRelease(Shared()->lock);
  return state;
}

void SetQuiet(bool quiet) {
  if (pg_atomic_read_u32(&my_slot->quiet) != (quiet ? 1u : 0u)) {
    pg_atomic_write_u32(&my_slot->quiet, quiet ? 1 : 0);
    if (quiet) {
      WakeLauncherForTurn();
    }
  }
}

void AskWorkerToStop(const SlotTicket& ticket) {
  LWLockAcquire(Shared()->lock, LW_SHARED);
  if (OwnsLocked(ticket)) {
    pg_atomic_write_u32(&Workers()[ticket.slot].stop, 1);
    WakeProc(Workers()[ticket.slot].proc_number);
  }
  LWLockRelease(Shared()->lock);
}

int CountWorkers(Oid database) {
  int count = 0;
  LWLockAcquire(Shared()->lock, LW_SHARED);
  for (int i = 0; i < Shared()->workers_used; i++) {
    count += Workers()[i].state != WorkerState::kFree && Workers()[i].database == database ? 1 : 0;
  }
  LWLockRelease(Shared()->lock);
  return count;
}

void BeginSharing() {
  if (my_slot->shares_since == 0) {
    LWLockAcquire(Shared()->lock, LW_EXCLUSIVE);
    my_slot->shares_since = MonotonicMicros();
    LWLockRelease(Shared()->lock);
    NoteLanesFreed();
  }
}

void ShowWorkerTrouble(const Error* error) {
  ErrorText text;
  text.Set(error);
  const ErrorText& shown = my_slot->trouble;  // nobody else writes it
  if (text.error_class == shown.error_class && strcmp(text.code, shown.code) == 0 &&
      strcmp(text.message, shown.message) == 0) {
    return;
  }
  LWLockAcquire(Shared()->lock, LW_EXCLUSIVE);
  my_slot->trouble = text;
  LWLockRelease(Shared()->lock);
}

void EndSharing() {
  if (my_slot->shares_since != 0) {
    LWLockAcquire(Shared()->lock, LW_EXCLUSIVE);
    my_slot->shares_since = 0;
    LWLockRelease(Shared()->lock);
    NoteLanesFreed();
  }
}

Sharers CountSharers(Oid database, int64 steady_since) {
  Sharers sharers;
  LWLockAcquire(Shared()->lock, LW_SHARED);
  for (int i = 0; i < Shared()->workers_used; i++) {
    WorkerSlot& slot = Workers()[i];
    if (slot.state != WorkerState::kRunning || slot.kind != WorkerKind::kRelay || slot.database != database ||
        slot.shares_since == 0 || pg_atomic_read_u32(&slot.stop) != 0) {
      continue;
    }
    sharers.all++;
    if (&slot == my_slot || slot.shares_since <= steady_since) {
      sharers.steady++;
    } else if (sharers.oldest_other == 0 || slot.shares_since < sharers.oldest_other) {
      sharers.oldest_other = slot.shares_since;
    }
  }
  LWLockRelease(Shared()->lock);
  return sharers;
}

void NoteLanesFreed() {
  LWLockAcquire(Shared()->lock, LW_SHARED);
  for (int i = 0; i < Shared()->workers_used; i++) {
    WorkerSlot& slot = Workers()[i];
    if (slot.state == WorkerState::kRunning && slot.kind == WorkerKind::kRelay && slot.database == my_ticket.database) {
      pg_atomic_write_u32(&slot.lanes_freed, 1);
      WakeProc(slot.proc_number);
    }
  }
  LWLockRelease(Shared()->lock);
}

void NoteTerminated() {
  LWLockAcquire(Shared()->lock, LW_EXCLUSIVE);
  my_slot->terminated = my_slot->incarnation;
  LWLockRelease(Shared()->lock);
}

bool WasTerminated(const SlotTicket& ticket) {
  LWLockAcquire(Shared()->lock, LW_SHARED);
  const bool terminated = Workers()[ticket.slot].terminated == ticket.incarnation;
  LWLockRelease(Shared()->lock);
  return terminated;
}

void NoteLeft() {
  LWLockAcquire(Shared()->lock, LW_EXCLUSIVE);
  my_slot->left = my_slot->incarnation;
  LWLockRelease(Shared()->lock);
}

bool HasLeft(const SlotTicket& ticket) {
  LWLockAcquire(Shared()->lock, LW_SHARED);
  const bool left = Workers()[ticket.slot].left == ticket.incarnation;
  LWLockRelease(Shared()->lock);
  return left;
}

void AskWorkersToStop(Oid database) {
  LWLockAcquire(Shared()->lock, LW_SHARED);
  for (int i = 0; i < Shared()->workers_used; i++) {
    WorkerSlot* slot = &Workers()[i];
    if (slot->state != WorkerState::kFree && slot->database == database) {
      pg_atomic_write_u32(&slot->stop, 1);
      WakeProc(slot->proc_number);
    }
  }
  LWLockRelease(Shared()->lock);
}

void TerminateWorkers(Oid database) {
  LWLockAcquire(Shared()->lock, LW_SHARED);
  for (int i = 0; i < Shared()->workers_used; i++) {
    WorkerSlot* slot = &Workers()[i];
    // The slot is freed by its process under the lock that is held here, so the pid is still that process.
    if (slot->state == WorkerState::kRunning && slot->database == database && slot->pid > 0) {
      kill(slot->pid, SIGTERM);
    }
  }
  LWLockRelease(Shared()->lock);
}

bool IsAlive(uint64 incarnation) {
  for (int i = 0; incarnation != 0 && i < Shared()->workers_used; i++) {
    const WorkerSlot& slot = Workers()[i];
    if (slot.state == WorkerState::kRunning && slot.incarnation == incarnation) {
      return true;
    }
  }
  return false;
}

int64 LastTurn(uint64 incarnation) {
  for (int i = 0; incarnation != 0 && i < Shared()->workers_used; i++) {
    WorkerSlot& slot = Workers()[i];
    if (slot.state == WorkerState::kRunning && slot.incarnation == incarnation) {
      return static_cast<int64>(pg_atomic_read_u64(&slot.turn));
    }
  }
  return 0;
}

Datum LiveIncarnations() {
  SharedState* shared = Shared();
  int slots = shared == nullptr ? 0 : shared->max_workers;
  auto* live = static_cast<Datum*>(palloc((slots + 1) * sizeof(Datum)));
  int count = 0;
  if (shared != nullptr) {
    LWLockAcquire(shared->lock, LW_SHARED);
    for (int i = 0; i < shared->workers_used; i++) {
      const WorkerSlot& slot = Workers()[i];
      if (slot.state != WorkerState::kFree && slot.kind == WorkerKind::kRelay && slot.database == MyDatabaseId &&
          slot.incarnation != 0) {
        live[count++] = Int64GetDatum(static_cast<int64>(slot.incarnation));
      }
    }
    LWLockRelease(shared->lock);
  }
  return PointerGetDatum(construct_array(live, count, INT8OID, sizeof(int64), FLOAT8PASSBYVAL, TYPALIGN_DOUBLE));
}

bool MarkForDiscovery(Oid database) {
  // The launcher may free the slot between the two locks; then it is made again.
  bool done = false;
  for (int tries = 0; tries < 10 && !done; tries++) {
    DatabaseSlot* slot = FindDatabaseSlot(database, true);
    if (slot == nullptr) {
      break;
    }
    LWLockAcquire(Shared()->lock, LW_EXCLUSIVE);
    if (slot->database == database) {
      slot->needs_discovery = true;
      slot->discovery_requests++;
      done = true;
    }
    LWLockRelease(Shared()->lock);
  }
  return done;
}

void RequestDiscovery(Oid database) {
  if (Shared() == nullptr) {
    return;
  }
  if (!MarkForDiscovery(database)) {
    LWLockAcquire(Shared()->lock, LW_EXCLUSIVE);
    Shared()->discovery_lost = true;
    LWLockRelease(Shared()->lock);
  }
  WakeLauncher();
}

uint32 DiscoveryRequests(Oid database) {
  LWLockAcquire(Shared()->lock, LW_SHARED);
  DatabaseSlot* slot = FindDatabaseLocked(database);
  uint32 requests = slot != nullptr ? slot->discovery_requests : 0;
  LWLockRelease(Shared()->lock);
  return requests;
}

void ConcludeDiscovery(Oid database, uint32 requests, bool active) {
  LWLockAcquire(Shared()->lock, LW_EXCLUSIVE);
  DatabaseSlot* slot = FindDatabaseLocked(database);
  if (slot != nullptr) {
    slot->active = active;
    slot->relay_demand = active ? slot->relay_demand : 0;
    if (slot->discovery_requests == requests) {
      slot->needs_discovery = false;
    }
  }
  LWLockRelease(Shared()->lock);
}

void SetRelayDemand(Oid database, int demand) {
  bool changed = false;
  LWLockAcquire(Shared()->lock, LW_EXCLUSIVE);
  DatabaseSlot* slot = FindDatabaseLocked(database);
  if (slot != nullptr && slot->relay_demand != demand) {
    slot->relay_demand = demand;
    changed = true;
  }
  LWLockRelease(Shared()->lock);
  if (changed) {
    WakeLauncher();
  }
}

void FreeDatabaseSlot(Oid database, bool dropped) {
  LWLockAcquire(Shared()->lock, LW_EXCLUSIVE);
  DatabaseSlot* slot = FindDatabaseLocked(database);
  if (slot != nullptr &&
      (dropped || (!slot->needs_discovery && !slot->active && !slot->closed && slot->barred_by == 0))) {
    slot->database = InvalidOid;
    slot->needs_discovery = false;
    slot->active = false;
    slot->closed = false;
    slot->relay_demand = 0;
    slot->relays_allowed = 0;
    slot->barred_by = 0;
  }
  LWLockRelease(Shared()->lock);
}

}  // namespace outbox::pg
