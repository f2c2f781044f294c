// Interrupts this process ten thousand times a second while it lives: a handler without SA_RESTART, so that every wait,
// read and write may end with EINTR.
#pragma once

#include <signal.h>
#include <sys/time.h>

#include <atomic>

namespace outbox::sink {

class SignalStorm {
 public:
  SignalStorm() {
    caught_ = 0;
    struct sigaction action {};
    action.sa_handler = [](int) { ++caught_; };
    sigaction(SIGALRM, &action, &before_);
    Arm(100);
  }
  ~SignalStorm() {
    Arm(0);
    sigaction(SIGALRM, &before_, nullptr);
  }
  SignalStorm(const SignalStorm&) = delete;
  SignalStorm& operator=(const SignalStorm&) = delete;

  int count() const { return caught_; }

 private:
  static void Arm(suseconds_t micros) {
    const itimerval timer{{0, micros}, {0, micros}};
    setitimer(ITIMER_REAL, &timer, nullptr);
  }
  static inline std::atomic<int> caught_{0};
  struct sigaction before_ {};
};

}  // namespace outbox::sink
