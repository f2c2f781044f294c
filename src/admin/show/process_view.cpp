// Behind the view outbox.process [P].
#include <map>
#include <tuple>
#include <utility>

#include "admin/lookup/processes.h"
#include "admin/lookup/shared_views.h"
#include "pg/entry.h"
#include "pg/process_slots.h"
#include "pg/settings.h"

namespace outbox::admin {

namespace {

struct DatabaseView {
  Oid database;
  bool active;
  bool barred;
  bool closed;
  int relays;   // wanted
  int allowed;  // of them
  pg::HeldProcesses held;
};

std::vector<DatabaseView> ReadDatabaseViews() {
  std::vector<DatabaseView> views;
  views.reserve(static_cast<size_t>(pg::Shared()->max_databases));  // nothing is allocated under the lock
  pg::Guard([&] {
    LWLockAcquire(pg::Shared()->lock, LW_SHARED);
    for (int i = 0; i < pg::Shared()->max_databases; i++) {
      const pg::DatabaseSlot& slot = pg::Databases()[i];
      if (slot.database != InvalidOid && (pg::KeepersWanted(slot) > 0 || slot.closed)) {
        views.push_back({slot.database, slot.active, slot.barred_by != 0, slot.closed, pg::RelaysWanted(slot),
                         slot.relays_allowed, slot.held});
      }
    }
    LWLockRelease(pg::Shared()->lock);
  });
  return views;
}

// Where no relay worker is wanted.
std::pair<Cell, Cell> WhyNone() {
  return pg::settings.enabled ? std::pair<Cell, Cell>("not needed", "There is no route, or outbox.workers is 0.")
                              : std::pair<Cell, Cell>("off", "outbox.enabled is off.");
}

// What runs of a database, of one kind.
struct Running {
  int count = 0;
  std::string stands;  // of one that is there and does nothing
};

// Why fewer run than should, or do nothing, and what to do about it.
Row ProcessRow(const DatabaseView& view, bool keeper, int wanted, const Running& of, const Processes& all) {
  const int running = of.count;
  const bool in_turn = pg_atomic_read_u32(&pg::Shared()->in_turn) != 0;
  const pg::HeldBack& held = keeper ? view.held.keeper : view.held.relay;
  Cell state = "running";
  Cell detail;
  if (view.closed && running == 0) {
    state = "closed";
    detail =
        "The database takes no connections, or is a template: nothing is started for it. After ALTER DATABASE ... "
        "ALLOW_CONNECTIONS true, or IS_TEMPLATE false, its processes are back within twenty seconds.";
  } else if (!of.stands.empty()) {
    state = "stands";
    detail = of.stands + " outbox.doctor() of that database says what to do.";
  } else if (running < wanted) {
    if (view.barred) {
      state = "barred";
      detail = "A session drops, moves or copies the database.";
    } else if (pg::IsHeld(held)) {
      state = "held back";
      detail = std::string(held.crashes > 0 ? "It crashed" : "It failed") + " at each of its last starts; not before " +
               UnixMicrosText(held.until + kPgEpochMicros) +
               ". The server log says why; SELECT pg_reload_conf() has it tried at once.";
    } else if (in_turn || all.none()) {
      state = all.none() ? "no place" : "in turn";
      detail = FewSlotsText(all) + " " + FewSlotsHint(all);
    } else if (!keeper && view.allowed < wanted) {
      state = "fewer";
      detail = FewSlotsText(all) + " " + FewSlotsHint(all);
    } else {
      state = "starting";
    }
  } else if (wanted == 0) {
    std::tie(state, detail) = WhyNone();
  }
  return {DatabaseName(view.database),
          Cell(keeper ? "keeper" : "relay"),
          std::to_string(wanted),
          std::to_string(running),
          state,
          detail};
}

Row LauncherRow(const Cell& room) {
  const bool launched = pg::Shared()->launcher_pid != 0;
  const std::string stands = LauncherStands();
  const bool none = !launched && max_worker_processes < pg::ServersOwn();
  return {Cell(),
          Cell("launcher"),
          Cell("1"),
          Cell(launched ? "1" : "0"),
          Cell(!stands.empty() ? "stands"
               : launched      ? "running"
               : none          ? "no place"
                               : "starting"),
          !stands.empty() ? Cell(stands)
          : none          ? room
          : launched      ? Cell()
                          : Cell("It is started again within seconds; see the server log.")};
}

// This database, of which the launcher knows nothing.
void AddWithoutPlace(int relays, const Cell& why, ResultSet* result) {
  const Cell name = DatabaseName(MyDatabaseId);
  result->Add({name, Cell("keeper"), Cell("1"), Cell("0"), Cell("no place"), why});
  const auto [state, detail] = relays > 0 ? std::pair<Cell, Cell>("no place", why) : WhyNone();
  result->Add({name, Cell("relay"), Cell(std::to_string(relays)), Cell("0"), state, detail});
}

}  // namespace

}  // namespace outbox::admin

namespace {
using namespace outbox::admin;
}

// outbox_internal.process(): behind the view outbox.process.
OUTBOX_FUNCTION(outbox_process) {
  ResultSet result(fcinfo);
  result.Begin();
  if (outbox::pg::Shared() == nullptr) {
    return static_cast<Datum>(0);
  }
  if (const std::optional<BarredServer> barred = ServerBars()) {
    result.Add({Cell(), Cell("launcher"), Cell("0"), Cell("0"), Cell(barred->state), Cell(barred->text)});
    return static_cast<Datum>(0);
  }
  const Processes all = CountProcesses();
  std::map<std::pair<Oid, outbox::pg::WorkerKind>, Running> running;
  int total = 0;
  for (const WorkerView& worker : ReadWorkerViews()) {
    Running& of = running[{worker.database, worker.kind}];
    if (worker.running && !worker.stopping) {
      of.count++;
      total++;
    }
    of.stands = of.stands.empty() ? WorkerStands(worker) : of.stands;
  }
  const Cell room = all.enough() ? Cell(FewSlotsText(all)) : Cell(FewSlotsText(all) + " " + FewSlotsHint(all));
  result.Add(LauncherRow(room));
  result.Add({Cell(), Cell("all"), std::to_string(all.wanted), std::to_string(total),
              Cell(all.enough() ? "running"
                   : all.none() ? "no place"
                                : "in turn"),
              room});
  for (const DatabaseView& view : ReadDatabaseViews()) {
    result.Add(ProcessRow(view, true, 1, running[{view.database, outbox::pg::WorkerKind::kKeeper}], all));
    if (view.active || view.closed) {
      result.Add(ProcessRow(view, false, view.relays, running[{view.database, outbox::pg::WorkerKind::kRelay}], all));
    }
  }
  if (all.unseen > 0) {
    AddWithoutPlace(all.unseen - 1, room, &result);
  } else if (all.places > 0 && HasNoSlot()) {
    AddWithoutPlace(RelaysWithoutPlace(RunSql(Access::kRead, "SELECT EXISTS (SELECT FROM outbox.route)")[0][0] == "t"),
                    Cell(NoSlotText() + " " + kNoSlotHint), &result);
  }
  return static_cast<Datum>(0);
}
