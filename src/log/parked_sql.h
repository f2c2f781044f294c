// The one place that knows who waits behind whom in outbox.parked [P]: SQL, to be pasted into statements. Used by lanes
// (settling what they sent) and by the functions of schema/36_parked.sql (people).
#pragma once

// A row `h` that later events of its key wait for. `r` is its outbox.route.
#define OUTBOX_HOLDS                                                                     \
  "(h.state OPERATOR(pg_catalog.=) 'retrying' OR (h.state OPERATOR(pg_catalog.=) 'dead'" \
  " AND r.on_failure OPERATOR(pg_catalog.=) 'block'))"

// The key of row `w` is paused.
#define OUTBOX_KEY_PAUSED                                                                 \
  "EXISTS (SELECT FROM outbox.pause z WHERE z.route_id OPERATOR(pg_catalog.=) w.route_id" \
  " AND z.aggregate_type OPERATOR(pg_catalog.=) w.aggregate_type"                         \
  " AND z.aggregate_id OPERATOR(pg_catalog.=) w.aggregate_id)"

// How many events of one key go at once when what held them has left.
#define OUTBOX_PROMOTED_AT_ONCE "256"

// Lets go those that wait behind rows that have left: of each key that nothing holds any more and nobody has paused,
// the first blocked rows become retrying, due now, as if new. `keys` is an item of a FROM list, named k, with columns
// (route_id, order_key): each key once.
//
// A person may take away what holds a key in the same moment in which the lane parks an event behind it; neither sees
// the other's row. So a lane runs this for OUTBOX_BLOCKED_KEYS of its own whenever parked_generation has moved (and
// when it is taken over), before it asks which keys are held: what a person does is committed by then, and the lane's
// own parking too.
#define OUTBOX_PROMOTE(keys)                                                                                          \
  "UPDATE outbox.parked b SET state = 'retrying', due_at = pg_catalog.clock_timestamp(), attempts = 0, sender = NULL" \
  " FROM " keys                                                                                                       \
  " JOIN outbox.route r ON r.id OPERATOR(pg_catalog.=) k.route_id,"                                                   \
  " LATERAL (SELECT w.created_at, w.id, w.replay FROM outbox.parked w"                                                \
  "  WHERE w.route_id OPERATOR(pg_catalog.=) k.route_id AND w.order_key OPERATOR(pg_catalog.=) k.order_key"           \
  "  AND w.state OPERATOR(pg_catalog.=) 'blocked' AND NOT " OUTBOX_KEY_PAUSED                                         \
  "  ORDER BY w.created_at, w.replay LIMIT " OUTBOX_PROMOTED_AT_ONCE                                                  \
  ") w"                                                                                                               \
  " WHERE b.route_id OPERATOR(pg_catalog.=) k.route_id AND b.created_at OPERATOR(pg_catalog.=) w.created_at"          \
  " AND b.id OPERATOR(pg_catalog.=) w.id AND b.replay OPERATOR(pg_catalog.=) w.replay"                                \
  " AND NOT EXISTS (SELECT FROM outbox.parked h WHERE h.route_id OPERATOR(pg_catalog.=) k.route_id"                   \
  "  AND h.order_key OPERATOR(pg_catalog.=) k.order_key AND " OUTBOX_HOLDS ")"

// The keys of route $1 and lane $2 behind which something waits, for OUTBOX_PROMOTE.
#define OUTBOX_BLOCKED_KEYS                                                                                  \
  "(SELECT DISTINCT d.route_id, d.order_key FROM outbox.parked d WHERE d.route_id OPERATOR(pg_catalog.=) $1" \
  " AND d.lane OPERATOR(pg_catalog.=) $2 AND d.state OPERATOR(pg_catalog.=) 'blocked'"                       \
  " AND d.order_key IS NOT NULL) k"
