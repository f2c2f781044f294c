// One relay worker's engine with all it needs [P]: configuration, lanes, sinks. C++ code that owns things; Postgres
// errors come out of it as pg::PgError. README.md beside draws its states.
#pragma once

#include <exception>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "base/backoff.h"
#include "base/lane_id.h"
#include "parked/dead_letters.h"
#include "pg/wait.h"
#include "relay/engine.h"
#include "worker/incidents.h"
#include "worker/lane_board.h"
#include "worker/relay_config.h"

namespace outbox::worker {

class Relay {
 public:
  Relay(Oid database, pg::DatabaseSlot* database_slot, pg::WorkerSlot* worker_slot);
  ~Relay();
  Relay(const Relay&) = delete;
  Relay& operator=(const Relay&) = delete;

  // One round: configuration, lanes, engine, shared memory. A part that cannot be done now (a table of outbox is
  // locked) is left for later and does not keep the others: only errors that are not from Postgres are thrown.
  void Turn();
  // Throws the first error of the last turn, if there was one, for the server's log.
  void ThrowTrouble();

  // Stops reading, waits for what is in flight for at most `milliseconds`, saves progress. Keep calling Turn(). May be
  // called again with less time.
  void BeginStop(int milliseconds);
  // Whether nothing is left to do: all lanes are given back.
  bool stopped() const;
  // The extension has gone, or must not publish here any more: leave at once, without reading the tables again.
  bool uprooted() const { return uprooted_; }

  // Settings were reloaded.
  void SettingsChanged();

  // How to wait before the next turn.
  const std::vector<pg::WaitDescriptor>& descriptors() const { return descriptors_; }
  long timeout_ms() const { return timeout_ms_; }
  // A short phrase for pg_stat_activity, and whether there is anything going on.
  const std::string& activity() const { return activity_; }
  bool busy() const { return busy_; }

 private:
  struct OwnedLane {
    log::Route route;
    relay::DestinationId destination = 0;
    const sink::SinkKind* kind = nullptr;  // of the destination, as the route was compiled for it
    pg::LaneSlot* slot = nullptr;
    std::string state;  // as last written to the slot
    uint64_t barrier = 0;
    int64_t written_at = 0;
    bool leaving = false;
  };
  // What is shown of a side lane; the engine makes and drops them by itself.
  struct ShownSide {
    pg::LaneSlot* slot = nullptr;
    std::string state;
    int64_t written_at = 0;
    bool seen = false;
  };
  struct ShownDestination {
    pg::DestinationSlot* slot = nullptr;
    std::string state;
    uint64_t renewals = 0;
    int64_t written_at = 0;
  };
  // A part of the turn that works on tables.
  struct Chore {
    Backoff backoff{100'000, 1'000'000};
    int64_t next_try = 0;  // monotonic microseconds
  };
  using LaneMap = std::map<LaneId, OwnedLane>;

  // Returns false if `work` failed, just now or so recently that it was not called again.
  template <typename Work>
  bool Do(Chore* chore, Work&& work);
  void CheckInstallation();
  void Reload();
  void ApplyDestinations(const RelayConfig& config);
  void DropUnusedDestinations();
  void ApplyLanes(const RelayConfig& config);
  void Rebalance();
  int FairShare(int all);
  bool Add(const LaneId& id);
  void LetGo(const LaneId& id, OwnedLane* lane);
  void TakeGone();
  void GiveBack();
  void Publish();
  void PublishSide(const relay::LaneStatus& status, int64_t now);
  void ComplainOf(const OwnedLane& lane, const relay::LaneStatus& status);
  void PublishDestinations(int64_t now);
  void ReportDeadLetters(int64_t now);
  void PublishBarrier();
  void PlanWait(int64_t deadline);
  void Describe(const std::vector<relay::LaneStatus>& lanes);

  const Oid database_;
  pg::DatabaseSlot* const database_slot_;
  pg::WorkerSlot* const worker_slot_;
  const uint64_t incarnation_;
  std::unique_ptr<relay::Clock> clock_;
  LaneMap lanes_;
  parked::DeadLetters dead_letters_;
  Incidents incidents_;
  std::map<LaneId, ShownSide> sides_;
  std::map<relay::DestinationId, ShownDestination> shown_;
  std::unique_ptr<relay::Engine> engine_;

  RelayConfig config_;
  SinkLimits limits_;                                    // that the sinks were made with
  std::map<std::string, relay::DestinationId> made_up_;  // see LoadRelayConfig
  uint64_t generation_ = 0;                              // of the configuration that is loaded; 0: none
  uint64_t parked_generation_ = 0;                       // as of the last turn
  uint32_t owner_ = 0;                                   // of the extension
  bool stopping_ = false;
  bool uprooted_ = false;
  bool troubled_ = false;      // a lane reported an error: check whether the extension is still there
  int64_t complained_at_ = 0;  // monotonic microseconds, in the server's log
  std::string complained_code_;
  int64_t next_installation_check_ = 0;  // monotonic microseconds, all of these
  int64_t next_balance_ = 0;
  int64_t drop_unused_at_ = relay::kNever;
  int64_t workers_since_ = 0;  // when their number last changed
  int workers_ = -1;
  int lanes_everywhere_ = 0;        // of all routes, as of the last time lanes were shared out
  std::vector<LaneId> given_back_;  // left the engine in good order, not yet released in the table
  Chore installation_;
  Chore reload_;
  Chore balance_;
  Chore give_back_;
  std::exception_ptr trouble_;  // of this turn

  std::vector<pg::WaitDescriptor> descriptors_;
  std::vector<sink::WaitSpec> waits_;
  std::vector<relay::LaneStatus> statuses_;
  std::vector<relay::DestinationStatus> destinations_;
  std::vector<relay::GoneLane> gone_;
  long timeout_ms_ = 0;
  std::string activity_;
  bool busy_ = false;
};

// Returns whether a foreign server or user mapping may have changed since the last call. The first call registers the
// callbacks.
bool ServersMayHaveChanged();

}  // namespace outbox::worker
