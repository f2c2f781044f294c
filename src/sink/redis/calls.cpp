// How RedisSink writes records: what goes into one call, and what its reply means for each record.
#include <algorithm>
#include <utility>

#include "base/fault_point.h"
#include "base/monotonic.h"
#include "sink/redis/errors.h"
#include "sink/redis/redis_sink.h"
#include "sink/redis/resp.h"
#include "sink/redis/scripts.h"

namespace outbox::sink {
namespace {

constexpr size_t kCallRecords = 500;
constexpr size_t kCallBytes = size_t{256} << 10;
constexpr size_t kCallArguments = 50000;
constexpr size_t kCallsOut = 1000;
constexpr size_t kBytesOut = size_t{2} << 20;
constexpr int kLoads = 3;

std::string_view Text(const redisReply& reply) {
  return {reply.str, reply.str == nullptr ? 0 : reply.len};
}

}  // namespace

void RedisSink::Dispatch() {
  while (calls_out_ < kCallsOut && bytes_out_ < kBytesOut) {
    Target* target = targets_.TakeReady();
    if (target == nullptr) {
      break;
    }
    if (target->form == RecordForm::kList || scripts_) {
      SendBatch(target);
    } else {
      SendSingles(target);
    }
  }
  connection_.Flush();
}

// One call with as much as fits, when none is on its way.
void RedisSink::SendBatch(Target* target) {
  if (target->calls != 0) {
    return;  // its reply wakes the target
  }
  if (target->queue.empty()) {
    targets_.Wake(target);  // emptied meanwhile: forgotten
    return;
  }
  auto call = std::make_unique<Call>();
  call->target = target;
  call->kind = target->form == RecordForm::kList ? CallKind::kPush : CallKind::kScript;
  size_t arguments = 0;
  while (!target->queue.empty() && call->entries.size() < kCallRecords) {
    Entry& entry = target->queue.front();
    bool fits = call->bytes + entry.encoded.size() <= kCallBytes && arguments + entry.arguments <= kCallArguments &&
                entry.arguments <= kMaxScriptArguments;
    if (!fits && !call->entries.empty()) {
      break;
    }
    if (entry.arguments > kMaxScriptArguments) {
      call->kind = CallKind::kSingle;
    }
    call->bytes += entry.encoded.size();
    arguments += entry.arguments;
    call->entries.push_back(std::move(entry));
    target->queue.pop_front();
    if (!fits) {
      break;
    }
  }
  target->exclusive = true;
  SendCall(std::move(call));
}

// One command per record, until one comes whose key is still on its way.
void RedisSink::SendSingles(Target* target) {
  if (target->exclusive) {
    return;  // a script that was on its way when scripts turned out to be forbidden
  }
  while (!target->queue.empty() && calls_out_ < kCallsOut && bytes_out_ < kBytesOut) {
    Entry& entry = target->queue.front();
    if (entry.key_hash != 0 && !target->busy.insert(entry.key_hash).second) {
      return;  // that record's reply wakes the target
    }
    auto call = std::make_unique<Call>();
    call->target = target;
    call->bytes = entry.encoded.size();
    call->entries.push_back(std::move(entry));
    target->queue.pop_front();
    SendCall(std::move(call));
  }
  targets_.Wake(target);
}

void RedisSink::SendCall(std::unique_ptr<Call> call) {
  if (awaited_.empty()) {
    quiet_since_ = MonotonicMicros();
  }
  ++call->target->calls;
  ++calls_out_;
  bytes_out_ += call->bytes;
  OUTBOX_FAULT_POINT("sink.redis.call");
  connection_.Send(Encode(*call));
  awaited_.push_back({Expected::kCall, std::move(call), {}});
}

std::string RedisSink::Encode(const Call& call) const {
  const Target& target = *call.target;
  size_t arguments = 0;
  for (const Entry& entry : call.entries) {
    arguments += entry.arguments;
  }
  std::string out;
  out.reserve(call.bytes + 16 * call.entries.size() + 256 + target.name.size());
  bool stream = target.form == RecordForm::kStream;
  if (call.kind == CallKind::kScript) {
    resp::AppendArray(4 + arguments + (stream ? 1 + call.entries.size() : 0), &out);
    resp::AppendBulk("EVALSHA", &out);
    resp::AppendBulk(stream ? stream_sha_ : publish_sha_, &out);
    resp::AppendBulk(stream ? "1" : "0", &out);
    resp::AppendBulk(target.name, &out);
    if (stream) {
      resp::AppendBulk(maxlen_, &out);
    }
  } else if (call.kind == CallKind::kPush) {
    resp::AppendArray(2 + arguments, &out);
    resp::AppendBulk("RPUSH", &out);
    resp::AppendBulk(target.name, &out);
  } else if (stream) {
    resp::AppendArray(3 + arguments + (maxlen_.empty() ? 0 : 3), &out);
    resp::AppendBulk("XADD", &out);
    resp::AppendBulk(target.name, &out);
    if (!maxlen_.empty()) {
      resp::AppendBulk("MAXLEN", &out);
      resp::AppendBulk("~", &out);
      resp::AppendBulk(maxlen_, &out);
    }
    resp::AppendBulk("*", &out);
  } else {
    resp::AppendArray(3, &out);
    resp::AppendBulk("PUBLISH", &out);
    resp::AppendBulk(target.name, &out);
  }
  for (const Entry& entry : call.entries) {
    if (call.kind == CallKind::kScript && stream) {
      resp::AppendNumber(entry.arguments, &out);
    }
    out += entry.encoded;
  }
  return out;
}

void RedisSink::Finish(Call* call) {
  --call->target->calls;
  call->target->exclusive = false;
  --calls_out_;
  bytes_out_ -= call->bytes;
  for (const Entry& entry : call->entries) {
    call->target->busy.erase(entry.key_hash);
  }
}

void RedisSink::HandleCall(std::unique_ptr<Call> call, const redisReply& reply) {
  OUTBOX_FAULT_POINT("sink.redis.reply");
  Finish(call.get());
  if (call->kind == CallKind::kScript) {
    HandleScript(std::move(call), reply);
    return;
  }
  if (reply.type == REDIS_REPLY_ERROR) {
    Error error = ReplyError(Text(reply));
    if (error.error_class == ErrorClass::kMessage && call->entries.size() > 1) {
      error.error_class = ErrorClass::kSolo;
    }
    Stopped(std::move(call), 0, std::move(error));
    return;
  }
  const bool id = reply.type == REDIS_REPLY_STRING;  // of a stream entry
  Delivered(*call, call->entries.size(), id ? Text(reply) : std::string_view(), id ? Text(reply) : std::string_view());
  targets_.Wake(call->target);
}

void RedisSink::HandleScript(std::unique_ptr<Call> call, const redisReply& reply) {
  if (reply.type == REDIS_REPLY_ERROR) {
    Error error = ReplyError(Text(reply));
    if (error.code == "NOSCRIPT" && call->loads < kLoads) {
      // Nothing ran. The server forgot the script, or another one answers now.
      bool stream = call->target->form == RecordForm::kStream;
      ++call->loads;
      Expect(Expected::kReload, resp::Command({"SCRIPT", "LOAD", stream ? kStreamScript : kPublishScript}));
      call->target->exclusive = true;
      SendCall(std::move(call));
      return;
    }
    if (error.error_class == ErrorClass::kConfig && (error.code == "NOPERM" || error.code == "UNKNOWN_COMMAND")) {
      // Nothing ran either. Go on without scripts; the single commands will show what else is forbidden.
      scripts_ = false;
      targets_.PutBack(call->target, std::move(call->entries));
      targets_.Wake(call->target);
      return;
    }
    if (error.error_class == ErrorClass::kMessage && call->entries.size() > 1) {
      error.error_class = ErrorClass::kSolo;  // nothing ran, and which record is why is unknown
    }
    Stopped(std::move(call), 0, std::move(error));
    return;
  }
  size_t count = call->entries.size();
  const size_t told = call->target->form == RecordForm::kStream ? 3 : 1;  // without an error text
  bool shaped = reply.type == REDIS_REPLY_ARRAY && (reply.elements == told || reply.elements == told + 1) &&
                reply.element[0]->type == REDIS_REPLY_INTEGER && reply.element[0]->integer >= 0 &&
                static_cast<uint64_t>(reply.element[0]->integer) <= count &&
                std::all_of(reply.element + 1, reply.element + reply.elements,
                            [](const redisReply* element) { return element->type == REDIS_REPLY_STRING; });
  size_t done = shaped ? static_cast<size_t>(reply.element[0]->integer) : 0;
  bool stopped = shaped && reply.elements == told + 1 && done < count;
  if (!shaped || (!stopped && done != count)) {
    Stopped(std::move(call), 0, {ErrorClass::kInternal, "SCRIPT", "the Redis server answered a script unexpectedly"});
    return;
  }
  const bool ids = told == 3;
  Delivered(*call, done, ids ? Text(*reply.element[1]) : std::string_view(),
            ids ? Text(*reply.element[2]) : std::string_view());
  if (stopped) {
    std::string_view text = Text(*reply.element[told]);
    text.remove_prefix(text.starts_with('-') ? 1 : 0);  // Redis 6
    Stopped(std::move(call), done, ReplyError(text));
    return;
  }
  targets_.Wake(call->target);
}

// Reports the first `done` records of the call as delivered, at `first` to `last`.
void RedisSink::Delivered(const Call& call, size_t done, std::string_view first, std::string_view last) {
  if (done == 0) {
    return;
  }
  attempts_ = 0;
  const Target& target = *call.target;
  if (!puzzles_.empty()) {
    puzzles_.erase({target.form, target.name});
  }
  for (size_t i = 0; i < done; ++i) {
    const Entry& entry = call.entries[i];
    AppendResult({entry.flow, entry.seq, 1, Outcome::kDelivered, {}}, &results_);
    if (i == 0 || call.entries[i - 1].flow != entry.flow) {
      places_.Add(entry.flow, target.name, -1, first, last);
    }
  }
}

void RedisSink::Aborted(const Entry& entry) {
  gate_.Poison(entry.flow, entry.epoch);
  AppendResult({entry.flow, entry.seq, 1, Outcome::kAborted, {}}, &results_);
}

void RedisSink::Stopped(std::unique_ptr<Call> call, size_t done, Error error) {
  std::vector<Entry>& entries = call->entries;
  if (IsCapped(error) && ++puzzles_[{call->target->form, call->target->name}] > kCappedReplies) {
    error.error_class = ErrorClass::kTopic;
  }
  const Entry& failed = entries[done];
  uint32_t flow = failed.flow;
  if (NeedsReconnect(error)) {
    reconnect_ = true;
    reconnect_why_ = error;
  }
  // A record whose flow was stopped elsewhere meanwhile is not asked about: it goes again in any case.
  if (gate_.Admits(flow, failed.epoch)) {
    results_.push_back({flow, failed.seq, 1, Outcome::kFailed, std::move(error)});
    gate_.Poison(flow, failed.epoch);
  } else {
    Aborted(failed);
  }
  std::vector<Entry> again;
  for (size_t i = done + 1; i < entries.size(); ++i) {
    if (gate_.Admits(entries[i].flow, entries[i].epoch)) {
      again.push_back(std::move(entries[i]));
    } else {
      Aborted(entries[i]);
    }
  }
  targets_.PutBack(call->target, std::move(again));
  std::vector<Entry> barred;
  targets_.Remove([this, flow](const Entry& entry) { return entry.flow == flow && !gate_.Admits(flow, entry.epoch); },
                  &barred);
  for (const Entry& entry : barred) {
    Aborted(entry);
  }
  targets_.Wake(call->target);
}

}  // namespace outbox::sink
