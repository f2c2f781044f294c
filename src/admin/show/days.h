// The log's days [P]: how large each is, who has not delivered all of it, and when it goes. For outbox.day and
// doctor(). The rule by which the keeper drops days is in log/expired.cpp: a day goes when it ended outbox.retention
// ago and every lane has passed all of it.
#pragma once

#include <string>
#include <vector>

#include "admin/common/query.h"

namespace outbox::admin {

struct LogDay {
  std::string table;  // "log_20261122"; "log_spare" belongs to no day
  int64 begins = 0;   // Unix microseconds; 0: no day
  int64 bytes = 0;    // with indexes and TOAST
  struct Holder {
    std::string route;
    int64 pending = 0;    // 0: what it has still to read is not for it, as far as was counted
    bool capped = false;  // counting stopped: there are at least as many
    std::string trouble;  // the route cannot work, so it is unknown what it wants; empty: it can
  };
  std::vector<Holder> holders;  // routes that have not passed all of it
  int64 oldest = 0;             // created_at of the oldest of that, as far as was counted; 0: none
  // "open": it has not ended; "held": by its holders; "kept": for outbox.retention; "expired": the keeper drops it
  const char* state = "open";
  int64 goes_at = 0;  // when its retention is over; 0: no day
};

// Events read of a day for each route, where one wants to know how many are left: some hundredths of a second.
inline constexpr int64 kDayScanLimit = 30'000;

// By name, the spare table only if there is something in it. `limit`: events read of a day for each route. Keeps days
// from being dropped until the transaction ends. Throws PgError.
std::vector<LogDay> LoadLogDays(int64 limit);

// 'route "a" (12 events), route "b" (at least 30000 events)'
std::string HoldersText(const LogDay& day);

}  // namespace outbox::admin
