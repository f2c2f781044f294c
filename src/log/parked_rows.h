// Rows of outbox.parked on their way out, and SQL that several statements over it share [P].
#pragma once

#include <string>
#include <vector>

#include "base/event.h"
#include "pg/prelude.h"
#include "relay/parked_log.h"

// It waits for its turn: what the index parked_key_idx holds.
#define OUTBOX_PARKED_WAITING(p) p ".state IN ('retrying', 'blocked')"

// The key of a row of route $1 is paused by an operator. By the unique index of outbox.pause.
#define OUTBOX_KEY_PAUSED(p)                                                                   \
  "EXISTS (SELECT FROM outbox.pause z WHERE coalesce(z.route_id, 0) OPERATOR(pg_catalog.=) $1" \
  " AND coalesce(z.server, ''::pg_catalog.name) OPERATOR(pg_catalog.=) ''::pg_catalog.name"    \
  " AND coalesce(z.topic, '') OPERATOR(pg_catalog.=) ''"                                       \
  " AND coalesce(z.aggregate_type, '') OPERATOR(pg_catalog.=) " p                              \
  ".aggregate_type AND coalesce(z.aggregate_id, '')"                                           \
  " OPERATOR(pg_catalog.=) " p ".aggregate_id)"

// Rows that fall due behind the place ($6, $7) and up to ($8, $9).
#define OUTBOX_DUE_BETWEEN                                              \
  " AND ROW(p.due_at, p.created_at) OPERATOR(pg_catalog.>) ROW($6, $7)" \
  " AND ROW(p.due_at, p.created_at) OPERATOR(pg_catalog.<=) ROW($8, $9)"

namespace outbox::log {

// text[]
Datum TopicArray(const std::vector<std::string>& topics);

// The columns that ReadClaimed expects, of a row of outbox.parked under the alias p.
#define OUTBOX_CLAIMED_COLUMNS                                                                                      \
  "p.created_at, p.id, p.replay, p.order_key, p.state, p.attempts, p.aggregate_type, p.aggregate_id, p.event_type," \
  " p.payload, p.content_type, p.headers, p.own_topic"

// From a row of the last result, the columns beginning at `column`. Bytes go into the arena. A replay carries the
// header outbox-replay with its number.
void ReadClaimed(uint64 row, int column, Arena* arena, relay::Claimed* claimed);

}  // namespace outbox::log
