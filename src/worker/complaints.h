// Which errors a process has written into the server's log, by code and by what met them [P]: each once a minute,
// however they take turns.
#pragma once

#include <cstdint>
#include <map>
#include <string>

#include "base/monotonic.h"
#include "pg/entry.h"
#include "pg/guard.h"

namespace outbox::worker {

class Complaints {
 public:
  // Whether to say it now. `now`: monotonic microseconds.
  bool MaySay(const std::string& what, int64_t now) {
    const auto [said, first] = said_.try_emplace(what, now);
    if (!first && now - said->second < kEvery) {
      return false;
    }
    said->second = now;
    return true;
  }
  // All is well again: what comes next is said at once.
  void Clear() { said_.clear(); }

  // Says it, if it may be said, in a line of LOG. Nothing that `who` meets hides what another does. Throws pg::PgError.
  void Say(const char* who, const pg::PendingError& error) {
    const int code = error.rethrow != nullptr ? error.rethrow->sqlerrcode : error.sqlstate;
    if (MaySay(std::string(who) + ": " + unpack_sql_state(code), MonotonicMicros())) {
      pg::Guard([who, error] { pg::Report(LOG, who, error); });
    }
  }

 private:
  static constexpr int64_t kEvery = 60'000'000;

  std::map<std::string, int64_t> said_;
};

}  // namespace outbox::worker
