// The log's days [P]: how large each is, who has not delivered all of it, what is in the way of its drop, and when it
// goes. For outbox.day, doctor() and drop_expired(). The rule by which days are dropped is in
// log/progress/expired_days.cpp: a day goes when it ended outbox.retention ago and every lane has passed all of it.
#pragma once

#include <string>
#include <vector>

#include "admin/common/query.h"

namespace outbox::admin {

struct LogDay {
  std::string table;  // "log_20261122"; "log_spare" belongs to no day
  int32 number = 0;   // days since 1970
  int64 begins = 0;   // Unix microseconds; 0: no day
  int64 bytes = 0;    // with indexes and TOAST
  bool used = false;  // something was ever written to it
  int64 rows = 0;     // about, if asked for; -1: they cannot be read
  struct Holder {
    std::string route;
    int64 pending = 0;    // 0: what it has still to read is not for it, as far as was counted
    bool capped = false;  // not all of it was looked at: that many are probable
    int64 oldest = 0;     // since when the first of them has waited, as far as was looked; 0: not known, or none does
    std::string trouble;  // why the route cannot work; empty: it can
    bool known = true;    // what it wants: else pending is none that was counted
    bool unreadable = false;
  };
  std::vector<Holder> holders;  // routes that have not passed all of it
  int64 oldest = 0;             // of all of them
  // "open": it has not ended; "held": by its holders; "kept": for outbox.retention; "expired": the keeper drops it
  const char* state = "open";
  int64 goes_at = 0;  // when its retention is over; 0: no day
  // Of an expired one: sessions and prepared transactions that have it locked, views that were made of it.
  std::vector<std::string> in_the_way;

  bool Is(const char* wanted) const;
};

struct LogDaysQuery {
  size_t limit = 0;        // events read of a day, for all routes together; beyond that samples are
  bool rows = false;       // estimate how many there are
  int64 retention = -1;    // microseconds; -1: outbox.retention
  int64 locked_since = 0;  // microseconds: what has been locked for a shorter time is not in the way
};

// Where one wants to know how many are left: some hundredths of a second.
inline constexpr size_t kDayScanLimit = 30'000;

int64 RetentionMicros();
// "32 kB".
std::string SizeText(int64 bytes);

// By name, the spare table only if there is something in it. Keeps days from being dropped until the transaction ends.
// Throws PgError.
std::vector<LogDay> LoadLogDays(const LogDaysQuery& query);

// 'route "a" (12 events since 2026-11-22 ...), route "b" (about 30000 events since ...)', and what is in the way.
std::string HoldersText(const LogDay& day);

// How fast the log grows, and how much room it has.
struct LogGrowth {
  int64 seen = 0;         // microseconds that the pace was seen for: 24 hours, less where the log is younger
  int64 grown = 0;        // bytes in that time
  int64 per_day = -1;     // bytes, at that pace; -1: unknown, there is no log of ten minutes
  int64 to_come = -1;     // bytes that it still grows by until days go as fast as they come; -1: unknown, or no end
  int64 disk_free = -1;   // bytes where new days are made; -1: unknown
  int64 files_free = -1;  // how many files can be made there (inodes); -1: unknown, or as many as there is room for
};
LogGrowth MeasureGrowth(const std::vector<LogDay>& days);

}  // namespace outbox::admin
