#include "worker/launcher.h"

#include <algorithm>
#include <vector>

#include "base/fault_point.h"
#include "base/monotonic.h"
#include "metrics/store.h"
#include "pg/entry.h"
#include "pg/library_directory.h"
#include "pg/log_line.h"
#include "pg/process_slots.h"
#include "pg/settings.h"
#include "pg/transaction.h"
#include "pg/wait.h"
#include "worker/databases.h"
#include "worker/process.h"
#include "worker/process_turns.h"
#include "worker/start_mark.h"

namespace outbox::worker {

namespace {

using pg::Databases;
using pg::DatabaseSlot;
using pg::HeldBack;
using pg::Shared;
using pg::WorkerKind;
using pg::WorkerState;

constexpr long kScanEveryMs = 10 * 1000;  // pg_database: databases that were made, copied or closed
constexpr int kQuickDeathMs = 30 * 1000;  // a worker that lived longer starts again at once
constexpr int kFirstRestartMs = 50;
constexpr int kSecondRestartMs = 500;
constexpr int kLongestRestartMs = 60 * 1000;
constexpr int kBarredRetryMs = 1000;
constexpr int kNoRoomToldMs = 10 * 1000;    // a parallel query takes places for a moment
constexpr int kStartTimeoutMs = 60 * 1000;  // for slots taken by an earlier launcher, whose handles are lost

// All of the launcher's times are by MonotonicMicros(): the wall clock may be set back by days.
using Moment = int64_t;

// A process that is wanted, or was wanted until just now.
struct Job {
  pg::SlotTicket ticket;                     // slot -1: not running
  BackgroundWorkerHandle* handle = nullptr;  // nullptr: taken over from an earlier launcher
  Moment started_at = 0;
  Moment start_after = 0;
  int quick_deaths = 0;  // in a row
  int crashes = 0;       // in a row, each of them restarted the server's sessions: start_mark.h
  Moment told_at = 0;    // when the server's log was told that it is held back; 0: it is not
  bool marked = false;   // has a mark
  bool wanted = false;
  bool asked_to_stop = false;
};

// The launcher's memory. Leaked on purpose: the process ends without destructors.
struct LauncherState {
  std::vector<Job> jobs;
  std::vector<Oid> known;  // databases that were looked at since the launcher started
  std::vector<std::pair<Oid, NameData>> names;
  Moment next_scan = 0;
  Oid refused = InvalidOid;  // the database whose process was last refused a place
  Moment warned_no_room = 0;
  Moment told_no_room = 0;  // since when it has lasted, of which the server's log was told; 0: it was not
  Moment warned_no_slot = 0;
  Moment next_wake = 0;  // earliest start_after of this turn
  Moment started_at = 0;
  int own_crashes = 0;  // of the launcher itself, in a row
  bool marked = true;
};
LauncherState* state = nullptr;

constexpr MarkedProcess kLauncherMark = {InvalidOid, 0, 0};

Moment After(Moment time, long ms) {
  return time + ms * 1000;
}

bool HavePassed(Moment from, Moment to, long ms) {
  return to >= After(from, ms);
}

long MillisecondsTo(Moment now, Moment then) {
  return then <= now ? 0 : static_cast<long>((then - now + 999) / 1000);
}

// For messages.
TimestampTz WallClockAt(Moment moment) {
  return GetCurrentTimestamp() + (moment - MonotonicMicros());
}

void Earliest(Moment time) {
  state->next_wake = Min(state->next_wake, time);
}

const char* NameOf(Oid database) {
  for (const auto& [oid, name] : state->names) {
    if (oid == database) {
      return NameStr(name);
    }
  }
  return "?";
}

Job* FindJob(Oid database, WorkerKind kind, int ordinal) {
  for (Job& job : state->jobs) {
    if (job.ticket.database == database && job.ticket.kind == kind && job.ticket.ordinal == ordinal) {
      return &job;
    }
  }
  return nullptr;
}

MarkedProcess Marked(const Job& job) {
  return {job.ticket.database, static_cast<int>(job.ticket.kind), job.ticket.ordinal};
}

// It crashes, or fails, at every start.
bool IsHeldBack(const Job& job) {
  return job.crashes > kCrashesForgiven || job.quick_deaths > kCrashesForgiven;
}

const char* KindOf(const Job& job) {
  return job.ticket.kind == WorkerKind::kKeeper ? "keeper" : "relay worker";
}

void SayHeldBack(const Job& job, Moment now) {
  const char* kind = KindOf(job);
  const char* database = NameOf(job.ticket.database);
  const long seconds = (MillisecondsTo(now, job.start_after) + 999) / 1000;
  const bool crashes = job.crashes > kCrashesForgiven;
  ereport(
      WARNING,
      (crashes ? errmsg("outbox: the %s of database \"%s\" crashes at each start", kind, database)
               : errmsg("outbox: the %s of database \"%s\" fails at each start", kind, database),
       errdetail("It ended within %d s of each of its last %d starts. It is started again in %ld s, and then less "
                 "and less often.",
                 kQuickDeathMs / 1000, crashes ? job.crashes : job.quick_deaths, seconds),
       errhint("The lines of its process before this one say what of. SELECT pg_reload_conf() has it tried at once."),
       pg::LogEvent("held_back", {{"for_database", database}, {"seconds", pg::LogNumber(seconds)}})));
}

void SayNotHeldBack(const Job& job) {
  const double seconds = static_cast<double>(MonotonicMicros() - job.told_at) / kSecond;
  const char* database = NameOf(job.ticket.database);
  ereport(LOG,
          (errmsg("outbox: the %s of database \"%s\" is not held back any more, after %.1f s", KindOf(job), database,
                  seconds),
           pg::LogEvent("held_back_no_more", {{"for_database", database}, {"seconds", psprintf("%.1f", seconds)}})));
}

void Forget(Job* job) {
  if (job->marked) {
    ForgetStart(Marked(*job));
    job->marked = false;
  }
  job->crashes = job->quick_deaths = 0;
  job->told_at = 0;
}

// It lives, or need not any more.
void Forgive(Job* job) {
  if (job->told_at != 0) {
    SayNotHeldBack(*job);
  }
  Forget(job);
}

void Want(Oid database, WorkerKind kind, int ordinal) {
  Job* job = FindJob(database, kind, ordinal);
  if (job == nullptr) {
    Job fresh;
    fresh.ticket = pg::SlotTicket{database, kind, ordinal, -1, 0};
    state->jobs.push_back(fresh);
    job = &state->jobs.back();
  }
  job->wanted = true;
}

// Takes over workers that an earlier launcher of this server started.
void TakeOverWorkers() {
  LWLockAcquire(Shared()->lock, LW_SHARED);
  int used = Shared()->workers_used;
  LWLockRelease(Shared()->lock);
  state->jobs.reserve(used);
  LWLockAcquire(Shared()->lock, LW_SHARED);
  for (int i = 0; i < used; i++) {
    const pg::WorkerSlot& slot = pg::Workers()[i];
    if (slot.state != WorkerState::kFree) {
      Job job;
      job.ticket = pg::SlotTicket{slot.database, slot.kind, slot.ordinal, i, slot.incarnation};
      job.started_at = MonotonicMicros() - Max(GetCurrentTimestamp() - slot.since, 0);
      state->jobs.push_back(job);
    }
  }
  LWLockRelease(Shared()->lock);
}

bool Probing() {
  bool any = false;
  LWLockAcquire(Shared()->lock, LW_SHARED);
  for (int i = 0; i < Shared()->max_databases; i++) {
    any = any || (Databases()[i].database != InvalidOid && Databases()[i].needs_discovery);
  }
  LWLockRelease(Shared()->lock);
  return any;
}

// Returns true at most once a minute.
bool MayWarn(Moment* last) {
  Moment now = MonotonicMicros();
  if (*last != 0 && !HavePassed(*last, now, 60 * 1000)) {
    return false;
  }
  *last = now;
  return true;
}

// Databases that are new to this launcher get a keeper that looks for an outbox; what is gone or closed is forgotten.
void ScanDatabases(const DatabaseList& list) {
  state->names.clear();
  for (int i = 0; i < list.eligible_count; i++) {
    state->names.emplace_back(list.eligible[i], list.eligible_names[i]);
  }
  bool full = false;
  LWLockAcquire(Shared()->lock, LW_EXCLUSIVE);
  if (Shared()->discovery_lost) {
    state->known.clear();
    Shared()->discovery_lost = false;
  }
  LWLockRelease(Shared()->lock);
  for (int i = 0; i < list.eligible_count; i++) {
    bool known = Contains(state->known.data(), static_cast<int>(state->known.size()), list.eligible[i]);
    if (known) {
      continue;
    }
    // Slots come free as such keepers find nothing; then the next scan goes on. One further on may have its slot still.
    if (!pg::MarkForDiscovery(list.eligible[i])) {
      full = true;
      continue;
    }
    state->known.push_back(list.eligible[i]);
  }
  // A process of a database that is no more never runs again.
  for (Job& job : state->jobs) {
    if (job.ticket.slot < 0 && !Contains(list.all, list.all_count, job.ticket.database)) {
      Forget(&job);
    }
  }
  std::erase_if(state->known, [&](Oid oid) { return !Contains(list.eligible, list.eligible_count, oid); });
  for (int i = 0; i < Shared()->max_databases; i++) {
    Oid database = Databases()[i].database;
    if (database == InvalidOid) {
      continue;
    }
    if (Contains(list.eligible, list.eligible_count, database)) {
      Databases()[i].closed = false;
      continue;
    }
    bool dropped = !Contains(list.all, list.all_count, database);
    LWLockAcquire(Shared()->lock, LW_EXCLUSIVE);
    if (Databases()[i].database == database) {
      Databases()[i].closed = Databases()[i].closed || Databases()[i].active;
      Databases()[i].needs_discovery = false;
      Databases()[i].active = false;
    }
    LWLockRelease(Shared()->lock);
    if (dropped && pg::CountWorkers(database) == 0) {
      pg::FreeDatabaseSlot(database, true);
    }
  }
  if (full && !Probing() && MayWarn(&state->warned_no_slot)) {
    ereport(WARNING, (errcode(ERRCODE_CONFIGURATION_LIMIT_EXCEEDED),
                      errmsg("outbox cannot look after all databases of this server"),
                      errdetail("All %d slots are taken by databases that use the extension.", Shared()->max_databases),
                      errhint("Raise outbox.max_databases and restart the server."), pg::LogEvent("no_database_slot")));
  }
}

// Decides which processes should run now.
void DecideWanted(Moment now) {
  std::vector<TurnJob> turns;
  turns.reserve(state->jobs.size() + 16);
  for (Job& job : state->jobs) {
    job.wanted = false;
    TurnJob turn{job.ticket};
    if (job.ticket.slot >= 0) {
      turn.state = job.asked_to_stop ? TurnJob::State::kLeaving : TurnJob::State::kRuns;
    } else if (job.start_after > now) {
      turn.state = TurnJob::State::kDelayed;
    }
    turns.push_back(turn);
  }
  Earliest(After(now, DecideTurns(&turns)));
  for (const TurnJob& job : turns) {
    if (job.wanted) {
      Want(job.ticket.database, job.ticket.kind, job.ticket.ordinal);
    }
  }
}

// Takes over what an earlier launcher noted of a process that crashed.
void SeeMark(const MarkedProcess& process, int crashes, bool running, void*) {
  if (process.kind == 0) {
    state->own_crashes = crashes;
    return;
  }
  auto kind = static_cast<WorkerKind>(process.kind);
  if (process.kind != static_cast<int>(WorkerKind::kKeeper) && process.kind != static_cast<int>(WorkerKind::kRelay)) {
    ForgetStart(process);
    return;
  }
  Job* job = FindJob(process.database, kind, process.ordinal);
  if (job != nullptr) {  // it lives: only the launcher was restarted
    job->crashes = crashes - (running ? 1 : 0);
  } else {
    Job crashed;
    crashed.ticket = pg::SlotTicket{process.database, kind, process.ordinal, -1, 0};
    crashed.crashes = crashes;
    crashed.start_after = After(MonotonicMicros(), CrashDelayMs(crashes));
    state->jobs.push_back(crashed);
    job = &state->jobs.back();
    MarkStart(process, crashes);
    MarkWaiting(process);
  }
  job->marked = true;
}

bool WaitsHeldBack(const Job& job, Moment now) {
  return job.ticket.slot < 0 && job.start_after > now && IsHeldBack(job);
}

// What is held back now: for outbox.process and outbox.doctor(), and, once, for the server's log.
void ShowHeldBack(Moment now) {
  LWLockAcquire(Shared()->lock, LW_EXCLUSIVE);
  for (int i = 0; i < Shared()->max_databases; i++) {
    DatabaseSlot& slot = Databases()[i];
    slot.held = {};
    for (const Job& job : state->jobs) {
      HeldBack& shown = job.ticket.kind == WorkerKind::kKeeper ? slot.held.keeper : slot.held.relay;
      const TimestampTz until = WallClockAt(job.start_after);
      if (slot.database == job.ticket.database && WaitsHeldBack(job, now) && shown.until < until) {
        shown = {until, job.crashes > kCrashesForgiven ? job.crashes : 0};
      }
    }
  }
  LWLockRelease(Shared()->lock);
  for (Job& job : state->jobs) {
    if (job.told_at == 0 && WaitsHeldBack(job, now)) {
      job.told_at = now;
      SayHeldBack(job, now);
    }
  }
}

// The configuration has changed: processes that are held back are tried now.
void TryDelayedOnes() {
  for (Job& job : state->jobs) {
    if (IsHeldBack(job)) {
      job.start_after = Min(job.start_after, MonotonicMicros());
    }
  }
}

// The job's process has ended, or never came.
void Ended(Job* job, Moment now) {
  bool quick = !HavePassed(job->started_at, now, kQuickDeathMs);
  bool orderly = job->asked_to_stop || !job->wanted;
  // One that left by itself did what it should, though the extension was made since then.
  const bool left = pg::HasLeft(job->ticket);
  if (!orderly && !left) {
    metrics::NoteRestart(job->ticket.database, job->ticket.kind);
  }
  // It has not failed, but is not to be started over and over either.
  const int deaths = left ? Min(job->quick_deaths + 1, kCrashesForgiven) : job->quick_deaths + 1;
  if (orderly || left || !quick) {
    Forgive(job);
  }
  const bool terminated = pg::WasTerminated(job->ticket);
  if (!orderly && !terminated) {
    job->quick_deaths = quick ? deaths : 1;
  }
  long delay = kFirstRestartMs;
  if (job->quick_deaths > 1 && !terminated) {
    int doublings = Min(job->quick_deaths - 2, 10);
    delay = Min(kSecondRestartMs << doublings, kLongestRestartMs);
  }
  job->start_after = After(now, delay);
  job->ticket.slot = -1;
  job->asked_to_stop = false;
  if (job->handle != nullptr) {
    pfree(job->handle);
    job->handle = nullptr;
  }
  if (job->ticket.kind == WorkerKind::kKeeper) {
    pg::FreeDatabaseSlot(job->ticket.database, false);  // if the keeper found nothing there
  }
}

// A place is free only when the postmaster has seen the end of its process, of which it tells us by a signal.
bool HoldsPlace(const Job& job) {
  pid_t pid = 0;
  return job.handle != nullptr && GetBackgroundWorkerPid(job.handle, &pid) != BGWH_STOPPED;
}

// Returns whether a process has ended.
bool Reap(Moment now) {
  bool ended = false;
  for (Job& job : state->jobs) {
    if (job.ticket.slot < 0) {
      continue;
    }
    WorkerState slot = pg::SlotState(job.ticket);
    if (slot == WorkerState::kStarting) {
      const bool lost = job.handle != nullptr ? !HoldsPlace(job) : HavePassed(job.started_at, now, kStartTimeoutMs);
      if (lost) {
        pg::FreeWorkerSlot(job.ticket, true);
        slot = pg::SlotState(job.ticket);
      }
    }
    if (slot == WorkerState::kFree && !HoldsPlace(job)) {
      Ended(&job, now);
      ended = true;
    }
  }
  return ended;
}

int CountRunning() {
  int running = 0;
  for (const Job& job : state->jobs) {
    running += job.ticket.slot >= 0 ? 1 : 0;
  }
  return running;
}

// Returns false if the server has no place for it.
bool Start(Job* job, Moment now) {
  pg::TakeWorkerSlot(&job->ticket);
  if (job->ticket.slot < 0) {  // somebody has begun to drop the database
    job->start_after = After(now, kBarredRetryMs);
    return true;
  }
  MarkStart(Marked(*job), job->crashes);
  job->marked = true;
  MemoryContext previous = MemoryContextSwitchTo(TopMemoryContext);
  const bool started = StartWorker(job->ticket, NameOf(job->ticket.database), &job->handle);
  MemoryContextSwitchTo(previous);
  if (started) {
    job->started_at = now;
    return true;
  }
  MarkWaiting(Marked(*job));
  pg::FreeWorkerSlot(job->ticket, false);
  job->ticket.slot = -1;
  job->handle = nullptr;
  state->refused = job->ticket.database;
  NoteNoRoom(CountRunning());
  Earliest(now);  // the places that there are have to be shared out
  return false;
}

// Said once, when it has lasted, and when it is over.
void TellRoom(Moment lacking_since, Moment now) {
  if (lacking_since != 0 && state->told_no_room == 0 && HavePassed(lacking_since, now, kNoRoomToldMs) &&
      MayWarn(&state->warned_no_room)) {
    state->told_no_room = lacking_since;
    const char* database = NameOf(state->refused);
    const char* others = pg::FindOtherProcesses().kinds;
    const char* hint = pg::RoomHint(pg::WantedProcesses(InvalidOid), pg::ProcessSlots() > 0 ? pg::PlacesFound() : -1);
    ereport(WARNING, (errcode(ERRCODE_CONFIGURATION_LIMIT_EXCEEDED),
                      errmsg("could not start a background worker of outbox for database \"%s\"", database),
                      errdetail("All places that max_worker_processes = %d has are taken, %d by outbox%s%s.",
                                max_worker_processes, CountRunning() + 1, *others != 0 ? ", others by: " : "", others),
                      errhint("%s", hint), pg::LogEvent("no_process_slot", {{"for_database", database}})));
  } else if (lacking_since == 0 && state->told_no_room != 0) {
    const double seconds = static_cast<double>(now - state->told_no_room) / kSecond;
    state->told_no_room = 0;
    ereport(LOG, (errmsg("outbox has a place for each of its background workers again, after %.1f s", seconds),
                  pg::LogEvent("process_slots_free", {{"seconds", psprintf("%.1f", seconds)}})));
  }
}

// Whether a process is wanted and does not run, and is to be started within a second.
bool IsOneWaiting(Moment now) {
  return std::any_of(state->jobs.begin(), state->jobs.end(), [now](const Job& job) {
    return job.wanted && job.ticket.slot < 0 && job.start_after <= After(now, 1000);
  });
}

// Neither wanted nor running, and its back-off has passed.
bool IsOver(const Job& job, Moment now) {
  // A job that crashed or failed is remembered for a while: it may become wanted only after its keeper has run, or when
  // it is its turn.
  const bool failed = job.crashes > 0 || job.quick_deaths > 0;
  const Moment until = failed ? After(job.start_after, 2 * kQuickDeathMs) : job.start_after;
  return !job.wanted && job.ticket.slot < 0 && until <= now;
}

void StartAndStop(Moment now) {
  int running_now = CountRunning();
  bool room = true;
  for (Job& job : state->jobs) {
    bool running = job.ticket.slot >= 0;
    if (running && !job.wanted && !job.asked_to_stop) {
      job.asked_to_stop = true;
      pg::AskWorkerToStop(job.ticket);
    } else if (!running && job.wanted) {
      room = room && MayStart(running_now);
      if (room && job.start_after <= now) {
        room = Start(&job, now);
        running_now += job.ticket.slot >= 0 ? 1 : 0;
      }
      if (job.start_after > now) {
        Earliest(job.start_after);
      }
    }
  }
  // With its job a mark goes, too: nobody else would ever remove it.
  for (Job& job : state->jobs) {
    if (IsOver(job, now)) {
      Forgive(&job);
    }
  }
  std::erase_if(state->jobs, [now](const Job& job) { return IsOver(job, now); });
  ShowHeldBack(now);
}

// A process that has lived for a while has not crashed at its start.
void ForgiveTheLiving(Moment now) {
  for (Job& job : state->jobs) {
    if (job.ticket.slot >= 0 && job.marked) {
      if (HavePassed(job.started_at, now, kQuickDeathMs)) {
        Forgive(&job);
      } else {
        Earliest(After(job.started_at, kQuickDeathMs + 100));
      }
    }
  }
  if (state->marked && HavePassed(state->started_at, now, kQuickDeathMs)) {
    ForgetStart(kLauncherMark);
    state->marked = false;
  }
}

// Returns false if SIGTERM came meanwhile: all else is thrown on.
bool FindDatabases(MemoryContext context, DatabaseList* list) {
  try {
    *list = ReadDatabases(context);
    return true;
  } catch (const pg::PgError& error) {
    if (error.sqlstate() != ERRCODE_QUERY_CANCELED || !Terminated()) {
      throw;
    }
  }
  return false;
}

void Turn(MemoryContext context) {
  Moment now = MonotonicMicros();
  state->next_wake = After(now, kScanEveryMs);
  pg_atomic_write_u32(&Shared()->turn_pending, 0);
  pg_memory_barrier();
  LiftDeadBars();
  DecideWanted(now);
  const bool ended = Reap(now);  // frees slots of databases where a keeper found nothing
  if (pg_atomic_exchange_u32(&Shared()->launcher_pending, 0) != 0 || ended || now >= state->next_scan) {
    DatabaseList list = {};
    if (!FindDatabases(context, &list)) {
      return;
    }
    ScanDatabases(list);
    state->next_scan = After(now, kScanEveryMs);
  }
  DecideWanted(now);
  OUTBOX_FAULT_POINT("launcher.turn");
  StartAndStop(now);
  TellRoom(PublishRoom(IsOneWaiting(now)), now);
  ForgiveTheLiving(now);
}

void Leave(int code, Datum arg) {
  LWLockAcquire(Shared()->lock, LW_EXCLUSIVE);
  if (Shared()->launcher_pid == MyProcPid) {
    Shared()->launcher_pid = 0;
    Shared()->launcher_proc = -1;
    pg::SetPlacesFound(-1);
  }
  LWLockRelease(Shared()->lock);
}

// A launcher that crashes at every start waits longer each time before it starts anything. A reload ends the wait.
void HoldBack(uint32 wait_event) {
  long delay = CrashDelayMs(state->own_crashes);
  if (delay == 0) {
    return;
  }
  Moment until = After(state->started_at, delay);
  ereport(LOG, (errmsg("outbox launcher waits for %ld s: it crashed the server %d times in a row", delay / 1000,
                       state->own_crashes),
                pg::LogEvent("held_back", {{"seconds", pg::LogNumber(delay / 1000)}})));
  MarkWaiting(kLauncherMark);
  Shared()->launcher_delayed_until = WallClockAt(until);
  bool reload = false;
  while (!Terminated() && !reload && MonotonicMicros() < until) {
    pg::WaitForLatch(Max(MillisecondsTo(MonotonicMicros(), until), 1L), wait_event);
    reload = ConfigReloadPending;
    ProcessInterruptsBetweenTurns();
  }
  Shared()->launcher_delayed_until = 0;
  state->started_at = MonotonicMicros();
  MarkStart(kLauncherMark, state->own_crashes);
}

void LauncherMain() {
  InstallSignalHandlers();
  pg::NameLogLines("launcher", nullptr);
  if (Shared() == nullptr) {
    proc_exit(0);
  }
  on_shmem_exit(Leave, static_cast<Datum>(0));
  LWLockAcquire(Shared()->lock, LW_EXCLUSIVE);
  Shared()->launcher_pid = MyProcPid;
  Shared()->launcher_proc = pg::MyProcIndex();
  pg_atomic_write_u64(&Shared()->launcher_turn, 0);
  LWLockRelease(Shared()->lock);
  BackgroundWorkerInitializeConnection(nullptr, nullptr, 0);
  pg::HoldCancels();
  pgstat_report_appname(MyBgworkerEntry->bgw_type);
  pgstat_report_activity(STATE_IDLE, "idle");

  state = new LauncherState;
  TakeOverWorkers();
  ReadStartMarks(SeeMark, nullptr);
  state->started_at = MonotonicMicros();
  MarkStart(kLauncherMark, state->own_crashes);
  WatchOwnStart(kLauncherMark);
  uint32 wait_event = pg::WaitEventFor("OutboxLauncherMain");
  MemoryContext context = AllocSetContextCreate(TopMemoryContext, "outbox launcher turn", ALLOCSET_DEFAULT_SIZES);
  HoldBack(wait_event);
  while (!Terminated()) {
    MemoryContextSwitchTo(context);
    MemoryContextReset(context);
    Turn(context);
    pg_atomic_write_u64(&Shared()->launcher_turn, static_cast<uint64>(MonotonicMicros()));
    MemoryContextSwitchTo(context);
    long timeout = MillisecondsTo(MonotonicMicros(), state->next_wake);
    pg::WaitForLatch(Max(timeout, 1L), wait_event);
    if (ConfigReloadPending) {
      TryDelayedOnes();
    }
    ProcessInterruptsBetweenTurns();
  }
  // The server or this process is being stopped in good order: what crashed before may be repaired.
  for (Job& job : state->jobs) {
    Forget(&job);
  }
  ForgetStart(kLauncherMark);
  proc_exit(1);  // 0 would mean: never again until the server restarts
}

}  // namespace

void RegisterLauncher() {
  if (IsBinaryUpgrade) {
    return;
  }
  BackgroundWorker worker;
  memset(&worker, 0, sizeof(worker));
  worker.bgw_flags = BGWORKER_SHMEM_ACCESS | BGWORKER_BACKEND_DATABASE_CONNECTION;
  worker.bgw_start_time = BgWorkerStart_RecoveryFinished;
  worker.bgw_restart_time = 1;
  pg::NameLibrary(worker.bgw_library_name, sizeof(worker.bgw_library_name));
  strlcpy(worker.bgw_function_name, "outbox_launcher_main", sizeof(worker.bgw_function_name));
  strlcpy(worker.bgw_name, "outbox launcher", sizeof(worker.bgw_name));
  strlcpy(worker.bgw_type, "outbox launcher", sizeof(worker.bgw_type));
  RegisterBackgroundWorker(&worker);
}

}  // namespace outbox::worker

extern "C" PGDLLEXPORT void outbox_launcher_main(Datum) {
  outbox::pg::Entry([] { outbox::worker::LauncherMain(); });
}
