#include "sink/child_process.h"

#include <errno.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <random>
#include <utility>
#include <vector>

#include "base/monotonic.h"
#include "sink/serve.h"
#include "sink/spawn.h"

namespace outbox::sink {
namespace {

constexpr int64_t kYoung = 5 * kSecond;  // a process that dies before this counts towards the back-off
constexpr int64_t kFirstDelay = 100 * kMilli;
constexpr int64_t kLongestDelay = 5 * kSecond;
constexpr int64_t kForgiven = kSecond / 4;  // running well for so long takes back one failure
constexpr int kMostFailures = 8;            // with which the longest delay is reached
constexpr int64_t kReapEvery = 2 * kMilli;
constexpr int64_t kExitGrace = 200 * kMilli;  // from a lost connection to SIGKILL
constexpr int64_t kExitLimit = kSecond;       // one that has not ended by then is stuck
constexpr int64_t kEndGrace = 100 * kMilli;   // the same at End
constexpr int64_t kEndLimit = 190 * kMilli;   // End never takes longer
constexpr int kNapsAtExit = 1000;             // a second: one that is stuck in the kernel is left to init then

// Processes that were killed at End and had not ended 190 ms later, with those of other objects of this process.
constexpr size_t kMaxLeftovers = 64;
pid_t leftovers[kMaxLeftovers];
size_t leftover_count = 0;

// All that this process has started and not reaped, whoever's they are.
std::vector<pid_t>& Unreaped() {
  static auto* unreaped = new std::vector<pid_t>();
  return *unreaped;
}

// Reaps a child that has ended; true also where it is no child any more. *status: as of waitpid, 0 where nobody knows.
bool ReapEnded(pid_t pid, int* status) {
  const pid_t reaped = waitpid(pid, status, WNOHANG);
  if (reaped != pid) {
    *status = 0;
  }
  const bool gone = reaped == pid || (reaped < 0 && errno == ECHILD);
  if (gone) {
    std::erase(Unreaped(), pid);
  }
  return gone;
}

void Nap() {
  timespec nap{0, kMilli * 1000};
  nanosleep(&nap, nullptr);
}

pid_t owner = 0;  // of those that are not reaped: a fork of it has no children yet

// A session that is terminated runs no destructor, and what it leaves behind becomes a child of its container's first
// process. A postmaster that is this takes a stranger that was killed for a server process that crashed, and ends all
// sessions. Holds up nobody but who waits for the end of this process.
void EndAllAtExit() {
  if (owner != getpid()) {
    return;
  }
  for (pid_t pid : Unreaped()) {
    kill(pid, SIGKILL);
  }
  // Naps are counted, so that a machine that stood still gives as many.
  int status = 0;
  for (int naps = 0; !Unreaped().empty() && naps < kNapsAtExit;) {
    if (!ReapEnded(Unreaped().back(), &status)) {
      Nap();
      ++naps;
    }
  }
}

// Before one is started.
void ExpectChild() {
  if (owner != getpid()) {
    if (owner == 0) {
      atexit(EndAllAtExit);
    }
    Unreaped().clear();
    owner = getpid();
  }
  Unreaped().reserve(Unreaped().size() + 1);
}

// No delay for the first, then doubling, with full jitter above the first step.
int64_t RestartDelay(int failures) {
  if (failures <= 1) {
    return 0;
  }
  int64_t ceiling = std::min(kLongestDelay, kFirstDelay << std::min(failures - 2, 10));
  std::random_device random;
  return kFirstDelay / 2 + static_cast<int64_t>(random() % static_cast<uint64_t>(ceiling));
}

}  // namespace

ChildProcess::ChildProcess() : counted_at_(MonotonicMicros()) {}

int ChildProcess::Start(const std::string& executable) {
  wake_at_ = -1;
  started_at_ = MonotonicMicros();
  ready_at_ = 0;
  silent_ = 0;
  delivered_ = false;
  killed_ = false;
  ++starts_;
  ExpectChild();
  const int error = SpawnSink(executable, &pid_, &fd_);
  if (error != 0) {
    pid_ = -1;
    fd_ = -1;
    ++failures_;
    wake_at_ = started_at_ + std::max(kFirstDelay, RestartDelay(failures_));
    return error;
  }
  Unreaped().push_back(pid_);
  phase_ = Phase::kStarting;
  return 0;
}

void ChildProcess::BecomeReady() {
  phase_ = Phase::kReady;
  ready_at_ = MonotonicMicros();
}

void ChildProcess::Kill() {
  killed_ = true;
  kill(pid_, SIGKILL);
}

void ChildProcess::Disconnect() {
  if (fd_ < 0) {
    return;
  }
  CloseSinkSocket(fd_);
  fd_ = -1;
  phase_ = Phase::kEnding;
  lost_at_ = MonotonicMicros();
}

ChildProcess::Exit ChildProcess::AwaitExit() {
  const int64_t now = MonotonicMicros();
  if (!Reap()) {
    if (now - lost_at_ >= kExitGrace && !killed_) {
      Kill();
    }
    wake_at_ = now + kReapEvery;
    const bool late = now - lost_at_ >= kExitLimit;
    return late && std::exchange(phase_, Phase::kStuck) == Phase::kEnding ? Exit::kUnknown : Exit::kNotYet;
  }
  CountFailure();
  wake_at_ = now + RestartDelay(failures_);
  return std::exchange(phase_, Phase::kDown) == Phase::kStuck ? Exit::kLate : Exit::kKnown;
}

std::string ChildProcess::ExitText() const {
  if (killed_) {
    return "the sink process closed its connection and did not end by itself";
  }
  if (WIFSIGNALED(status_)) {
    const int number = WTERMSIG(status_);
    return "the sink process was ended by signal " + std::to_string(number) + " (" + strsignal(number) + ")" +
           (number == SIGSYS ? ": a seccomp filter that the server runs under does not let it be" : "");
  }
  if (WEXITSTATUS(status_) == kExitShutOut) {
    return "the sink process ended so that a new one reads a renewed file that its options name";
  }
  return "the sink process ended with exit code " + std::to_string(WEXITSTATUS(status_));
}

bool ChildProcess::KilledByAnother() const {
  return !killed_ && WIFSIGNALED(status_) && WTERMSIG(status_) == SIGKILL;
}

void ChildProcess::CountFailure() {
  if (lost_at_ - started_at_ >= kYoung) {
    failures_ = 1;
    return;
  }
  const int64_t well = ready_at_ == 0 ? 0 : lost_at_ - ready_at_;
  failures_ = static_cast<int>(std::max<int64_t>(0, failures_ - well / kForgiven)) + 1;
  // If it delivers and soon dies, the owner is searching for the event that kills it: restarts quickly, but without a
  // busy loop.
  failures_ = std::min(failures_, delivered_ ? 2 : kMostFailures);
}

// Returns true if the process is gone and pid_ is -1.
bool ChildProcess::Reap() {
  int status = 0;
  if (!ReapEnded(pid_, &status)) {
    return false;
  }
  status_ = status;
  pid_ = -1;
  return true;
}

void ChildProcess::End() {
  Disconnect();
  const int64_t begin = MonotonicMicros();
  while (pid_ >= 0 && !Reap()) {
    const int64_t spent = MonotonicMicros() - begin;
    if (spent >= kEndLimit) {
      if (leftover_count < kMaxLeftovers) {
        leftovers[leftover_count++] = pid_;  // stuck in the kernel; SIGKILL is on its way
      }
      pid_ = -1;
      break;
    }
    if (!killed_ && spent >= kEndGrace) {
      Kill();
    }
    Nap();
  }
  phase_ = Phase::kDown;
}

void ChildProcess::ReapLeftovers() {
  for (size_t i = 0; i < leftover_count;) {
    int status = 0;
    if (ReapEnded(leftovers[i], &status)) {
      leftovers[i] = leftovers[--leftover_count];
    } else {
      ++i;
    }
  }
}

void ChildProcess::CountSilence(int64_t longest_step) {
  const int64_t now = MonotonicMicros();
  silent_ += std::min(now - std::exchange(counted_at_, now), longest_step);
}

}  // namespace outbox::sink
