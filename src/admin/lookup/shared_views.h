// Copies of shared memory, for views and for functions that wait [P]. Everything is empty where the module is not
// preloaded.
#pragma once

#include <map>
#include <set>
#include <utility>
#include <vector>

#include "admin/common/query.h"
#include "pg/shared.h"

namespace outbox::admin {

struct WorkerView {
  pg::WorkerKind kind = pg::WorkerKind::kRelay;
  bool running = false;
  bool stopping = false;
  Oid database = InvalidOid;
  int ordinal = 0;
  int pid = 0;
  uint64 incarnation = 0;
  TimestampTz since = 0;
  uint64 barrier = 0;      // the barrier that all its lanes have reached
  ErrorText trouble;       // of a relay worker: what its own work fails of
  int64 turn = 0;          // see pg::LastTurn()
  int64 stands_since = 0;  // see StandsSince()
};
// NULL: there is none by that number. Throws PgError.
Cell DatabaseName(Oid database);
// The relay workers of this database that run, and are not about to stop.
int CountRelays(const std::vector<WorkerView>& workers);
// Why lanes of this database that are free are not claimed: what one of its relay workers fails of; nullptr: none does.
const ErrorText* WhyUnclaimed(const std::vector<WorkerView>& workers);

struct OwnedLaneView : LaneView {
  uint64 owner = 0;
  bool owned = false;  // the owner is alive
  uint64 barrier = 0;
  int64 turn = 0;          // of its owner, see pg::LastTurn()
  int64 stands_since = 0;  // of its owner, see StandsSince(): unless 0, what came later is not told here
};

// Whether a live worker sends what it has of the route to that server, and has asked for the places that both need. A
// worker that has lanes of a route which goes elsewhere now has not: it sends to the former server until it has given
// them back.
bool SendsTo(const std::vector<OwnedLaneView>& lanes, int64 route_id, Oid server);

// State of a destination or a lane that a relay worker has and no place to show in: outbox.max_destinations, max_lanes.
inline constexpr const char* kNotShown = "not shown";

// What one relay worker knows of a destination.
struct OwnedDestinationView : DestinationView {
  Oid server = InvalidOid;
  NameData name = {};
  bool owned = false;
};

// Throw PgError or bad_alloc, with no lock held.
std::vector<WorkerView> ReadWorkerViews();  // of all databases
std::vector<OwnedLaneView> ReadLaneViews(Oid database);
std::vector<OwnedDestinationView> ReadDestinationViews(Oid database);
std::vector<pg::StandingSlot> ReadStanding(Oid database);

// What one answer shows of a database, as it was at one moment.
struct SharedView {
  int relays_wanted = 0;
  bool no_slot = false;             // it has no slot, and others have all
  uint64 clock = 0;                 // last reading, Unix microseconds; 0: none
  std::vector<WorkerView> workers;  // of all databases
  std::vector<OwnedLaneView> lanes;
  std::vector<OwnedDestinationView> destinations;
  std::vector<pg::StandingSlot> standing;
};
// All of it at once. False, and nothing is read, where the lock was not to be had for 20 ms: somebody holds it who was
// stopped, since nobody keeps it for longer than it takes to copy an entry. Throws as the others do.
bool TryReadSharedView(Oid database, SharedView* view);

// Status of lanes, and of their side lanes by number, as last published. A live owner's is preferred: a worker that
// died may have left its slot behind. Good as long as the views; one for all questions to them.
class LaneViews {
 public:
  explicit LaneViews(const std::vector<OwnedLaneView>& views);
  // nullptr: no worker owns it.
  const OwnedLaneView* Find(int64 route_id, int lane, int side = 0) const;

 private:
  std::map<LaneId, const OwnedLaneView*> views_;
};

// Lanes that a live relay worker of this database has, and that are not among its views: by route and number. There was
// no place for them, or the worker has them only since now. Throws PgError.
std::set<std::pair<int64, int>> LanesNotShown(Access access, const LaneViews& views);
// Whether there is a place to show a lane in: then those lanes have one within a second or two. Where the module is
// preloaded. Throws PgError.
bool LanePlaceIsFree();

// Raises 55000 with the configuration line if the module is not preloaded.
void RequirePreload();

}  // namespace outbox::admin
