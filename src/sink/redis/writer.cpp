#include "sink/redis/writer.h"

#include <algorithm>
#include <functional>
#include <span>
#include <utility>

#include "base/fault_point.h"
#include "base/monotonic.h"
#include "sink/redis/commands.h"
#include "sink/redis/errors.h"
#include "sink/redis/reply.h"
#include "sink/redis/server_info.h"

namespace outbox::sink {
namespace {

constexpr size_t kTransactionRecords = 500;
// On a loopback a segment is 64 kB, and one that does not fit into what Redis lets come at once (130 to 330 kB seen)
// waits for all of its room, now and then 5 to 20 ms: 281 kB drained 1.5 times slower, and for seconds 3 times
// (docs/performance.md).
constexpr size_t kTransactionBytes = size_t{192} << 10;
// The server is asked for its history where nothing was answered for longer: no server becomes a replica, gets the data
// of another and is a primary again in less.
constexpr int64_t kQuiet = 5 * 1000;
constexpr size_t kSinglesOut = 1000;
constexpr size_t kSinglesBytes = size_t{2} << 20;

// Not just this one: all transactions. MULTI and a lone EXEC may be refused in any words (RefusesCommand): proxies have
// some of their own.
bool ForbidsTransactions(const Error& error) {
  return error.error_class == ErrorClass::kConfig && (error.code == "NOPERM" || error.code == "UNKNOWN_COMMAND");
}

// Before a transaction or a single command.
void AboutToSend() {
  OUTBOX_FAULT_POINT("sink.redis.call");
}

void ReplyHasCome() {
  OUTBOX_FAULT_POINT("sink.redis.reply");
}

}  // namespace

// --- transactions ---

void Writer::Probe(const std::function<void(Error)>& lost) {
  mode_ = without_multi_ ? Mode::kSingles : Mode::kTransactions;
  if (std::exchange(without_multi_, false)) {
    return;
  }
  for (const bool ends : {false, true}) {
    first_.pipeline->Send(resp::Command({ends ? "EXEC" : "MULTI"}), [this, lost, ends](const redisReply& reply) {
      if (!IsError(reply) || mode_ == Mode::kSingles) {
        return;
      }
      Error error = WhyDiscarded(reply);
      if (ForbidsTransactions(error) || RefusesCommand(reply)) {
        UseSingles(/*in_transaction=*/ends, error);
      } else {
        lost(std::move(error));
      }
    });
  }
}

// Redis 6.0 stays in the transaction when EXEC is forbidden, and so does any that knows no EXEC. Where DISCARD is
// refused, too, there may be no way out of it on this connection.
void Writer::UseSingles(bool in_transaction, const Error& why) {
  LeaveSecond();
  mode_ = Mode::kSingles;
  why_singles_ = why;
  first_.multi = Multi::kClosed;
  if (in_transaction) {
    discarding_ = true;
    first_.pipeline->Send(resp::Command({"DISCARD"}), [this](const redisReply& reply) {
      discarding_ = false;
      stuck_ = without_multi_ = ForbidsTransactions(ErrorOf(reply));
    });
  }
}

void Writer::Dispatch() {
  if (suspects_->any()) {
    suspects_->Expire(MonotonicMicros());
  }
  if (mode_ == Mode::kSingles) {
    DispatchSingles();
    first_.pipeline->Flush();
    return;
  }
  if (first_.multi == Multi::kClosed) {
    Open(&first_);
  }
  if (running_ == nullptr && first_.multi == Multi::kOpen && !Asks() && Queue(&first_)) {
    Execute(&first_);
  }
  if (running_ != nullptr) {
    QueueNext();
  }
  first_.pipeline->Flush();
  second_.pipeline->Flush();
}

void Writer::Open(Channel* channel) {
  channel->pipeline->Send(resp::Command({"MULTI"}),
                          [this, channel](const redisReply& reply) { HandleMulti(channel, reply); });
  channel->multi = channel->multi == Multi::kRunning ? Multi::kRunning : Multi::kOpening;
}

void Writer::HandleMulti(Channel* channel, const redisReply& reply) {
  if (mode_ == Mode::kSingles) {
    return;  // EXEC was forbidden meanwhile
  }
  if (!IsError(reply)) {
    channel->multi = Multi::kOpen;
    return;
  }
  Error error = ReplyError(Text(reply));
  if (channel == &second_) {
    LeaveSecond();
  } else if (running_ != nullptr) {
    first_.multi = Multi::kClosed;  // asked again, until what the second one executes has its answer
  } else if (RefusesCommand(reply)) {
    UseSingles(/*in_transaction=*/false, error);
  } else {
    reconnect_ = std::move(error);
  }
}

bool Writer::TryIdle() {
  if (mode_ == Mode::kSingles || first_.multi == Multi::kClosed) {
    return !discarding_;
  }
  if (first_.multi != Multi::kOpen) {
    return false;
  }
  // Not DISCARD, which this user may not call, for all that is known.
  first_.pipeline->Send(resp::Command({"EXEC"}), [](const redisReply&) {});
  first_.multi = Multi::kClosed;
  return true;
}

Error Writer::TakeReconnect() {
  Error error = waiting_.TakeReconnect();
  return error.ok() ? std::exchange(reconnect_, {}) : error;
}

void Writer::ExpectHistory(ServerInfo server) {
  expected_ = std::move(server);
  untold_ = false;
  answered_at_ = 0;
}

// True: nothing is sent before that is answered. The next MULTI goes along.
bool Writer::Asks() {
  if (!asking_ && !untold_ && knows_history() && targets_->records() != 0 &&
      MonotonicMicros() - answered_at_ > kQuiet && TryIdle()) {
    AskForHistory();
    if (mode_ != Mode::kSingles) {
      Open(&first_);
    }
  }
  return asking_ || untold_;
}

void Writer::AskForHistory() {
  asking_ = true;
  first_.pipeline->Send(resp::Command({"INFO", "replication"}), [this](const redisReply& reply) {
    looked_ = {};
    untold_ = !ReadReplicationInfo(reply, &looked_).ok() || looked_.history.empty();
  });
  first_.pipeline->Send(resp::Command({"INFO", ReceivedIn(expected_)}), [this](const redisReply& reply) {
    asking_ = false;
    answered_at_ = MonotonicMicros();
    untold_ = untold_ || !ReadReceived(reply, &looked_).ok() || HasForgotten(expected_.history, looked_.history);
    if (!untold_ && looked_.history != expected_.history) {
      reconnect_ = {ErrorClass::kDestination, "HISTORY",
                    "the Redis server was a replica meanwhile, and may lack what it had acknowledged: it is asked"};
    }
  });
}

// As much as fits, of all targets in turn, behind MULTI. False: there is nothing.
bool Writer::Queue(Channel* channel) {
  Group group;
  size_t bytes = 0;
  size_t commands = 0;
  Parts& parts = channel->parts;
  const size_t targets = mode_ == Mode::kTransactionPerTarget ? 1 : kTransactionRecords;
  while (parts.size() < targets && group.records() < kTransactionRecords && bytes < kTransactionBytes) {
    Target* target = targets_->TakeReady();
    if (target == nullptr) {
      break;
    }
    if (target->queue.empty()) {
      targets_->Wake(target);  // emptied meanwhile: forgotten
      continue;
    }
    const size_t together = waiting_.TogetherWithNext(*target);
    if (together == Suspects::kGuilty) {
      waiting_.RefuseNext(target);
      continue;
    }
    const bool tried = together == Suspects::kInnocent || suspects_->writes();
    if (!tried || !group.Takes(together)) {
      targets_->PutReadyBack(target);
      if (parts.empty()) {
        TryWriting(*target);
      }
      break;
    }
    parts.push_back(waiting_.Take(target, kTransactionRecords - group.records(), kTransactionBytes - bytes, &group));
    bytes += parts.back().bytes;
  }
  if (parts.empty()) {
    return false;
  }
  for (Part& part : parts) {
    part.commands = AppendCommands(*part.target, part.entries, channel->pipeline->out());
    commands += part.commands;
    targets_->Wake(part.target);  // the next transaction may have of it, too
  }
  channel->pipeline->Queued(
      commands, [channel](size_t command, const redisReply& reply) { HandleRefused(channel, command, reply); });
  channel->multi = Multi::kQueued;
  return true;
}

// Only a full one: what comes while the other one is executed goes along.
void Writer::QueueNext() {
  Channel* next = running_ == &first_ ? &second_ : &first_;
  if (mode_ != Mode::kTransactions || suspects_->any() || next->multi == Multi::kQueued ||
      (targets_->records() < kTransactionRecords && targets_->bytes() < kTransactionBytes)) {
    return;
  }
  const bool has_second = second_connection_->Want();
  if (next == &second_ && second_.multi == Multi::kClosed && has_second) {
    Open(&second_);
  } else if (next->multi == Multi::kOpen) {
    Queue(next);
  }
}

void Writer::Execute(Channel* channel) {
  AboutToSend();
  channel->pipeline->SendExec([this, channel](const redisReply* refusal, std::span<const ReplyView> answers) {
    HandleExec(channel, refusal, answers);
  });
  channel->multi = Multi::kRunning;
  running_ = channel;
  Open(channel);
}

// Whether the server takes writes over this connection, by one that changes nothing: no stream takes the id 0-0.
// Whatever it answers, a record would have an answer, too. Nothing is on its way.
void Writer::TryWriting(const Target& target) {
  (void)TryIdle();
  trying_ = true;
  first_.pipeline->Send(resp::Command({"XADD", target.name, "0-0", "outbox", ""}), [this](const redisReply&) {
    trying_ = false;
    suspects_->Wrote();
  });
  if (mode_ != Mode::kSingles) {
    Open(&first_);
  }
}

// Before EXEC, which will discard all.
void Writer::HandleRefused(Channel* channel, size_t command, const redisReply& reply) {
  for (Part& part : channel->parts) {
    if (command < part.commands) {
      if (part.refused.ok()) {
        part.refused = OneOf(ReplyError(Text(reply)), part.entries.size());
      }
      return;
    }
    command -= part.commands;
  }
}

void Writer::HandleExec(Channel* channel, const redisReply* refusal, std::span<const ReplyView> answers) {
  ReplyHasCome();
  answered_at_ = MonotonicMicros();
  Parts parts = TakeOut(channel);
  channel->multi = Multi::kOpening;
  running_ = nullptr;
  if (AllWritten(parts, answers)) {
    ExecuteNext();
  } else {
    TakeBackNext();
  }
  if (refusal != nullptr && IsError(*refusal)) {
    HandleDiscarded(std::move(parts), WhyDiscarded(*refusal));
    return;
  }
  size_t commands = 0;
  for (const Part& part : parts) {
    commands += part.commands;
  }
  const bool whole = answers.size() == commands;
  for (Part& part : parts) {
    if (!whole) {
      waiting_.Stopped(std::move(part), 0, UnexpectedReply(), WaitingRecords::Others::kUnknown, {});
      continue;
    }
    const auto own = answers.first(part.commands);
    answers = answers.subspan(part.commands);
    waiting_.Judge(std::move(part), own);
  }
}

Writer::Channel* Writer::Waiting() {
  return first_.multi == Multi::kQueued ? &first_ : second_.multi == Multi::kQueued ? &second_ : nullptr;
}

// Of what was written before it the server is sure.
void Writer::ExecuteNext() {
  if (Channel* channel = Waiting()) {
    Execute(channel);
    channel->pipeline->Flush();
  }
}

// Its records wait again, in front: what was executed comes back next, before them.
void Writer::TakeBackNext() {
  if (Channel* channel = Waiting()) {
    TakeBack(channel);
    channel->pipeline->SendDiscard([this](const redisReply& reply) {
      if (IsError(reply)) {
        reconnect_ = ReplyError(Text(reply));
      }
    });
  }
}

void Writer::TakeBack(Channel* channel) {
  for (Part& part : TakeOut(channel)) {
    waiting_.PutBack(std::move(part));
  }
  channel->multi = Multi::kClosed;
}

void Writer::LeaveSecond() {
  if (second_.multi == Multi::kQueued) {
    TakeBack(&second_);
  }
  second_.multi = Multi::kClosed;
  second_connection_->Drop();
}

// Nothing was written.
void Writer::HandleDiscarded(Parts parts, Error error) {
  if (error.error_class == ErrorClass::kTopic && parts.size() > 1) {
    error.error_class = ErrorClass::kDestination;  // it is not known whose
  }
  const bool refused = std::any_of(parts.begin(), parts.end(), [](const Part& part) { return !part.refused.ok(); });
  bool put_back = refused;  // those that are not the reason
  if (!refused && error.code == "CROSSSLOT" && parts.size() > 1) {
    mode_ = Mode::kTransactionPerTarget;
    put_back = true;
  } else if (!refused && ForbidsTransactions(error)) {
    UseSingles(/*in_transaction=*/true, error);
    put_back = true;
  }
  for (Part& part : parts) {
    if (!part.refused.ok()) {
      Error why = std::move(part.refused);
      waiting_.Stopped(std::move(part), 0, std::move(why), WaitingRecords::Others::kUnwritten, {});
    } else if (put_back) {
      waiting_.PutBack(std::move(part));
    } else {
      const size_t records = part.entries.size();
      waiting_.Stopped(std::move(part), 0, OneOf(error, records), WaitingRecords::Others::kUnwritten, {});
    }
  }
}

// --- one command for each record ---

void Writer::DispatchSingles() {
  if (discarding_ || stuck_ || (first_.parts.empty() && Asks()) || grouped_ || trying_) {
    return;
  }
  Group group;
  while (!trying_ && first_.parts.size() < kSinglesOut && bytes_out_ < kSinglesBytes) {
    Target* target = targets_->TakeReady();
    if (target == nullptr) {
      break;
    }
    if (!target->queue.empty() && !MayJoin(*target, group)) {
      targets_->PutReadyBack(target);
      break;
    }
    SendSingles(target, &group);
  }
}

// What is on its way, which is the group as soon as it has suspects: these begin it when nothing else is.
bool Writer::MayJoin(const Target& target, const Group& group) const {
  const size_t together = waiting_.TogetherWithNext(target);
  return together == Suspects::kInnocent || grouped_ ? group.Takes(together) : first_.parts.empty();
}

// Until a record comes whose key is still on its way. A list: as many values as fit in one command.
void Writer::SendSingles(Target* target, Group* group) {
  const bool list = target->form == RecordForm::kList;
  while (!target->queue.empty() && first_.parts.size() < kSinglesOut && bytes_out_ < kSinglesBytes &&
         MayJoin(*target, *group)) {
    const size_t together = waiting_.TogetherWithNext(*target);
    if (together == Suspects::kGuilty) {
      waiting_.RefuseNext(target);
      return;
    }
    if (together != Suspects::kInnocent && !suspects_->writes()) {
      TryWriting(*target);
      break;
    }
    const uint64_t key_hash = list ? 0 : target->queue.front().key_hash;
    if ((list && target->calls != 0) || (key_hash != 0 && !target->busy.insert(key_hash).second)) {
      return;  // what is on its way wakes the target
    }
    grouped_ |= together != Suspects::kInnocent;
    Part part = waiting_.Take(target, list ? kTransactionRecords : 1, kTransactionBytes, grouped_ ? group : nullptr);
    part.key_hash = key_hash;
    SendPart(std::move(part));
  }
  targets_->Wake(target);
}

void Writer::SendPart(Part part) {
  AboutToSend();
  part.commands = AppendCommands(*part.target, part.entries, first_.pipeline->out());
  first_.pipeline->Expect([this](const redisReply& reply) { HandleSingle(reply); });
  bytes_out_ += part.bytes;
  first_.parts.push_back(std::move(part));
}

void Writer::HandleSingle(const redisReply& reply) {
  ReplyHasCome();
  answered_at_ = MonotonicMicros();
  Part part = std::move(first_.parts.front());
  first_.parts.pop_front();
  grouped_ = grouped_ && !first_.parts.empty();
  bytes_out_ -= part.bytes;
  --part.target->calls;
  part.target->busy.erase(part.key_hash);
  const ReplyView answer{reply.type, Text(reply)};
  waiting_.Judge(std::move(part), {&answer, 1});
}

// --- outcomes ---

// All that is on its way has come back, or never will.
Parts Writer::TakeOut(Channel* channel) {
  Parts parts = std::exchange(channel->parts, {});
  for (Part& part : parts) {
    --part.target->calls;
  }
  bytes_out_ = 0;
  return parts;
}

void Writer::AbortAll(bool closed) {
  if (closed) {
    waiting_.Suspect({&first_.parts, &second_.parts});
  }
  if (Channel* channel = Waiting()) {
    TakeBack(channel);
  }
  for (Part& part : TakeOut(running_ == &second_ ? &second_ : &first_)) {
    waiting_.AbortSent(std::move(part));
  }
  running_ = nullptr;
  ForgetConnection();
  waiting_.AbortWaiting();
}

void Writer::ForgetConnection() {
  LeaveSecond();
  first_.multi = Multi::kClosed;
  asking_ = false;
  ExpectHistory({});
  grouped_ = false;
  trying_ = false;
  discarding_ = false;
  stuck_ = false;
  reconnect_ = {};
  (void)waiting_.TakeReconnect();
}

void Writer::Clear() {
  first_.parts.clear();
  second_.parts.clear();
  running_ = nullptr;
  LeaveSecond();
  waiting_.Clear();
}

}  // namespace outbox::sink
