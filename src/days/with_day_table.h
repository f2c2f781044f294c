// Writing into a day table from a relay worker [P]: the keeper makes them ahead of time, but it may not have run.
#pragma once

#include "days/day_table_ddl.h"
#include "pg/clock.h"
#include "pg/try.h"

namespace outbox::days {

// Runs `work(at)` in a transaction of its own; `at` is a new reading of the shared clock, whose day has a table of that
// kind. A missing one is made first, in another transaction, so that no session waits for this one. `work` is plain, as
// for pg::InTransaction. Success means that `work` was called and has committed.
template <typename Work>
Status TryWithDayTable(DayTableKind kind, Work&& work) {
  int64 at = 0;
  bool missing = false;
  auto attempt = [&] {
    at = pg::TakeReadings(1);
    missing = !OidIsValid(FindDayTable(kind, DayOfMicros(at)));
    if (!missing) {
      work(at);
    }
  };
  // Midnight may pass between making the table and the next attempt, once.
  for (int attempts = 0; attempts < 3; attempts++) {
    Status status = pg::TryInTransaction(attempt);
    if (!status.ok() || !missing) {
      return status;
    }
    status = pg::TryInTransaction([&] { CreateDayTable(kind, DayOfMicros(at)); });
    if (!status.ok()) {
      return status;
    }
  }
  return Status(ErrorClass::kInternal, "NO_DAY_TABLE", "the table of the day went as soon as it was made");
}

}  // namespace outbox::days
