// One relay worker's engine with all it needs [P]: configuration, lanes, sinks. C++ code that owns things; Postgres
// errors come out of it as pg::PgError. README.md beside draws its states.
#pragma once

#include <map>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "log/window/shared_window.h"
#include "parked/erasures.h"
#include "parked/nothing_parked.h"
#include "pg/wait.h"
#include "relay/engine.h"
#include "worker/chore.h"
#include "worker/complaints.h"
#include "worker/installation_watch.h"
#include "worker/lane_share.h"
#include "worker/relay_config.h"
#include "worker/relay_publish.h"
#include "worker/relay_self.h"

namespace outbox::worker {

class Relay {
 public:
  // `complaints`: outlives it.
  Relay(const RelaySelf& self, Complaints* complaints);
  ~Relay();
  Relay(const Relay&) = delete;
  Relay& operator=(const Relay&) = delete;

  // One round: configuration, lanes, engine, shared memory. A part that cannot be done now (a table of outbox is
  // locked) is left for later and does not keep the others: only errors that are not from Postgres are thrown.
  void Turn();
  // Where an error has come out of the last turn: the lane that it was of, and the name of its route; false: of none.
  bool Interrupted(LaneId* lane, const char** route) const;

  // Stops reading, waits for what is in flight for at most `milliseconds`, saves progress. Keep calling Turn(). May be
  // called again with less time.
  void BeginStop(int milliseconds);
  // Whether nothing is left to do: all lanes are given back.
  bool stopped() const;
  // The extension has gone, or must not publish here any more: leave at once, without reading the tables again.
  bool uprooted() const { return installation_.gone(); }
  // The same, but looks first where a transaction has failed as it does when the extension has gone. Throws nothing.
  bool FoundUprooted();

  // Settings were reloaded.
  void SettingsChanged();

  // How to wait before the next turn.
  const std::vector<pg::WaitDescriptor>& descriptors() const { return wait_.descriptors; }
  long timeout_ms() const { return wait_.timeout_ms; }
  // Microseconds from the beginning of this turn to that of the next, where it may wait.
  int64_t turns_apart() { return engine_->TurnsApart(); }
  // A short phrase for pg_stat_activity, and whether there is anything going on.
  const std::string& activity() const { return publisher_.activity(); }
  bool busy() const { return publisher_.busy(); }

 private:
  struct Chores {
    Chore look{"outbox relay, installation"};
    Chore reload{"outbox relay, configuration"};
    Chore balance{"outbox relay, sharing of lanes"};
    Chore give_back{"outbox relay, lanes to give back"};
  };
  struct GivenBack {  // left the engine, not yet released in the table
    std::vector<LaneId> lanes;
    std::set<LaneId> unanswered;  // of these, and perhaps of some that were
    bool told = true;             // the others have heard of all of them
    int64_t next_at = 0;          // somebody holds the rows of those that are left
  };
  struct PlacesSought {  // see MakeUseOfPlaces
    int64_t next_at = relay::kNever;
    int64_t until = 0;
  };
  struct Wait {
    std::vector<sink::WaitSpec> specs;
    std::vector<pg::WaitDescriptor> descriptors;
    long timeout_ms = 0;
  };

  void Look();
  void Reload();
  void ApplyDestinations(const RelayConfig& config);
  void DropUnusedDestinations();
  void ApplyLanes(const RelayConfig& config);
  void MakeUseOfPlaces();
  void PutDown();
  bool MayLoad() const;
  bool MayShare() const;
  void ShareLanes();
  bool Add(const LaneId& id);
  void LetGo(const LaneId& id, OwnedLane* lane);
  void TakeGone();
  void GiveBack();
  void ShowTrouble();
  void Publish();
  void PlanWait(int64_t deadline);

  const RelaySelf self_;
  Complaints* const complaints_;
  std::unique_ptr<relay::Clock> clock_;
  InstallationWatch installation_;
  LaneShare share_;
  RelayPublisher publisher_;              // outlives the engine, whose lanes count dead letters in it
  log::SharedWindows windows_;            // the same; they read together
  parked::NothingParked nothing_parked_;  // the same
  parked::Erasures erasures_;             // the same
  std::unique_ptr<relay::Engine> engine_;

  RelayConfig config_;
  SinkLimits limits_;                                    // that the sinks were made with
  std::map<std::string, relay::DestinationId> made_up_;  // see LoadRelayConfig
  uint64_t generation_ = 0;                              // of the configuration that is loaded; 0: none
  uint64_t config_reads_ = 0;                            // how often it was loaded
  uint64_t parked_generation_ = 0;                       // as of the last turn
  OwnedLanes lanes_;
  GivenBack given_back_;
  int64_t drop_unused_at_ = relay::kNever;
  PlacesSought places_;
  bool stopping_ = false;
  struct {
    int64_t at = 0;              // not before, monotonic microseconds
    int64_t for_reading_at = 0;  // the same, where no more has happened than that lanes have read on
    bool changed = true;         // more has, and is not published yet
    bool done = false;           // in this turn
  } publishing_;

  Chores chores_;
  Wait wait_;
};

// Returns whether a foreign server or user mapping may have changed since the last call. The first call registers the
// callbacks.
bool ServersMayHaveChanged();

}  // namespace outbox::worker
