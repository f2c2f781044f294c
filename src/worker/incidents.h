// What a relay worker writes to the server log about trouble outside of the server [P]: one WARNING when a destination
// or a topic goes into trouble, one LOG when it works again, with how long that took, and one WARNING per route and
// minute for dead letters, with their number. Nothing is repeated while it lasts, unless the error becomes another one,
// and then once a minute at most. If several workers use a destination, one of them reports it; a topic may be reported
// by each.
//
// Errors never hold a secret or a payload (base/status.h). The calls may throw PgError.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "parked/dead_letters.h"
#include "pg/shared.h"
#include "relay/engine.h"

namespace outbox::worker {

class Incidents {
 public:
  // Call once a turn, with `now` in monotonic microseconds, in this order: every destination and lane that is known,
  // then EndTurn(). What is not named in a turn has gone: of a
  // destination whose trouble was reported, that is the last line.
  void SeeDestination(const relay::DestinationStatus& status, const std::string& server, pg::DestinationSlot* slot,
                      int64_t now);
  void SeeLane(const relay::LaneStatus& status, const std::string& route, int64_t now);
  void EndTurn(int64_t now);

  // `route`: its current name.
  void SeeDeadLetters(parked::DeadLetters* dead, int64_t route_id, const std::string& route, int64_t now);

 private:
  struct Episode {
    std::string what;        // for people
    int64_t began = 0;       // the first sign of trouble
    int64_t good_since = 0;  // 0: still in trouble
    int64_t said_at = 0;     // 0: not said
    bool silent = false;     // another worker has said it
    bool seen = false;       // in this turn
    std::string code;        // as said
  };
  using Key = std::pair<int64_t, std::string>;  // a route and a topic; 0 and the name of a server
  using Episodes = std::map<Key, Episode>;

  // Which line is to be written now.
  enum class Line : uint8_t { kNone, kTrouble, kBack };
  Episode* Find(const Key& key, const std::string& what, const Error* error, int64_t now);
  Line See(Episode* episode, const Error* error, int64_t now);

  Episodes episodes_;
  std::map<int64_t, int64_t> dead_said_at_;  // by route
};

}  // namespace outbox::worker
