// The circuit breaker of one destination [-]: who may send, and when it is tried again after trouble.
//
//   closed     everybody sends
//   open       nobody sends until next_try: capped exponential, full jitter (base/backoff.h)
//   half-open  one lane sends one small batch. Any answer about a record closes the breaker; trouble opens it again,
//              for longer
//
// A destination whose health goes from down to up is half-open at once. One whose health stays down may keep the small
// batch and say nothing (librdkafka does, for as long as the brokers are away): after kPatience it is open again. That
// batch stays the one that is tried, so that none are piled up, and its answer still closes the breaker. The delays
// start over when it has stayed closed for twice the last one. Topic trouble is none of the breaker's business.
//
// Single-threaded. Times in monotonic microseconds, but for since_unix.
#pragma once

#include <algorithm>
#include <cstdint>

#include "base/backoff.h"
#include "base/status.h"

namespace outbox::relay {

class Breaker {
 public:
  static constexpr uint32_t kProbe = 16;           // events of the batch that half-open lets through
  static constexpr int64_t kPatience = 3'000'000;  // how long a destination that is down may be half-open

  enum class State : uint8_t { kClosed, kOpen, kHalfOpen };

  Breaker(int64_t base, int64_t cap) : backoff_(base, cap) {}

  State state() const { return state_; }
  bool closed() const { return state_ == State::kClosed; }
  const char* name() const {
    return state_ == State::kClosed ? "closed" : state_ == State::kOpen ? "open" : "half-open";
  }
  const Error& reason() const { return reason_; }     // ok() when closed
  int64_t since_unix() const { return since_unix_; }  // Unix microseconds; 0: closed from the start
  int64_t next_try() const { return next_try_; }      // open only
  uint64_t trips() const { return trips_; }           // times it went from closed to open
  bool probing(uint32_t flow) const { return state_ == State::kHalfOpen && probe_ == flow; }
  uint32_t late() const { return late_; }  // the flow that a batch given up waiting for belongs to; 0: none
  // When GiveUp() is due if health is down; half-open only.
  int64_t patience_ends() const { return half_open_at_ + kPatience; }

  // How many events this flow may have submitted now; UINT32_MAX: no bound.
  uint32_t Admits() const {
    return state_ == State::kClosed ? UINT32_MAX : state_ == State::kHalfOpen && probe_ == 0 ? kProbe : 0;
  }
  // It submitted something. While half-open nobody else does then.
  void OnSent(uint32_t flow) {
    if (state_ == State::kHalfOpen) {
      probe_ = flow;
    }
  }
  // The destination has answered for a record of this flow: delivered, or refused for the event's or the topic's sake.
  void OnAnswer(uint32_t flow, int64_t now, int64_t wall) {
    if (probing(flow) || (!closed() && late_ == flow)) {
      Close(now, wall);
    }
  }
  // Trouble of the destination; `flow` 0: its health says so. Of trouble of what was sent before it opened only the
  // reason is kept.
  void Trip(uint32_t flow, const Error& error, int64_t now, int64_t wall, uint64_t random) {
    if (state_ == State::kHalfOpen && probe_ != flow) {
      return;
    }
    reason_ = error;
    if (state_ == State::kOpen) {
      return;
    }
    if (state_ == State::kClosed) {
      ++trips_;
      if (now - closed_at_ > 2 * last_delay_) {
        backoff_.Reset();
      }
    }
    late_ = 0;
    Open(now, wall, random);
  }
  // Half-open, and the destination's health is down with this error: after kPatience it is waited for no longer.
  void GiveUp(const Error& error, int64_t now, int64_t wall, uint64_t random) {
    if (state_ == State::kHalfOpen && now >= patience_ends()) {
      reason_ = error;
      late_ = probe_ != 0 ? probe_ : late_;
      Open(now, wall, random);
    }
  }
  // What is in the way by now, while it stays in trouble.
  void Explain(const Error& error) {
    if (!closed() && error.code != reason_.code) {
      reason_ = error;
    }
  }
  // The destination came up: tried at once.
  void OnUp(int64_t now, int64_t wall) {
    if (state_ == State::kOpen) {
      BecomeHalfOpen(now, wall);
    }
  }
  // Call when time has passed.
  void Tick(int64_t now, int64_t wall) {
    if (state_ == State::kOpen && now >= next_try_) {
      BecomeHalfOpen(now, wall);
      probe_ = late_;
    }
  }
  // The flow has gone, or nothing that it sent is under way any more.
  void Forget(uint32_t flow) {
    probe_ = probe_ == flow ? 0 : probe_;
    late_ = late_ == flow ? 0 : late_;
  }
  // Another sink, other options: nothing is known of it.
  void Reset(int64_t now, int64_t wall) {
    if (!closed()) {
      Close(now, wall);
    }
    backoff_.Reset();
    last_delay_ = 0;
  }

 private:
  void Become(State state, int64_t wall) {
    if (state != state_) {
      since_unix_ = wall;
    }
    state_ = state;
    probe_ = 0;
  }
  void BecomeHalfOpen(int64_t now, int64_t wall) {
    Become(State::kHalfOpen, wall);
    half_open_at_ = now;
  }
  void Open(int64_t now, int64_t wall, uint64_t random) {
    last_delay_ = backoff_.Next(random);
    next_try_ = now + last_delay_;
    Become(State::kOpen, wall);
  }
  void Close(int64_t now, int64_t wall) {
    Become(State::kClosed, wall);
    reason_ = Error{};
    late_ = 0;
    closed_at_ = now;
  }

  State state_ = State::kClosed;
  Error reason_;
  Backoff backoff_;
  int64_t since_unix_ = 0;
  int64_t next_try_ = 0;
  int64_t last_delay_ = 0;
  int64_t half_open_at_ = 0;
  int64_t closed_at_ = 0;
  uint64_t trips_ = 0;
  uint32_t probe_ = 0;  // half-open: the flow whose batch is under way; 0: none
  uint32_t late_ = 0;   // not closed: the flow of a batch that was given up waiting for; 0: none
};

}  // namespace outbox::relay
