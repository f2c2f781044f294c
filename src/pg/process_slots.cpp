#include "pg/process_slots.h"

#include "pg/settings.h"

namespace outbox::pg {

namespace {

constexpr int kFewestSlots = 2;

}  // namespace

int RelaysWanted(const DatabaseSlot& slot) {
  return slot.active && settings.enabled ? Min(slot.relay_demand, settings.workers) : 0;
}

int WantedProcesses(Oid except) {
  int wanted = 0;
  LWLockAcquire(Shared()->lock, LW_SHARED);
  for (int i = 0; i < Shared()->max_databases; i++) {
    const DatabaseSlot& slot = Databases()[i];
    wanted += slot.database != InvalidOid && slot.database != except && slot.active ? 1 + RelaysWanted(slot) : 0;
  }
  LWLockRelease(Shared()->lock);
  return wanted;
}

int ProcessSlots() {
  return Max(kFewestSlots, max_worker_processes - 1 - settings.reserved_processes);
}

int MaxWorkerProcessesFor(int processes) {
  return processes + 1 + settings.reserved_processes;
}

}  // namespace outbox::pg
