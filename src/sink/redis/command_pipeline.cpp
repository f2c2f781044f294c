#include "sink/redis/command_pipeline.h"

#include <utility>

#include "base/monotonic.h"
#include "sink/redis/errors.h"
#include "sink/redis/reply.h"
#include "sink/redis/resp.h"

namespace outbox::sink {
namespace {

constexpr int64_t kLongestStep = 500 * 1000;
constexpr size_t kManyCommands = 32;  // their replies come in pieces
constexpr std::string_view kQueued = "+QUEUED\r\n";

}  // namespace

void Pipeline::Await(Awaited awaited) {
  if (awaited_.empty()) {
    awaits_since_ = quiet_since_ = MonotonicMicros();
  }
  awaited_.push_back(std::move(awaited));
}

void Pipeline::Send(std::string_view command, Handler handler, Reading reading) {
  connection_.out()->Append(command);
  Expect(std::move(handler), reading);
}

void Pipeline::Expect(Handler handler, Reading reading) {
  Await({std::move(handler), reading});
}

void Pipeline::Queued(size_t commands, RefusedHandler refused) {
  Awaited awaited;
  awaited.transaction.reset(new Transaction{commands, std::move(refused)});
  Await(std::move(awaited));
}

void Pipeline::SendExec(ExecHandler done) {
  End("EXEC", std::move(done));
}

void Pipeline::SendDiscard(Handler done) {
  End("DISCARD", [done = std::move(done)](const redisReply* reply, std::span<const ReplyView>) { done(*reply); });
}

void Pipeline::End(std::string_view command, ExecHandler done) {
  Transaction& transaction = *awaited_.back().transaction;
  if (!awaits()) {
    awaits_since_ = quiet_since_ = MonotonicMicros();
  }
  if (awaited_.size() == 1 && transaction.queued == 0 && transaction.commands >= kManyCommands) {
    connection_.ExpectBytes(transaction.commands * kQueued.size() + 1);  // few refusals are shorter
  }
  transaction.done = std::move(done);
  connection_.out()->Append(resp::Command({command}));
}

bool Pipeline::awaits() const {
  if (!queueing() || awaited_.size() > 1) {
    return !awaited_.empty();
  }
  const Transaction& transaction = *awaited_.front().transaction;
  return transaction.queued < transaction.commands;
}

Status Pipeline::Begin(int64_t by) {
  greeted_ = false;
  return connection_.Begin(by);
}

Status Pipeline::Advance(const std::function<void()>& greet) {
  Status moved = Move();
  if (moved.ok() && !greeted_ && connected()) {
    greeted_ = true;
    greet();
    moved = Move();
  }
  Status handled = HandleReplies();
  return handled.ok() ? moved : handled;
}

Status Pipeline::Move() {
  Status moved = connection_.Pump(!queueing());
  if (connection_.TakeProgress()) {
    quiet_since_ = MonotonicMicros();
  }
  return moved;
}

Status Pipeline::HandleReplies() {
  while (true) {
    Transaction* transaction = awaited_.empty() ? nullptr : awaited_.front().transaction.get();
    if (transaction != nullptr) {
      transaction->queued += connection_.SkipReplies(kQueued, transaction->commands - transaction->queued);
      if (HandleElements()) {
        continue;
      }
    }
    ReplyPtr reply;
    const bool outline = !awaited_.empty() && awaited_.front().reading == Reading::kOutline;
    Status parsed = outline ? connection_.SkimReply(&reply, kUsualReply) : connection_.NextReply(&reply, kUsualReply);
    if (!parsed.ok() || reply == nullptr) {
      return parsed;
    }
    if (!awaits()) {  // "max number of clients reached" comes unasked
      return IsError(*reply) ? Status(ReplyError(Text(*reply)))
                             : Status(ErrorClass::kDestination, "PROTOCOL", "the Redis server sent something unasked");
    }
    Status queued;
    if (transaction != nullptr && transaction->queued < transaction->commands) {
      queued = HandleQueued(transaction, *reply);
    } else {
      HandleReply(*reply);
    }
    if (!queued.ok()) {
      return queued;
    }
  }
}

Status Pipeline::HandleQueued(Transaction* transaction, const redisReply& reply) {
  if (IsError(reply)) {
    transaction->refused(transaction->queued, reply);
  } else if (reply.type != REDIS_REPLY_STATUS || Text(reply) != "QUEUED") {
    return Status(ErrorClass::kDestination, "PROTOCOL",
                  "the Redis server did not queue a command of a transaction, but did something else with it");
  }
  ++transaction->queued;
  return {};
}

// What EXEC answered, if that is next and whole.
bool Pipeline::HandleElements() {
  const Transaction& transaction = *awaited_.front().transaction;
  if (!transaction.done || transaction.queued < transaction.commands || !connection_.NextElements(&elements_)) {
    return false;
  }
  const Awaited awaited = std::move(awaited_.front());
  awaited_.pop_front();
  awaited.transaction->done(nullptr, elements_);
  return true;
}

void Pipeline::HandleReply(const redisReply& reply) {
  const Awaited awaited = std::move(awaited_.front());
  awaited_.pop_front();
  if (awaited.transaction == nullptr) {
    awaited.handler(reply);
  } else if (reply.type == REDIS_REPLY_ARRAY) {
    CopyElements(reply, &elements_);
    awaited.transaction->done(nullptr, elements_);
  } else {
    awaited.transaction->done(&reply, {});
  }
}

void Pipeline::Drop() {
  connection_.Drop();
  awaited_.clear();
}

void Pipeline::CountPause() {
  const int64_t now = MonotonicMicros();
  const int64_t step = now - std::exchange(counted_at_, now);
  if (!awaited_.empty() && step > kLongestStep) {
    quiet_since_ += step - kLongestStep;
  }
}

int64_t Pipeline::CountPauseBy() const {
  return counted_at_ + kLongestStep;
}

}  // namespace outbox::sink
