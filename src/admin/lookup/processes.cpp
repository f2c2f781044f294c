#include "admin/lookup/processes.h"

#include <algorithm>

#include "base/count_text.h"
#include "base/fault_point.h"
#include "base/monotonic.h"
#include "pg/guard.h"
#include "pg/process_slots.h"
#include "pg/settings.h"
#include "pg/transaction_end.h"
#include "pg/writable.h"

namespace outbox::admin {

int WantedHere(Access access) {
  const Row row = RunSql(access, "SELECT 1 + least(count(*), $1::bigint) FROM outbox_internal.lane",
                         {Cell(std::to_string(pg::settings.workers))})[0];
  return static_cast<int>(Number(row[0]));
}

namespace {

// Whether the launcher knows that this database has an outbox.
bool IsKnown() {
  const pg::DatabaseSlot* slot = pg::Guard([] { return pg::FindDatabaseSlot(MyDatabaseId, false); });
  return slot != nullptr && (pg::KeepersWanted(*slot) > 0 || slot->closed);
}

}  // namespace

Processes CountProcesses(int mine) {
  Processes processes;
  processes.places = pg::ProcessSlots();
  processes.found = pg::PlacesFound();
  if (mine < 0 && processes.none() && !IsKnown() && CountIdentities().IsInUse()) {
    mine = processes.unseen = WantedHere(Access::kRead);
  }
  processes.wanted = mine < 0 ? pg::WantedProcesses(InvalidOid) : pg::WantedProcesses(MyDatabaseId) + mine;
  if (processes.found >= std::min(processes.places, processes.wanted)) {
    processes.found = -1;
  }
  if (processes.found >= 0) {
    processes.others = pg::Guard([] { return pg::FindOtherProcesses(); }).kinds;
  }
  return processes;
}

std::string FewSlotsText(const Processes& processes) {
  if (processes.places == 0) {
    return "max_worker_processes = " + std::to_string(max_worker_processes) +
           " has no room for keepers and relay workers: the launcher of outbox takes a place" +
           (pg::ServersOwn() > 1 ? ", and that of logical replication." : ".");
  }
  const std::string places = std::to_string(processes.places);
  const std::string wanted = CountText(processes.wanted, "process that is wanted.", "processes that are wanted.");
  if (processes.found >= 0) {
    return "Other background processes hold so much of max_worker_processes = " + std::to_string(max_worker_processes) +
           " that there is room for " + (processes.found == 0 ? "none" : std::to_string(processes.found)) + " of " +
           wanted + (processes.others.empty() ? "" : " They are: " + processes.others + ".");
  }
  return "max_worker_processes = " + std::to_string(max_worker_processes) +
         ", less one for the launcher and outbox.reserved_processes = " +
         std::to_string(pg::settings.reserved_processes) + ", leaves room for " +
         (processes.fit() ? places + " processes, and " + CountText(processes.wanted, "is wanted.", "are wanted.")
                          : places + " of " + wanted);
}

std::string FewSlotsHint(const Processes& processes) {
  const std::string hint = pg::Guard([&processes] { return pg::RoomHint(processes.wanted, processes.found); });
  // Only a keeper knows what its database wants.
  return processes.places > 0 ? hint : hint + " Other databases that use outbox take more.";
}

bool HasNoSlot() {
  return pg::Guard([] {
    LWLockAcquire(pg::Shared()->lock, LW_SHARED);
    const bool none = pg::HasNoSlot(MyDatabaseId);
    LWLockRelease(pg::Shared()->lock);
    return none;
  });
}

bool IsTemplate() {
  return RunSql(Access::kRead, "SELECT datistemplate FROM pg_database WHERE datname = current_database()")[0][0] == "t";
}

int RelaysWithoutPlace(bool routes) {
  return routes && pg::settings.enabled && pg::settings.workers > 0 ? 1 : 0;
}

std::string NoSlotText() {
  return "All " + std::to_string(pg::Shared()->max_databases) + " places for databases are taken.";
}

pg::DatabaseSlot* RequirePlace() {
  RequirePreload();
  pg::DatabaseSlot* slot = pg::Guard([] { return pg::MyDatabaseSlot(); });
  if (slot == nullptr) {
    throw pg::UserError{ERRCODE_CONFIGURATION_LIMIT_EXCEEDED, "no worker of outbox serves this database", NoSlotText(),
                        kNoSlotHint};
  }
  return slot;
}

std::string LauncherStands() {
  constexpr int64 kLong = 30 * USECS_PER_SEC;  // it looks for new databases every ten seconds
  const int64 asked = OUTBOX_FAULT_VALUE("doctor.launcher_stands");
  const pid_t pid = pg::Shared()->launcher_pid;
  const auto turn = static_cast<int64>(pg_atomic_read_u64(&pg::Shared()->launcher_turn));
  const int64 idle = turn == 0 ? 0 : MonotonicMicros() - turn;
  if (pid == 0 || idle <= (asked > 0 ? asked : kLong)) {
    return "";
  }
  return "The launcher, process " + std::to_string(pid) + ", is there, and has done nothing since " +
         UnixMicrosText(pg::UnixNow() - idle) + ": no worker of any database that ends is started again.";
}

std::string WorkerStands(const WorkerView& worker) {
  if (worker.stands_since == 0) {
    return "";
  }
  const bool relay = worker.kind == pg::WorkerKind::kRelay;
  return (relay ? "Relay worker" : "Keeper") + std::string(" with process ") + std::to_string(worker.pid) +
         " is there, and has done nothing since " + UnixMicrosText(worker.stands_since) +
         (relay ? ": its lanes stand still." : ": no day table is made ahead or dropped.");
}

pg::Identities CountIdentities() {
  pg::Identities identities = {};
  pg::Guard([&identities] { WithSpiAsOwner(Plan::kUsual, [&identities] { identities = pg::CountIdentities(); }); });
  return identities;
}

std::optional<BarredServer> ServerBars() {
  if (!IsUnderPostmaster) {
    return BarredServer{"single-user", "this server runs in single-user mode",
                        "This server runs in single-user mode: it publishes nothing until it is started as usual."};
  }
  if (!RecoveryInProgress()) {
    return std::nullopt;
  }
  if (pg::IsPausedAtTarget()) {
    return BarredServer{"standby", "recovery is paused at its target",
                        std::string(pg::kPausedAtTarget) + " It publishes nothing until then."};
  }
  return BarredServer{"standby", "this server is a standby",
                      "This is a standby: it publishes nothing until it is promoted."};
}

Cell WhyNobodyWorks() {
  if (CountRelays(ReadWorkerViews()) > 0) {
    return Cell();
  }
  const std::optional<BarredServer> barred = ServerBars();
  return pg::Shared() == nullptr      ? "outbox is not in shared_preload_libraries"
         : barred.has_value()         ? barred->why
         : CountIdentities().IsCopy() ? "this outbox is a copy: outbox.adopt() has it publish from here"
         : !pg::settings.enabled      ? "outbox.enabled is off"
         : pg::settings.workers == 0  ? "outbox.workers is 0"
         : IsTemplate()               ? kTemplateText
         : HasNoSlot()                ? "outbox.max_databases is used up by other databases"
                                      : "no relay worker runs; outbox.process says why";
}

void WarnOfMissingProcesses(int mine) {
  if (pg::Shared() == nullptr) {
    return;
  }
  if (IsTemplate()) {
    pg::Guard([] {
      ereport(WARNING, (errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE), errmsg("%s", kTemplateText),
                        errdetail("Events are kept, and not published."), errhint("%s", kTemplateHint)));
    });
    return;
  }
  const Processes processes = CountProcesses(mine);
  static Processes told;  // in this session: ten routes in a row want no ten warnings
  if (processes.fit() || (told.wanted == processes.wanted && told.places == processes.places)) {
    return;
  }
  told = processes;
  const std::string detail =
      FewSlotsText(processes) + (processes.places == 0 ? " Events are kept, and not published."
                                                       : " They run in turn: events wait for seconds, none is lost.");
  const std::string hint = FewSlotsHint(processes);
  const char* detail_text = detail.c_str();
  const char* hint_text = hint.c_str();
  pg::Guard([&] {
    ereport(WARNING, (errcode(ERRCODE_CONFIGURATION_LIMIT_EXCEEDED),
                      errmsg("there is not room for all background processes of outbox at once"),
                      errdetail("%s", detail_text), errhint("%s", hint_text)));
  });
}

}  // namespace outbox::admin
