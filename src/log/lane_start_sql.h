// All lanes of a route begin again [P]: SQL that writes down where each stood, to be pasted before what moves them.
// The statement that moves them locks the lanes, so that none writes progress in between.
#pragma once

#include "log/position_sql.h"

// SQL expressions: the route's id; the new `since` of the lanes; why, a literal; and the three columns of the position
// that they begin at, for which `r` is the row of outbox.route.
#define OUTBOX_NOTE_LANE_START(id, at, reason, start)                                                          \
  "INSERT INTO outbox.lane_start (route_id, at, lane, topic, reason, lanes, start_time, start_from, start_to," \
  " start_done_to, stood_from, stood_to, stood_done_to, fork_from, fork_to, fork_done_to)"                     \
  " SELECT r.id, " at ", p.lane, coalesce(t.topic, ''), " reason ", r.lanes, r.start_time, " start             \
  ", p.window_from, p.window_to, p.done_to, t.start_from, t.start_to, t.start_done_to FROM outbox.route r"     \
  " JOIN " OUTBOX_POSITIONS                                                                                    \
  " p ON p.route_id = r.id"                                                                                    \
  " LEFT JOIN outbox.side_topic t ON t.route_id = p.route_id"                                                  \
  " AND t.lane = p.lane AND t.side = p.side"                                                                   \
  " WHERE r.id = " id
