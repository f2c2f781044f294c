// The relay worker's process [P]: its frames own nothing with a destructor, so that an interrupt may end it anywhere
// between two turns. All C++ state hangs on leaked pointers. README.md draws the states.
#include "base/fault_point.h"
#include "base/monotonic.h"
#include "pg/entry.h"
#include "pg/log_line.h"
#include "pg/settings.h"
#include "pg/transaction.h"
#include "worker/complaints.h"
#include "worker/lane_board.h"
#include "worker/process.h"
#include "worker/relay.h"

namespace outbox::worker {

namespace {

constexpr char kWho[] = "outbox relay";
constexpr int kStopMs = 1800;  // for outcomes of what is in flight; a fast shutdown has to end within 3 s
constexpr int kLeaveMs = 500;  // and after that it leaves in any case, also where every turn fails
constexpr long kShortestBackOffMs = 100;
constexpr long kLongestBackOffMs = 5000;

Relay* relay = nullptr;
Complaints* complaints = nullptr;
int failures = 0;

// Returns how many milliseconds to wait before the next turn; 0 if this one went well.
long RunTurn() {
  pg::PendingError error;
  const auto turn = [] {
    relay->Turn();
    complaints->Well(kWho);
  };
  if (pg::Attempt(turn, &error)) {
    failures = 0;
    return 0;
  }
  if (error.rethrow == nullptr) {
    // Not a Postgres error but a bug or no memory: the engine's state may be inconsistent. Nothing is lost by leaving.
    LaneId lane;
    const char* route = nullptr;
    const bool known = relay->Interrupted(&lane, &route);
    pg::Report(WARNING,
               known ? psprintf("outbox relay ends, at lane %d of route \"%s\"", static_cast<int>(lane.lane), route)
                     : "outbox relay ends",
               error);
    proc_exit(1);
  }
  if (error.rethrow->sqlerrcode != ERRCODE_QUERY_CANCELED || !StopRequested()) {
    complaints->Say(kWho, error);
  }
  failures = Min(failures + 1, 10);
  return Min(kShortestBackOffMs << (failures - 1), kLongestBackOffMs);
}

void ReportActivity() {
  static char shown[128] = "";
  if (strcmp(shown, relay->activity().c_str()) != 0) {
    strlcpy(shown, relay->activity().c_str(), sizeof(shown));
    pgstat_report_activity(relay->busy() ? STATE_RUNNING : STATE_IDLE, shown);
  }
}

// Begins to stop once for each reason: when the launcher asks, and with less time after SIGTERM. Returns true if the
// time is over.
bool StopIfAsked() {
  static bool asked = false;
  static bool terminated = false;
  static int64_t leave_at = 0;
  if (StopRequested() && (!asked || (Terminated() && !terminated))) {
    leave_at = asked ? leave_at : MonotonicMicros() + int64_t{kStopMs + kLeaveMs} * 1000;
    asked = true;
    terminated = Terminated();
    relay->BeginStop(kStopMs);
  }
  return asked && MonotonicMicros() >= leave_at;
}

void ReleaseBoard(int code, Datum arg) {
  FreeLaneSlots(DatumGetUInt64(arg));
}

[[noreturn]] void Leave() {
  pg::PendingError error;
  // Closes the sinks; at most 200 ms for each.
  (void)pg::Attempt([] { delete relay; }, &error);
  LeaveClock(CurrentMemoryContext);
  proc_exit(0);
}

// Under load the next commit has come before a turn has ended: the next turn finds several.
void RestAfter(int64_t turn_began) {
  const int64_t left = turn_began + relay->turns_apart() - MonotonicMicros();
  if (relay->timeout_ms() != 0 && left > 0) {
    pg_usleep(left);
    ResetLatch(MyLatch);
  }
}

void RelayMain() {
  pg::SlotTicket ticket = BecomeWorker();
  if (OUTBOX_FAULT_FAILS("relay.start")) {
    ereport(FATAL, (errmsg("injected at relay.start")));
  }
  pg::DatabaseSlot* slot = pg::FindDatabaseSlot(ticket.database, true);
  if (slot == nullptr) {
    ereport(FATAL, (errcode(ERRCODE_CONFIGURATION_LIMIT_EXCEEDED),
                    errmsg("no room for database \"%s\" in the shared memory of outbox", DatabaseName()),
                    errhint("Raise outbox.max_databases and restart the server."), pg::LogEvent("no_database_slot")));
  }
  on_shmem_exit(ReleaseBoard, UInt64GetDatum(ticket.incarnation));
  complaints = new Complaints([] { return relay->FoundUprooted(); });
  relay = new Relay({.database = ticket.database,
                     .database_slot = slot,
                     .worker_slot = pg::MyWorkerSlot(),
                     .incarnation = ticket.incarnation},
                    complaints);
  (void)ServersMayHaveChanged();  // registers; the first turn loads everything in any case
  uint32 wait_event = pg::WaitEventFor("OutboxRelayMain");
  MemoryContext context = AllocSetContextCreate(TopMemoryContext, "outbox relay turn", ALLOCSET_DEFAULT_SIZES);
  while (true) {
    MemoryContextSwitchTo(context);
    MemoryContextReset(context);
    bool reload = ConfigReloadPending;
    ProcessInterruptsBetweenTurns();
    if (reload) {
      relay->SettingsChanged();
    }
    bool overdue = StopIfAsked();
    const int64_t began = MonotonicMicros();
    long back_off = RunTurn();
    if (relay->uprooted() || relay->stopped() || overdue) {
      if (relay->uprooted()) {
        pg::NoteLeft();
      }
      Leave();  // a claim that was not given back dies with this process
    }
    back_off = Min(back_off, StopRequested() ? kShortestBackOffMs : back_off);
    MemoryContextSwitchTo(context);
    ReportActivity();
    pg::WaitForDescriptors(relay->descriptors().data(), static_cast<int>(relay->descriptors().size()),
                           back_off > 0 ? back_off : relay->timeout_ms(), wait_event);
    RestAfter(began);
  }
}

}  // namespace

}  // namespace outbox::worker

extern "C" PGDLLEXPORT void outbox_relay_main(Datum) {
  outbox::pg::Entry([] { outbox::worker::RelayMain(); });
}
