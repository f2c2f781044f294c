// Capped exponential back-off with full jitter [-]: the n-th delay is uniform in [0, min(cap, base * 2^n)], so that
// many that failed together do not come back together. Source: M. Brooker, "Exponential Backoff And Jitter", AWS, 2015.
#pragma once

#include <cstdint>

namespace outbox {

class Backoff {
 public:
  // Microseconds; 0 < base <= cap.
  Backoff(int64_t base, int64_t cap) : base_(base), cap_(cap) {}

  // The next delay, at least 1 microsecond. `random`: 64 random bits.
  int64_t Next(uint64_t random);
  // The delay after the n-th failure, from 1, without an object.
  static int64_t Delay(int64_t base, int64_t cap, int failures, uint64_t random);
  // After success.
  void Reset() { attempts_ = 0; }
  // Delays given since the last Reset.
  int attempts() const { return attempts_; }

 private:
  int64_t base_;
  int64_t cap_;
  int attempts_ = 0;
};

}  // namespace outbox
