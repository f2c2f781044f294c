// What routes wanted, and where they sent it, before alter_route() [P]: a lane that passed an event then did not send
// it, though the route wants it now, or sent it under another topic. outbox.audit keeps each change; no table keeps how
// far each lane had read when it came. But a worker reads the options again before it passes an event for them
// (relay/common/turn.h): one that was first seen in a snapshot that has the change was judged by the new ones.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "admin/lookup/find_event.h"
#include "admin/lookup/route_lanes.h"
#include "format/pattern.h"

namespace outbox::admin {

// One value of an option, before one change: a topic template, or one pattern.
struct FormerOption {
  int64 route_id = 0;
  int64 until = 0;   // Unix microseconds by the clock of events: when it was changed
  int64 at = 0;      // by the server's
  uint64 xid = 0;    // by which transaction; 0: an older version did not write it down
  Cell seen;         // the first snapshot that has it, of those that the keeper has recorded
  std::string name;  // aggregate_types, event_types or topic
  Cell value;        // in UTF-8; empty: there was none
};

// Those of all routes that held after that moment (Unix microseconds), newest first. Throws PgError.
std::vector<FormerOption> FormerOptions(int64 since);

class FormerFilters {
 public:
  explicit FormerFilters(const std::vector<FormerOption>& options);

  // When the route began to want the event, which its lane may have passed before that. nullopt: it has wanted it
  // whenever the lane can have passed it. `before`: a snapshot that the lane had come to before it passed the event;
  // empty: none is known.
  std::optional<int64> WantedSince(const LaneRecord& lane, const FoundEvent& event, const Passage& passage,
                                   const Cell& before) const;

 private:
  using Patterns = std::optional<std::vector<std::string>>;  // in UTF-8
  // Before one change; what it did not change is as after it.
  struct Former {
    int64 route_id = 0;
    int64 until = 0;  // Unix microseconds: when it was changed
    uint64 xid = 0;   // by which transaction; 0: an older version did not write it down
    Cell seen;        // the first snapshot that has it, of those that the keeper has recorded
    Patterns aggregate_types;
    Patterns event_types;
  };
  std::vector<Former> former_;  // newest first
};

class FormerTopics {
 public:
  explicit FormerTopics(const std::vector<FormerOption>& options);

  // The topic that a delivered event without one of its own went to, where the route's template has changed since the
  // event was made. nullopt: that of the present template; NULL: it is not known by which it was sent. `delivered`: in
  // Unix microseconds, by when its lane had delivered it; 0: not known. `before`: as above.
  std::optional<Cell> Of(const LaneRecord& lane, const FoundEvent& event, const Passage& passage, int64 delivered,
                         const Cell& before) const;

 private:
  std::vector<FormerOption> former_;  // newest first
};

}  // namespace outbox::admin
