// Waiting until what was committed is durable, here and on the standbys that synchronous_standby_names asks for [-]:
// nothing that a failover would un-happen is sent. Of one lane, or of its parked events.
#pragma once

#include <cstdint>

#include "relay/common/call_retry.h"
#include "relay/common/lane_log.h"
#include "relay/common/turn.h"

namespace outbox::relay {

// Whether what was committed up to a WAL position may be sent.
enum class Durability : uint8_t {
  kNotYet,    // or the log is in trouble
  kFoundOut,  // it may, as was asked just now
  kKnown,     // it may, as was known
};

class DurableWait {
 public:
  // Asks `log`, unless it is known, or too soon. `retry` is the owner's, and says what is waited for.
  Durability Look(uint64_t lsn, LaneLog* log, CallRetry* retry, TurnContext* turn) {
    if (lsn <= turn->durable_lsn) {
      Forget(retry);  // another lane may have found out
      return Durability::kKnown;
    }
    if (!retry->Ready(turn->now) || turn->now < next_try_) {
      return Durability::kNotYet;
    }
    bool durable = false;
    const Status status = log->CheckDurable(lsn, &durable);
    if (status.ok() && !durable) {
      next_try_ = turn->now + turn->options->durable_retry_micros;
      since_ = since_ == 0 ? turn->now : since_;
      if (turn->now - since_ >= kTellMicros) {
        retry->Awaits(NoStandby(), *turn, LogCall::kDurable);
      }
      return Durability::kNotYet;
    }
    if (retry->Failed(status, *turn, LogCall::kDurable)) {
      return Durability::kNotYet;
    }
    since_ = 0;
    turn->durable_lsn = lsn;
    return Durability::kFoundOut;
  }
  // Nobody looks at that any more.
  void Forget(CallRetry* retry) {
    since_ = 0;
    retry->Drop(LogCall::kDurable);
  }
  bool waits() const { return since_ != 0; }      // it was not durable when that was last asked
  int64_t next_try() const { return next_try_; }  // monotonic microseconds; may be past

 private:
  static constexpr int64_t kTellMicros = 5'000'000;  // a standby that takes longer is one that a person should look for

  static const Error& NoStandby() {
    static const Error error{ErrorClass::kConfig, "NO_STANDBY",
                             "what was committed is not on the standbys that synchronous_standby_names asks for; it is "
                             "published when it is"};
    return error;
  }

  int64_t next_try_ = 0;
  int64_t since_ = 0;  // the first look that said so; 0: the last one did not
};

}  // namespace outbox::relay
