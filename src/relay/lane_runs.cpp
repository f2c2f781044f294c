// How a lane begins, and what it does when another run of its destination's server answers: has that what it
// acknowledged?
#include "relay/lane.h"

namespace outbox::relay {

namespace {

constexpr int64_t kRewindWithin = 5'000'000;

}  // namespace

bool Lane::Load(TurnContext* turn) {
  if (!LogReady(*turn)) {
    return false;
  }
  // Under that run nothing of this lane was acknowledged yet, perhaps.
  const std::string& run = destination_->meetings().run();
  Loss loss;
  if (id_.side == 0 && !run.empty() && run_ != run && !LookForLoss(run, &loss, turn)) {
    return state_ == LaneState::kGone;
  }
  run_ = run;
  log_->SetRun(run);
  Position position;
  if (LogFailed(LogCall::kLoad, log_->LoadPosition(&position), *turn) ||
      (pump() != nullptr && LogFailed(LogCall::kHeld, parked_->Load(), *turn)) ||
      (sides_ != nullptr && LogFailed(LogCall::kFork, sides_->Load(), *turn))) {
    return false;
  }
  if (pump() != nullptr && parked_->lost()) {
    Leave(GoneReason::kLost);
    return true;
  }
  pipeline_.Start(std::move(position));
  last_save_ = turn->now - turn->options->save_micros;
  NotePauses();  // of topics that are away already
  SetFlowing();
  if (ramp_ != kNoRamp && !paused_) {
    next_try_ = turn->now + backoff_.Next(turn->clock->Random());  // it was in trouble a moment ago
    state_ = LaneState::kBackingOff;
  }
  return true;
}

// False: the log is in trouble, or the lane is somebody else's by now.
bool Lane::LookForLoss(const std::string& run, Loss* loss, TurnContext* turn) {
  bool owner = true;
  if (!LogReady(*turn) || LogFailed(LogCall::kRewind, log_->Rewind(run, loss, &owner), *turn)) {
    return false;
  }
  if (!owner) {
    Leave(GoneReason::kLost);
    return false;
  }
  if (!loss->error.ok()) {
    destination_->Warn(loss->error, turn->now);
  }
  return true;
}

bool Lane::SaveAcknowledged(TurnContext* turn) {
  if (state_ == LaneState::kGone || state_ == LaneState::kStarting || state_ == LaneState::kReleasing ||
      (!dirty_ && !moved_ && places_.empty())) {
    return true;  // whoever loads the lane next looks for himself
  }
  return SaveReady(*turn) && SaveNow(turn);
}

bool Lane::MeetRun(const std::string& run, bool* rewound, TurnContext* turn) {
  if (state_ == LaneState::kGone || state_ == LaneState::kStarting || state_ == LaneState::kReleasing || run_ == run) {
    return true;
  }
  Loss loss;
  if (id_.side == 0 && !LookForLoss(run, &loss, turn)) {
    return state_ == LaneState::kGone;
  }
  if (loss.rewound) {
    *rewound = true;
    Release(turn->now + kRewindWithin);  // and claimed again, to begin where it was put
    return true;
  }
  run_ = run;
  log_->SetRun(run);
  return true;
}

}  // namespace outbox::relay
