// A part of a relay worker's turn that works on tables [P]. One that cannot be done now (a table of outbox is locked)
// is left alone for a while, and does not keep the others.
#pragma once

#include <cstdint>
#include <exception>
#include <utility>

#include "base/backoff.h"
#include "pg/guard.h"
#include "relay/common/engine_clock.h"

namespace outbox::worker {

class Chore {
 public:
  // Returns false if `work` failed, just now or so recently that it was not called again. *trouble gets the error,
  // unless it holds one. Throws what is not a PgError.
  template <typename Work>
  bool Do(relay::Clock* clock, std::exception_ptr* trouble, Work&& work) {
    if (clock->NowMicros() < next_try_) {
      return false;
    }
    try {
      std::forward<Work>(work)();
    } catch (const pg::PgError&) {
      *trouble = *trouble ? *trouble : std::current_exception();
      next_try_ = clock->NowMicros() + backoff_.Next(clock->Random());
      return false;
    }
    backoff_.Reset();
    next_try_ = 0;
    return true;
  }

  // Monotonic microseconds; kNever: nothing is to be tried again.
  int64_t next_try() const { return next_try_ == 0 ? relay::kNever : next_try_; }

 private:
  Backoff backoff_{100'000, 1'000'000};
  int64_t next_try_ = 0;
};

}  // namespace outbox::worker
