// What a procedure that takes long has done so far [P]: in shared memory for outbox.pg_stat_progress_outbox, and as a
// NOTICE every few seconds to whom called.
#pragma once

#include <string>

#include "pg/shared.h"

namespace outbox::admin {

// Lives as long as the call. An error that ends the call ends it as well, and so does the end of the process.
class Progress {
 public:
  // `command`: replay, redrive or discard. `subject`: the route; "": all. `things`: "dead letters", `done_to_them`:
  // "will be tried again", for the notices. `number`: of a replay. Throws PgError.
  Progress(const char* command, const std::string& subject, std::string things, std::string done_to_them,
           int64 number = 0);
  ~Progress();
  Progress(const Progress&) = delete;
  Progress& operator=(const Progress&) = delete;

  // So many are done, of so many. `done_before`: by an earlier call, whose time is not known.
  void Begin(int64 total, int64 done_before);
  void At(int64 done, int64 total);

 private:
  pg::ProgressSlot* slot_ = nullptr;  // nullptr: not preloaded, or all are taken
  const std::string things_;
  const std::string done_to_them_;
  int64 before_ = 0;
  int64_t began_;  // MonotonicMicros()
  int64_t told_;
};

}  // namespace outbox::admin
