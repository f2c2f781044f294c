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

bool IsOfOutbox(const char* type) {
  return strncmp(type, "outbox ", strlen("outbox ")) == 0;
}

}  // namespace

int PlacesFound() {
  return static_cast<int>(pg_atomic_read_u32(&Shared()->places_found));
}

void SetPlacesFound(int found) {
  pg_atomic_write_u32(&Shared()->places_found, found < 0 ? kAllPlaces : static_cast<uint32>(found));
}

OtherProcesses FindOtherProcesses() {
  struct Kind {
    char type[BGW_MAXLEN];
    int count;
  };
  Kind* kinds = static_cast<Kind*>(palloc0(sizeof(Kind) * Max(max_worker_processes, 1)));
  int found = 0;
  OtherProcesses others = {};
  for (uint32 i = 0; i < ProcGlobal->allProcCount; i++) {
    const int pid = ProcGlobal->allProcs[i].pid;
    const char* type = pid == 0 ? nullptr : GetBackgroundWorkerTypeByPid(pid);
    if (type == nullptr || IsOfOutbox(type)) {
      continue;
    }
    int at = 0;
    while (at < found && strcmp(kinds[at].type, type) != 0) {
      at++;
    }
    if (at == max_worker_processes) {
      continue;  // they come and go while they are counted
    }
    found = Max(found, at + 1);
    strlcpy(kinds[at].type, type, BGW_MAXLEN);
    kinds[at].count++;
    others.parallel += strcmp(type, "parallel worker") == 0 ? 1 : 0;
  }
  StringInfoData text;
  initStringInfo(&text);
  for (int i = 0; i < found; i++) {
    appendStringInfo(&text, "%s%s (%d)", i == 0 ? "" : ", ", kinds[i].type, kinds[i].count);
  }
  pfree(kinds);
  others.kinds = text.data;
  return others;
}

namespace {

// Where others take more than is left to them: those that do now, and as many parallel workers as there may be if there
// are any.
char* TakenHint(int missing, int settings_need, int most) {
  const int parallel = FindOtherProcesses().parallel;
  const int more_parallel = parallel > 0 ? Max(0, max_parallel_workers - parallel) : 0;
  const int needed = Min(most, Max(settings_need, max_worker_processes + missing + more_parallel));
  if (settings_need > max_worker_processes) {
    return psprintf("Set max_worker_processes = %d and restart the server.", needed);
  }
  return parallel > missing
             ? psprintf(
                   "Set max_parallel_workers = %d and reload the configuration, or max_worker_processes = %d and "
                   "restart the server.",
                   parallel - missing, needed)
             : psprintf("Set max_worker_processes = %d and restart the server, or have the others take fewer.", needed);
}

}  // namespace

char* RoomHint(int processes, int found) {
  const int usual = Settings().reserved_processes;
  const int most = MAX_BACKENDS - (MaxBackends - max_worker_processes);  // what the server's other processes leave
  const int needed = MaxWorkerProcessesFor(processes);
  const int spare = max_worker_processes - 1 - processes;
  if (needed <= most && found >= 0) {
    return TakenHint(Max(1, Max(processes, kFewestSlots) - found), needed, most);
  }
  if (needed <= most) {
    return psprintf("Set max_worker_processes = %d and restart the server.", needed);
  }
  const char* reserve = psprintf("No server has room for outbox.reserved_processes = %d:", settings.reserved_processes);
  return spare >= 0 ? psprintf("%s set it to %d at most and reload the configuration.", reserve, spare)
                    : psprintf("%s set it to %d, and max_worker_processes = %d, and restart the server.", reserve,
                               usual, processes + 1 + usual);
}

}  // namespace outbox::pg
