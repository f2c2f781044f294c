// The reading part of one lane [-]: opens windows of its log and reads them chunk by chunk into the pipeline, within
// the destination's byte budget.
//
// A window is opened when the last one is read and there may be more: the newest was not the current snapshot, a commit
// woke the lane, a barrier was asked for, or nothing has been looked at for EngineOptions::poll_micros. A lane for
// which others look (LaneLog::rests) opens one within another such time, so that its position comes along: not all in
// one turn, or an event would wait for thousands of them.
//
// Single-threaded. Owned by the lane.
#pragma once

#include <cstddef>
#include <cstdint>

#include "relay/common/durable_wait.h"
#include "relay/common/turn.h"
#include "relay/lane/acker.h"
#include "relay/lane/lane_context.h"

namespace outbox::relay {

class Reader {
 public:
  // How far the lane has read.
  enum class Horizon : uint8_t {
    kBehind,    // there may be more
    kCaughtUp,  // to the end of the log, when that was last looked at
    kStopped,   // the log lets it read no further (LaneLog::stopped)
  };

  Reader(LaneContext* lane, Acker* acker) : lane_(lane), acker_(acker) {}
  Reader(const Reader&) = delete;
  Reader& operator=(const Reader&) = delete;

  // Reads one chunk. Returns true if it did; then, if the pipeline reads no more, what was read may be done at once.
  // `careful`: the destination or a topic is in trouble. Then one small chunk is enough to find out whether it is over.
  bool Read(TurnContext* turn, bool careful, size_t chunk_bytes);
  // Whether what was committed up to `lsn` is durable and may be sent.
  Durability Durable(uint64_t lsn, TurnContext* turn);
  // Nobody looks at that any more: it is known by now, or the lane is paused. The next time it begins anew.
  void ForgetDurable();

  void Wake() { woken_ = true; }
  // Whether it has nothing to do: it has caught up, and what woke it, if anything, was nothing for it.
  bool Rests(const TurnContext& turn) {
    const bool looks = woken_ || turn.now >= next_poll_;
    if (!opens_ || starved_ || horizon_ != Horizon::kCaughtUp || turn.barrier > barrier_opened_ ||
        turn.now >= next_move_ || (looks && !lane_->log->rests())) {
      return false;
    }
    woken_ = false;
    next_poll_ = looks ? turn.NextOf(turn.options->poll_micros) : next_poll_;
    return true;
  }
  bool woken() const { return woken_; }  // there may be more than at that time
  bool caught_up() const { return horizon_ != Horizon::kBehind; }
  bool stopped() const { return horizon_ == Horizon::kStopped; }
  bool starved() const { return starved_; }  // would read, but for the budget

  // When it wants to be called again, monotonic microseconds; may be past.
  int64_t next_poll() const { return next_poll_; }
  int64_t next_durable() const { return durable_.next_try(); }

  // --- on the way back of a side lane ---
  // Whether it opens windows.
  void SetOpens(bool opens) {
    opens_ = opens;
    woken_ = woken_ || opens;
  }
  // See LaneLog.
  void LimitTo(const Snapshot* limit) {
    lane_->log->LimitTo(limit);
    limited_ = limit != nullptr;
    horizon_ = Horizon::kBehind;
  }
  // Whether it has read all that `snapshot` sees; that need not have been sent.
  bool HasRead(const Snapshot& snapshot) const;

 private:
  bool WantsWindow(const TurnContext& turn) const;
  bool OpenWindow(TurnContext* turn);
  // Drops events that are no longer this lane's, of a chunk that the log read by an older version of the filter.
  void Sift(EventChunk* chunk) const;

  LaneContext* const lane_;
  Acker* const acker_;
  Horizon horizon_ = Horizon::kBehind;
  bool woken_ = false;
  bool starved_ = false;
  bool opens_ = true;
  bool limited_ = false;
  uint64_t barrier_opened_ = 0;  // newest barrier when it caught up
  uint64_t opened_version_ = 0;  // of the filter, when the newest window was opened
  int64_t next_poll_ = 0;
  int64_t next_move_ = 0;  // when it opens a window though others look
  DurableWait durable_;
};

}  // namespace outbox::relay
