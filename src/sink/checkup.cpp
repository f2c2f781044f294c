#include "sink/checkup.h"

#include <utility>

#include "sink/spawn.h"

namespace outbox::sink {
namespace {

// What no kind's program has said.
Error ProgramError(const char* code, std::string message) {
  return {ErrorClass::kInternal, code, std::move(message)};
}

}  // namespace

Checkup::Checkup(const std::string& executable, const CheckupRequest& request)
    : executable_(executable), question_(EncodeCheckup(request)), reader_(kMaxAnswer) {
  Start();
  Poll();
}

void Checkup::Start() {
  const int error = process_.Start(executable_);
  if (error != 0) {
    Fail("SINK_START", "could not start " + executable_ + ": " + StartErrorText(error));
    return;
  }
  reader_ = FrameReader(kMaxAnswer);
  writer_.Clear();
  writer_.Append(FrameType::kCheckup, {}, question_);
}

Checkup::~Checkup() {
  if (process_.pid() > 0) {
    process_.Kill();
  }
  process_.End();
}

void Checkup::Fail(const char* code, std::string message) {
  rows_.push_back({"program", ProgramError(code, std::move(message)), "",
                   "The server log may say more. The sink programs are installed beside outbox.so, of one version; "
                   "where they were replaced since the server was started, restart it."});
  done_ = true;
}

void Checkup::Died() {
  if (tried_other_ || !PassOver(executable_)) {
    process_.End();
    Fail("SINK_DIED", "the sink process ended before it had an answer: " + process_.ExitText());
    return;
  }
  tried_other_ = true;
  process_.End();
  Start();
}

void Checkup::Poll() {
  if (done_) {
    return;
  }
  bool got = false;
  IoState state = writer_.Flush(process_.fd());
  if (state == IoState::kOk) {
    state = reader_.Fill(process_.fd(), &got);
  }
  Frame frame;
  while (!done_ && reader_.Next(&frame)) {
    done_ = frame.type == FrameType::kCheckupRows && DecodeCheckupRows(frame.body, &rows_);
    if (!done_) {
      Fail("SINK_PROTOCOL", "the sink process sent nonsense");
    }
  }
  if (!done_ && (state != IoState::kOk || reader_.state() != IoState::kOk)) {
    Died();
  }
}

std::vector<CheckupRow> Checkup::TakeRows() {
  if (!done_) {
    rows_.push_back({"connection",
                     {ErrorClass::kDestination, "TIMEOUT", "nothing was heard of the destination in time"},
                     "",
                     "A name that cannot be resolved, or a firewall that drops what it does not let pass; a longer "
                     "timeout => ... tells them from a slow one."});
    done_ = true;
  }
  return std::move(rows_);
}

}  // namespace outbox::sink
