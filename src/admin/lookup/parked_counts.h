// How many events are parked, by lane and state; and which of them are due and have not gone [P].
#pragma once

#include <map>
#include <string>
#include <utility>
#include <vector>

#include "admin/common/query.h"

namespace outbox::admin {

struct ParkedCount {
  int64 retrying = 0;
  int64 blocked = 0;
  int64 scheduled = 0;
  int64 dead = 0;
  bool capped = false;  // counting stopped: of some state there are at least as many

  int64 all() const { return retrying + blocked + scheduled + dead; }
  void Add(const ParkedCount& other) {
    retrying += other.retrying;
    blocked += other.blocked;
    scheduled += other.scheduled;
    dead += other.dead;
    capped = capped || other.capped;
  }
};

// No more than this many of a lane and state are counted: that takes 1 ms if the pages are known to be all visible,
// else some 10 ms.
inline constexpr int64 kParkedCountLimit = 10000;
// For people; `capped`: counting stopped, perhaps here.
inline std::string ParkedCountText(int64 count, bool capped) {
  return (capped && count >= kParkedCountLimit ? "at least " : "") + std::to_string(count);
}

// Counts for every lane, by route id and lane. Reads only parked_count_idx, which has a few bytes a row, not the rows,
// each of which is a full copy of an event. Throws PgError.
std::map<std::pair<int64, int>, ParkedCount> CountParked(Access access);

// Parked events whose time has come, of one lane and topic: they are about to go, or wait for topic or destination.
//
// Among them are those whose turn it is (outbox_internal.due_keyed.turn_since): they were never refused, and waited
// behind others of their key or for a pause of it. A few hundred of a key are let go at a time, and each of these has
// just fallen due; what it has waited since is told by when it would have gone, had nothing held it up.
struct Overdue {
  int64 route_id = 0;
  int lane = 0;
  std::string topic;  // in the database's encoding
  int64 count = 0;
  int64 scheduled = 0;  // of them, whose deliver_at it is that has come
  int64 since = 0;      // since when the first of them waits, Unix microseconds
  int64 due = 0;        // when the first of them fell due
  int64 turns = 0;      // of the count: whose turn it is
  bool capped = false;  // no more than kParkedCountLimit of the lane were looked at, those due first
  // What the topic was refused with when one of them was tried last; NULL: none was, or not for the topic's sake.
  Cell error_class;
  Cell error_code;
  Cell error_message;
};

// By route, lane and topic; of all routes. Throws PgError.
std::vector<Overdue> LoadOverdue(Access access);

// The same by route: of a thousand lanes that have any at most, and `most` of each.
struct OverdueOfRoute {
  int64 count = 0;
  int64 since = 0;       // Unix microseconds
  bool capped = false;   // there may be more
  int64 turns = 0;       // of the count: whose turn it is
  int64 turn_since = 0;  // since when the first of these waits
  int64 others_due = 0;  // when the first of all others fell due
};
inline constexpr int64 kOverdueOften = 1000;  // for whoever asks often
// Throws PgError.
std::map<int64, OverdueOfRoute> OverdueByRoute(int64 most);

// How many blocked events follow those whose turn it is, by route: nothing else holds them up. Of the same lanes, of
// which kParkedCountLimit that are due are looked at, and no more than as many of a route.
struct Following {
  int64 count = 0;
  bool capped = false;
};
// Throws PgError.
std::map<int64, Following> FollowingByRoute();

// How long an event may be on its way before it counts as late: a claim, a try, a commit.
inline constexpr int64 kOverdueGrace = 10 * USECS_PER_SEC;

}  // namespace outbox::admin
