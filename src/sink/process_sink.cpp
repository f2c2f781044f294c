#include "sink/process_sink.h"

#include <errno.h>
#include <signal.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <random>
#include <utility>

#include "base/monotonic.h"
#include "sink/spawn.h"

namespace outbox::sink {
namespace {

constexpr int64_t kMilli = 1000;
constexpr int64_t kSecond = 1000 * kMilli;
constexpr int64_t kYoung = 5 * kSecond;  // a process that dies before this counts towards the back-off
constexpr int64_t kFirstDelay = 100 * kMilli;
constexpr int64_t kLongestDelay = 5 * kSecond;
constexpr int64_t kForgiven = kSecond / 4;  // running well for so long takes back one failure
constexpr int kMostFailures = 8;            // with which the longest delay is reached
constexpr int64_t kHungTimes = 5;           // of alive_ms
constexpr int64_t kUnreadyTimes = 15;       // of alive_ms, while it starts
constexpr int64_t kReapEvery = 2 * kMilli;
constexpr int64_t kExitGrace = 200 * kMilli;  // from a lost socket to SIGKILL
constexpr int64_t kExitLimit =
    kSecond;  // one that has not ended by then is stuck in the kernel: its exit code stays unknown
constexpr int64_t kCloseGrace = 100 * kMilli;  // the same at Close
constexpr int64_t kCloseLimit = 190 * kMilli;  // Close never takes longer
constexpr int kFillsPerPoll = 16;
// Limit on bytes of frames that resolve nothing: a process that keeps sending them would keep its worker busy.
constexpr int64_t kMostChatter = int64_t{8} << 20;
constexpr int64_t kChatterASecond = int64_t{1} << 20;
constexpr size_t kMostPlaceBytes = size_t{16} << 20;  // of one Poll() to the next; the owner takes them in between
constexpr size_t kLongestLibrary = 200;

// Processes that were killed at Close and had not ended 190 ms later, with those of other sinks of this process. No
// destructor: a worker that ends leaves them to init.
constexpr size_t kMaxLeftovers = 64;
pid_t leftovers[kMaxLeftovers];
size_t leftover_count = 0;

void ReapLeftovers() {
  for (size_t i = 0; i < leftover_count;) {
    int status = 0;
    pid_t reaped = waitpid(leftovers[i], &status, WNOHANG);
    if (reaped == leftovers[i] || (reaped < 0 && errno == ECHILD)) {
      leftovers[i] = leftovers[--leftover_count];
    } else {
      ++i;
    }
  }
}

std::string ExitText(int status, bool killed) {
  if (killed) {
    return "the sink process closed its connection and did not end by itself";
  }
  if (WIFSIGNALED(status)) {
    return "the sink process was ended by signal " + std::to_string(WTERMSIG(status)) + " (" +
           strsignal(WTERMSIG(status)) + ")";
  }
  return "the sink process ended with exit code " + std::to_string(WEXITSTATUS(status));
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

bool Same(const Error& a, const Error& b) {
  return a.error_class == b.error_class && a.code == b.code && a.message == b.message;
}

}  // namespace

ProcessSink::ProcessSink(std::string executable, SinkConfig config)
    : executable_(std::move(executable)), config_(std::move(config)), polled_at_(MonotonicMicros()) {
  Start();
}

ProcessSink::~ProcessSink() {
  Close();
}

void ProcessSink::SetHealth(bool up, Error error, Error warning) {
  if (up == health_.up && Same(error, health_.error) && Same(warning, health_.warning)) {
    return;
  }
  health_.up = up;
  health_.error = std::move(error);
  health_.warning = std::move(warning);
  ++health_.changes;
}

void ProcessSink::Start() {
  wake_at_ = -1;
  started_at_ = MonotonicMicros();
  ready_at_ = 0;
  silent_ = 0;
  ++starts_;
  library_.clear();
  delivered_ = false;
  killed_ = false;
  int error = SpawnSink(executable_, &pid_, &fd_);
  if (error != 0) {
    pid_ = -1;
    fd_ = -1;
    ++failures_;
    Lost({ErrorClass::kDestination, "SINK_START",
          "could not start the sink process \"" + executable_ + "\": " + strerror(error)});
    wake_at_ = started_at_ + std::max(kFirstDelay, RestartDelay(failures_));
    return;
  }
  reader_ = FrameReader(kMaxAnswer);
  chatter_ = 0;
  places_due_ = 0;
  // What was submitted while no process ran comes behind the configuration.
  FrameWriter waiting = std::move(writer_);
  writer_ = FrameWriter();
  writer_.Append(FrameType::kConfigure, EncodeConfigure(config_));
  writer_.Take(std::move(waiting));
}

void ProcessSink::Submit(Batch batch) {
  if (closed_) {
    return;
  }
  if (!gate_.Admits(batch.flow, batch.epoch)) {
    AppendResult({batch.flow, batch.first_seq, batch.count, Outcome::kAborted, {}}, &refused_);
    return;
  }
  pending_.Add(batch.flow, batch.epoch, batch.first_seq, batch.count);
  std::string head = EncodeSubmitHead(batch);
  writer_.Append(FrameType::kSubmit, head, std::move(batch.records));
  if (fd_ >= 0) {
    writer_.Flush(fd_);  // trouble shows again in Poll
  }
}

void ProcessSink::Poll(std::vector<Result>* results) {
  if (closed_) {
    return;
  }
  ReapLeftovers();
  const int64_t now = MonotonicMicros();
  silent_ += std::min(now - std::exchange(polled_at_, now), LongestStep());
  if (fd_ < 0 && pid_ >= 0) {
    AwaitExit();
  }
  if (fd_ < 0 && pid_ < 0 && MonotonicMicros() >= wake_at_) {
    Start();
  }
  if (fd_ >= 0) {
    Exchange(results);
  }
  if (fd_ >= 0) {
    CheckHung();
  }
  if (fd_ < 0 && pid_ >= 0) {
    AwaitExit();
  }
  if (died_) {
    return;
  }
  for (Result& result : refused_) {
    AppendResult(std::move(result), results);
  }
  refused_.clear();
}

void ProcessSink::Exchange(std::vector<Result>* results) {
  IoState written = writer_.Flush(fd_);
  IoState state = IoState::kOk;
  const int64_t now = MonotonicMicros();
  chatter_ = std::max<int64_t>(0, chatter_ - (now - std::exchange(forgiven_at_, now)) * kChatterASecond / kSecond);
  for (int i = 0; i < kFillsPerPoll && state == IoState::kOk; ++i) {
    bool got = false;
    state = reader_.Fill(fd_, &got);
    silent_ = got ? 0 : silent_;
    Frame frame;
    while (fd_ >= 0 && reader_.Next(&frame)) {
      Handle(frame, results);
      if (fd_ >= 0 && chatter_ > kMostChatter) {
        Died({ErrorClass::kInternal, "SINK_PROTOCOL", "the sink process does not stop talking"});
      }
    }
    if (fd_ < 0) {
      return;
    }
    if (state == IoState::kOk) {
      state = reader_.state();
    }
    if (!got) {
      break;
    }
  }
  if (state == IoState::kBroken) {
    Died({ErrorClass::kInternal, "SINK_PROTOCOL", "the sink process sent something unexpected"});
  } else if (state == IoState::kEnded || written != IoState::kOk) {
    Died({ErrorClass::kDestination, "SINK_DIED", "the sink process ended"});
  }
}

void ProcessSink::CheckHung() {
  const int64_t alive = config_.alive_ms * kMilli;
  if (silent_ < alive * (ready_at_ != 0 ? kHungTimes : kUnreadyTimes)) {
    return;
  }
  killed_ = true;
  kill(pid_, SIGKILL);
  Died({ErrorClass::kDestination, "SINK_HUNG",
        "the sink process said nothing for " + std::to_string(silent_ / kSecond) + " s and was killed"});
}

void ProcessSink::Died(Error error) {
  died_ = true;
  Lost(std::move(error));
}

// `status`: of waitpid; nullptr where it could not be had.
void ProcessSink::CountDeath(const int* status) {
  if (!std::exchange(died_, false)) {
    return;
  }
  ++health_.deaths;
  if (ready_at_ == 0) {
    ++health_.unready_deaths;
  } else if (status != nullptr && !killed_ && WIFSIGNALED(*status) && WTERMSIG(*status) == SIGKILL) {
    ++health_.kills;
  }
  ++health_.changes;
}

void ProcessSink::Handle(const Frame& frame, std::vector<Result>* results) {
  bool good = false;
  chatter_ += static_cast<int64_t>(kFrameHeader + frame.body.size());
  switch (frame.type) {
    case FrameType::kReady:
      library_.assign(frame.body.substr(0, kLongestLibrary));
      good = ready_at_ == 0;
      ready_at_ = MonotonicMicros();
      break;
    case FrameType::kAlive:
      good = frame.body.empty();
      break;
    case FrameType::kHealth: {
      Health health;
      good = DecodeHealth(frame.body, &health);
      if (good) {
        SetHealth(health.up, std::move(health.error), std::move(health.warning));
      }
      break;
    }
    case FrameType::kResults:
      good = TakeResults(frame, results);
      break;
    case FrameType::kIdentity: {
      std::string server_run;
      good = DecodeIdentity(frame.body, &server_run);
      if (good) {
        SetIdentity(std::move(server_run));
      }
      break;
    }
    case FrameType::kEnds:
      good = DecodeEnds(frame.body, &ends_, std::exchange(asked_, 0));
      answered_ = good;
      break;
    default:
      break;
  }
  if (!good) {
    Died({ErrorClass::kInternal, "SINK_PROTOCOL", "the sink process sent something unexpected"});
  }
}

// An unknown record, or one resolved twice: the process is not trusted any more. Nor is it if it names more places than
// there were records: its answers must not take more memory than what it was given.
bool ProcessSink::TakeResults(const Frame& frame, std::vector<Result>* results) {
  ResultsReader reader(frame.body);
  for (Place place; reader.Next(&place);) {
    place_bytes_ += place.topic.size() + sizeof(Place);
    if (++places_due_ > static_cast<int64_t>(pending_.records()) || place_bytes_ > kMostPlaceBytes) {
      return false;
    }
    places_.Add(place);
  }
  for (Result result; reader.Next(&result);) {
    if (result.count == 0 || !Resolve(result)) {
      return false;
    }
    chatter_ = 0;
    places_due_ -= result.count;  // theirs came before, or come never
    AppendResult(std::move(result), results);
  }
  places_due_ = std::max<int64_t>(places_due_, 0);
  return reader.whole();
}

void ProcessSink::Tell(FrameType type, const std::string& body) {
  if (fd_ >= 0) {
    writer_.Append(type, body);
    writer_.Flush(fd_);  // trouble shows again in Poll
  }
}

void ProcessSink::SetIdentity(std::string server_run) {
  if (!server_run.empty() || !identity_.server_run.empty()) {
    identity_.server_run = std::move(server_run);
    ++identity_.number;
  }
  ends_.clear();
  answered_ = false;
}

bool ProcessSink::TakeEnds(std::vector<StreamEnd>* ends) {
  if (!answered_) {
    return false;
  }
  answered_ = false;
  *ends = std::move(ends_);
  return true;
}

void ProcessSink::IdentifyAgain() {
  Tell(FrameType::kIdentifyAgain, {});
  SetIdentity({});
}

void ProcessSink::Admit(const std::string& server_run, bool drop) {
  Tell(FrameType::kAdmit, EncodeAdmit(server_run, drop));
  SetIdentity({});
}

// Returns false if not all of the records were pending.
bool ProcessSink::Resolve(const Result& result) {
  uint32_t epoch = 0;
  if (!pending_.Resolve(result.flow, result.first_seq, result.count, &epoch)) {
    return false;
  }
  if (result.outcome != Outcome::kDelivered) {
    gate_.Poison(result.flow, epoch);
  } else {
    delivered_ = true;
  }
  return true;
}

void ProcessSink::Lost(Error error) {
  if (fd_ >= 0) {
    close(fd_);
    fd_ = -1;
  }
  writer_.Clear();
  SetIdentity({});
  pending_.ForEach([this](uint32_t flow, uint32_t epoch, uint64_t first_seq, uint32_t count) {
    gate_.Poison(flow, epoch);
    AppendResult({flow, first_seq, count, Outcome::kAborted, {}}, &refused_);
  });
  pending_.Clear();
  SetHealth(false, std::move(error), {});
  lost_at_ = MonotonicMicros();
}

// The socket is gone, the process not yet: reap it, with force when it lingers.
void ProcessSink::AwaitExit() {
  int64_t now = MonotonicMicros();
  int status = 0;
  if (!Reap(&status)) {
    if (now - lost_at_ >= kExitGrace && !killed_) {
      killed_ = true;
      kill(pid_, SIGKILL);
    }
    if (now - lost_at_ >= kExitLimit) {
      CountDeath(nullptr);
    }
    wake_at_ = now + kReapEvery;
    return;
  }
  CountDeath(&status);
  CountFailure();
  if (health_.error.code == "SINK_DIED") {
    SetHealth(false, {ErrorClass::kDestination, "SINK_DIED", ExitText(status, killed_)}, {});
  }
  wake_at_ = now + RestartDelay(failures_);
}

void ProcessSink::CountFailure() {
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

// Returns true if the process is gone and pid_ is -1. Never waits, and for no other child.
bool ProcessSink::Reap(int* status) {
  pid_t reaped = waitpid(pid_, status, WNOHANG);
  if (reaped == pid_ || (reaped < 0 && errno == ECHILD)) {
    *status = reaped == pid_ ? *status : 0;
    pid_ = -1;
    return true;
  }
  return false;
}

void ProcessSink::AppendWaits(std::vector<WaitSpec>* waits) {
  if (closed_) {
    return;
  }
  WaitSpec wait;
  wait.fd = fd_;
  wait.read = fd_ >= 0;
  wait.write = fd_ >= 0 && !writer_.empty();
  wait.deadline = !refused_.empty() && !died_ ? MonotonicMicros() : fd_ >= 0 ? polled_at_ + LongestStep() : wake_at_;
  waits->push_back(wait);
}

void ProcessSink::Close() {
  if (closed_) {
    return;
  }
  closed_ = true;
  if (fd_ >= 0) {
    close(fd_);
    fd_ = -1;
  }
  writer_.Clear();
  pending_.Clear();
  refused_.clear();
  places_.Clear();
  ReapLeftovers();
  int64_t begin = MonotonicMicros();
  int status = 0;
  bool killed = false;
  while (pid_ >= 0 && !Reap(&status)) {
    int64_t spent = MonotonicMicros() - begin;
    if (spent >= kCloseLimit) {
      if (leftover_count < kMaxLeftovers) {
        leftovers[leftover_count++] = pid_;  // stuck in the kernel; SIGKILL is on its way
      }
      pid_ = -1;
      return;
    }
    if (!killed && spent >= kCloseGrace) {
      kill(pid_, SIGKILL);
      killed = true;
    }
    timespec nap{0, kMilli * 1000};
    nanosleep(&nap, nullptr);
  }
}

}  // namespace outbox::sink
