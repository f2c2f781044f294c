// What goes into the engine and comes out of it [-]: options, what a lane is given, statuses.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <limits>
#include <memory>
#include <string>
#include <vector>

#include "base/destination_view.h"
#include "base/lane_id.h"
#include "base/lane_view.h"
#include "base/status.h"
#include "relay/common/lane_filter.h"
#include "relay/common/lane_log.h"
#include "relay/common/meter.h"
#include "relay/common/parked_log.h"
#include "relay/common/side_log.h"
#include "sink/sink.h"

namespace outbox::relay {

inline constexpr int64_t kNever = std::numeric_limits<int64_t>::max();

// The caller's number for a destination (the worker takes the foreign server's oid).
using DestinationId = uint32_t;

// Microseconds and bytes. May be changed between turns (a reload of settings).
struct EngineOptions {
  size_t max_inflight = size_t{64} << 20;  // per destination: events read and not yet acknowledged, all its lanes
  size_t chunk_bytes = size_t{512} << 10;  // largest chunk read at once; smaller where lanes share a small budget
  int64_t turn_micros = 20'000;            // Turn() returns after about this long even when work is left
  int64_t poll_micros = 1'000'000;         // an idle lane looks for a new window this often even without a wake
  int64_t durable_retry_micros = 5'000;    // between two CheckDurable of one lane
  int64_t save_micros = 250'000;           // least time between two SaveProgress of one lane
  int64_t save_moved_micros = 30'000'000;  // the same where it passed over events and nothing was delivered
  int64_t backoff_base_micros = 100'000;   // capped exponential, full jitter
  int64_t backoff_cap_micros = 30'000'000;
  size_t max_sides = 256;  // side lanes that a lane gives to topics in trouble; what is beyond them is parked
};

struct TurnInput {
  bool woken = false;    // something may have been committed since the last turn
  uint64_t barrier = 0;  // newest barrier asked for, read before the call
  bool parked = false;   // a session or another worker may have changed parked events since the last turn
  // How often the caller has read the routes, and told of them by UpdateLane(); counted when it is done, and begun
  // after WantsConfig() was true where it was. 0: specs are always as new as any event.
  uint64_t config_reads = 0;
  // Whether routes or pauses have changed since the turn began. What is read after that may have been committed after
  // it: then nothing more of the log is sent in this turn, and the caller reads them before the next. nullptr: never.
  std::function<bool()> config_changed = nullptr;
};

// Makes a sink for a destination, as it was configured when the factory was made. Never nullptr. It is called once for
// the lanes, and again whenever parked events are to be sent and the sink for those is not there (it is closed when it
// has had nothing to do for a while): a refusal among parked events, after which Kafka's producer is recreated, must
// not disturb the lanes.
using SinkFactory = std::function<std::unique_ptr<sink::Sink>()>;

// What a lane reads and writes. Freed when the lane leaves.
struct LaneLogs {
  // What `log` reads by, made with the lane's spec; the engine changes it when topics leave the lane and come back.
  std::shared_ptr<LaneFilter> filter;
  std::unique_ptr<LaneLog> log;
  std::unique_ptr<ParkedLog> parked;
  std::unique_ptr<SideLog> sides = nullptr;  // nullptr: topics in trouble back the lane off
  MeterPlace figures = {};                   // where it counts what it does
};

// Why a lane left the engine.
enum class GoneReason : uint8_t {
  kReleased = 1,  // in good order: the caller clears the owner in the table
  kUnclean = 2,  // released, but events were unresolved, delivered behind a gap, or progress unsaved: duplicates follow
  kLost = 3,     // another worker owns it, or it was put somewhere else just then
};

struct GoneLane {
  LaneId id;
  GoneReason reason = GoneReason::kReleased;
};

// Pointers as in LaneStatus.
struct TroubledTopic {
  const std::string* topic = nullptr;
  const Error* error = nullptr;
};

// A lane, or a side lane as long as it is there. The view is what sessions see; the rest is for the worker. Pointers
// are good until the next call.
struct LaneStatus : LaneView {
  const std::string* topic = nullptr;        // of a side lane: the (first) topic it serves
  int32_t topics = 0;                        // how many topics have left the lane; of a side lane: how many it serves
  int64_t retrying_count = 0;                // parked events in flight just now
  uint64_t passed = 0;                       // events read and delivered, parked or left to a side lane, without a gap
  uint64_t read = 0;                         // events read
  RouteFigures* figures = nullptr;           // of its route
  const Error* error = nullptr;              // what `trouble` is the text of; nullptr: none
  bool of_destination = false;               // it is its destination's, which tells of it as well
  const std::string* error_topic = nullptr;  // the topic that it is about; nullptr: none, or not known
  std::vector<TroubledTopic> parked_topics = {};  // whose parked events are due and refused
  // All committed before this barrier was asked for is delivered or parked. Parked is not idle: a caller that waits for
  // idleness has to look into outbox_internal.parked as well.
  uint64_t barrier_done = 0;  // of a lane: its side lanes' too
};

// Status of one destination, as Destinations() reports it.
struct DestinationStatus : DestinationView {
  DestinationId id = 0;
  Error reason;                          // why it is not closed; ok() when it is
  const Error* warning = nullptr;        // usable, but a person should look; nullptr: none
  const Error* sink_warning = nullptr;   // of these, what its sinks tell of themselves
  const Error* retry_trouble = nullptr;  // of these, what only the sink of events that are tried again meets
  int64_t retry_trouble_since = 0;       // monotonic
  bool retries_work = false;             // the last of that is over because something was answered there
  // The clusters that its sinks are connected to; nullptr: no sink, or not known.
  const std::string* met_cluster = nullptr;
  const std::string* retry_cluster = nullptr;  // of what is tried again
  uint64_t renewals = 0;  // times a sink of it was recreated because it gave no outcome; warning says more
};

// Further figures, for tests.
struct LaneInternals {
  size_t inflight_bytes = 0;  // memory of the events in flight
  size_t held_keys = 0;       // keys whose later events wait behind parked ones
};

}  // namespace outbox::relay
