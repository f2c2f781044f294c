// How a lane begins, and what it does when another run of its destination's server answers: does that still have what
// was acknowledged to the lane?
#include "relay/lane/lane.h"

namespace outbox::relay {

namespace {

constexpr int64_t kRewindWithin = 5'000'000;

}  // namespace

bool Lane::Load(TurnContext* turn) {
  if (!lane_.LogReady(*turn)) {
    return false;
  }
  // Another worker, or this one a moment ago, may have looked for losses under the new run already, and put the lane
  // back: looked at under the run before, it would be put back once more.
  if (lane_.destination->MeetsAnother()) {
    return false;
  }
  // Perhaps nothing of this lane was acknowledged under that run yet.
  const std::string& server_run = lane_.destination->server_check().server_run();
  Loss loss;
  if (!lane_.is_side() && !server_run.empty() && acker_.server_run() != server_run &&
      !CheckForLoss(server_run, &loss, turn)) {
    return phase_ == Phase::kGone;
  }
  acker_.SetServerRun(server_run);
  Position position;
  if (lane_.log_retry.Failed(lane_.log->LoadPosition(&position), *turn, LogCall::kLoad)) {
    return false;
  }
  lane_.meter.CountSince(lane_.log->there_since());
  if (pump() != nullptr) {
    const CallResult held = lane_.log_retry.Result(pump()->Load(lane_.format.get()), *turn, LogCall::kHeld);
    if (held == CallResult::kLost) {
      Leave(GoneReason::kLost);
    }
    if (held != CallResult::kDone) {
      return held == CallResult::kLost;
    }
  }
  if (sides() != nullptr && lane_.log_retry.Failed(sides()->Load(), *turn, LogCall::kFork)) {
    return false;
  }
  lane_.pipeline.Start(std::move(position));
  acker_.Start(*turn, lane_.pipeline.at().target.has_value());
  topics_.NotePauses();  // of topics that are away already
  phase_ = Phase::kActive;
  Flow();
  if (topics_.trial().on() && !topics_.paused()) {
    sender_.BackOff(*turn);  // it was in trouble a moment ago
  }
  return true;
}

// False: the log is in trouble, the lane has another owner by now, or it has to wait for the next turn. All lanes of
// the destination wait for it: that this one cannot read its next events (a page is damaged) is no reason.
bool Lane::CheckForLoss(const std::string& server_run, Loss* loss, TurnContext* turn) {
  const bool resend = lane_.destination->server_check().resend();
  if (!lane_.log_retry.ReadyFor(LogCall::kRewind, turn->now)) {
    return false;
  }
  if (turn->loss_checks >= turn->options->turn_micros) {
    turn->postponed = true;
    return false;
  }
  const int64_t began = turn->clock->NowMicros();
  const Status status = lane_.log->Rewind(server_run, resend, loss);
  const int64_t took = turn->clock->NowMicros() - began;
  turn->loss_checks += took;
  turn->enough += took;
  const CallResult result = lane_.log_retry.Result(status, *turn, LogCall::kRewind);
  if (result == CallResult::kLost) {
    Leave(GoneReason::kLost);
  }
  if (result != CallResult::kDone) {
    return false;
  }
  if (!loss->error.ok()) {
    lane_.destination->Warn(loss->error, turn->now, loss->missing);
  }
  return true;
}

bool Lane::SaveAcknowledged(TurnContext* turn, Error* why) {
  if (!holds_position() || !acker_.Acknowledged() || (acker_.Ready(*turn) && Save(turn))) {
    return true;
  }
  *why = acker_.retry().trouble().error();
  return false;
}

// A position that only moved would be saved on the way out, above the row that puts the lane back; so would a side
// lane's.
void Lane::NotePutBack() {
  acker_.NotePutBack();
  if (sides() != nullptr) {
    sides()->NotePutBack();
  }
}

Lane::Acceptance Lane::AcceptServer(const std::string& server_run, TurnContext* turn, Error* why) {
  if (!holds_position() || acker_.server_run() == server_run) {
    return Acceptance::kAccepted;  // one that begins finds out by itself
  }
  Loss loss;
  if (!lane_.is_side() && !CheckForLoss(server_run, &loss, turn)) {
    if (const Error* trouble = lane_.log_retry.TroubleOf(LogCall::kRewind)) {
      *why = *trouble;
    }
    return phase_ == Phase::kGone ? Acceptance::kAccepted : Acceptance::kLater;
  }
  if (loss.rewound) {
    NotePutBack();
    Release(turn->now + kRewindWithin);  // and claimed again, to begin where it was put
    return Acceptance::kPutBack;
  }
  acker_.SetServerRun(server_run);
  return Acceptance::kAccepted;
}

}  // namespace outbox::relay
