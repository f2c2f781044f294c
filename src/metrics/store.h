// Figures in shared memory [P]: counters and histograms, by database, by route and destination, by worker. Those who
// know add to them, with one atomic addition and no lock; readers take no lock either, and may see an event in one
// figure and not yet in the next. They are written to a file when the server stops, in whatever mode, and read at its
// start; after a crash they begin at zero, and their reset time says so. Exists only when the module is preloaded.
//
// Plain code, except where said. The lock guards finding and taking slots only.
#pragma once

#include <atomic>
#include <cstdint>

#include "base/commit_times.h"
#include "base/route_figures.h"
#include "pg/shared.h"

namespace outbox::metrics {

// What sessions emit, spread over several cache lines.
struct alignas(64) EmittedStripe {
  Counter transactions;  // that committed, and had emitted
  Counter events;
  Counter bytes;     // of their payloads
  Counter repeated;  // calls whose dedupe_key had emitted before
};

struct Emitted {
  uint64 transactions = 0;
  uint64 events = 0;
  uint64 bytes = 0;
  uint64 repeated = 0;
};

// Of a destination.
struct DestinationCounters {
  Counter trips;   // of its breaker
  Counter deaths;  // of a sink process, unasked
  // Since when it is in trouble, in Unix microseconds; 0: it is well. Not set to zero with the others, and meaningless
  // where several destinations share this.
  Counter down_since;

  template <typename Fn>
  void ForEach(Fn&& fn) {
    fn(&trips);
    fn(&deaths);
  }
};

struct DatabaseFigures {
  static constexpr int kStripes = 8;

  std::atomic<Oid> database;      // InvalidOid: free
  std::atomic<int64_t> reset_at;  // Unix microseconds
  EmittedStripe emitted[kStripes];
  Counter restarts[2];  // of keepers and of relay workers that ended unasked
  // What routes and destinations count that found no slot of their own.
  RouteFigures other;
  DestinationCounters other_destinations;

  Emitted TotalEmitted() const;
  template <typename Fn>
  void ForEach(Fn&& fn) {
    for (EmittedStripe& stripe : emitted) {
      fn(&stripe.transactions);
      fn(&stripe.events);
      fn(&stripe.bytes);
      fn(&stripe.repeated);
    }
    fn(&restarts[0]);
    fn(&restarts[1]);
    other.ForEach(fn);
    other_destinations.ForEach(fn);
  }
};

struct RouteSlot {
  std::atomic<Oid> database;  // InvalidOid: free
  Oid server;
  int64_t route_id;
  RouteFigures figures;
};

struct DestinationFigures {
  std::atomic<Oid> database;  // InvalidOid: free
  Oid server;
  DestinationCounters figures;
};

// Figures of the process that has the worker slot of the same number; not kept over a restart.
struct WorkerFigures {
  std::atomic<uint64> incarnation;
  std::atomic<int64_t> last_turn;  // Unix microseconds
  Counter turns;
  Counter wakes;  // turns that a commit asked for
};

// What a transaction emitted that was prepared: counted when it commits.
struct PreparedEmit {
  std::atomic<uint64> xid;  // 0: free
  Oid database;
  uint64 events;
  uint64 bytes;
};

struct Store {
  LWLock* lock;
  int max_databases;
  int max_routes;
  int max_destinations;
  int max_workers;
  int max_prepared;
  // The server's log was told that there are not slots enough.
  std::atomic<uint32> told_routes;
  std::atomic<uint32> told_destinations;
  int64 started_at;  // Unix microseconds: since when figures that nothing has reset are counted
  CommitTimes commits;
  // followed by the five arrays
};

// nullptr when the module was not preloaded.
Store* Figures();
DatabaseFigures* DatabaseSlots();
RouteSlot* RouteSlots();
DestinationFigures* DestinationSlots();
WorkerFigures* WorkerSlots();
// Of the worker with that incarnation; nullptr: it has not ended a turn yet. Needs the figures.
const WorkerFigures* FindWorker(uint64 incarnation);
PreparedEmit* PreparedSlots();

// Once, from _PG_init, while shared_preload_libraries are loaded; after pg::InstallSharedMemoryHooks().
void InstallSharedMemoryHooks();

// A database that is gone, or has no outbox any more. Under the lock of pg::Shared(), or in the postmaster alone.
bool IsGone(Oid database);

// The figures of this database; nullptr when there is none, and when all slots are taken.
DatabaseFigures* FindDatabase(Oid database, bool create);

// Which routes of the database there are, ascending: slots of others may be taken when there are no free ones.
struct LiveRoutes {
  const int64_t* ids;
  size_t count;
};
// The slot of a route at a destination, taken if need be. Where there is none left: what the database counts as
// `other`, which is said once in the server's log. nullptr without preload. Good as long as the caller shows a lane of
// the route in pg::Lanes().
RouteFigures* TakeRoute(Oid database, int64_t route_id, Oid server, const LiveRoutes& live);
// How many of the slots it could take for others.
int FreeRouteSlots(Oid database, const LiveRoutes& live);
// TakeRoute() of a destination, while the caller shows it in pg::Destinations().
DestinationCounters* TakeDestination(Oid database, Oid server);
// Whether they have slots of their own.
bool HasSlot(Oid database, int64_t route_id, Oid server);
bool HasSlot(Oid database, Oid server);

// A turn of this worker process has ended.
void NoteTurn(bool woken);
// A worker ended that should have gone on.
void NoteRestart(Oid database, pg::WorkerKind kind);

// Sets all figures of one database to zero.
void Reset(Oid database);

}  // namespace outbox::metrics
