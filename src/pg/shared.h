// Shared memory of the extension [P]: one small struct per thing, one comment per field. It holds nothing that must
// survive a restart and no pointer into any process. Exists only when the module is in shared_preload_libraries:
// every reader first asks Shared() and copes with nullptr.
//
// Locking: `lock` (an LWLock) guards finding, taking and freeing slots and all plain fields. Fields of atomic type are
// read and written without it: those are all that the commit callback of an emitting backend touches.
#pragma once

#include "base/destination_view.h"
#include "base/lane_view.h"
#include "pg/prelude.h"

extern "C" {
#include "port/atomics.h"
}

namespace outbox::pg {

// A process that crashed, or ended otherwise, just after each of its last starts is not started before `until`; 0: none
// is held back.
struct HeldBack {
  TimestampTz until;
  int crashes;  // in a row; 0: none
};

// As the launcher saw it last.
struct HeldProcesses {
  HeldBack keeper;
  HeldBack relay;  // the worker that waits longest
};

// Of commits that emitted, those that changed nothing else: see lone_emit.h.
struct LoneEmits {
  pg_atomic_uint64 count;
  pg_atomic_uint64 last_at;  // TimestampTz; 0: none
};

// Per database that has the extension, or in which a keeper is to find that out.
struct DatabaseSlot {
  Oid database;               // InvalidOid: free slot
  bool needs_discovery;       // the launcher should start a keeper to find out
  uint32 discovery_requests;  // +1 with each setting of needs_discovery, so that none is lost while one is handled
  bool active;                // the keeper saw the extension, adopted here: relay workers may run
  bool closed;                // it was active, and takes no connections now: nothing is started in it
  int relay_demand;           // how many relay workers the keeper wants (0: no routes, or a silent copy)
  int relays_allowed;         // how many of them the launcher lets run at once
  HeldProcesses held;         // processes that crash or fail at every start
  int barred_by;              // pid of a backend that drops, moves or copies the database; 0: none
  pg_atomic_uint64 clock;     // last reading of the hybrid clock, Unix microseconds; 0: none since server start
  pg_atomic_uint64
      clock_ceiling;  // what outbox_internal.clock_ceiling holds; 0: not read since server start; 1: look again
  pg_atomic_uint64 clock_at_start;     // what it held when it was read first; 0: nothing, or not read yet
  pg_atomic_uint64 held_ceiling;       // while the clock is held: sessions that may go on read up to here; 0: not held
  pg_atomic_uint64 clock_resets;       // +1 each time that the clock was put back
  pg_atomic_uint32 ceiling_falls;      // it was: the next ceiling is stored even if it is lower
  pg_atomic_uint64 barrier;            // last barrier asked for (wait_for, wait_until_idle); see LaneSlot
  pg_atomic_uint64 barrier_done;       // all lanes had reached it when one worker had all of them
  pg_atomic_uint64 config_generation;  // +1 at commit of any change of routes, servers or user mappings
  pg_atomic_uint64 parked_generation;  // +1 at commit of any change that operators made to parked events
  pg_atomic_uint64 erasures;           // +1 at commit of any erasing of undelivered events: see NoteErasure()
  pg_atomic_uint64 replays_left;       // +1 when the call that copies a replay ends early
  pg_atomic_uint64 emitting_commits;   // commits that emitted, since server start
  LoneEmits lone_emits;
  pg_atomic_uint64 maker_started_at;  // TimestampTz: by an emitter that found no day table; 0: none, or it did its work
  pg_atomic_uint64 spare_told_at;     // TimestampTz: when the server log was told that events go to the spare table
};

enum class WorkerKind : uint8 { kKeeper = 1, kRelay = 2 };
enum class WorkerState : uint8 { kFree = 0, kStarting = 1, kRunning = 2 };

struct WorkerSlot {
  WorkerState state;
  WorkerKind kind;
  Oid database;
  int ordinal;                    // of the relay workers of one database: 0, 1, ...
  pid_t pid;                      // 0 until running
  int proc_number;                // index into ProcGlobal->allProcs: where the latch is
  uint64 incarnation;             // random, never 0; what outbox_internal.lane.owner holds
  TimestampTz since;              // when the slot was taken
  int64 shares_since;             // a relay worker takes its part of the lanes, monotonic microseconds; 0: it does not
  ErrorText trouble;              // of a relay worker: what its own work fails of, such as the claim of a lane
  uint64 terminated;              // incarnation of the last one here that got a SIGTERM; also when the slot is free
  uint64 left;                    // likewise of the last one here that found nothing to do, and left
  pg_atomic_uint32 pending;       // set 0 -> 1 by a commit that emitted (then the latch is set), cleared before reading
  pg_atomic_uint32 stop;          // the worker is asked to leave in good order
  pg_atomic_uint32 lanes_freed;   // of a relay worker: lanes are to be shared out again, see NoteLanesFreed()
  pg_atomic_uint32 quiet;         // it has nothing to do, and may be asked to let another process run
  pg_atomic_uint64 barrier_done;  // of a relay worker: all its lanes have reached it, also those without a LaneSlot
  pg_atomic_uint64 turn;          // when it last ended a turn, monotonic microseconds; 0: it did not yet
};

// What one lane is doing: written by its owner a few times a second and at changes, read by views. Only for looking.
struct LaneSlot {
  Oid database;              // InvalidOid: free slot
  uint64 owner;              // incarnation; 0: none
  pg_atomic_uint64 barrier;  // all events committed before this barrier was asked for are delivered or dead
  LaneView view;
};

// What one relay worker knows of one destination: written by the worker, read by views.
struct DestinationSlot {
  Oid database;     // InvalidOid: free slot
  Oid server;       // foreign server; a small number: there is none of that name
  NameData name;    // of the server
  uint64 owner;     // incarnation
  char warned[32];  // code of the warning of its sink that is there, by this worker; "": none
  DestinationView view;
};

// Trouble of a destination or a topic, as one relay worker sees it: so that one of them tells it
// (worker/trouble_board.h).
struct TroubleSlot {
  Oid database;      // InvalidOid: free
  uint64 owner;      // incarnation
  uint64 trouble;    // which one
  bool over;         // for this worker
  bool ended;        // for all that had it: what comes is another trouble
  int64 said_at[8];  // by ErrorClass: when this worker told of it, monotonic microseconds; 0: it did not
  char code[32];     // of the error, as told last
};

// What waits for a lane, or a side lane, that stands where it is while the log grows: as far as the keeper has looked
// through the log for it. Written by the keeper, read with what sessions ask for (admin/lookup/standing_lanes.h).
struct StandingSlot {
  Oid database;     // InvalidOid: free
  uint64 erasures;  // of the database: others make it worthless, and so does another position
  uint64 wants;     // LaneRecord.wants: the same
  LaneId lane;
  uint64 stood_xmin;  // the lane's position
  uint64 stood_xmax;
  int64 stood_done_to;
  SnapshotView looked_to;
  int64 waiting;
  int64 oldest;  // created_at of the first of them; 0: none
};

// What a procedure that takes long has done so far: written by the session that runs it, read by
// outbox.pg_stat_progress_outbox.
struct ProgressSlot {
  pg_atomic_uint32 pid;  // 0: free. Set under the lock, cleared by the session without it
  Oid database;
  Oid role;  // who called: of the session
  TimestampTz since;
  int64 number;       // of a replay; 0: none
  char command[16];   // replay, redrive, discard
  char subject[128];  // the route; "": all routes
  pg_atomic_uint64 done;
  pg_atomic_uint64 total;
};

// See pg/wall.h. Offsets are wall clock minus boot clock, times those of the boot clock, all in microseconds.
struct WallState {
  int64 started_at;                // when the server started
  pg_atomic_uint64 offset;         // believed
  pg_atomic_uint64 settled_from;   // since when it has been so
  pg_atomic_uint64 jumped_offset;  // where the wall clock is instead
  pg_atomic_uint64 jumped_at;      // since when; 0: it is not
};

inline constexpr uint32 kAllPlaces = PG_UINT32_MAX;

struct SharedState {
  LWLock* lock;
  // +1 after each write into a spare table, of any database, before its transaction can commit. Kept for the server and
  // not in a database's slot, which may belong to another database when the counts are compared.
  pg_atomic_uint64 spare_writes;
  pg_atomic_uint64
      used_xid;  // one that the server is to hand out, and a row has: log/progress/used_xids.h; 0: none found
  WallState wall;
  pid_t launcher_pid;
  int launcher_proc;                  // -1: not running
  pg_atomic_uint64 launcher_turn;     // when it last ended a turn, monotonic microseconds; 0: it did not yet
  pg_atomic_uint32 launcher_pending;  // it should look at pg_database
  pg_atomic_uint32 in_turn;           // there is not room for all: databases without a process are to wake the launcher
  pg_atomic_uint32 turn_pending;      // one of them has, since the launcher last shared out the places
  pg_atomic_uint32 places_found;      // see PlacesFound() in pg/process_slots.h
  TimestampTz
      launcher_delayed_until;  // it crashed at each of its last starts and waits until then; 0: it does not wait
  bool discovery_lost;         // a discovery was asked for when all database slots were taken
  int max_databases;
  int max_workers;
  int max_lanes;
  int max_destinations;
  int max_progress;
  int max_troubles;
  int workers_used;  // worker slots at or above this index were never taken; only grows
  // followed by the seven arrays
};

// nullptr when the module was not preloaded.
SharedState* Shared();
DatabaseSlot* Databases();
WorkerSlot* Workers();
LaneSlot* Lanes();
DestinationSlot* Destinations();
ProgressSlot* ProgressSlots();
StandingSlot* StandingSlots();  // max_lanes of them
TroubleSlot* Troubles();

// Called from _PG_init while shared_preload_libraries are loaded: installs the shared memory hooks.
void InstallSharedMemoryHooks();

// This database's slot, made if missing; nullptr when not preloaded or all slots are taken. Takes the lock.
DatabaseSlot* FindDatabaseSlot(Oid database, bool create);

// Number of this process in ProcGlobal->allProcs.
int MyProcIndex();
// Sets the latch of a process. Harmless if the process has gone and the entry belongs to another one.
void WakeProc(int proc_index);
void WakeLauncher();
// Tells the launcher that something has changed by which it shares out slots, while processes run in turn. As cheap as
// a read if they do not, or if the launcher was told already.
void WakeLauncherForTurn();
// Wakes the keeper and relay workers of a database; without `force` only those whose pending flag was clear.
// Neither allocates nor raises: the commit callback calls it.
void WakeWorkers(Oid database, bool force);
// The number of a new barrier, for which all workers of this database, whose slot it is, look at what is committed now.
uint64 AskForBarrier(DatabaseSlot* slot);

}  // namespace outbox::pg
