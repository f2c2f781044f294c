// The circuit breaker of one destination [-]: which lanes may send, and when it is tried again after trouble.
//
//   closed     all lanes send
//   open       no lane sends until next_try: capped exponential, full jitter (base/backoff.h)
//   half-open  one lane sends one small batch. Any answer about a record closes the breaker; trouble opens it again,
//              for longer
//
// A destination whose health goes from down to up is half-open at once, and the delays start over: it says by itself
// when it is there again, and paces itself (a sink process by its restarts, a sink by its reconnecting). One whose
// health stays down may keep the small batch and say nothing (librdkafka does, for as long as the brokers are away):
// after kPatience it is open again. That batch stays the one that is tried, so that none are piled up, and its answer
// still closes the breaker. One whose health is up, and for which there is nothing to send for kPatience, is closed:
// it has said that it is there, and no record would ask it. The delays start over, too, when it has stayed closed for
// twice the last one. Topic trouble is none of the breaker's business.
//
// The destination's second sink has a probe of its own (`second`), beside that of the lanes: what it was given may go
// unanswered for long (parked events, topics in trouble), and the lanes do not wait for that. Its answer closes the
// breaker as well; its trouble opens it again only while no lane's probe is in flight.
//
// Single-threaded. Times in monotonic microseconds, but for since_unix.
#pragma once

#include <cstdint>

#include "base/backoff.h"
#include "base/destination_view.h"
#include "base/status.h"

namespace outbox::relay {

class Breaker {
 public:
  static constexpr uint32_t kProbe = 16;           // events of the batch that half-open lets through
  static constexpr int64_t kPatience = 3'000'000;  // how long a destination that is down may be half-open

  using State = BreakerState;

  Breaker(int64_t base, int64_t cap) : backoff_(base, cap) {}

  State state() const { return state_; }
  bool closed() const { return state_ == State::kClosed; }
  const Error& reason() const { return reason_; }     // ok() when closed
  int64_t since_unix() const { return since_unix_; }  // closed, or not: Unix microseconds; 0: from the start
  int64_t next_try() const { return next_try_; }      // open only
  uint64_t trips() const { return trips_; }           // times it went from closed to open
  bool probing(uint32_t flow) const {
    return state_ == State::kHalfOpen && (probe_.flow == flow || second_.flow == flow);
  }
  // The flow of a batch that is no longer waited for; 0: none.
  uint32_t late(bool second) const { return second ? second_.late : probe_.late; }
  // Half-open, health is up, and there is nothing to send: after kPatience it is closed.
  void Rest(int64_t now, int64_t wall) {
    if (state_ == State::kHalfOpen && probe_.flow == 0 && second_.flow == 0 && now >= patience_ends()) {
      Close(now, wall);
    }
  }
  // Half-open, and a lane's batch is in flight.
  bool tried() const { return state_ == State::kHalfOpen && probe_.flow != 0; }
  // When GiveUp() is due if health is down, or PassOn() if it is up and a lane tries; half-open only.
  int64_t patience_ends() const { return half_open_at_ + kPatience; }

  // How many events may be submitted now; UINT32_MAX: no bound.
  uint32_t Admits(bool second = false) const {
    if (state_ == State::kClosed) {
      return UINT32_MAX;
    }
    return state_ == State::kHalfOpen && probe_.flow == 0 && (!second || second_.flow == 0) ? kProbe : 0;
  }
  // The flow submitted something. While half-open, no other flow submits after that.
  void OnSent(uint32_t flow, bool second = false) {
    if (state_ == State::kHalfOpen) {
      (second ? second_ : probe_).flow = flow;
    }
  }
  // The destination has answered for a record of this flow: delivered, or refused for the event's or the topic's sake.
  void OnAnswer(uint32_t flow, int64_t now, int64_t wall) {
    if (probing(flow) || (!closed() && (probe_.late == flow || second_.late == flow))) {
      Close(now, wall);
    }
  }
  // Trouble of the destination; `flow` 0: its health says so. Where the trouble is of something sent before the breaker
  // opened, only the reason is kept.
  void Trip(uint32_t flow, const Error& error, int64_t now, int64_t wall, uint64_t random) {
    if (state_ == State::kHalfOpen && probe_.flow != flow) {
      const bool second = flow != 0 && second_.flow == flow;
      if (second) {
        second_.flow = 0;
      }
      if (!second || probe_.flow != 0) {
        return;
      }
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
    probe_.late = 0;
    second_.late = 0;
    Open(now, wall, random);
  }
  // Half-open, and the destination's health is down with this error: after kPatience it is waited for no longer.
  void GiveUp(const Error& error, int64_t now, int64_t wall, uint64_t random) {
    if (state_ == State::kHalfOpen && now >= patience_ends()) {
      reason_ = error;
      probe_.GiveUp();
      second_.GiveUp();
      Open(now, wall, random);
    }
  }
  // Half-open, health is up, and the small batch has no answer (it is of a topic in trouble, say): after kPatience
  // another lane may try, too. A late answer closes it as well.
  void PassOn(int64_t now) {
    if (tried() && now >= patience_ends()) {
      probe_.GiveUp();
      probe_.flow = 0;
      half_open_at_ = now;
    }
  }
  // Updates the reason while the destination stays in trouble.
  void Explain(const Error& error) {
    if (!closed()) {
      reason_ = error;
    }
  }
  // The destination came up: tried at once.
  void OnUp(int64_t now, int64_t wall) {
    if (state_ == State::kOpen) {
      backoff_.Reset();
      BecomeHalfOpen(now, wall);
    }
  }
  // Call when time has passed.
  void OnTime(int64_t now, int64_t wall) {
    if (state_ == State::kOpen && now >= next_try_) {
      BecomeHalfOpen(now, wall);
      probe_.flow = probe_.late;
      second_.flow = second_.late;
    }
  }
  // The flow has gone, or nothing that it sent is in flight any more.
  void Forget(uint32_t flow) {
    probe_.Forget(flow);
    second_.Forget(flow);
  }
  // Another sink, other options: it is tried at once. An outage is over when that has an answer, and not before:
  // options that were wrong may be wrong still.
  void Reset(int64_t now, int64_t wall) {
    if (!closed()) {
      probe_.late = 0;
      second_.late = 0;
      BecomeHalfOpen(now, wall);
    }
    backoff_.Reset();
    last_delay_ = 0;
  }

 private:
  struct Probe {
    uint32_t flow = 0;  // half-open: its batch is in flight; 0: no flow's
    uint32_t late = 0;  // not closed: its batch is no longer waited for; 0: no flow's

    void GiveUp() { late = flow != 0 ? flow : late; }
    void Forget(uint32_t gone) {
      flow = flow == gone ? 0 : flow;
      late = late == gone ? 0 : late;
    }
  };

  void Become(State state, int64_t wall) {
    if ((state == State::kClosed) != closed()) {
      since_unix_ = wall;
    }
    state_ = state;
    probe_.flow = 0;
    second_.flow = 0;
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
    probe_.late = 0;
    second_.late = 0;
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
  Probe probe_;
  Probe second_;  // at the destination's second sink
};

}  // namespace outbox::relay
