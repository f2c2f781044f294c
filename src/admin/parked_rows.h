// What people do to rows of outbox.parked [P]. Lanes do the like in parked/statements.h, which also lets go who waits,
// for both; lanes mend what a race between the two leaves: whenever parked_generation has moved, a lane looks for keys
// whose head is blocked, and lets it go.
//
// Whoever calls a function that changes something also calls NoteParkedChange().
#pragma once

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "admin/lanes.h"
#include "admin/query.h"

namespace outbox::admin {

struct ParkedRow {
  std::string route_id;
  std::string route;
  std::string created_at;  // Unix microseconds
  std::string id;
  std::string replay;
  std::string state;
  Cell order_key;
  std::string lane;
  std::string aggregate_type;
  Cell aggregate_id;
  std::string event_type;
  Cell own_topic;
  std::string topic;
  Cell content_type;
  bool tombstone = false;
  std::string attempts;
  bool sending = false;  // a worker that runs is sending it just now
};

// Operators who act at once lock in one order, so that none of them comes to a deadlock: routes by id, then lanes, then
// parked rows by (created_at, route_id, id, replay). Who locks a parked row and may wait for another has its route
// locked before, be it so lightly that only drop_route() waits for it: that deletes rows in whatever order it finds
// them.

// These routes stay until the transaction ends. Before any row of theirs is locked.
void KeepRoutes(std::vector<std::string> route_ids);

// Rows of that event, on one route or on all (nothing), locked. Throws UserError where there is none (42704), and where
// one is being sent just now (55006).
std::vector<ParkedRow> LockParked(const Cell& id, const Cell& route);

// A run of dead letters, in (created_at, route_id, id, replay) order.
struct ParkedKey {
  std::string route_id;
  std::string created_at;
  std::string id;
  std::string replay;
};
// Those of them that are dead still and that nobody else has locked, locked.
std::vector<ParkedRow> LockDead(const std::vector<ParkedKey>& keys);

// Until the transaction ends these routes stay as they are, and so does the number of their lanes: whatever lane is
// written meanwhile is one that there is. Before any row of theirs is locked, and for short transactions only: it keeps
// alter_route() waiting, and the keeper from exchanging lanes. Returns whether one is to have another number of lanes;
// then whoever works in batches makes a pause between two.
bool HoldRoutes(std::vector<std::string> route_ids);

// Topic, order key and lane as the route would give them today: templates and lanes may have changed since. It looks at
// a route once, so it serves one transaction.
class Resolver {
 public:
  void Resolve(ParkedRow* row);
  // nullptr: the route cannot work (its server is gone); rows keep what they have.
  const format::RouteSpec* Spec(const std::string& route);

 private:
  std::map<std::string, std::shared_ptr<const format::RouteSpec>> specs_;
};

// The rows become due now (those of `scheduled` stay so), with fresh attempts where they were dead; one whose key is
// paused, or has an earlier event that is not due, becomes blocked. Rows in created_at order. Returns how many wait.
int64 MakeDue(const std::vector<ParkedRow>& rows);

// Removes the rows and notes the outcome ('skipped' or 'discarded').
void Remove(const std::vector<ParkedRow>& rows, const char* outcome);

// The route's topics have other names from now on: parked events that have no topic of their own get theirs, and the
// key that goes with it, so that later events of the key go on waiting for them.
void Rename(const std::string& route_id);

// Lets go those that wait behind rows that have left these keys (route id and order key, NULL for no key). Waits for
// nobody: what somebody else has locked is let go by its lane afterwards.
void Promote(const std::vector<std::pair<std::string, Cell>>& keys);
void PromoteKeysOf(const std::vector<ParkedRow>& rows);
// Every key of a route, behind whom nothing waits any more since its policy changed.
void PromoteRoute(const std::string& route_id);

}  // namespace outbox::admin
