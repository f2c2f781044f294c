// A sink's process as its owner sees it [-]: started, ready, silent, lost, ended; and when the next one is to start.
// Never blocks but in End(), touches no signal handlers, and waits for no child but its own. What this process has not
// ended it kills and reaps as it exits (not where a signal ends it), whoever runs no destructor then.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <string>

namespace outbox::sink {

class ChildProcess {
 public:
  enum class Phase : uint8_t {
    kDown,      // there is none; another may be started at wake_at()
    kStarting,  // connected, has not said yet that it is ready
    kReady,
    kEnding,  // its connection is lost, it is to end
    kStuck,   // the same, for so long that how it ends does not matter any more: stuck in the kernel
  };

  ChildProcess();
  ChildProcess(const ChildProcess&) = delete;
  ChildProcess& operator=(const ChildProcess&) = delete;

  // Only where there is none. Returns 0, or an errno: then there is none still, and it is to be tried again later.
  int Start(const std::string& executable);
  void BecomeReady();
  void Delivered() { delivered_ = true; }
  void Kill();
  // The connection is of no use any more.
  void Disconnect();

  enum class Exit : uint8_t {
    kNotYet,
    kUnknown,  // it is stuck; said once
    kKnown,
    kLate,  // known, after kUnknown was said
  };
  // Only when disconnected: reaps it, and kills one that lingers.
  Exit AwaitExit();
  // How the process that was reaped last ended, for messages.
  std::string ExitText() const;
  // A SIGKILL ended it that was not this object's.
  bool KilledByAnother() const;

  // Closes the connection, gives it 100 ms to go, kills, reaps; at most 190 ms. One that is stuck in the kernel even
  // then is reaped by a later call of ReapLeftovers().
  void End();
  // Those of other objects of this class, too.
  static void ReapLeftovers();

  // Call often. Only time counts as silence in which the owner itself was running: `longest_step` at most from one call
  // to the next.
  void CountSilence(int64_t longest_step);
  void Heard() { silent_ = 0; }
  int64_t silent() const { return silent_; }  // microseconds

  Phase phase() const { return phase_; }
  bool connected() const { return fd_ >= 0; }
  bool ready() const { return ready_at_ != 0; }  // also: was, if it is ending
  int fd() const { return fd_; }                 // -1: not connected
  pid_t pid() const { return pid_; }             // -1: there is none
  uint64_t starts() const { return starts_; }
  int64_t counted_at() const { return counted_at_; }  // when CountSilence() was last called
  int64_t wake_at() const { return wake_at_; }        // when to look at the dying one again, or to start; -1: neither

 private:
  bool Reap();
  void CountFailure();

  Phase phase_ = Phase::kDown;
  pid_t pid_ = -1;
  int fd_ = -1;
  uint64_t starts_ = 0;
  int64_t started_at_ = 0;  // monotonic microseconds, all of these
  int64_t ready_at_ = 0;    // 0: not yet
  int64_t lost_at_ = 0;
  int64_t wake_at_ = -1;
  int64_t counted_at_;
  int64_t silent_ = 0;
  int failures_ = 0;        // ends in a row, each within a few seconds of its start and without a delivery
  int status_ = 0;          // of waitpid
  bool delivered_ = false;  // this process has
  bool killed_ = false;     // by this object
};

}  // namespace outbox::sink
