// What a relay worker publishes about itself [P]: lanes, side lanes and destinations in shared memory, the barrier that
// all its lanes have reached, trouble in the server's log, a phrase in pg_stat_activity. Throws pg::PgError.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "metrics/store.h"
#include "parked/dead_letter_count.h"
#include "relay/engine.h"
#include "worker/cluster_watch.h"
#include "worker/complaints.h"
#include "worker/incidents.h"
#include "worker/lane_board.h"
#include "worker/outages.h"
#include "worker/relay_config.h"
#include "worker/relay_self.h"

namespace outbox::worker {

// The worker after a turn, as far as it is shown.
struct RelayState {
  const relay::Engine& engine;
  const OwnedLanes& lanes;
  const RelayConfig& config;
  uint64_t generation = 0;   // of `config`; 0: none is loaded
  int lanes_everywhere = 0;  // of all routes
  bool stopping = false;
  bool all_given_back = true;  // no lane has left the engine and is still this worker's in the table
};

class RelayPublisher {
 public:
  // `clock` outlives it.
  RelayPublisher(const RelaySelf& self, relay::Clock* clock)
      : self_(self), clock_(clock), incidents_(TroubleBoard(self.database, self.incarnation)) {}

  // Returns false if a lane has trouble with its tables.
  bool Publish(const RelayState& state);

  // Where the parked logs of all lanes count dead letters, to be reported here.
  parked::DeadLetters* dead_letters() { return &dead_letters_; }

  // A short phrase for pg_stat_activity, and whether there is anything going on.
  const std::string& activity() const { return activity_; }
  bool busy() const { return busy_; }

 private:
  struct ShownLane {
    pg::LaneSlot* slot = nullptr;           // nullptr: all are taken
    LaneState state = LaneState::kUnknown;  // as last written to the slot
    uint32_t server = 0;                    // the same
    uint64_t barrier = 0;
    int64_t written_at = 0;
    int64_t asked_at = 0;  // for a slot
    // Unix microseconds: see LaneView. It is behind until what it had read when it caught up is acknowledged or parked.
    int64_t behind_since = 0;
    uint64_t behind_to = 0;       // so many events read
    bool backlog = false;         // something waited since: it began then
    uint64_t delivered_then = 0;  // by the route, when that was seen
    // The same of its parked events, which have been going since.
    int64_t sending_since = 0;
    uint64_t delivered_before = 0;
    bool seen = false;  // in this turn
  };
  struct ShownDestination {
    pg::DestinationSlot* slot = nullptr;
    BreakerState state = BreakerState::kClosed;
    metrics::DestinationCounters* figures = nullptr;  // nullptr: there was no room for the database
    uint64_t renewals = 0;
    int64_t trips = 0;   // as far as counted in the figures
    int64_t deaths = 0;  // the same
    int64_t taken_at = 0;
    int64_t asked_at = 0;  // for a place
    int64_t written_at = 0;
  };

  // What the server's log was told of lanes in trouble with their tables; one stands for all. Microseconds, monotonic.
  struct Complaint {
    LaneId lane;
    std::string route;
    Complaints said;
    bool told = false;  // and not yet that they work again, or that the lane left
    Outages outages;
  };

  void ShowLane(const relay::LaneStatus& status, int64_t now, ShownLane* lane);
  void TakeLanePlaces(int64_t now);
  void FollowBacklog(const relay::LaneStatus& status, int64_t wall, ShownLane* lane) const;
  void FollowParked(const relay::LaneStatus& status, int64_t wall, ShownLane* lane) const;
  void FreeLanesThatLeft();
  void ShowDestinations(const RelayState& state, int64_t now);
  void TakePlaces(uint32_t server, const std::string& name, int64_t now, ShownDestination* shown) const;
  void FollowOutage(const ShownDestination& shown, int64_t now, relay::DestinationStatus* status) const;
  void ReportDeadLetters(const RelayConfig& config, int64_t now);
  void ComplainOf(const OwnedLane& lane, const relay::LaneStatus& status);
  void FollowComplaint(bool well, bool followed, int64_t now);
  void SayLaneLeft();
  void SayLanesWork(int64_t now);
  void ShowBarrier(const RelayState& state);
  void Describe(const RelayState& state);

  const RelaySelf self_;
  relay::Clock* const clock_;
  parked::DeadLetters dead_letters_;
  Incidents incidents_;
  ClusterWatch clusters_;
  std::map<LaneId, ShownLane> lanes_;  // and side lanes
  std::map<relay::DestinationId, ShownDestination> destinations_;
  Complaint complaint_;
  std::string activity_;
  bool busy_ = false;
  // What the engine reported in this turn.
  std::vector<relay::LaneStatus> lane_statuses_;
  std::vector<const relay::LaneStatus*> without_slot_;  // of lanes that ask for one; scratch
  std::vector<TakenSlot> taken_;                        // theirs; scratch
  std::vector<const OwnedLane*> owned_;                 // of each of them, or nullptr; scratch
  std::vector<relay::DestinationStatus> destination_statuses_;
};

}  // namespace outbox::worker
