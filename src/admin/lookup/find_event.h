// One event in the log, by its id [P].
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "admin/common/query.h"
#include "admin/lookup/route_lanes.h"
#include "base/snapshot.h"
#include "base/uuid.h"

#include "admin/lookup/unreadable_log.h"

namespace outbox::admin {

struct FoundEvent {
  Uuid id{};
  int64 created_at = 0;  // Unix microseconds
  uint64 xid = 0;
  bool mine = false;  // emitted by this very transaction, which has not committed
  // In UTF-8, as lanes compare them.
  std::string aggregate_type;
  Cell aggregate_id;
  std::string event_type;
  Cell topic;
};

// Visible events of that id: none, one, or several where clients gave the same id more than once. An id made by outbox
// says when it was made: then one day table is read, through the xid index from the last snapshot before that moment
// that a lane has saved. An id given by a client is searched for everywhere, row by row. Throws PgError.
std::vector<FoundEvent> FindEvents(Access access, const Uuid& id);
// The same, and where a table of the log cannot be read those of the others, and which it is.
std::vector<FoundEvent> FindEvents(Access access, const Uuid& id, std::vector<UnreadableTable>* unreadable);

// The newest snapshot that was taken before that moment, of those that lanes and the keeper wrote down: what was
// emitted since then is not visible in it, so its transactions are those from its xmax on, and of its xip. (Events of a
// restored dump keep their time and have transaction ids of outbox_internal.adopted.) nullopt: none is known. Throws
// PgError.
std::optional<Snapshot> SnapshotBefore(Access access, int64 micros);

// Views of the event's texts.
EventFacts FactsOf(const FoundEvent& event);

// Whether the lane takes the event.
bool Takes(const LaneRecord& lane, const FoundEvent& event);

// The topic it goes to there, in the server's encoding; NULL where the route's template cannot be read.
Cell TopicOf(const LaneRecord& lane, const FoundEvent& event);

}  // namespace outbox::admin
