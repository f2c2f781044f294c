// A part of a relay worker's turn that works on tables [P]. One that cannot be done now (a table of outbox is locked)
// is left alone for a while, and does not keep the others.
#pragma once

#include <cstdint>
#include <utility>

#include "base/backoff.h"
#include "pg/entry.h"
#include "pg/try.h"
#include "relay/common/engine_clock.h"
#include "worker/complaints.h"
#include "worker/process.h"

namespace outbox::worker {

class Chore {
 public:
  // `who`: as the server's log has it.
  explicit Chore(const char* who) : who_(who) {}

  // Whether it did not fail so recently that it is left alone.
  bool MayTry(relay::Clock* clock) const { return clock->NowMicros() >= not_before_; }

  // Calls `work`, if it may be tried; what that fails of is said, as is its end. Throws what is not a PgError.
  template <typename Work>
  void Do(relay::Clock* clock, Complaints* complaints, Work&& work) {
    if (!MayTry(clock)) {
      return;
    }
    pg::PendingError error;
    try {
      std::forward<Work>(work)();
      if (!trouble_.ok()) {
        complaints->Well(who_);
      }
      trouble_ = {};
      backoff_.Reset();
      not_before_ = 0;
      return;
    } catch (const pg::PgError& met) {
      trouble_ = pg::StatusOf(met).error();
      error = pg::DescribeCurrentException();
    }
    not_before_ = clock->NowMicros() + backoff_.Next(clock->Random());
    if (!StopRequested()) {
      complaints->Say(who_, error);
    }
  }

  // Of the last try. ok(): none.
  const Error& trouble() const { return trouble_; }
  // Monotonic microseconds; 0: it is not left alone.
  int64_t not_before() const { return not_before_; }

 private:
  const char* who_;
  Backoff backoff_{100'000, 1'000'000};
  int64_t not_before_ = 0;
  Error trouble_;
};

}  // namespace outbox::worker
