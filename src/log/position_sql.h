// The one place that knows which row of outbox.progress is a lane's position, or a side lane's [P]: SQL, to be pasted
// into statements.
#pragma once

#define OUTBOX_NEWEST_PROGRESS_OF(who, side)                                   \
  "(SELECT g.at, g.window_from, g.window_to, g.done_to FROM outbox.progress g" \
  " WHERE g.route_id = " who ".route_id AND g.lane = " who                     \
  ".lane"                                                                      \
  " AND g.side = " side " AND g.at > " who ".since ORDER BY g.at DESC LIMIT 1)"

// For `LEFT JOIN LATERAL (...) p ON true` beside `outbox.lane l`: the newest row of the lane's progress, or none; then
// the position is in the lane's own row. Rows that are not newer than l.since were written by a lane that had the
// number before the route's number of lanes changed.
#define OUTBOX_NEWEST_PROGRESS OUTBOX_NEWEST_PROGRESS_OF("l", "0")
// As OUTBOX_NEWEST_PROGRESS, beside `outbox.side_lane s`: the newest row since the fork.
#define OUTBOX_NEWEST_SIDE_PROGRESS OUTBOX_NEWEST_PROGRESS_OF("s", "s.side")

#define OUTBOX_POSITION_COLUMNS(who)                    \
  "CASE WHEN p.at IS NULL THEN " who                    \
  ".window_from ELSE p.window_from END AS window_from," \
  " CASE WHEN p.at IS NULL THEN " who                   \
  ".window_to ELSE p.window_to END AS window_to,"       \
  " CASE WHEN p.at IS NULL THEN " who ".done_to ELSE p.done_to END AS done_to"

// An item of a FROM list: the positions of all readers of the log, lanes and side lanes: route_id, lane, side,
// window_from, window_to, done_to.
#define OUTBOX_POSITIONS                                                   \
  "(SELECT l.route_id, l.lane, 0 AS side, " OUTBOX_POSITION_COLUMNS(       \
      "l") " FROM outbox.lane l LEFT JOIN LATERAL " OUTBOX_NEWEST_PROGRESS \
           " p ON true UNION ALL"                                          \
           " SELECT s.route_id, s.lane, s.side, " OUTBOX_POSITION_COLUMNS( \
               "s") " FROM outbox.side_lane s LEFT JOIN LATERAL " OUTBOX_NEWEST_SIDE_PROGRESS " p ON true)"
