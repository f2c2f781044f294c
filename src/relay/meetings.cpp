#include "relay/meetings.h"

#include "base/fault_point.h"
#include "relay/lane.h"

namespace outbox::relay {

namespace {

constexpr int64_t kBackoffBase = 100'000;
constexpr int64_t kBackoffCap = 5'000'000;
constexpr int64_t kLookAgain = 20'000;
constexpr int kMostQuestions = 8;  // to one server at one meeting

}  // namespace

Meetings::Meetings(std::unique_ptr<ServerLog> log) : log_(std::move(log)), backoff_(kBackoffBase, kBackoffCap) {}

bool Meetings::Failed(const Status& status, TurnContext* turn) {
  if (status.ok()) {
    backoff_.Reset();
    return false;
  }
  waiting_ = true;
  next_try_ = turn->now + PauseAfter(status.error(), &backoff_, turn->clock->Random());
  return true;
}

bool Meetings::NotYet(TurnContext* turn) {
  waiting_ = true;
  next_try_ = turn->now + kLookAgain;
  return false;
}

void Meetings::Admit(sink::Sink* sink, const std::string& run) {
  run_ = run;
  doubted_.clear();
  sink->Admit(run_, std::exchange(rewound_, false));
}

bool Meetings::Step(sink::Sink* sink, std::span<Lane* const> lanes, TurnContext* turn) {
  waiting_ = waiting_ && turn->now < next_try_;
  const sink::Meeting* meeting = sink->meeting();
  if (meeting == nullptr || meeting->run.empty()) {
    waiting_ = false;
    return false;
  }
  const std::string run = meeting->run;
  if (log_ == nullptr || run == run_) {
    Admit(sink, run);
    return true;
  }
  if (number_ != meeting->number) {
    number_ = meeting->number;
    phase_ = Phase::kSave;
    ends_.clear();
    questions_ = 0;
  }
  if (waiting_) {
    return false;
  }
  if (phase_ == Phase::kSave) {
    bool saved = true;
    for (Lane* lane : lanes) {
      saved &= lane->SaveAcknowledged(turn);
    }
    if (!saved) {
      return NotYet(turn);
    }
    phase_ = Phase::kAsk;
  }
  while (phase_ == Phase::kAsk || phase_ == Phase::kAwait) {
    if (phase_ == Phase::kAwait) {
      std::vector<sink::StreamEnd> answers;
      if (!sink->TakeEnds(&answers)) {
        return false;
      }
      ends_.insert(ends_.end(), answers.begin(), answers.end());
      phase_ = answers.empty() ? Phase::kRecord : Phase::kAsk;  // it would not tell
      continue;
    }
    std::vector<std::string> streams;
    if (questions_ < kMostQuestions && Failed(log_->Streams(run, ends_, &streams), turn)) {
      return false;
    }
    questions_++;
    phase_ = streams.empty() ? Phase::kRecord : Phase::kAwait;
    if (!streams.empty()) {
      sink->Ask(std::move(streams));
    }
  }
  if (phase_ == Phase::kRecord && ends_.empty()) {
    phase_ = Phase::kRewind;
  }
  if (phase_ == Phase::kRecord) {
    OUTBOX_FAULT_POINT("meeting.answered");
    bool lost = false;
    if (doubted_ != run && Failed(log_->Lost(run, ends_, &lost), turn)) {
      return false;
    }
    if (lost) {
      doubted_ = run;
      sink->MeetAgain();
      return true;
    }
    if (Failed(log_->Record(run, ends_), turn)) {
      return false;
    }
    phase_ = Phase::kRewind;
  }
  bool all = true;
  for (Lane* lane : lanes) {
    all &= lane->MeetRun(run, &rewound_, turn);
  }
  if (!all) {
    return NotYet(turn);
  }
  OUTBOX_FAULT_POINT("meeting.admit");
  Admit(sink, run);
  return true;
}

}  // namespace outbox::relay
