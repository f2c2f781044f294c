// The relay engine [-]: reads lanes, publishes in order, acknowledges, backs off, parks. Knows nothing of Postgres,
// Kafka or Redis: log, clock and sinks are handed to it. README.md in this folder draws the state machine.
//
// Single-threaded and never blocking (apart from the LaneLog's short transactions): the owner calls Turn() whenever a
// descriptor of AppendWaits() is ready, a commit woke it, or the deadline has come. No call keeps a transaction open.
//
// The worker's loop:
//
//   TurnInput in{.woken = pending, .barrier = newest barrier};   // both read before Turn
//   int64_t deadline = engine.Turn(in);                          // monotonic microseconds, of Clock::NowMicros()
//   engine.TakeGone(&gone);                                      // lanes to give back in the table, or lost
//   engine.Lanes(&lanes);                                        // for shared memory
//   engine.AppendWaits(&waits);                                  // descriptors; each may have an earlier deadline
//   wait for latch, descriptors, min(deadlines), 200 ms
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "base/lane_id.h"
#include "format/route_spec.h"
#include "relay/common/engine_clock.h"
#include "relay/common/engine_types.h"
#include "relay/common/past_ends.h"
#include "relay/common/server_runs.h"
#include "sink/sink.h"

namespace outbox::relay {

class Engine {
 public:
  // `clock` outlives the engine.
  Engine(Clock* clock, const EngineOptions& options);
  ~Engine();  // frees everything at once: no saving, no waiting, no call of a LaneLog
  Engine(const Engine&) = delete;
  Engine& operator=(const Engine&) = delete;

  void SetOptions(const EngineOptions& options);

  // A destination that the engine has already is replaced: no more is submitted to the old sink, what is in flight is
  // waited for until `drain_deadline` (at once if it is down), what is left then counts as aborted and is sent again to
  // the new one, in order. `servers`: of a destination that can lose what it has acknowledged; nullptr: any server that
  // answers is taken for the same one. When the destination is new: `gather_micros`: what its kind says (sink/kind.h);
  // `past`: what it had acknowledged before.
  void SetDestination(DestinationId id, SinkFactory factory, int64_t drain_deadline,
                      std::unique_ptr<ServerRuns> servers = nullptr, int64_t gather_micros = 0, PastEnds past = {});
  // Releases its lanes (they come out of TakeGone), then closes the sink.
  void RemoveDestination(DestinationId id, int64_t deadline);
  bool HasDestination(DestinationId id) const;

  // Returns false if the engine has that lane already or the destination is missing (then nothing happened, and `logs`
  // are freed).
  bool AddLane(const LaneId& id, std::shared_ptr<const format::RouteSpec> spec, LaneLogs logs,
               DestinationId destination);
  // Events submitted from now on (also again) take the new topic and key template, the new policy and pauses. What is
  // read is the filter's affair: where patterns, lanes or on_failure changed, release the lane and add it again.
  void UpdateLane(const LaneId& id, std::shared_ptr<const format::RouteSpec> spec);
  // Stops reading and submitting, waits for what is in flight until `deadline`, saves progress, lets go.
  void ReleaseLane(const LaneId& id, int64_t deadline);
  bool HasLane(const LaneId& id) const;
  size_t lane_count() const;
  // Releases every lane. Keep calling Turn() until stopped().
  void Stop(int64_t deadline);
  bool stopped() const { return stopping_ && lane_count() == 0; }

  // One round of everything that can be done now. Returns when it wants to be called again at the latest: NowMicros()
  // or less when work is left, kNever when only a wake or a descriptor can bring news.
  int64_t Turn(const TurnInput& input);
  // Where an exception has ended the last turn: the lane that was being stepped; nullptr: none.
  const LaneId* Interrupted() const;
  // How far after the beginning of that turn the next one should begin, where no work is left: so that under load it
  // finds several records. The least that a destination wants to which records flow. See TurnSpacing. Once a turn.
  int64_t TurnsApart();
  // A lane holds an event that its spec refuses, until the routes have been read again.
  bool WantsConfig() const;
  void AppendWaits(std::vector<sink::WaitSpec>* waits);

  // Whether anything has happened since the last call but that lanes have read on past what is nothing for them: what
  // Lanes() and Destinations() say is to be seen soon.
  bool TakeChanged();
  // Replaces *gone with the lanes that have left since the last call. Side lanes leave before their lane and are not
  // named.
  void TakeGone(std::vector<GoneLane>* gone);
  // Replaces *lanes.
  void Lanes(std::vector<LaneStatus>* lanes) const;
  // Replaces *destinations.
  void Destinations(std::vector<DestinationStatus>* destinations) const;
  // For tests: replaces *lanes, in the order of Lanes().
  void Internals(std::vector<LaneInternals>* lanes) const;

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
  bool stopping_ = false;
};

}  // namespace outbox::relay
