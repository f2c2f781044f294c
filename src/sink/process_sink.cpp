#include "sink/process_sink.h"

#include <algorithm>
#include <utility>

#include "base/monotonic.h"
#include "sink/spawn.h"

namespace outbox::sink {
namespace {

constexpr int64_t kHungTimes = 5;      // of alive_ms
constexpr int64_t kUnreadyTimes = 15;  // of alive_ms, while it starts
constexpr int kFillsPerPoll = 16;
constexpr int64_t kMostChatter = int64_t{8} << 20;
constexpr int64_t kChatterASecond = int64_t{1} << 20;
constexpr size_t kMostPlaceBytes = size_t{16} << 20;  // of one Poll() to the next; the owner takes them in between
constexpr size_t kLongestLibrary = 200;

bool Same(const Error& a, const Error& b) {
  return a.error_class == b.error_class && a.code == b.code && a.message == b.message;
}

}  // namespace

void ProcessSink::Chatter::Forgive() {
  const int64_t now = MonotonicMicros();
  bytes_ = std::max<int64_t>(0, bytes_ - (now - std::exchange(forgiven_at_, now)) * kChatterASecond / kSecond);
}

bool ProcessSink::Chatter::too_much() const {
  return bytes_ > kMostChatter;
}

ProcessSink::ProcessSink(std::string executable, SinkConfig config)
    : executable_(std::move(executable)), config_(std::move(config)) {
  Start();
}

ProcessSink::~ProcessSink() {
  Close();
}

void ProcessSink::SetHealth(bool up, Error error, Error warning, bool sending) {
  if (up == health_.up && Same(error, health_.error) && Same(warning, health_.warning) && sending == health_.sending) {
    return;
  }
  health_.sending = sending;
  health_.up = up;
  health_.error = std::move(error);
  health_.warning = std::move(warning);
  ++health_.changes;
}

void ProcessSink::Start() {
  library_.clear();
  const int error = process_.Start(executable_);
  if (error != 0) {
    Lost({ErrorClass::kDestination, "SINK_START",
          "could not start the sink process \"" + executable_ + "\": " + StartErrorText(error)});
    return;
  }
  reader_ = FrameReader(kMaxAnswer);
  chatter_.Reset();
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
    AppendResult({batch.flow, batch.first_seq, batch.count, Outcome::kAborted, {}, true}, &refused_);
    return;
  }
  pending_.Add(batch.flow, batch.epoch, batch.first_seq, batch.count);
  std::string head = EncodeSubmitHead(batch);
  writer_.Append(FrameType::kSubmit, head, std::move(batch.records));
  if (process_.connected()) {
    writer_.Flush(process_.fd());  // trouble shows again in Poll
  }
}

void ProcessSink::Poll(std::vector<Result>* results) {
  if (closed_) {
    return;
  }
  ChildProcess::ReapLeftovers();
  process_.CountSilence(LongestStep());
  AwaitExit();
  if (process_.phase() == ChildProcess::Phase::kDown && MonotonicMicros() >= process_.wake_at()) {
    Start();
  }
  if (process_.connected()) {
    Exchange(results);
  }
  if (process_.connected()) {
    CheckHung();
  }
  AwaitExit();
  if (process_.phase() == ChildProcess::Phase::kEnding) {
    return;  // what its death says about them is not known yet
  }
  for (Result& result : refused_) {
    AppendResult(std::move(result), results);
  }
  refused_.clear();
}

void ProcessSink::Exchange(std::vector<Result>* results) {
  IoState written = writer_.Flush(process_.fd());
  IoState state = IoState::kOk;
  chatter_.Forgive();
  for (int i = 0; i < kFillsPerPoll && state == IoState::kOk; ++i) {
    bool got = false;
    state = reader_.Fill(process_.fd(), &got);
    if (got) {
      process_.Heard();
    }
    Frame frame;
    while (process_.connected() && reader_.Next(&frame)) {
      Handle(frame, results);
      if (process_.connected() && chatter_.too_much()) {
        Lost({ErrorClass::kInternal, "SINK_PROTOCOL", "the sink process does not stop talking"});
      }
    }
    if (!process_.connected()) {
      return;
    }
    if (state == IoState::kOk) {
      state = reader_.state();
    }
    if (reader_.drained()) {
      break;
    }
  }
  if (state == IoState::kBroken) {
    Lost({ErrorClass::kInternal, "SINK_PROTOCOL", "the sink process sent something unexpected"});
  } else if (state == IoState::kEnded || written != IoState::kOk) {
    Lost({ErrorClass::kDestination, "SINK_DIED", "the sink process ended"});
  }
}

void ProcessSink::CheckHung() {
  const int64_t alive = config_.alive_ms * kMilli;
  if (process_.silent() < alive * (process_.ready() ? kHungTimes : kUnreadyTimes)) {
    return;
  }
  process_.Kill();
  Lost({ErrorClass::kDestination, "SINK_HUNG",
        "the sink process said nothing for " + std::to_string(process_.silent() / kSecond) + " s and was killed"});
}

void ProcessSink::Handle(const Frame& frame, std::vector<Result>* results) {
  bool good = false;
  chatter_.Add(kFrameHeader + frame.body.size());
  switch (frame.type) {
    case FrameType::kReady:
      library_.assign(frame.body.substr(0, kLongestLibrary));
      good = !process_.ready();
      process_.BecomeReady();
      break;
    case FrameType::kAlive:
      good = frame.body.empty();
      break;
    case FrameType::kHealth: {
      Health health;
      good = DecodeHealth(frame.body, &health);
      if (good) {
        health_.cluster = std::move(health.cluster);
        SetHealth(health.up, std::move(health.error), std::move(health.warning), health.sending);
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
      good = DecodeEnds(frame.body, &ends_.emplace(), std::exchange(asked_, 0));
      break;
    default:
      break;
  }
  if (!good) {
    Lost({ErrorClass::kInternal, "SINK_PROTOCOL", "the sink process sent something unexpected"});
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
    chatter_.Reset();
    places_due_ -= result.count;  // theirs came before, or come never
    AppendResult(std::move(result), results);
  }
  places_due_ = std::max<int64_t>(places_due_, 0);
  return reader.whole();
}

void ProcessSink::Tell(FrameType type, const std::string& body) {
  if (process_.connected()) {
    writer_.Append(type, body);
    writer_.Flush(process_.fd());  // trouble shows again in Poll
  }
}

void ProcessSink::SetIdentity(std::string server_run) {
  if (!server_run.empty() || !identity_.server_run.empty()) {
    identity_.server_run = std::move(server_run);
    ++identity_.number;
  }
  ends_.reset();
}

bool ProcessSink::TakeEnds(std::vector<StreamEnd>* ends) {
  if (!ends_) {
    return false;
  }
  *ends = *std::exchange(ends_, std::nullopt);
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
    process_.Delivered();
  }
  return true;
}

void ProcessSink::Lost(Error error) {
  process_.Disconnect();
  writer_.Clear();
  SetIdentity({});
  const bool unsent = !process_.ready();  // it had not looked at any record yet
  pending_.ForEach([this, unsent](uint32_t flow, uint32_t epoch, uint64_t first_seq, uint32_t count) {
    gate_.Poison(flow, epoch);
    AppendResult({flow, first_seq, count, Outcome::kAborted, {}, unsent}, &refused_);
  });
  pending_.Clear();
  health_.cluster.clear();
  SetHealth(false, std::move(error), {});
}

void ProcessSink::AwaitExit() {
  using Exit = ChildProcess::Exit;
  if (process_.connected() || process_.phase() == ChildProcess::Phase::kDown) {
    return;
  }
  const Exit exit = process_.AwaitExit();
  if (exit == Exit::kKnown || exit == Exit::kUnknown) {
    ++health_.deaths;
    const bool killed = exit == Exit::kKnown && process_.KilledByAnother();
    if (!process_.ready()) {
      ++health_.unready_deaths;
      health_.unready_kills += killed ? 1 : 0;
    } else {
      health_.kills += killed ? 1 : 0;
    }
    ++health_.changes;
  }
  if ((exit == Exit::kKnown || exit == Exit::kLate) && health_.error.code == "SINK_DIED") {
    if (!process_.ready() && !process_.KilledByAnother()) {
      PassOver(executable_);
    }
    SetHealth(false, {ErrorClass::kDestination, "SINK_DIED", process_.ExitText()}, {});
  }
}

void ProcessSink::AppendWaits(std::vector<WaitSpec>* waits) {
  if (closed_) {
    return;
  }
  const bool connected = process_.connected();
  WaitSpec wait;
  wait.fd = process_.fd();
  wait.read = connected;
  wait.write = connected && !writer_.empty();
  if (!refused_.empty() && process_.phase() != ChildProcess::Phase::kEnding) {
    wait.deadline = MonotonicMicros();
  } else {
    wait.deadline = connected ? process_.counted_at() + LongestStep() : process_.wake_at();
  }
  waits->push_back(wait);
}

void ProcessSink::Close() {
  if (closed_) {
    return;
  }
  closed_ = true;
  writer_.Clear();
  pending_.Clear();
  refused_.clear();
  places_.Clear();
  ChildProcess::ReapLeftovers();
  process_.End();
}

}  // namespace outbox::sink
