// Which errors a process has written into the server's log, by code and by what met them [P]: each once a minute,
// however they take turns; and of what met them that it works again.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <utility>

#include "pg/entry.h"
#include "worker/outages.h"

namespace outbox::worker {

class Complaints {
 public:
  // `gone`: asked before an error is said, whether it is only that the extension has gone from under this process,
  // which then leaves and says nothing. COMMIT PREPARED tells no worker of a DROP EXTENSION.
  explicit Complaints(std::function<bool()> gone = [] { return false; }) : gone_(std::move(gone)) {}

  // Whether to say it now. `now`: monotonic microseconds.
  bool MaySay(const std::string& what, int64_t now);
  // All is well again: what comes next is said at once.
  void Clear() { said_.clear(); }

  // `who` has failed. Says it, if it may be said, in a line of LOG. Nothing that `who` meets hides what another does.
  // Throws pg::PgError.
  void Say(const std::string& who, const pg::PendingError& error);
  // `who` has done what it had to do.
  void Well(const std::string& who);
  // Call now and then: says of whom something was said that it works again, in a line of LOG, when that has lasted for
  // some seconds. Throws pg::PgError.
  void SayEnds();

 private:
  struct Trouble {
    Outages outages;
    bool said = false;
  };

  const std::function<bool()> gone_;
  std::map<std::string, int64_t> said_;
  std::map<std::string, Trouble> troubles_;  // by who
};

}  // namespace outbox::worker
