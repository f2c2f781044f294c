#include "relay/destination/server_check.h"

#include "base/fault_point.h"

namespace outbox::relay {

namespace {

constexpr int64_t kBackoffBase = 100'000;
constexpr int64_t kBackoffCap = 5'000'000;
constexpr int64_t kRetryMicros = 20'000;
constexpr int kMostQuestions = 8;  // over one connection
constexpr const char* kNotKnown =
    "nothing is sent before it is known what its server may have lost, and that cannot be found out: ";

}  // namespace

ServerCheck::ServerCheck(std::unique_ptr<ServerRuns> log) : log_(std::move(log)), retry_(kBackoffBase, kBackoffCap) {}

bool ServerCheck::Failed(const Status& status, const TurnContext& turn) {
  const bool failed = retry_.Failed(status, turn);
  next_try_ = failed ? retry_.next_try() : next_try_;
  return failed;
}

// Lanes have a back-off of their own.
ServerCheck::Next ServerCheck::RetryLater(const Error& why, const TurnContext& turn) {
  if (why.ok()) {
    retry_.Drop(LogCall::kAny);
  } else {
    retry_.Awaits(why, turn, LogCall::kAny);
  }
  next_try_ = turn.now + kRetryMicros;
  return Next::kWait;
}

void ServerCheck::Tell(const TurnContext& turn) {
  trouble_ = {};
  if (!retry_.trouble().ok() && retry_.trouble().tells(turn.clock->WallMicros())) {
    trouble_ = retry_.trouble().error();
    trouble_.message = kNotKnown + trouble_.message;
  }
}

ServerCheck::Next ServerCheck::GoTo(Phase phase) {
  phase_ = phase;
  return Next::kPhase;
}

void ServerCheck::Forget() {
  asked_run_.clear();
  doubted_ = false;
  ends_.clear();
  number_ = 0;
}

void ServerCheck::Admit(sink::Sink* sink, const std::string& server_run) {
  put_back_ = rewound_ || (put_back_ && server_run == server_run_);
  server_run_ = server_run;
  Forget();
  sink->Admit(server_run_, std::exchange(rewound_, false));
}

bool ServerCheck::Step(sink::Sink* sink, std::span<CheckedLane* const> lanes, TurnContext* turn) {
  const bool did = sink->awaits_admission() && Check(sink, lanes, turn);
  if (!sink->awaits_admission()) {
    next_try_ = kNever;
    retry_.Drop(LogCall::kAny);
  }
  Tell(*turn);
  return did;
}

bool ServerCheck::Check(sink::Sink* sink, std::span<CheckedLane* const> lanes, TurnContext* turn) {
  const sink::ServerIdentity* identity = sink->identity();
  const std::string server_run = identity->server_run;
  if (log_ == nullptr || server_run == server_run_) {
    Admit(sink, server_run);
    return true;
  }
  if (asked_run_ != server_run) {
    Forget();
    asked_run_ = server_run;
  }
  if (number_ != identity->number) {
    number_ = identity->number;
    phase_ = Phase::kSave;
    questions_ = 0;
  }
  if (next_try_ != kNever && turn->now < next_try_) {
    return false;
  }
  next_try_ = kNever;
  Next next = Next::kPhase;
  while (next == Next::kPhase) {
    next = StepPhase(sink, server_run, lanes, turn);
  }
  return next == Next::kDone;
}

ServerCheck::Next ServerCheck::StepPhase(sink::Sink* sink, const std::string& server_run,
                                         std::span<CheckedLane* const> lanes, TurnContext* turn) {
  switch (phase_) {
    case Phase::kSave:
      return Save(lanes, turn);
    case Phase::kAsk:
      return Ask(sink, server_run, *turn);
    case Phase::kAwait:
      return Await(sink);
    case Phase::kRecord:
      return Record(sink, server_run, *turn);
    case Phase::kRewind:
      break;
  }
  return Rewind(sink, server_run, lanes, turn);
}

ServerCheck::Next ServerCheck::Save(std::span<CheckedLane* const> lanes, TurnContext* turn) {
  bool saved = true;
  Error why;
  for (CheckedLane* lane : lanes) {
    saved &= lane->SaveAcknowledged(turn, &why);
  }
  return saved ? GoTo(Phase::kAsk) : RetryLater(why, *turn);
}

ServerCheck::Next ServerCheck::Ask(sink::Sink* sink, const std::string& server_run, const TurnContext& turn) {
  std::vector<sink::AskedStream> streams;
  const bool asks = !doubted_ && questions_ < kMostQuestions;
  if (asks && Failed(log_->Streams(server_run, ends_, &streams), turn)) {
    return Next::kWait;
  }
  ++questions_;
  if (streams.empty()) {
    return GoTo(Phase::kRecord);
  }
  sink->Ask(std::move(streams));
  return GoTo(Phase::kAwait);
}

ServerCheck::Next ServerCheck::Await(sink::Sink* sink) {
  std::vector<sink::StreamEnd> answers;
  if (!sink->TakeEnds(&answers)) {
    return Next::kWait;
  }
  ends_.insert(ends_.end(), answers.begin(), answers.end());
  return GoTo(answers.empty() ? Phase::kRecord : Phase::kAsk);  // empty: it would not tell
}

ServerCheck::Next ServerCheck::Record(sink::Sink* sink, const std::string& server_run, const TurnContext& turn) {
  OUTBOX_FAULT_POINT("server_check.answered");
  bool lost = false;
  Status status;
  if (!doubted_ && !ends_.empty()) {
    status = log_->Lost(server_run, ends_, &lost);
  }
  if (status.ok() && !lost) {
    status = log_->Record(server_run, ends_);
  }
  if (Failed(status, turn)) {
    return Next::kWait;
  }
  if (lost) {
    doubted_ = true;
    sink->IdentifyAgain();
    return Next::kDone;
  }
  return GoTo(Phase::kRewind);
}

ServerCheck::Next ServerCheck::Rewind(sink::Sink* sink, const std::string& server_run,
                                      std::span<CheckedLane* const> lanes, TurnContext* turn) {
  bool all = true;
  Error why;
  for (CheckedLane* lane : lanes) {
    const CheckedLane::Acceptance acceptance = lane->AcceptServer(server_run, turn, &why);
    all &= acceptance != CheckedLane::Acceptance::kLater;
    rewound_ |= acceptance == CheckedLane::Acceptance::kPutBack;
  }
  if (!all) {
    return RetryLater(why, *turn);
  }
  OUTBOX_FAULT_POINT("server_check.admit");
  Admit(sink, server_run);
  return Next::kDone;
}

}  // namespace outbox::relay
