// Which run of which server acknowledged what a lane has written down, and when [P]: SQL, to be pasted into statements.
//
// A row of outbox.progress says when the row before the first of its run was written (run_after): so the runs that a
// lane has had are found from one to the one before, however many rows each has. What another server acknowledged, or
// the same one at another address, is of another period, and never counts as written here.
#pragma once

// What the runs have in common that are lives of the server at one configured address.
#define OUTBOX_ENDPOINT(server_run) "split_part(" server_run ", '.', 1)"

// The next link of the recursive list `period` (route_id, lane, side, run, run_after, at): the newest row of the same
// (side) lane that `condition` holds for; `g` is the row, `of` the item of the FROM list before.
#define OUTBOX_NEWEST_ROW(of, condition)                                                                    \
  " CROSS JOIN LATERAL (SELECT g.route_id, g.lane, g.side, g.run, g.run_after, g.at FROM outbox.progress g" \
  " WHERE g.route_id = " of ".route_id AND g.lane = " of ".lane AND g.side = " of ".side AND " condition    \
  " ORDER BY g.at DESC LIMIT 1) n"

// To follow WITH RECURSIVE: all periods of the (side) lanes in `who` (route_id, lane, side), from the newest back, with
// the last row of each; of rows written after `after` and no later than `until`.
#define OUTBOX_PERIODS(who, after, until)                                                            \
  "period AS (SELECT n.* FROM " who " w" OUTBOX_NEWEST_ROW(                                          \
      "w",                                                                                           \
      "g.at > " after                                                                                \
      " AND g.at <= " until) " UNION ALL SELECT n.* FROM period p" OUTBOX_NEWEST_ROW("p",            \
                                                                                     "g.at > " after \
                                                                                     " AND g.at <= p.run_after") ")"

// The row `g` is of the period `h`, which begins at h.after and ends with the row of h.upto.
#define OUTBOX_OF_PERIOD                                            \
  "g.route_id = h.route_id AND g.lane = h.lane AND g.side = h.side" \
  " AND g.at > h.after AND g.at <= h.upto AND g.run = h.run"
