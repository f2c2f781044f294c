// A walk through the log by time [P]: events as they lie there, in no order, day table by day table.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "admin/common/query.h"
#include "admin/lookup/route_lanes.h"
#include "base/uuid.h"

namespace outbox::admin {

// Views live during the call of the visitor only. In the server's encoding, NULL as in base/event.h.
struct WalkedEvent {
  uint64 xid = 0;
  int64 created_at = 0;  // Unix microseconds
  Uuid id{};
  std::string_view aggregate_type;
  std::string_view aggregate_id;
  std::string_view event_type;
  std::string_view topic;
  int64 payload_bytes = 0;
  Oid table = InvalidOid;
  uint32 block = 0;
  uint16 offset = 0;
  bool erasable = false;   // it has a payload or headers
  bool forgotten = false;  // erased: it is not sent any more
};

struct WalkFilter {
  int64 since = 0;      // Unix microseconds, created_at >= since
  int64 until = 0;      // created_at < until
  Cell aggregate_type;  // pattern of LIKE
  Cell aggregate_id;
  Cell event_type;  // pattern of LIKE
  Cell ids;         // literal of uuid[]
};

// Visible events, without those of this transaction. Opens and locks only the day tables that the time asks for. The
// visitor may throw; it calls Postgres only through Guard(). Takes a snapshot of its own.
void WalkLog(const WalkFilter& filter, const std::function<void(const WalkedEvent&)>& visit);

// Which events of the log are a route's, and which of these it has delivered.
class RouteEvents {
 public:
  // Whether the route has to be able to send, or only to say which events are its own, and of which topic.
  enum class Must : unsigned char { kWork, kKnowTopics, kKnow };
  // Throws if the route does not exist or cannot do that.
  explicit RouteEvents(const std::string& route, Positions positions = Positions::kOfThisLog, Must must = Must::kWork);
  // Those of many routes, by name: what is read for one is read for all of them at once, however many there are. A
  // route that has been dropped is left out.
  static std::vector<RouteEvents> OfEach(const std::vector<std::string>& routes, Positions positions, Must must);

  enum class Fate { kNotOurs, kForgotten, kPending, kParked, kGivenUp, kPassedOver, kDelivered, kOlder };
  // An event from before the route began is none of its own; or, where it is asked for the route's move back to there,
  // one that it has not had yet.
  enum class Older : bool { kNotOurs, kCounts };
  Fate FateOf(const WalkedEvent& event, Older older = Older::kNotOurs) const;

  int64 route_id() const { return route_id_; }
  const std::vector<LaneRecord>& lanes() const { return lanes_; }
  const std::shared_ptr<const format::RouteSpec>& spec() const { return lanes_[0].spec; }

 private:
  RouteEvents() = default;
  void TakeLanes(const std::string& route, std::vector<LaneRecord> lanes, Must must);

  int64 route_id_ = 0;
  std::vector<LaneRecord> lanes_;  // by number
  // created_at, sorted: it is unique over the database.
  std::vector<int64> parked_;
  std::vector<int64> given_up_;
};

// created_at, sorted, of the route's events that have left its parked ones since `time` (Unix microseconds, of the
// clock of events), delivered or given up. Throws.
std::vector<int64> SettledSince(int64 route_id, int64 time);

// Start of the oldest day table, Unix microseconds; nullopt: there is none.
std::optional<int64> OldestRetained();

}  // namespace outbox::admin
