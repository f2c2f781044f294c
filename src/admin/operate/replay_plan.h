// Which events a replay sends again [P]: one walk through the days in question, as often as its memory asks for.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "admin/lookup/event_walk.h"
#include "admin/operate/parked_rows.h"
#include "base/uuid.h"

namespace outbox::admin {

struct ReplayRequest {
  WalkFilter filter;  // since: from where on, also of what is left of it
  std::vector<Uuid> ids;
  bool only_ids = false;  // nothing was said of time
  bool given_up = false;  // those, too, that people have skipped or discarded
  std::string given;      // JSON
  int64 begun = 0;        // when it was first planned, Unix microseconds, of the clock of events; 0: it is that now
};

// One event, where it lies and where it goes: 32 bytes.
struct ReplayEvent {
  int64 created_at;
  int64 order_key;  // 0: no key
  uint32 block;
  Oid table;
  uint32 topic;  // into ReplayPlan::topics
  uint16 offset;
  uint16 lane;
};

struct ReplayPlan {
  std::string from, to;
  std::vector<ReplayEvent> events;  // in created_at order: the first of what matches
  bool more = false;                // and there are others behind them
  std::vector<std::string> topics;
  std::vector<int64> of_topic;  // events, by number of the topic
  // How many events match in all.
  int64 matched = 0;
  int64 first = 0;  // created_at, Unix microseconds
  int64 last = 0;
  int64 bytes = 0;
  int64 passed_over = 0;                                       // of these: sent for the first time
  int64 taken_up = 0;                                          // of these: skipped or discarded before
  int64 edited = 0;                                            // of these: retry() had sent them with another content
  int64 pending = 0, parked = 0, given_up = 0, forgotten = 0;  // these are left alone
  int64 of_others = 0;                                         // where ids are given: the route does not want them
  int64 since_begun = 0;                                       // parked when it was begun: left alone
  int64 unknown_ids = 0;                                       // ids of which there is no event
  std::map<std::string, uint32> topic_numbers;

  // The topic's number; a new one if it is not known yet.
  uint32 NumberOf(const std::string& topic);
};

// Fills the plan for the routes from and to, replacing an earlier part. It takes as many events as fit into
// maintenance_work_mem. Throws.
void PlanReplay(const ReplayRequest& request, ReplayPlan* plan);

// Call when the route `to` has changed since the plan was made: updates topics, order keys and lanes of a range of
// events of one day table, whose name is given. Throws.
void ResolveAgain(const std::string& table, size_t begin, size_t end, Resolver* resolver, ReplayPlan* plan);

// Its ctid.
std::string PlaceOf(const ReplayEvent& event);

}  // namespace outbox::admin
