// What operators' functions do to rows of outbox_internal.parked [P]. Lanes do the same with parked/statements.h, which
// also promotes waiting rows, for both. Lanes repair what a race between the two leaves: whenever parked_generation has
// moved, a lane looks for keys whose head is blocked, and promotes it.
//
// The caller of a function that changes something also calls NoteParkedChange().
#pragma once

#include <map>
#include <string>
#include <utility>
#include <vector>

#include "admin/common/json.h"
#include "admin/common/query.h"
#include "admin/lookup/route_lanes.h"

namespace outbox::admin {

// The primary key of a row.
struct ParkedKey {
  int64 route_id = 0;
  int64 created_at = 0;  // Unix microseconds
  std::string id;
  int64 replay = 0;
};
// The first four cells of a row, created_at in Unix microseconds.
ParkedKey ReadParkedKey(const Row& row);

struct ParkedRow : ParkedKey {
  std::string route;
  std::string state;
  int64 order_key = 0;  // 0: no key
  int lane = 0;
  std::string aggregate_type;
  Cell aggregate_id;
  std::string event_type;
  Cell own_topic;
  std::string topic;
  Cell content_type;
  bool tombstone = false;
  int64 attempts = 0;
  bool sending = false;  // a live worker is sending it just now
};

// Operators who act at once lock in one order, so that none of them comes to a deadlock: routes by id, then lanes, then
// parked rows by (created_at, route_id, id, replay). A function that locks a parked row and may wait for another one
// locks its route before, with a lock that only drop_route() waits for: that deletes rows in whatever order it finds
// them.

// Keeps these routes until the transaction ends. Before any row of theirs is locked.
void KeepRoutes(std::vector<int64> route_ids);

// Throws UserError (22004) where it is null.
void RequireId(const Cell& id);

// What is wanted of an event, for the hint where it is not parked.
enum class Wanted { kSent, kGivenUp };
// Locks the rows of that event, on one route or on all (no route). Throws UserError if there is none (42704), and if
// one is being sent just now (55006).
std::vector<ParkedRow> LockParked(const Cell& id, const Cell& route, Wanted wanted);

// Locks and returns, in (created_at, route_id, id, replay) order, those of them that are still dead and that no other
// transaction has locked.
std::vector<ParkedRow> LockDead(const std::vector<ParkedKey>& keys);
// The same of those that are not being sent just now, in whatever state. Waits for other transactions.
std::vector<ParkedRow> LockNotSent(const std::vector<ParkedKey>& keys);

// Until the transaction ends this route stays as it is, and so does the number of its lanes, so that a lane number
// written meanwhile is valid. Call before any row of it is locked, for one route in a transaction, and in short
// transactions only: it keeps alter_route() waiting, and the keeper from exchanging lanes. Returns whether the route is
// to have another number of lanes; then a caller that works in batches pauses between two.
bool HoldRoute(int64 route_id);

// Topic, order key and lane as the route would give them today: templates and lanes may have changed since. It reads a
// route once, so it serves one transaction.
class Resolver {
 public:
  void Resolve(ParkedRow* row);
  // nullptr: the route cannot work (its server is gone); rows keep what they have.
  const format::RouteSpec* Spec(const std::string& route);

 private:
  std::map<std::string, std::shared_ptr<const format::RouteSpec>> specs_;
};

// Route id and order key; 0: no key.
using RouteKey = std::pair<int64, int64>;
// An order key as a parameter: NULL for 0.
Cell OrderKeyCell(int64 order_key);

// How far a procedure has come in each key, for those that make rows due in batches, in created_at order: before that
// place nothing was in the way of the key. What has gone since lies there as well, and where some transaction holds a
// snapshot no vacuum may take its index entries away: looked at from the beginning, each event of the key would pass
// all of them. What comes to be in the way there meanwhile, its lane sees before it sends anything (parked/due).
class PassedKeys {
 public:
  // As created_at; -infinity: the key has to be looked at from its beginning.
  std::string Of(const ParkedRow& row) const;
  // These were made due; `waiting`: the order keys of those that have to wait.
  void Pass(const std::vector<ParkedRow>& rows, const std::vector<int64>& waiting);

 private:
  // Where there are more keys each has few events.
  static constexpr size_t kMostKeys = 20000;

  std::map<RouteKey, int64> passed_;  // Unix microseconds
};

// The rows become due now (those of `scheduled` stay so), with fresh attempts where they were dead; one whose key is
// paused, or has an earlier event that is not due, becomes blocked. Rows in created_at order, of one route where
// `passed` is given. Returns how many wait.
int64 MakeDue(const std::vector<ParkedRow>& rows, PassedKeys* passed = nullptr);

// What the audit has of a row that somebody acts on.
JsonObject AuditedRow(const ParkedRow& row);

// Removes the rows and notes the outcome ('skipped' or 'discarded').
void Remove(const std::vector<ParkedRow>& rows, const char* outcome);

// The route's topics have new names from now on: parked events that have no topic of their own get the new one, with
// its order key, so that later events of the key still wait for them.
void Rename(int64 route_id);

// Promotes rows that wait behind rows that have left these keys. Does not wait: rows that are locked are promoted by
// their lane afterwards.
void Promote(const std::vector<RouteKey>& keys);
void PromoteKeysOf(const std::vector<ParkedRow>& rows);
// Promotes the waiting rows of all keys of a route that its new policy no longer holds.
void PromoteRoute(int64 route_id);

}  // namespace outbox::admin
