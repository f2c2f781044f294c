// Calls that fail and are tried again [-]: the back-off, and what there is to say about it meanwhile.
#pragma once

#include <cstdint>

#include "base/backoff.h"
#include "base/status.h"
#include "relay/common/lane_log.h"
#include "relay/common/turn.h"

namespace outbox::relay {

// The result of a call on behalf of a lane's owner.
enum class CallResult : uint8_t {
  kDone,
  kFailed,  // nothing happened; it is called again
  kLost,    // the lane has another owner: nothing was written, and the engine must let it go
};

// The newest error, and since when there has been one.
class Trouble {
 public:
  bool ok() const { return error_.ok(); }
  const Error& error() const { return error_; }
  int64_t since_unix() const { return since_unix_; }  // Unix microseconds; meaningless while ok()
  // Whether to tell people of it. What another session holds locked for a moment is no trouble: the lane goes on.
  bool tells(int64_t wall) const { return !ok() && (error_.code != kLocked || Lasts(since_unix_, wall)); }
  // Whether trouble since then is more than a moment's; Unix microseconds. Where the clock was set back, it may be.
  static bool Lasts(int64_t since_unix, int64_t wall) {
    const int64_t lasted = wall - since_unix;
    return lasted < 0 || lasted >= kMomentMicros;
  }
  void Note(const Error& error, int64_t wall) {
    since_unix_ = error_.ok() ? wall : since_unix_;
    error_ = error;
  }
  void Clear() { error_ = Error{}; }

 private:
  static constexpr int64_t kMomentMicros = 1'000'000;

  Error error_;
  int64_t since_unix_ = 0;
};

// Calls that share a back-off.
enum class LogCall : uint8_t { kAny, kLoad, kOpen, kRead, kDurable, kPark, kHeld, kClaim, kSettle, kFork, kRewind };

class CallRetry {
 public:
  // Microseconds, as in Backoff.
  CallRetry(int64_t base, int64_t cap) : backoff_(base, cap) {}

  bool Ready(int64_t now) const { return now >= next_try_; }
  // For a call that others wait for: what failed may be another one, which says nothing about it.
  bool ReadyFor(LogCall call, int64_t now) const { return Ready(now) || failed_call_ != call; }
  int64_t next_try() const { return next_try_; }  // monotonic microseconds; may be past
  const Trouble& trouble() const { return trouble_; }
  // As far as it is of that call; nullptr: it is not.
  const Error* TroubleOf(LogCall call) const {
    return !trouble_.ok() && failed_call_ == call ? &trouble_.error() : nullptr;
  }

  // Call with the status of each call; true when it had failed. `call` tells calls that share a back-off apart: only
  // the one that failed last ends it by succeeding, since the others say nothing about it.
  bool Failed(const Status& status, const TurnContext& turn, LogCall call = LogCall::kAny) {
    if (status.ok()) {
      if (!trouble_.ok() && call == failed_call_) {
        backoff_.Reset();
        next_try_ = 0;
        trouble_.Clear();
      }
      return false;
    }
    trouble_.Note(status.error(), turn.clock->WallMicros());
    next_try_ = turn.now + PauseAfter(status.error(), &backoff_, turn.clock->Random());
    again_ = next_try_;
    failed_call_ = call;
    return true;
  }
  // The call has done what it could, and waits for others, as `why` says: there is no back-off.
  void Awaits(const Error& why, const TurnContext& turn, LogCall call) {
    if (trouble_.ok() || call == failed_call_) {
      trouble_.Note(why, turn.clock->WallMicros());
      again_ = turn.now;
      failed_call_ = call;
    }
  }
  // For a call on behalf of the lane's owner.
  CallResult Result(const Status& status, const TurnContext& turn, LogCall call = LogCall::kAny) {
    if (status.not_owner()) {
      return CallResult::kLost;
    }
    return Failed(status, turn, call) ? CallResult::kFailed : CallResult::kDone;
  }
  // Forgets the failure of a call that will not be made again.
  void Drop(LogCall call) {
    if (call == failed_call_) {
      *this = CallRetry(backoff_);
    }
  }
  // Call at the end of each step in which the calls may be made. One that is wanted is made in the first step after its
  // pause. The failure of one that is not (a route was paused, a destination went, what was to be parked has been sent)
  // says nothing of how things are, and is forgotten.
  void EndStep(const TurnContext& turn) {
    if (turn.now >= forgets_at()) {
      *this = CallRetry(backoff_);
    }
  }
  int64_t forgets_at() const { return trouble_.ok() ? kNever : again_ + kWantedWithin; }  // monotonic microseconds

 private:
  static constexpr int64_t kWantedWithin = 1'000'000;  // some step makes no calls: a change comes, a fence is awaited

  explicit CallRetry(Backoff backoff) : backoff_(backoff) { backoff_.Reset(); }

  Backoff backoff_;
  int64_t next_try_ = 0;
  int64_t again_ = 0;  // when the call in trouble is made again, if it is still wanted
  LogCall failed_call_ = LogCall::kAny;
  Trouble trouble_;
};

}  // namespace outbox::relay
