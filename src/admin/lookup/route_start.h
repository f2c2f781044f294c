// At which event a route begins [P].
#pragma once

#include "admin/common/query.h"

namespace outbox::admin {

// In text form, ready for the tables. Times are Unix microseconds.
struct RouteStart {
  Cell window_from;  // the lanes' first position
  Cell window_to;
  Cell done_to;
  Cell start_snapshot;  // an event visible here and created before start_time is none of the route's
  Cell start_time;      // or infinity, -infinity
};

// `start`: 'now', 'earliest', or what timestamptz accepts. Throws UserError.
//
// Now leaves out what this transaction itself has emitted, so that a route created after an event in one transaction
// gets it on commit, like one created before.
RouteStart ParseStart(const Cell& start);

// What is committed by now, without this transaction: as text. (The snapshot of a transaction in REPEATABLE READ may be
// an hour old, and pg_current_snapshot() never lists the asking transaction.) Throws PgError.
std::string SnapshotOfNow();

// The clock of events, which may be ahead of the server's.
TimestampTz TimeOfClocks();
// No event of the log is newer: that clock, or what was emitted before outbox.reset_clock() put it back, which is
// looked for in today's table and those of the future. Throws PgError, also where these cannot be read.
TimestampTz NewestTime();

}  // namespace outbox::admin
