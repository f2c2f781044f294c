#include "log/window/settled.h"

#include "pg/sql.h"

namespace outbox::log {

using namespace pg::sql;

void ListSettled(int64_t route_id, const EventChunk& chunk, size_t first, std::vector<size_t>* settled) {
  // Of a seek that is older than the log no row is kept. What became of an event is kept as long as the event.
  static Statement list = {
      "SELECT k.n FROM ROWS FROM (unnest($2), unnest($3)) WITH ORDINALITY k(created_at, id, n) WHERE"
      " EXISTS (SELECT FROM outbox_internal.parked p WHERE p.route_id = $1 AND p.created_at = k.created_at AND p.id = "
      "k.id"
      " AND p.replay = 0) OR EXISTS (SELECT FROM outbox_internal.latest_outcome o WHERE o.id = k.id AND o.route_id = $1"
      " AND o.created_at = k.created_at AND o.replay = 0 AND (o.outcome <> 'delivered' OR o.at >"
      " coalesce((SELECT max(s.at) FROM outbox_internal.lane_start s WHERE s.route_id = $1 AND s.reason = 'seek'),"
      " '-infinity'))) ORDER BY k.n",
      3,
      {INT8OID, TIMESTAMPTZARRAYOID, UUIDARRAYOID},
      nullptr};
  settled->clear();
  if (chunk.events.size() == first) {
    return;
  }
  Column created_at(chunk.events.size() - first);
  Column id(chunk.events.size() - first);
  for (size_t i = first; i < chunk.events.size(); i++) {
    created_at.Add(TimeDatum(chunk.events[i].created_at));
    id.Add(UuidDatum(chunk.events[i].id));
  }
  Datum values[] = {Int64GetDatum(route_id), created_at.Array(TIMESTAMPTZOID), id.Array(UUIDOID)};
  RunStatement(&list, values);
  for (uint64 row = 0; row < SPI_processed; row++) {
    settled->push_back(first + static_cast<size_t>(ResultInt64(row, 0)) - 1);
  }
}

void DropSettled(const std::vector<size_t>& settled, size_t first, EventChunk* chunk) {
  size_t next = 0;
  size_t kept = first;
  for (size_t i = first; i < chunk->events.size(); i++) {
    if (next < settled.size() && settled[next] == i) {
      next++;
    } else {
      chunk->events[kept++] = chunk->events[i];
    }
  }
  chunk->events.resize(kept);
}

}  // namespace outbox::log
