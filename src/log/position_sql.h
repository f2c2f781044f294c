// The one place that knows which row of outbox.progress is a lane's position [P]: SQL, to be pasted into statements.
#pragma once

// For `LEFT JOIN LATERAL (...) p ON true` beside `outbox.lane l`: the newest row of the lane's progress, or none; then
// the position is in the lane's own row. Rows that are not newer than l.since were written by a lane that had the
// number before the route's number of lanes changed.
#define OUTBOX_NEWEST_PROGRESS                                                                   \
  "(SELECT g.at, g.window_from, g.window_to, g.done_to FROM outbox.progress g"                   \
  " WHERE g.route_id OPERATOR(pg_catalog.=) l.route_id AND g.lane OPERATOR(pg_catalog.=) l.lane" \
  " AND g.at OPERATOR(pg_catalog.>) l.since ORDER BY g.at DESC LIMIT 1)"
