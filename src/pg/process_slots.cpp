#include "pg/process_slots.h"

#include "pg/settings.h"

extern "C" {
#include "postmaster/postmaster.h"
#include "replication/logicallauncher.h"
#include "storage/proc.h"
}

namespace outbox::pg {

namespace {

constexpr int kFewestSlots = 2;

}  // namespace

bool IsHeld(const HeldBack& process) {
  return process.until > GetCurrentTimestamp();
}

int KeepersWanted(const DatabaseSlot& slot) {
  return slot.active || IsHeld(slot.held.keeper) ? 1 : 0;
}

int RelaysWanted(const DatabaseSlot& slot) {
  return slot.active && settings.enabled ? Min(slot.relay_demand, settings.workers) : 0;
}

bool HasNoSlot(Oid database) {
  bool none = true;
  for (int i = 0; i < Shared()->max_databases; i++) {
    none = none && Databases()[i].database != InvalidOid && Databases()[i].database != database;
  }
  return none;
}

int WantedProcesses(Oid except) {
  int wanted = 0;
  LWLockAcquire(Shared()->lock, LW_SHARED);
  for (int i = 0; i < Shared()->max_databases; i++) {
    const DatabaseSlot& slot = Databases()[i];
    wanted += slot.database != InvalidOid && slot.database != except ? KeepersWanted(slot) + RelaysWanted(slot) : 0;
  }
  LWLockRelease(Shared()->lock);
  return wanted;
}

int ServersOwn() {
  return max_logical_replication_workers > 0 ? 2 : 1;
}

int ProcessSlots() {
  const int left = Max(kFewestSlots, max_worker_processes - 1 - settings.reserved_processes);
  return Max(0, Min(left, max_worker_processes - ServersOwn()));
}

namespace {

// What max_worker_processes has to be for so many, and for a keeper and a relay worker, which any outbox in use needs.
int MaxWorkerProcessesFor(int processes) {
  return Max(processes, kFewestSlots) + Max(1 + settings.reserved_processes, ServersOwn());
}

}  // namespace

char* RoomHint(int processes) {
  const int usual = Settings().reserved_processes;
  const int most = MAX_BACKENDS - (MaxBackends - max_worker_processes);  // what the server's other processes leave
  const int needed = MaxWorkerProcessesFor(processes);
  const int spare = max_worker_processes - 1 - processes;
  if (needed <= most) {
    return psprintf("Set max_worker_processes = %d and restart the server.", needed);
  }
  const char* reserve = psprintf("No server has room for outbox.reserved_processes = %d:", settings.reserved_processes);
  return spare >= 0 ? psprintf("%s set it to %d at most and reload the configuration.", reserve, spare)
                    : psprintf("%s set it to %d, and max_worker_processes = %d, and restart the server.", reserve,
                               usual, processes + 1 + usual);
}

}  // namespace outbox::pg
