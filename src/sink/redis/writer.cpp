#include "sink/redis/writer.h"

#include <algorithm>
#include <utility>

#include "base/fault_point.h"
#include "sink/redis/errors.h"
#include "sink/redis/reply.h"
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

// What a script answered; see scripts.h.
struct ScriptAnswer {
  size_t done = 0;
  std::string_view first;  // streams only
  std::string_view last;
  std::string_view error;  // "": all were done
};

// Of a script that was given `count` records. False: that is no answer of ours.
bool ReadScriptAnswer(const redisReply& reply, bool stream, size_t count, ScriptAnswer* answer) {
  const size_t told = stream ? 3 : 1;  // without an error text
  const bool shaped = reply.type == REDIS_REPLY_ARRAY && (reply.elements == told || reply.elements == told + 1) &&
                      reply.element[0]->type == REDIS_REPLY_INTEGER && reply.element[0]->integer >= 0 &&
                      static_cast<uint64_t>(reply.element[0]->integer) <= count &&
                      std::all_of(reply.element + 1, reply.element + reply.elements,
                                  [](const redisReply* element) { return element->type == REDIS_REPLY_STRING; });
  if (!shaped) {
    return false;
  }
  answer->done = static_cast<size_t>(reply.element[0]->integer);
  if (stream) {
    answer->first = Text(*reply.element[1]);
    answer->last = Text(*reply.element[2]);
  }
  const bool stopped = reply.elements == told + 1 && answer->done < count;
  if (stopped) {
    answer->error = Text(*reply.element[told]);
    answer->error.remove_prefix(answer->error.starts_with('-') ? 1 : 0);  // Redis 6
  }
  return stopped || answer->done == count;
}

}  // namespace

void Writer::Submit(const Batch& batch) {
  if (!gate_.Admits(batch.flow, batch.epoch)) {
    AppendResult({batch.flow, batch.first_seq, batch.count, Outcome::kAborted, {}}, &results_);
    return;
  }
  RecordReader reader(batch.records);
  Record record;
  for (uint32_t i = 0; i < batch.count; ++i) {
    uint64_t seq = batch.first_seq + i;
    bool read = reader.Next(&record);
    streams_ = streams_ || (read && record.form == RecordForm::kStream);
    if (read && targets_.Add(batch.flow, batch.epoch, seq, record)) {
      continue;
    }
    Error error = read ? Error{ErrorClass::kMessage, "EMPTY_RECORD", "a stream entry needs at least one field"}
                       : Error{ErrorClass::kInternal, "BAD_RECORD", "the batch holds fewer records than it says"};
    results_.push_back({batch.flow, seq, 1, Outcome::kFailed, std::move(error)});
    gate_.Poison(batch.flow, batch.epoch);  // what is queued before it may go
    if (i + 1 < batch.count) {
      AppendResult({batch.flow, seq + 1, batch.count - i - 1, Outcome::kAborted, {}}, &results_);
    }
    return;
  }
}

void Writer::Teach(const std::function<void(Error)>& lost) {
  scripts_ = true;
  for (std::string* sha : {&stream_sha_, &publish_sha_}) {
    const std::string_view script = sha == &stream_sha_ ? kStreamScript : kPublishScript;
    pipeline_->Send(resp::Command({"SCRIPT", "LOAD", script}), [this, sha, lost](const redisReply& reply) {
      if (!IsError(reply)) {
        sha->assign(Text(reply));
        return;
      }
      Error error = ReplyError(Text(reply));
      if (error.error_class == ErrorClass::kConfig && error.code != "NOAUTH") {
        scripts_ = false;
      } else {
        lost(std::move(error));
      }
    });
  }
}

void Writer::Dispatch() {
  while (out_.size() < kCallsOut && bytes_out_ < kBytesOut) {
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
  pipeline_->Flush();
}

// One call with as much as fits, when none is on its way.
void Writer::SendBatch(Target* target) {
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
void Writer::SendSingles(Target* target) {
  if (target->exclusive) {
    return;  // a script that was on its way when scripts turned out to be forbidden
  }
  while (!target->queue.empty() && out_.size() < kCallsOut && bytes_out_ < kBytesOut) {
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

void Writer::SendCall(CallPtr call) {
  ++call->target->calls;
  bytes_out_ += call->bytes;
  OUTBOX_FAULT_POINT("sink.redis.call");
  pipeline_->Send(Encode(*call), [this](const redisReply& reply) { HandleCall(reply); });
  out_.push_back(std::move(call));
}

std::string Writer::Encode(const Call& call) const {
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

void Writer::HandleCall(const redisReply& reply) {
  OUTBOX_FAULT_POINT("sink.redis.reply");
  CallPtr call = std::move(out_.front());
  out_.pop_front();
  --call->target->calls;
  call->target->exclusive = false;
  bytes_out_ -= call->bytes;
  for (const Entry& entry : call->entries) {
    call->target->busy.erase(entry.key_hash);
  }
  if (call->kind == CallKind::kScript) {
    HandleScript(std::move(call), reply);
    return;
  }
  if (IsError(reply)) {
    Error error = ReplyError(Text(reply));
    if (error.error_class == ErrorClass::kMessage && call->entries.size() > 1) {
      error.error_class = ErrorClass::kSolo;
    }
    Stopped(std::move(call), 0, std::move(error));
    return;
  }
  const std::string_view id = StringText(reply);  // of a stream entry
  Delivered(*call, call->entries.size(), id, id);
  targets_.Wake(call->target);
}

void Writer::HandleScript(CallPtr call, const redisReply& reply) {
  if (IsError(reply)) {
    HandleScriptError(std::move(call), ReplyError(Text(reply)));
    return;
  }
  ScriptAnswer answer;
  if (!ReadScriptAnswer(reply, call->target->form == RecordForm::kStream, call->entries.size(), &answer)) {
    Stopped(std::move(call), 0, {ErrorClass::kInternal, "SCRIPT", "the Redis server answered a script unexpectedly"});
    return;
  }
  Delivered(*call, answer.done, answer.first, answer.last);
  if (answer.done < call->entries.size()) {
    Stopped(std::move(call), answer.done, ReplyError(answer.error));
    return;
  }
  targets_.Wake(call->target);
}

// Nothing ran.
void Writer::HandleScriptError(CallPtr call, Error error) {
  if (error.code == "NOSCRIPT" && call->loads < kLoads) {
    LoadAgain(std::move(call));
    return;
  }
  if (error.error_class == ErrorClass::kConfig && (error.code == "NOPERM" || error.code == "UNKNOWN_COMMAND")) {
    // Go on without scripts; the single commands will show what else is forbidden.
    scripts_ = false;
    targets_.PutBack(call->target, std::move(call->entries));
    targets_.Wake(call->target);
    return;
  }
  if (error.error_class == ErrorClass::kMessage && call->entries.size() > 1) {
    error.error_class = ErrorClass::kSolo;  // which record is why is unknown
  }
  Stopped(std::move(call), 0, std::move(error));
}

// The server forgot the script, or another one answers now.
void Writer::LoadAgain(CallPtr call) {
  const std::string_view script = call->target->form == RecordForm::kStream ? kStreamScript : kPublishScript;
  ++call->loads;
  // If that is refused, the call, which needs it, says what is wrong.
  pipeline_->Send(resp::Command({"SCRIPT", "LOAD", script}), [](const redisReply&) {});
  call->target->exclusive = true;
  SendCall(std::move(call));
}

// Reports the first `done` records of the call as delivered, at `first` to `last`.
void Writer::Delivered(const Call& call, size_t done, std::string_view first, std::string_view last) {
  if (done == 0) {
    return;
  }
  delivered_ += done;
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

void Writer::Aborted(const Entry& entry) {
  gate_.Poison(entry.flow, entry.epoch);
  AppendResult({entry.flow, entry.seq, 1, Outcome::kAborted, {}}, &results_);
}

void Writer::AbortAll() {
  for (const CallPtr& call : out_) {
    for (const Entry& entry : call->entries) {
      Aborted(entry);
    }
  }
  out_.clear();
  bytes_out_ = 0;
  reconnect_ = {};
  AbortWaiting();
}

void Writer::AbortWaiting() {
  std::vector<Entry> waiting;
  targets_.Remove([](const Entry&) { return true; }, &waiting);
  for (const Entry& entry : waiting) {
    Aborted(entry);
  }
  targets_.Clear();
}

void Writer::Clear() {
  out_.clear();
  targets_.Clear();
  results_.clear();
  places_.Clear();
}

void Writer::TakeResults(std::vector<Result>* results) {
  for (Result& result : results_) {
    AppendResult(std::move(result), results);
  }
  results_.clear();
}

void Writer::Stopped(CallPtr call, size_t done, Error error) {
  std::vector<Entry>& entries = call->entries;
  if (IsCapped(error) && ++puzzles_[{call->target->form, call->target->name}] > kCappedReplies) {
    error.error_class = ErrorClass::kTopic;
  }
  const Entry& failed = entries[done];
  uint32_t flow = failed.flow;
  if (NeedsReconnect(error)) {
    reconnect_ = error;
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
  AbortBarred(flow);
  targets_.Wake(call->target);
}

// What waits of a flow that was stopped.
void Writer::AbortBarred(uint32_t flow) {
  std::vector<Entry> barred;
  targets_.Remove([this, flow](const Entry& entry) { return entry.flow == flow && !gate_.Admits(flow, entry.epoch); },
                  &barred);
  for (const Entry& entry : barred) {
    Aborted(entry);
  }
}

}  // namespace outbox::sink
