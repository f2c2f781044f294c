#include "sink/redis/second_connection.h"

#include <algorithm>

#include "base/monotonic.h"
#include "sink/redis/reply.h"
#include "sink/redis/resp.h"

namespace outbox::sink {
namespace {

constexpr int64_t kKept = 10 * kSecond;   // since somebody wanted it
constexpr int64_t kAgain = 10 * kSecond;  // after one that could not be had
constexpr unsigned kMostDoublings = 6;    // of that, after one that failed: ten minutes

bool SameRun(const ServerInfo& a, const ServerInfo& b) {
  return !a.run_id.empty() && a.run_id == b.run_id && a.history == b.history;
}

}  // namespace

void SecondConnection::Expect(const ServerInfo& server) {
  Drop();
  expected_ = server;
}

bool SecondConnection::Want() {
  wanted_at_ = MonotonicMicros();
  if (state_ == State::kAway && !expected_.run_id.empty() && wanted_at_ >= again_at_) {
    state_ = State::kConnecting;
    connect_by_ = wanted_at_ + connect_timeout_;
    again_at_ = wanted_at_ + kAgain;
    if (!pipeline_.Begin(connect_by_).ok()) {
      Drop();
    }
  }
  return state_ == State::kReady;
}

// All in one go, as the first connection's.
void SecondConnection::Greet() {
  state_ = State::kGreeting;
  met_ = {};
  for (const std::string& command : login_) {
    pipeline_.Send(command, [this](const redisReply& reply) { refused_ |= IsError(reply); });
  }
  pipeline_.Send(resp::Command({"INFO", "server"}),
                 [this](const redisReply& reply) { refused_ |= !ReadServerInfo(reply, &met_).ok(); });
  pipeline_.Send(resp::Command({"INFO", "replication"}),
                 [this](const redisReply& reply) { refused_ |= !ReadReplicationInfo(reply, &met_).ok(); });
  for (const char* section : kReceivedIn) {
    pipeline_.Send(resp::Command({"INFO", section}),
                   [this](const redisReply& reply) { refused_ |= !ReadReceived(reply, &met_).ok(); });
  }
  // A transaction that waits may have to be discarded, for which there is a right of its own.
  pipeline_.Send(resp::Command({"MULTI"}), [this](const redisReply& reply) { refused_ |= IsError(reply); });
  pipeline_.Send(resp::Command({"DISCARD"}), [this](const redisReply& reply) {
    refused_ |= IsError(reply) || !SameRun(met_, expected_);
    state_ = State::kReady;
    if (!refused_) {
      pipeline_.LetIn();
    }
  });
}

void SecondConnection::Failed() {
  again_at_ = MonotonicMicros() + (kAgain << std::min(failures_, kMostDoublings));
  ++failures_;
}

bool SecondConnection::Unwanted() {
  const bool unwanted = state_ == State::kReady && MonotonicMicros() >= wanted_at_ + kKept;
  failures_ = unwanted ? 0 : failures_;
  return unwanted;
}

Status SecondConnection::Poll() {
  if (state_ == State::kAway) {
    return {};
  }
  const bool was_ready = state_ == State::kReady;
  pipeline_.CountPause();
  Status advanced = pipeline_.Advance([this] { Greet(); });
  if (state_ == State::kAway) {
    return {};  // a handler has dropped it
  }
  const bool late = state_ != State::kReady && MonotonicMicros() >= connect_by_;
  if (advanced.ok() && !refused_ && !late) {
    return {};
  }
  Drop();
  return was_ready ? advanced : Status();
}

void SecondConnection::Drop() {
  state_ = State::kAway;
  refused_ = false;
  pipeline_.Drop();
}

void SecondConnection::AppendWaits(int64_t timeout, std::vector<WaitSpec>* waits) const {
  WaitSpec wait;
  switch (state_) {
    case State::kAway:
      return;
    case State::kConnecting:
    case State::kGreeting:
      wait.deadline = connect_by_;
      break;
    case State::kReady:
      wait.deadline = pipeline_.awaits() ? std::min(pipeline_.quiet_since() + timeout, pipeline_.CountPauseBy())
                                         : wanted_at_ + kKept;
      break;
  }
  pipeline_.AppendWait(wait, waits);
}

}  // namespace outbox::sink
