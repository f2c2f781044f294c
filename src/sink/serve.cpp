#include "sink/serve.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <sys/prctl.h>
#include <unistd.h>

#include <algorithm>
#include <climits>
#include <unordered_set>
#include <utility>
#include <vector>

#include "base/fault_point.h"
#include "base/monotonic.h"
#include "sink/confine.h"
#include "sink/flow_gate.h"

namespace outbox::sink {
namespace {

constexpr int kExitClosed = 0;
constexpr int kExitNonsense = 2;
constexpr int kFillsPerTurn = 8;  // then results go out, so that neither direction starves
// Records of a flow that go to several topics or partitions are acknowledged interleaved. Under load, when its ranges
// have many gaps, they wait this long for what is between them and go as a few. Ranges of as many flows have nothing to
// wait for.
constexpr size_t kFewGaps = 32;
constexpr size_t kManyRanges = 4096;
constexpr int64_t kJoinMicros = 5 * 1000;
constexpr int64_t kFailedAbortMicros = 1000 * 1000;  // paces an owner that sends although the sink is down
constexpr int64_t kMakeAgainMicros = 1000 * 1000;

// Stands in for a sink that could not be made, and tries to make it again: there was no thread or descriptor to be had,
// a certificate was not readable.
class LateSink : public Sink {
 public:
  LateSink(Error error, const SinkProgram& program, SinkConfig config)
      : program_(program), config_(std::move(config)), make_at_(MonotonicMicros() + kMakeAgainMicros) {
    health_ = {false, std::move(error), 1};
  }
  void Submit(Batch batch) override {
    if (sink_ != nullptr && gate_.Admits(batch.flow, batch.epoch)) {
      sink_->Submit(std::move(batch));
      return;
    }
    if (aborted_.empty()) {
      abort_at_ = MonotonicMicros() + kFailedAbortMicros;
    }
    gate_.Poison(batch.flow, batch.epoch);  // what comes behind it must not overtake it once the sink is made
    AppendResult({batch.flow, batch.first_seq, batch.count, Outcome::kAborted, {}, true}, &aborted_);
  }
  void Poll(std::vector<Result>* results) override {
    const int64_t now = MonotonicMicros();
    if (sink_ == nullptr && now >= make_at_) {
      Make(now);
    }
    if (!aborted_.empty() && (sink_ != nullptr || now >= abort_at_)) {
      results->insert(results->end(), aborted_.begin(), aborted_.end());
      aborted_.clear();
    }
    if (sink_ != nullptr) {
      sink_->Poll(results);
      FollowHealth();
    }
  }
  void AppendWaits(std::vector<WaitSpec>* waits) override {
    if (sink_ != nullptr) {
      sink_->AppendWaits(waits);
    } else {
      waits->push_back({-1, false, false, aborted_.empty() ? make_at_ : std::min(make_at_, abort_at_)});
    }
  }
  void TakePlaces(std::vector<Place>* places) override {
    if (sink_ != nullptr) {
      sink_->TakePlaces(places);
    }
  }
  const Health& health() const override { return health_; }
  const ServerIdentity* identity() const override { return sink_ == nullptr ? nullptr : sink_->identity(); }
  void Ask(std::vector<AskedStream> streams) override {
    if (sink_ != nullptr) {
      sink_->Ask(std::move(streams));
    }
  }
  bool TakeEnds(std::vector<StreamEnd>* ends) override { return sink_ != nullptr && sink_->TakeEnds(ends); }
  void IdentifyAgain() override {
    if (sink_ != nullptr) {
      sink_->IdentifyAgain();
    }
  }
  void Admit(const std::string& server_run, bool drop) override {
    if (sink_ != nullptr) {
      sink_->Admit(server_run, drop);
    }
  }
  void Close() override {
    aborted_.clear();
    if (sink_ != nullptr) {
      sink_->Close();
    }
  }

 private:
  void Make(int64_t now) {
    make_at_ = now + kMakeAgainMicros;
    Status status = program_.make(config_, &sink_);
    if (status.ok()) {
      Show(sink_->health());
    } else {
      sink_ = nullptr;
      Show({false, status.error()});
    }
  }
  void FollowHealth() {
    if (seen_ != sink_->health().changes) {
      Show(sink_->health());
    }
  }
  // The count of changes continues from this sink's own.
  void Show(Health health) {
    seen_ = std::exchange(health.changes, health_.changes + 1);
    health_ = std::move(health);
  }

  const SinkProgram& program_;
  const SinkConfig config_;
  std::unique_ptr<Sink> sink_;
  Health health_;
  uint64_t seen_ = 0;  // of the sink's changes
  FlowGate gate_;
  std::vector<Result> aborted_;
  int64_t abort_at_ = 0;
  int64_t make_at_;
};

class ServeLoop {
  struct Range {
    uint32_t flow;
    uint32_t count;
    uint64_t first_seq;
  };

 public:
  ServeLoop(int fd, const SinkProgram& program, size_t pending_limit)
      : fd_(fd), program_(program), pending_limit_(pending_limit) {}

  int Run() {
    while (true) {
      bool readable = false;
      if (!Wait(&readable)) {
        return kExitClosed;
      }
      if (readable && !Read()) {
        return exit_code_;
      }
      if (sink_ != nullptr) {
        Turn();
        ShowAlive();
      }
      IoState state = writer_.Flush(fd_);
      if (state != IoState::kOk) {
        return state == IoState::kEnded ? kExitClosed : kExitNonsense;
      }
      if (sink_ != nullptr && writer_.empty() && IsShutOut()) {
        return kExitShutOut;
      }
    }
  }

 private:
  // One that is well goes on with what it has read, and trouble that goes by itself is waited for.
  bool IsShutOut() const {
    const Health& health = sink_->health();
    return !health.up && health.error.error_class == ErrorClass::kConfig && ShutOutOfRenewed();
  }
  // A sink that waits to be admitted writes nothing: the Admit that it waits for is behind the records, so they must be
  // read.
  bool HoldsTooMuch() const {
    return pending_bytes_ >= pending_limit_ && (sink_ == nullptr || !sink_->awaits_admission());
  }
  // Returns false if the other end is gone.
  bool Wait(bool* readable) {
    waits_.clear();
    if (sink_ != nullptr) {
      sink_->AppendWaits(&waits_);
    }
    bool full = HoldsTooMuch() || writer_.pending() >= pending_limit_;
    polls_.clear();
    polls_.push_back({fd_, static_cast<short>((full ? 0 : POLLIN) | (writer_.empty() ? 0 : POLLOUT)), 0});
    int64_t deadline = -1;
    for (const WaitSpec& wait : waits_) {
      if (wait.fd >= 0) {
        polls_.push_back({wait.fd, static_cast<short>((wait.read ? POLLIN : 0) | (wait.write ? POLLOUT : 0)), 0});
      }
      if (wait.deadline >= 0 && (deadline < 0 || wait.deadline < deadline)) {
        deadline = wait.deadline;
      }
    }
    if (!delivered_.empty() && (deadline < 0 || results_since_ + kJoinMicros < deadline)) {
      deadline = results_since_ + kJoinMicros;
    }
    if (sink_ != nullptr && (deadline < 0 || told_at_ + alive_micros_ < deadline)) {
      deadline = told_at_ + alive_micros_;
    }
    int timeout = -1;
    if (deadline >= 0) {
      int64_t left = std::max<int64_t>(0, deadline - MonotonicMicros());
      timeout = static_cast<int>(std::min<int64_t>((left + 999) / 1000, INT_MAX));
    }
    poll(polls_.data(), polls_.size(), timeout);  // EINTR is a turn with nothing to do
    *readable = (polls_[0].revents & POLLIN) != 0;
    return (polls_[0].revents & (POLLHUP | POLLERR | POLLNVAL)) == 0;
  }

  // Returns false to stop with exit_code_.
  bool Read() {
    for (int i = 0; i < kFillsPerTurn && !HoldsTooMuch(); ++i) {
      bool got = false;
      if (reader_.Fill(fd_, &got) != IoState::kOk) {
        exit_code_ = reader_.state() == IoState::kEnded ? kExitClosed : kExitNonsense;
        return false;
      }
      Frame frame;
      while (reader_.Next(&frame)) {
        if (!Handle(frame)) {
          return false;
        }
      }
      if (reader_.state() != IoState::kOk) {
        exit_code_ = kExitNonsense;
        return false;
      }
      if (reader_.drained()) {
        break;
      }
    }
    return true;
  }

  // What cannot be handled ends the process.
  bool Handle(const Frame& frame) {
    exit_code_ = kExitNonsense;
    switch (frame.type) {
      case FrameType::kConfigure:
        return Configure(frame.body);
      case FrameType::kCheckup:
        return CheckUp(frame.body);
      case FrameType::kSubmit:
        return Submit(frame.body);
      case FrameType::kAsk: {
        std::vector<AskedStream> streams;
        if (sink_ == nullptr || !DecodeAsk(frame.body, &streams)) {
          return false;
        }
        sink_->Ask(std::move(streams));
        return true;
      }
      case FrameType::kAdmit: {
        std::string server_run;
        bool drop = false;
        if (sink_ == nullptr || !DecodeAdmit(frame.body, &server_run, &drop)) {
          return false;
        }
        sink_->Admit(server_run, drop);
        return true;
      }
      case FrameType::kIdentifyAgain:
        if (sink_ == nullptr || !frame.body.empty()) {
          return false;
        }
        sink_->IdentifyAgain();
        return true;
      case FrameType::kClose:
        exit_code_ = kExitClosed;
        return false;
      default:
        return false;
    }
  }

  // To the server log: a library that is older than this cannot know why its sinks end.
  static void SayVersion(std::string_view configure) {
    const uint32_t version = ConfiguredVersion(configure);
    if (version != kProtocolVersion) {
      fprintf(
          stderr,
          "%s is of another version of outbox than the library that the server has loaded (protocol %u, not %u), and "
          "ends: restart the server.\n",
          program_invocation_short_name, kProtocolVersion, version);
    }
  }

  bool Configure(std::string_view body) {
    SinkConfig config;
    if (sink_ != nullptr || !DecodeConfigure(body, &config)) {
      SayVersion(body);
      return false;
    }
    // The worker's budget bounds first, and a topic in trouble may hold all of it: then others still get through.
    pending_limit_ = std::max<size_t>(pending_limit_, 2 * config.max_inflight_bytes);
    alive_micros_ = int64_t{config.alive_ms} * 1000;
    Confine(config);
    Status status = program_.make(config, &sink_);
    if (!status.ok()) {
      sink_ = std::make_unique<LateSink>(status.error(), program_, std::move(config));
    }
    writer_.Append(FrameType::kReady, program_.library);
    SendHealth();
    writer_.Flush(fd_);  // before any record is read: a death from here on may be due to one
    return true;
  }

  bool CheckUp(std::string_view body) {
    CheckupRequest request;
    if (sink_ != nullptr || program_.checkup == nullptr || !DecodeCheckup(body, &request)) {
      return false;
    }
    Confine(request.config);
    writer_.Append(FrameType::kCheckupRows, EncodeCheckupRows(program_.checkup(request)));
    return true;
  }

  bool Submit(std::string_view body) {
    Batch batch;
    if (sink_ == nullptr || !DecodeSubmit(body, &batch)) {
      return false;
    }
    reader_.Done();
    pending_bytes_ += batch.records.size();
    pending_records_ += batch.count;
    OUTBOX_FAULT_POISON(batch.records);
    OUTBOX_FAULT_POINT("sink.submit.before");
    sink_->Submit(std::move(batch));
    OUTBOX_FAULT_POINT("sink.submit.after");
    return true;
  }

  void Confine(const SinkConfig& config) const {
    FileNeeds needs;
    bool unix_sockets = false;
    for (const auto& [name, value] : config.options) {
      const OptionRule* rule = program_.kind == nullptr ? nullptr : FindOption(*program_.kind, name);
      if (rule != nullptr && rule->type == ValueType::kPath) {
        needs.files.push_back(value);
      }
      unix_sockets |= rule != nullptr && rule->type == ValueType::kSocket;
    }
    needs.data_directory = config.data_directory;
    needs.temporary = program_.temporary_files != nullptr && program_.temporary_files(config.options);
    if (!unix_sockets) {
      ConfineSockets();
    }
    ConfineFiles(needs);
  }

  // The worker takes silence for a hang. If output is queued and not taken, the worker is not reading anyway.
  void ShowAlive() {
    const int64_t now = MonotonicMicros();
    if (writer_.empty() && now - told_at_ >= alive_micros_) {
      writer_.Append(FrameType::kAlive, {});
    }
    if (!writer_.empty()) {
      told_at_ = now;
    }
  }

  void Turn() {
    polled_.clear();
    sink_->Poll(&polled_);
    if (!polled_.empty() && results_.empty() && delivered_.empty()) {
      results_since_ = MonotonicMicros();
    }
    for (Result& result : polled_) {
      Release(result.count);
      if (result.outcome != Outcome::kDelivered) {
        results_.push_back(std::move(result));
      } else if (!delivered_.empty() && delivered_.back().flow == result.flow &&
                 delivered_.back().first_seq + delivered_.back().count == result.first_seq) {
        delivered_.back().count += result.count;
      } else {
        if (delivered_.empty() || delivered_.back().flow != result.flow) {
          flows_.insert(result.flow);
        }
        delivered_.push_back({result.flow, result.count, result.first_seq});
      }
    }
    const ServerIdentity* identity = sink_->identity();
    const bool met = identity != nullptr && identity->number != identity_number_;
    bool urgent = !results_.empty() || met || sink_->health().changes != health_changes_;
    bool wait = delivered_.size() > kFewGaps + flows_.size() && delivered_.size() < kManyRanges &&
                MonotonicMicros() - results_since_ < kJoinMicros;
    if (urgent || !wait) {
      SendResults();
    }
    if (sink_->health().changes != health_changes_) {
      SendHealth();
    }
    if (met) {  // behind all that the earlier server has acknowledged
      identity_number_ = identity->number;
      writer_.Append(FrameType::kIdentity, EncodeIdentity(identity->server_run));
    }
    if (sink_->TakeEnds(&ends_)) {
      writer_.Append(FrameType::kEnds, EncodeEnds(ends_));
    }
  }

  void SendResults() {
    if (delivered_.empty() && results_.empty()) {
      return;
    }
    std::sort(delivered_.begin(), delivered_.end(), [](const Range& a, const Range& b) {
      return a.flow != b.flow ? a.flow < b.flow : a.first_seq < b.first_seq;
    });
    polled_.clear();
    for (const Range& range : delivered_) {
      AppendResult({range.flow, range.first_seq, range.count, Outcome::kDelivered, {}}, &polled_);
    }
    for (Result& result : results_) {
      AppendResult(std::move(result), &polled_);
    }
    delivered_.clear();
    flows_.clear();
    results_.clear();
    places_.clear();
    sink_->TakePlaces(&places_);
    OUTBOX_FAULT_POINT("sink.results.before");
    EncodeAnswers(places_, polled_,
                  [this](std::string body) { writer_.Append(FrameType::kResults, {}, std::move(body)); });
    OUTBOX_FAULT_POINT("sink.results.queued");
  }

  void SendHealth() {
    health_changes_ = sink_->health().changes;
    writer_.Append(FrameType::kHealth, EncodeHealth(sink_->health()));
  }

  // Records are taken to be of average size: exact again whenever nothing is held.
  void Release(uint64_t count) {
    count = std::min(count, pending_records_);
    if (count != 0) {
      pending_bytes_ -= static_cast<size_t>(static_cast<double>(pending_bytes_) * static_cast<double>(count) /
                                            static_cast<double>(pending_records_));
      pending_records_ -= count;
    }
    if (pending_records_ == 0) {
      pending_bytes_ = 0;
    }
  }

  const int fd_;
  const SinkProgram& program_;
  size_t pending_limit_;
  std::unique_ptr<Sink> sink_;
  int64_t alive_micros_ = 0;
  int64_t told_at_ = 0;  // the worker was told anything
  FrameReader reader_;
  FrameWriter writer_;
  size_t pending_bytes_ = 0;
  uint64_t pending_records_ = 0;
  uint64_t health_changes_ = 0;
  int exit_code_ = kExitClosed;
  std::vector<WaitSpec> waits_;
  std::vector<pollfd> polls_;
  std::vector<Result> polled_;
  std::vector<Place> places_;
  std::vector<StreamEnd> ends_;
  uint64_t identity_number_ = 0;        // as told to the worker
  std::vector<Range> delivered_;        // not told to the worker yet
  std::unordered_set<uint32_t> flows_;  // of these
  std::vector<Result> results_;         // the same, other outcomes
  int64_t results_since_ = 0;           // when the first of them came
};

void WriteOomScore() {
  int fd = open("/proc/self/oom_score_adj", O_WRONLY | O_CLOEXEC);
  if (fd >= 0) {
    [[maybe_unused]] ssize_t written = write(fd, "1000", 4);
    close(fd);
  }
}

// Only the socket tells a sink process to go. The postmaster signals a worker's whole process group and systemd the
// whole service; at a stop the worker still waits for what is in flight. What means something to a server process
// (SIGUSR1: a log is to be rotated) means nothing here.
void IgnoreSignals() {
  for (int signal_number : {SIGPIPE, SIGTERM, SIGINT, SIGHUP, SIGUSR1, SIGUSR2, SIGALRM}) {
    signal(signal_number, SIG_IGN);
  }
}

}  // namespace

int Serve(const SinkProgram& program, size_t pending_limit) {
  IgnoreSignals();
  WriteOomScore();
#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
  prctl(PR_SET_DUMPABLE, 0);
#endif
  // A parent that died before this line closed the socket, which the loop notices.
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  // Where it was started by a descriptor its name is a number.
  prctl(PR_SET_NAME, program_invocation_short_name);
  close(kSinkSocket + 1);
  OUTBOX_FAULT_POINT("sink.start");
  if (fcntl(kSinkSocket, F_SETFD, FD_CLOEXEC) != 0) {
    fprintf(stderr, "this program is started by the outbox extension of PostgreSQL, not by hand\n");
    return kExitNonsense;
  }
  ConfineProcess();
  // Not destroyed: a client library may take seconds for that, and its threads may still run at exit.
  auto* server = new ServeLoop(kSinkSocket, program, pending_limit);
  int code = server->Run();
  _exit(code);
}

}  // namespace outbox::sink
