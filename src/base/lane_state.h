// What a lane is doing [-]: src/relay/README.md draws the state machine.
#pragma once

#include <cstdint>

namespace outbox {

enum class LaneState : uint8_t {
  kUnknown,     // only in views: its worker has not said yet
  kStarting,    // the position and the keys that wait have not been loaded yet
  kIdle,        // caught up, nothing in flight
  kRunning,     // reads and sends
  kDraining,    // something failed: sends nothing, waits until every record sent has its outcome
  kParking,     // refused events are being recorded; nothing later goes before they are
  kBackingOff,  // waits for next_try, or for the destination to come up, then sends again in order
  kForking,     // nothing is in flight; a topic is given to a side lane
  kPaused,      // route, destination or topic is paused: reads and sends nothing
  kSolo,        // one suspected event is in flight, alone
  kReleasing,   // sends nothing more, waits for what is in flight, saves progress
  kGone,        // has left; the engine drops it
};

// The word of views and messages; empty: kUnknown.
const char* LaneStateName(LaneState state);

}  // namespace outbox
