// What a relay worker writes to the server log about trouble outside of the server [P]: one WARNING when a destination
// or a topic goes into trouble, one LOG when it has worked again for some seconds, with how long its trouble lasted and
// how long it is over, one WARNING of what a sink warns of (and one LOG of its end, where what is
// tried again did not go), one LOG per destination and minute for sink processes that
// ended unasked, and one WARNING per route and minute for dead letters, with their number. Nothing is repeated while it
// lasts, unless the error becomes one of another class, which is told within seconds, or has another code, which is
// told after a minute; each class once a minute at most. Many topics of a route have one line for all of them; what
// begins soon after such lines is gathered for the next one. If several workers see the same trouble, one of them
// reports it (trouble_board.h); dead letters are reported by each.
//
// Of a topic whose lane has gone to another worker, or with its route, nothing more is said here. Of one whose trouble
// ends because its route gives topics other names by now, or takes no more events for it, that is said, not that it
// works.
//
// Errors never hold a secret or a payload (base/status.h). The calls may throw PgError.
#pragma once

#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "log/progress/routes.h"
#include "parked/dead_letter_count.h"
#include "pg/shared.h"
#include "relay/common/engine_types.h"
#include "worker/outages.h"
#include "worker/trouble_board.h"

namespace outbox::worker {

class Incidents {
 public:
  explicit Incidents(const TroubleBoard& board) : board_(board) {}

  // Call once a turn, with `now` in monotonic microseconds, in this order: every destination and lane that is known,
  // then EndTurn(). What is not named in a turn has gone: of a
  // destination whose trouble was reported, that is the last line.
  // (Of its sink processes that have ended, too: they are back before there is trouble to speak of, but what they had
  // is sent again.)
  void SeeDestination(const relay::DestinationStatus& status, const std::string& server, bool paused, int64_t now);
  // What is to be looked at though the destination is used; ok(): nothing. Said once in the life of a worker.
  void SeeWarning(const Error& warning, const std::string& server, pg::DestinationSlot* slot);
  // One that is to be said each time.
  static void SayWarning(const std::string& server, const Error& warning);
  // The connection of what is tried again, where that alone takes nothing.
  void SeeRetries(const relay::DestinationStatus& status, const std::string& server, int64_t now);
  void SeeLane(const relay::LaneStatus& status, const log::Route& route, int64_t now);
  // `routes`: all that there are by now.
  void EndTurn(const std::map<int64_t, log::Route>& routes, int64_t now);

  // `route`: its current name.
  void SeeDeadLetters(parked::DeadLetters* dead, int64_t route_id, const std::string& route, int64_t now);

 private:
  struct DeadSaid {
    int64_t at = 0;
    int64_t events = 0;  // of those that are not said yet, with when the last of them was seen
    int64_t last_at = 0;
  };
  using Lane = std::pair<int64_t, int>;  // of a route
  struct Episode {
    std::string what;    // for people
    Lane lane;           // of a topic: the one that had it last
    uint64 trouble = 0;  // its name on the board
    Outages outages;
    int64_t said_at = 0;                 // 0: not said
    ErrorClass now = ErrorClass::kNone;  // class of the last error seen
    int64_t now_since = 0;
    ErrorClass said = ErrorClass::kNone;    // class, as said
    std::map<ErrorClass, int64_t> said_of;  // when each class was last said
    bool seen = false;                      // in this turn
    bool named = false;                     // of a topic: its route's template may give its name
    std::string code;                       // as said
  };
  // A route and a topic; 0 and the name of a server; kRetries and that, of what is tried again there.
  using Key = std::pair<int64_t, std::string>;
  using Episodes = std::map<Key, Episode>;

  // About topics of one route, in the order in which it was found.
  struct Topics {
    std::string route;
    struct Line {
      std::string topic;
      Error error;       // of trouble
      PastTrouble over;  // of its end
    };
    std::vector<Line> trouble;
    std::vector<Line> back;
    std::vector<Line> unused;
    int64_t trouble_at = 0;  // when lines were last written
    int64_t back_at = 0;
    int64_t unused_at = 0;
  };

  // Sink processes of this worker.
  struct Deaths {
    int64_t seen = 0;
    int64_t said = 0;
    int64_t said_at = 0;
    std::string last;  // how the last one ended
  };

  // Which line is to be written now.
  enum class Line : uint8_t { kNone, kTrouble, kBack };
  Episode* Find(const Key& key, const std::string& what, const Error* error, int64_t now);
  static bool IsNews(const Episode& episode, const Error& error, int64_t now);
  static Line See(Episode* episode, const Error* error, int64_t moment, int64_t now);
  bool End(const Episode& episode) const;
  static void SayTopics(Topics* topics, int64_t now);
  static void SayUnusedTopics(Topics* topics, int64_t now);
  void SeeTopic(const Lane& lane, const std::string& topic, const Error& error, const log::Route& route, int64_t now);
  void KeepTopic(const Lane& lane, const std::string& topic, const Error& error);
  static bool Unused(const Key& key, const Episode& episode, const std::map<int64_t, log::Route>& routes);
  void NoteOver(const Key& key, const Episode& episode, bool unused);
  void SeeDeaths(const relay::DestinationStatus& status, const std::string& server, bool told, int64_t now);

  const TroubleBoard board_;
  Episodes episodes_;
  std::map<int64_t, Topics> topics_;                      // by route
  std::set<std::pair<std::string, std::string>> warned_;  // server and code, or message
  std::map<int64_t, DeadSaid> dead_said_;                 // by route
  std::map<std::string, Deaths> deaths_;                  // by server
  std::map<Lane, bool> troubled_;  // lanes that had a topic in trouble: is it there, in this turn
};

}  // namespace outbox::worker
