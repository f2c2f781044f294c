#include "sink/redis/redis_sink.h"

#include <algorithm>
#include <cstdio>
#include <utility>

#include "base/monotonic.h"
#include "base/murmur2.h"
#include "sink/options.h"
#include "sink/redis/errors.h"
#include "sink/redis/resp.h"
#include "sink/redis/scripts.h"

namespace outbox::sink {
namespace {

constexpr int64_t kMilli = 1000;
constexpr int64_t kSecond = 1000 * kMilli;
constexpr int64_t kFirstRetry = 100 * kMilli;
constexpr int64_t kLastRetry = 5 * kSecond;
constexpr int64_t kIdlePing = 10 * kSecond;
constexpr int64_t kLongestStep = kSecond / 2;
constexpr int64_t kMeetAgain = 3 * kSecond;
constexpr int64_t kLookEvery = 30 * kSecond;  // at how the server's memory is set up

std::string_view Text(const redisReply& reply) {
  return {reply.str, reply.str == nullptr ? 0 : reply.len};
}

// The value of a field of INFO; "": the server does not tell.
std::string InfoField(const redisReply& reply, std::string_view name) {
  const std::string_view text = reply.type == REDIS_REPLY_STRING ? Text(reply) : std::string_view();
  const size_t at = text.find(name);
  if (at == std::string_view::npos) {
    return {};
  }
  const std::string_view value = text.substr(at + name.size());
  return std::string(value.substr(0, value.find_first_of("\r\n")));
}

// Distinguishes the configured Redis from others: a run of another one is not a later run of this one.
std::string HashOfEndpoint(const Options& options) {
  std::string endpoint;
  for (const char* name : {"host", "port", "db", "unix_socket"}) {
    endpoint += TextOption(options, name, "") + "\n";
  }
  char hash[9];
  snprintf(hash, sizeof(hash), "%08x", static_cast<unsigned>(Murmur2(endpoint)));
  return hash;
}

}  // namespace

std::string RedisSink::Library() {
  return "hiredis " + std::to_string(HIREDIS_MAJOR) + "." + std::to_string(HIREDIS_MINOR) + "." +
         std::to_string(HIREDIS_PATCH);
}

Status RedisSink::Make(const SinkConfig& config, std::unique_ptr<Sink>* sink) {
  std::shared_ptr<TlsContext> tls;
  Status status = MakeTls(config.options, &tls);
  if (status.ok()) {
    sink->reset(new RedisSink(config, std::move(tls)));
  }
  return status;
}

RedisSink::RedisSink(const SinkConfig& config, std::shared_ptr<TlsContext> tls)
    : username_(TextOption(config.options, "username", "")),
      password_(TextOption(config.options, "password", "")),
      db_(IntegerOption(config.options, "db", 0)),
      connect_timeout_(IntegerOption(config.options, "connect_timeout", 5000) * kMilli),
      timeout_(IntegerOption(config.options, "timeout", 5000) * kMilli),
      maxlen_(TextOption(config.options, "maxlen", "")),
      meets_(config.meets),
      endpoint_(HashOfEndpoint(config.options)),
      connection_({TextOption(config.options, "host", "localhost"), TextOption(config.options, "port", "6379"),
                   TextOption(config.options, "unix_socket", "")},
                  std::move(tls)),
      random_(std::random_device()()) {}

void RedisSink::SetHealth(bool up, Error error) {
  if (up != health_.up || error.code != health_.error.code || error.message != health_.error.message) {
    health_.up = up;
    health_.error = std::move(error);
    ++health_.changes;
  }
}

void RedisSink::Submit(Batch batch) {
  if (state_ == State::kClosed) {
    return;
  }
  if (!gate_.Admits(batch.flow, batch.epoch)) {
    AppendResult({batch.flow, batch.first_seq, batch.count, Outcome::kAborted, {}}, &results_);
    return;
  }
  RecordReader reader(batch.records);
  Record record;
  for (uint32_t i = 0; i < batch.count; ++i) {
    uint64_t seq = batch.first_seq + i;
    bool read = reader.Next(&record);
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

void RedisSink::Poll(std::vector<Result>* results) {
  if (state_ == State::kClosed) {
    return;
  }
  CountSilence();
  if (state_ == State::kWaiting && MonotonicMicros() >= retry_at_) {
    Connect();
  }
  if (state_ != State::kWaiting) {
    Pump();
  }
  if (state_ == State::kReady) {
    Dispatch();
  }
  if (state_ != State::kWaiting) {
    CheckDeadlines();
  }
  for (Result& result : results_) {
    AppendResult(std::move(result), results);
  }
  results_.clear();
}

void RedisSink::Connect() {
  state_ = State::kConnecting;
  connect_by_ = MonotonicMicros() + connect_timeout_;
  Status status = connection_.Begin(connect_by_);
  if (!status.ok()) {
    Lost(status.error());
  }
}

void RedisSink::Expect(Expected what, std::string_view command) {
  if (awaited_.empty()) {
    quiet_since_ = MonotonicMicros();
  }
  awaited_.push_back({what, nullptr, {}});
  connection_.Send(command);
}

// All in one go; the first refusal ends the connection.
void RedisSink::Greet() {
  if (!username_.empty()) {
    Expect(Expected::kAuth, resp::Command({"AUTH", username_, password_}));
  } else if (!password_.empty()) {
    Expect(Expected::kAuth, resp::Command({"AUTH", password_}));
  }
  if (db_ != 0) {
    Expect(Expected::kSelect, resp::Command({"SELECT", std::to_string(db_)}));
  }
  greeted_ = true;
  scripts_ = true;
  Expect(Expected::kServer, resp::Command({"INFO", "server"}));
  Expect(Expected::kReplication, resp::Command({"INFO", "replication"}));
  Expect(Expected::kPersistence, resp::Command({"INFO", "persistence"}));
  Expect(Expected::kStreamScript, resp::Command({"SCRIPT", "LOAD", kStreamScript}));
  Expect(Expected::kPublishScript, resp::Command({"SCRIPT", "LOAD", kPublishScript}));
  LookAtMemory();
  Expect(Expected::kHello, resp::Command({"PING"}));
}

void RedisSink::Pump() {
  Status moved = connection_.Pump();
  if (moved.ok() && !greeted_ && connection_.connected()) {
    Greet();
    moved = connection_.Pump();
  }
  if (connection_.TakeProgress()) {
    quiet_since_ = MonotonicMicros();
  }
  while (state_ != State::kWaiting) {
    ReplyPtr reply;
    Status parsed = connection_.NextReply(&reply);
    if (!parsed.ok()) {
      Lost(parsed.error());
      return;
    }
    if (reply == nullptr) {
      break;
    }
    if (awaited_.empty()) {  // "max number of clients reached" comes unasked
      Lost(reply->type == REDIS_REPLY_ERROR
               ? ReplyError(Text(*reply))
               : Error{ErrorClass::kDestination, "PROTOCOL", "the Redis server sent something unasked"});
      return;
    }
    Awaited awaited = std::move(awaited_.front());
    awaited_.pop_front();
    Handle(std::move(awaited), *reply);
  }
  if (state_ != State::kWaiting && !moved.ok()) {
    Lost(moved.error());
  } else if (state_ != State::kWaiting && reconnect_) {
    Lost(std::move(reconnect_why_));
  }
}

void RedisSink::Handle(Awaited awaited, const redisReply& reply) {
  switch (awaited.what) {
    case Expected::kCall:
      HandleCall(std::move(awaited.call), reply);
      return;
    case Expected::kServer:
    case Expected::kReplication:
    case Expected::kPersistence:
      HandleRole(awaited.what, reply);
      return;
    case Expected::kEnd:
      HandleEnd(awaited.stream, reply);
      return;
    case Expected::kMemory:
      HandleMemory(reply);
      return;
    case Expected::kReload:
    case Expected::kPing:
      return;  // a call that needs the script says what is wrong; an alive server is all that a ping asks for
    default:
      HandleGreeting(awaited.what, reply);
  }
}

// Who answers there. Replicas take no writes and may be empty for a while, with all that a restart or a failover brings
// along: they are told by what they say of themselves, before a refused write tells.
void RedisSink::HandleRole(Expected what, const redisReply& reply) {
  constexpr auto kDestination = ErrorClass::kDestination;
  if (what == Expected::kServer) {
    run_id_ = InfoField(reply, "\nrun_id:");
    if (InfoField(reply, "\nredis_mode:") == "sentinel") {
      Lost({ErrorClass::kConfig, "SENTINEL",
            "this is a Redis Sentinel, not a Redis server: host and port have to name the primary itself"});
    }
  } else if (what == Expected::kPersistence) {
    if (InfoField(reply, "\nloading:") == "1" || InfoField(reply, "\nasync_loading:") == "1") {
      Lost({kDestination, "LOADING", "the Redis server is loading its data"});
    }
  } else {
    replication_id_ = InfoField(reply, "\nmaster_replid:");
    if (InfoField(reply, "\nrole:") == "slave") {
      Lost({kDestination, "READONLY",
            InfoField(reply, "\nmaster_link_status:") == "up"
                ? "the Redis server is a replica"
                : "the Redis server is a replica, and has no connection to its primary"});
    }
  }
}

void RedisSink::LookAtMemory() {
  Expect(Expected::kMemory, resp::Command({"INFO", "memory"}));
  look_at_ = MonotonicMicros() + kLookEvery;
}

// Streams have no expiry, unless another client sets one: of the eviction policies only allkeys-... remove them.
void RedisSink::HandleMemory(const redisReply& reply) {
  const std::string limit = InfoField(reply, "\nmaxmemory:");
  const std::string policy = InfoField(reply, "\nmaxmemory_policy:");
  const bool may_evict = !limit.empty() && limit != "0" && policy.starts_with("allkeys-");
  Error warning;
  if (may_evict) {
    warning = {ErrorClass::kDestination, "EVICTION",
               "the Redis server throws whole streams away when its memory is full: maxmemory-policy is " + policy +
                   "; noeviction makes events wait instead"};
  }
  if (warning.message != health_.warning.message) {
    health_.warning = std::move(warning);
    ++health_.changes;
  }
}

// Called when the server has let the sink in. A process that was a replica meanwhile has its old run id and another
// history, hence the replication id. A server that tells neither is not checked.
void RedisSink::Meet() {
  constexpr size_t kPart = 16;
  std::string run = run_id_.empty() || !meets_
                        ? std::string()
                        : endpoint_ + "." + run_id_.substr(0, kPart) + "." + replication_id_.substr(0, kPart);
  if (run.empty() || run == admitted_) {
    state_ = State::kReady;
    SetHealth(true, {});
    return;
  }
  state_ = State::kHeld;
  meeting_.run = std::move(run);
  ++meeting_.number;
}

void RedisSink::Ask(std::vector<std::string> streams) {
  if (state_ != State::kHeld) {
    return;
  }
  asked_ = streams.size();
  answered_ = asked_ == 0;
  ends_.clear();
  for (std::string& stream : streams) {
    Expect(Expected::kEnd, resp::Command({"XINFO", "STREAM", stream}));
    awaited_.back().stream = std::move(stream);
  }
}

void RedisSink::HandleEnd(const std::string& stream, const redisReply& reply) {
  std::string_view last;
  if (reply.type == REDIS_REPLY_ARRAY) {
    for (size_t i = 0; i + 1 < reply.elements; i += 2) {
      if (reply.element[i]->type == REDIS_REPLY_STRING && Text(*reply.element[i]) == "last-generated-id" &&
          reply.element[i + 1]->type == REDIS_REPLY_STRING) {
        last = Text(*reply.element[i + 1]);
      }
    }
  }
  const bool gone = reply.type == REDIS_REPLY_ERROR && Text(reply).starts_with("ERR no such key");
  if (!last.empty() || gone) {
    ends_.push_back({stream, std::string(last)});
  }
  if (asked_ > 0 && --asked_ == 0) {
    answered_ = true;
  }
}

bool RedisSink::TakeEnds(std::vector<StreamEnd>* ends) {
  if (!answered_) {
    return false;
  }
  answered_ = false;
  *ends = std::exchange(ends_, {});
  return true;
}

void RedisSink::MeetAgain() {
  if (state_ != State::kHeld) {
    return;
  }
  Lost({ErrorClass::kDestination, "LOST_WRITES",
        "a Redis server answers that lacks what was acknowledged; it is looked at once more before that is believed"});
  retry_at_ = MonotonicMicros() + kMeetAgain;
}

void RedisSink::Admit(const std::string& run, bool drop) {
  if (state_ != State::kHeld || run != meeting_.run) {
    return;  // it has gone meanwhile, and will be reported again
  }
  if (drop) {
    AbortWaiting();
  }
  admitted_ = run;
  meeting_.run.clear();
  ++meeting_.number;
  state_ = State::kReady;
  SetHealth(true, {});
}

void RedisSink::AbortWaiting() {
  std::vector<Entry> waiting;
  targets_.Remove([](const Entry&) { return true; }, &waiting);
  for (const Entry& entry : waiting) {
    Aborted(entry);
  }
  targets_.Clear();
}

void RedisSink::HandleGreeting(Expected what, const redisReply& reply) {
  bool refused = reply.type == REDIS_REPLY_ERROR;
  Error error = refused ? ReplyError(Text(reply)) : Error{};
  switch (what) {
    case Expected::kAuth:
    case Expected::kSelect:
      if (refused) {
        if (error.code == "ERR") {
          error.error_class = ErrorClass::kConfig;  // whatever it says, it is about these options
        }
        Lost(std::move(error));
      }
      return;
    case Expected::kStreamScript:
    case Expected::kPublishScript:
      if (refused && error.error_class == ErrorClass::kConfig && error.code != "NOAUTH") {
        scripts_ = false;
      } else if (refused) {
        Lost(std::move(error));
      } else {
        (what == Expected::kStreamScript ? stream_sha_ : publish_sha_).assign(Text(reply));
      }
      return;
    default:  // kHello
      if (refused && error.code != "NOPERM") {
        Lost(std::move(error));
        return;
      }
      Meet();
  }
}

// A reply is waited for in steps. If a step lasts longer than it should, this process or the whole machine was paused,
// and the server was not silent: disconnecting would send again what it has done meanwhile.
void RedisSink::CountSilence() {
  const int64_t now = MonotonicMicros();
  const int64_t step = now - std::exchange(polled_at_, now);
  if (!awaited_.empty() && step > kLongestStep) {
    quiet_since_ += step - kLongestStep;
  }
}

void RedisSink::CheckDeadlines() {
  const int64_t now = MonotonicMicros();
  const bool in = state_ == State::kReady || state_ == State::kHeld;
  if (state_ == State::kConnecting && now >= connect_by_) {
    const std::string within = " within " + std::to_string(connect_timeout_ / kMilli) + " ms";
    Lost(connection_.resolving()
             ? Error{ErrorClass::kDestination, "RESOLVE", "the Redis server's name could not be resolved" + within}
             : Error{ErrorClass::kDestination, "TIMEOUT", "the Redis server did not answer" + within});
  } else if (in && !awaited_.empty() && now >= quiet_since_ + timeout_) {
    Lost({ErrorClass::kDestination, "TIMEOUT",
          "the Redis server was silent for " + std::to_string(timeout_ / kMilli) + " ms"});
  } else if (in && awaited_.empty() && now >= quiet_since_ + kIdlePing) {
    Expect(Expected::kPing, resp::Command({"PING"}));
  } else if (in && now >= look_at_) {
    LookAtMemory();
  }
}

void RedisSink::Lost(Error error) {
  connection_.Drop();
  greeted_ = false;
  reconnect_ = false;
  for (Awaited& awaited : awaited_) {
    if (awaited.call != nullptr) {
      for (const Entry& entry : awaited.call->entries) {
        Aborted(entry);
      }
    }
  }
  awaited_.clear();
  AbortWaiting();
  bytes_out_ = 0;
  calls_out_ = 0;
  run_id_.clear();
  replication_id_.clear();
  asked_ = 0;
  answered_ = false;
  if (!meeting_.run.empty()) {
    meeting_.run.clear();
    ++meeting_.number;
  }
  // Capped exponential back-off with full jitter; where a person must act there is no hurry.
  int64_t ceiling = error.error_class == ErrorClass::kConfig
                        ? kLastRetry
                        : std::min(kLastRetry, kFirstRetry << std::min(attempts_, 10));
  ++attempts_;
  state_ = State::kWaiting;
  retry_at_ = MonotonicMicros() + std::uniform_int_distribution<int64_t>(ceiling / 10, ceiling)(random_);
  SetHealth(false, std::move(error));
}

void RedisSink::AppendWaits(std::vector<WaitSpec>* waits) {
  WaitSpec wait;
  switch (state_) {
    case State::kClosed:
      return;
    case State::kWaiting:
      wait.deadline = retry_at_;
      break;
    case State::kConnecting:
      wait.deadline = connect_by_;
      break;
    case State::kHeld:
    case State::kReady:
      wait.deadline =
          awaited_.empty() ? quiet_since_ + kIdlePing : std::min(quiet_since_ + timeout_, polled_at_ + kLongestStep);
      wait.deadline = std::min(wait.deadline, look_at_);
      break;
  }
  if (!results_.empty()) {
    wait.deadline = MonotonicMicros();
  }
  connection_.AppendWait(wait, waits);
}

void RedisSink::Close() {
  state_ = State::kClosed;
  connection_.Drop();
  awaited_.clear();
  targets_.Clear();
  results_.clear();
  places_.Clear();
}

}  // namespace outbox::sink
