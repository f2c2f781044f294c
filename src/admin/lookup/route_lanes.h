// Routes and lanes as they stand in the tables, compiled with the very code that the engine uses [P].
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "admin/common/query.h"
#include "base/position.h"
#include "base/uuid.h"
#include "format/route_spec.h"
#include "format/topic_of.h"

namespace outbox::admin {

// A snapshot that sees no transaction at all: the first normal transaction id is 3.
inline constexpr const char* kNothingVisible = "3:3:";

// A side lane: topics that have left a lane.
struct SideRecord {
  int side = 0;
  Position position;  // durable, like a lane's
  struct Topic {
    std::string topic;  // in UTF-8
    Position start;     // events that it covers were none of the side lane's
  };
  std::vector<Topic> topics;  // at least one
  std::string error_class;    // why the first of them left
  std::string error_code;
  std::string error_message;
  Cell since;
};

// What decides which lane an event belongs to; the texts in UTF-8, as lanes compare them.
struct EventFacts {
  uint64 xid = 0;
  int64 created_at = 0;  // Unix microseconds
  std::string_view aggregate_type;
  std::string_view aggregate_id;  // may be NULL
  std::string_view event_type;
  std::string_view topic;  // the event's own; may be NULL
};

// All lanes of a route began again (outbox_internal.lane_start): where, and where each stood before.
struct LaneStart {
  int64 at = 0;  // Unix microseconds
  std::string reason;
  uint32 lanes = 1;      // how many there were before
  int64 start_time = 0;  // of the route, before
  Position start;
  struct Stood {
    int lane = 0;
    std::string topic;  // in UTF-8; empty: the lane itself
    Position position;
    Position fork;  // of a topic: what it covers was the lane's
  };
  std::vector<Stood> stood;
};

// A condition in SQL: that row of outbox_internal.progress, by its alias, is of a reader that has passed the event. The
// parameters: its xid, its created_at in Unix microseconds.
std::string CoversSql(const std::string& row, const std::string& xid, const std::string& created_at);

// What has become of an event that a route takes, as far as its lanes tell. Parked events are another matter: to their
// lane they are delivered.
struct Passage {
  enum class Kind : unsigned char { kPending, kDelivered, kPassedOver };
  Kind kind = Kind::kPending;
  // Delivered: rows of outbox_internal.progress that may tell of it are of that lane, and of a time after `after` and
  // no later than `until` (Unix microseconds).
  int lane = 0;
  int64 after = PG_INT64_MIN;
  int64 until = PG_INT64_MAX;
  bool by_side = false;           // delivered: a side lane has said so
  const LaneStart* by = nullptr;  // passed over: what moved the lanes behind it
};

struct LaneRecord {
  int64 route_id = 0;
  std::string route;
  std::string server;
  int lane = 0;
  Position position;  // durable: the newest row of outbox_internal.progress, else the one in outbox_internal.lane
  // It came with a dump: its positions are made of another server's transaction ids, and no worker claims it before
  // outbox.adopt(). Until then it has passed nothing of this log.
  bool restored = false;
  Snapshot start_snapshot;  // an event visible here and created before start_time is none of this route's
  int64 start_time = 0;     // Unix microseconds
  // In UTF-8, like the lanes' own. Of a route that cannot work it says what the route wants, and nothing of records;
  // nullptr: not even that, the route was edited by hand.
  std::shared_ptr<const format::RouteSpec> spec;
  // A number for what says which events are whose, but for the positions: types, lanes, topics that have left. The same
  // number: the same events.
  uint64 wants = 0;
  bool knows_topic = true;  // false: the topic template cannot be read; spec has another one in its place
  std::string trouble;      // why the route cannot work: its server is gone, or it was edited by hand; empty: it can
  bool edited = false;      // it is the latter

  std::vector<SideRecord> sides;
  std::shared_ptr<format::TopicOf> topic_of;  // nullptr: no topic has left the lane
  // The beginnings of the route's lanes, in order of time, shared by its lanes; nullptr: the lanes are those that it
  // was made with.
  std::shared_ptr<const std::vector<LaneStart>> starts;
  std::shared_ptr<format::TopicOf> topic_then;  // for them
  int64 since = PG_INT64_MIN;                   // when the lane began
  int64 saved_at = 0;                           // when its position was saved, else when it began; 0: not known
  // When create_route(), seek() or a change of lanes put it there: no event has waited for it for longer.
  int64 there_since = 0;

  bool works() const { return trouble.empty(); }
  // Whether its reader has passed the event: it is delivered or parked.
  bool Passed(const EventFacts& event) const { return PassedBy(event, SideOf(event)); }
  // The reader of its topic: an index into sides; -1: the lane itself.
  int SideOf(const EventFacts& event) const;
  // By the name of the topic, in the database's encoding.
  int SideOfTopic(const std::string& topic) const;
  bool PassedBy(const EventFacts& event, int side) const;
  // What became of an event that is this lane's.
  Passage PassageOf(const EventFacts& event, const Uuid& id) const;
  // Whether the route began after the event.
  bool BeforeStart(uint64 xid, int64 created_at) const;
};

// Loads the lanes of one route, or of all (no name), by route name and lane. Throws PgError. `positions`: of lanes that
// a dump brought, either as they mean something here (nothing is passed) or as they stand in the tables, to be compared
// with the transaction ids that came with them.
enum class Positions : bool { kOfThisLog, kAsStored };
std::vector<LaneRecord> LoadLanes(const Cell& route, Access access = Access::kRead,
                                  Positions positions = Positions::kOfThisLog);

// One group for each route, in the order given (lanes of a route come together).
std::vector<std::vector<LaneRecord>> ByRoute(std::vector<LaneRecord> lanes);

// What is thrown where a route is needed that works; `why`: a sentence.
pg::UserError CannotWork(const std::string& route, const std::string& why);

// `text` from the server in pg_snapshot's form. Throws UserError (XX001) on anything else.
Snapshot ParseSnapshot(const std::string& text);

}  // namespace outbox::admin
