// What the engine needs to let topics leave a lane and come back [-]: side lanes. Implemented by log/ over
// outbox_internal.side_lane, by fakes in unit tests. How it works: README.md here, "Side lanes".
//
// Single-threaded; calls and errors as in parked_log.h.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "base/position.h"
#include "base/status.h"
#include "relay/common/lane_log.h"
#include "relay/common/parked_log.h"

namespace outbox::relay {

// Code of the error with which a paused topic leaves its lane.
inline constexpr const char* kPausedCode = "PAUSED";

struct SideTopic {
  std::string topic;  // resolved
  Position start;     // events that it covers are not the side lane's
  Error error;        // why it left; code PAUSED where an operator paused it
  int64_t since = 0;  // Unix microseconds
};

struct SideLane {
  int32_t side = 0;  // from 1
  // The route's topic template when the first topic left the lane: until all topics are back, it decides which reader
  // an event belongs to, also where the route has another template by now. Equal for all side lanes of a lane.
  std::string topic_template;
  std::vector<SideTopic> topics;
};

class SideLog {
 public:
  virtual ~SideLog() = default;

  virtual Status LoadSides(std::vector<SideLane>* sides) = 0;

  // Makes the side lane, or moves it to `position`; it serves these topics from now on and no others. A topic that
  // another side lane served is taken from that one, which goes when it has none left. Parks what could not be left to
  // it. Progress that side lanes of the same number saved before means nothing any more.
  virtual Status Fork(const SideLane& side, const Position& position, std::span<const Parking> parked,
                      int64_t* next_due) = 0;

  // The lane takes the side lane's topics again: both stand at `position`, which becomes the lane's progress.
  virtual Status Rejoin(int32_t side, const Position& position) = 0;

  // The log as a side lane reads it: LoadPosition finds its position, SaveProgress saves it, under the lane's owner.
  // `filter` outlives it.
  virtual std::unique_ptr<LaneLog> OpenSide(int32_t side, const EventFilter* filter) = 0;
};

}  // namespace outbox::relay
