#include "base/lane_state.h"

namespace outbox {

const char* LaneStateName(LaneState state) {
  switch (state) {
    case LaneState::kUnknown:
      return "";
    case LaneState::kStarting:
      return "starting";
    case LaneState::kIdle:
      return "idle";
    case LaneState::kRunning:
      return "running";
    case LaneState::kDraining:
      return "draining";
    case LaneState::kParking:
      return "parking";
    case LaneState::kBackingOff:
      return "backing off";
    case LaneState::kForking:
      return "forking";
    case LaneState::kPaused:
      return "paused";
    case LaneState::kSolo:
      return "solo";
    case LaneState::kReleasing:
      return "releasing";
    case LaneState::kGone:
      return "gone";
  }
  return "gone";
}

}  // namespace outbox
