#include "sink/redis/redis_sink.h"

#include <algorithm>
#include <cstdio>
#include <cstdlib>
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
constexpr int64_t kIdentifyAgain = 3 * kSecond;
constexpr size_t kLongestReply = size_t{1} << 20;
constexpr size_t kLongestEntries = size_t{256} << 20;  // of what is in a stream, by whomever
constexpr int64_t kCheckMemoryEvery = 30 * kSecond;    // at how the server's memory is set up

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

// Of what XREVRANGE answers; "": it has none, or is refused. False: that is no answer to it.
bool FirstId(const redisReply& reply, std::string* id) {
  id->clear();
  if (reply.type == REDIS_REPLY_ERROR || (reply.type == REDIS_REPLY_ARRAY && reply.elements == 0)) {
    return true;
  }
  const bool has = reply.type == REDIS_REPLY_ARRAY && reply.element[0]->type == REDIS_REPLY_ARRAY &&
                   reply.element[0]->elements > 0 && reply.element[0]->element[0]->type == REDIS_REPLY_STRING;
  if (has) {
    id->assign(Text(*reply.element[0]->element[0]));
  }
  return !id->empty() && IsStreamIdOrNone(*id);
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
      checks_server_(config.checks_server),
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
    if (read && !streams_ && record.form == RecordForm::kStream) {
      streams_ = true;
      ShowWarning();
    }
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
  no_loss_check_ = {};
  Expect(Expected::kServer, resp::Command({"INFO", "server"}));
  Expect(Expected::kReplication, resp::Command({"INFO", "replication"}));
  Expect(Expected::kPersistence, resp::Command({"INFO", "persistence"}));
  Expect(Expected::kStreamScript, resp::Command({"SCRIPT", "LOAD", kStreamScript}));
  Expect(Expected::kPublishScript, resp::Command({"SCRIPT", "LOAD", kPublishScript}));
  CheckMemory();
  if (checks_server_) {
    Expect(Expected::kProbe, resp::Command({"XINFO", "STREAM", "outbox"}));  // whatever is there
  }
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
    const bool entries = !awaited_.empty() && awaited_.front().question != nullptr;
    Status parsed = connection_.NextReply(&reply, entries ? kLongestEntries : kLongestReply);
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
      HandleEnd(std::move(awaited.question), reply);
      return;
    case Expected::kUpTo:
      HandleUpTo(std::move(awaited.question), reply);
      return;
    case Expected::kBefore:
      HandleBefore(std::move(awaited.question), reply);
      return;
    case Expected::kMemory:
      HandleMemory(reply);
      return;
    case Expected::kProbe:
      NoteUnasked("XINFO", reply);
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
    NoteUnasked("INFO", reply);
    run_id_ = InfoField(reply, "\nrun_id:");
    const int64_t now = atoll(InfoField(reply, "\nserver_time_usec:").c_str());
    began_ = now == 0 ? 0 : (now / kSecond - atoll(InfoField(reply, "\nuptime_in_seconds:").c_str())) * kMilli;
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

void RedisSink::CheckMemory() {
  Expect(Expected::kMemory, resp::Command({"INFO", "memory"}));
  check_memory_at_ = MonotonicMicros() + kCheckMemoryEvery;
}

// Streams have no expiry, unless another client sets one: of the eviction policies only allkeys-... remove them.
void RedisSink::HandleMemory(const redisReply& reply) {
  const std::string limit = InfoField(reply, "\nmaxmemory:");
  const std::string policy = InfoField(reply, "\nmaxmemory_policy:");
  const bool may_evict = !limit.empty() && limit != "0" && policy.starts_with("allkeys-");
  eviction_ = {};
  if (may_evict) {
    eviction_ = {ErrorClass::kDestination, "EVICTION",
                 "the Redis server throws whole streams away when its memory is full: maxmemory-policy is " + policy +
                     "; noeviction makes events wait instead"};
  }
  ShowWarning();
}

// Of a command that the check for lost writes needs: without it the check is off, which nothing else would tell.
void RedisSink::NoteUnasked(const char* command, const redisReply& reply) {
  if (!checks_server_ || reply.type != REDIS_REPLY_ERROR || !no_loss_check_.ok()) {
    return;
  }
  const Error error = ReplyError(Text(reply));
  if (error.error_class == ErrorClass::kConfig && (error.code == "NOPERM" || error.code == "UNKNOWN_COMMAND")) {
    no_loss_check_ = {ErrorClass::kConfig, "NO_LOSS_CHECK",
                      "the Redis user may not call " + std::string(command) +
                          ": if the server loses events that it has acknowledged (a restart, a failover), that is "
                          "not noticed, and they are not sent again; ACL SETUSER ... +info +xinfo +xrevrange"};
    ShowWarning();
  }
}

void RedisSink::ShowWarning() {
  const Error& warning = streams_ && !no_loss_check_.ok() ? no_loss_check_ : eviction_;
  if (warning.message != health_.warning.message) {
    health_.warning = warning;
    ++health_.changes;
  }
}

// Called when the server has let the sink in. A process that was a replica meanwhile has its old run id and another
// history, hence the replication id. A server that tells neither is not checked.
void RedisSink::Meet() {
  constexpr size_t kPart = 16;
  std::string server_run = run_id_.empty() || !checks_server_
                               ? std::string()
                               : endpoint_ + "." + run_id_.substr(0, kPart) + "." + replication_id_.substr(0, kPart);
  if (server_run.empty() || server_run == admitted_) {
    state_ = State::kReady;
    SetHealth(true, {});
    return;
  }
  state_ = State::kAwaitingAdmission;
  identity_.server_run = std::move(server_run);
  ++identity_.number;
}

void RedisSink::Ask(std::vector<AskedStream> streams) {
  if (state_ != State::kAwaitingAdmission) {
    return;
  }
  asked_ = streams.size();
  answered_ = asked_ == 0;
  ends_.clear();
  for (AskedStream& asked : streams) {
    auto question = std::make_unique<Question>();
    question->end.stream = std::move(asked.stream);
    question->end.acknowledged = std::move(asked.acknowledged);
    const std::string command = resp::Command({"XINFO", "STREAM", question->end.stream});
    ExpectAnswer(Expected::kEnd, std::move(question), command);
  }
}

void RedisSink::ExpectAnswer(Expected what, std::unique_ptr<Question> question, std::string_view command) {
  Expect(what, command);
  awaited_.back().question = std::move(question);
}

// Where nobody else writes the end of the stream tells all. Where it is younger than what was asked about, somebody has
// written since: it is asked whether that entry is there, and what is from before the server's process began.
void RedisSink::HandleEnd(std::unique_ptr<Question> question, const redisReply& reply) {
  StreamEnd& end = question->end;
  int64_t length = -1;
  int64_t added = -1;
  if (reply.type == REDIS_REPLY_ARRAY) {
    for (size_t i = 0; i + 1 < reply.elements; i += 2) {
      const std::string_view name =
          reply.element[i]->type == REDIS_REPLY_STRING ? Text(*reply.element[i]) : std::string_view();
      const redisReply& value = *reply.element[i + 1];
      if (name == "last-generated-id" && value.type == REDIS_REPLY_STRING) {
        end.last = Text(value);
      } else if (name == "max-deleted-entry-id" && value.type == REDIS_REPLY_STRING) {
        question->deleted = Text(value);  // Redis 7
      } else if (name == "length" && value.type == REDIS_REPLY_INTEGER) {
        length = value.integer;
      } else if (name == "entries-added" && value.type == REDIS_REPLY_INTEGER) {
        added = value.integer;
      }
    }
  }
  question->removed = added != length;
  if (!IsStreamIdOrNone(end.last) || !IsStreamIdOrNone(question->deleted)) {
    AnswerEnd(nullptr);  // whoever answers there
    return;
  }
  if (PlaceBefore(end.acknowledged, end.last)) {
    const std::string command = resp::Command({"XREVRANGE", end.stream, end.acknowledged, "-", "COUNT", "1"});
    ExpectAnswer(Expected::kUpTo, std::move(question), command);
    return;
  }
  end.kept = end.last;
  end.lacking = end.last != end.acknowledged;
  const bool gone = reply.type == REDIS_REPLY_ERROR && Text(reply).starts_with("ERR no such key");
  if (end.last.empty() && !gone) {
    question.reset();  // it would not tell
  }
  AnswerEnd(question.get());
}

void RedisSink::HandleUpTo(std::unique_ptr<Question> question, const redisReply& reply) {
  StreamEnd& end = question->end;
  if (!FirstId(reply, &question->up_to)) {
    AnswerEnd(nullptr);
    return;
  }
  const int64_t asked = atoll(end.acknowledged.c_str());
  if (reply.type == REDIS_REPLY_ERROR || began_ == 0 || asked >= began_) {
    // A replica in its master's place, say: its process is older than what was acknowledged, so what is younger than
    // that may be somebody's who has written since. Too early a `kept` resends too much, too late a one loses.
    end.lacking = reply.type != REDIS_REPLY_ERROR && Lacks(*question);
    end.kept = question->up_to;
    AnswerEnd(question.get());
  } else if (atoll(end.last.c_str()) < began_) {
    end.kept = end.last;  // the entry was there: what is younger is
    AnswerEnd(question.get());
  } else {
    const std::string command = resp::Command({"XREVRANGE", end.stream, std::to_string(began_ - 1), "-", "COUNT", "1"});
    ExpectAnswer(Expected::kBefore, std::move(question), command);
  }
}

void RedisSink::HandleBefore(std::unique_ptr<Question> question, const redisReply& reply) {
  StreamEnd& end = question->end;
  std::string before;
  if (!FirstId(reply, &before)) {
    AnswerEnd(nullptr);
    return;
  }
  end.kept = PlaceBefore(before, question->up_to) ? question->up_to : before;
  end.lacking = reply.type != REDIS_REPLY_ERROR && PlaceBefore(end.kept, end.acknowledged) && Lacks(*question);
  AnswerEnd(question.get());
}

// Whether an entry is lost, for all that the stream tells, or may have been trimmed or deleted by somebody. Trimming
// takes the oldest first.
bool RedisSink::Lacks(const Question& question) {
  const bool trimmed = question.up_to.empty() && question.removed;
  const bool deleted =
      question.deleted.empty() ? question.up_to.empty() : !PlaceBefore(question.deleted, question.end.acknowledged);
  return question.up_to != question.end.acknowledged && !trimmed && !deleted;
}

// nullptr: it would not tell.
void RedisSink::AnswerEnd(Question* question) {
  if (question != nullptr) {
    ends_.push_back(std::move(question->end));
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

void RedisSink::IdentifyAgain() {
  if (state_ != State::kAwaitingAdmission) {
    return;
  }
  Lost({ErrorClass::kDestination, "LOST_WRITES",
        "a Redis server answers that lacks what was acknowledged; it is looked at once more before that is believed"});
  retry_at_ = MonotonicMicros() + kIdentifyAgain;
}

void RedisSink::Admit(const std::string& server_run, bool drop) {
  if (state_ != State::kAwaitingAdmission || server_run != identity_.server_run) {
    return;  // it has gone meanwhile, and will be reported again
  }
  if (drop) {
    AbortWaiting();
  }
  admitted_ = server_run;
  identity_.server_run.clear();
  ++identity_.number;
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
  const bool in = state_ == State::kReady || state_ == State::kAwaitingAdmission;
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
  } else if (in && now >= check_memory_at_) {
    CheckMemory();
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
  began_ = 0;
  asked_ = 0;
  answered_ = false;
  if (!identity_.server_run.empty()) {
    identity_.server_run.clear();
    ++identity_.number;
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
    case State::kAwaitingAdmission:
    case State::kReady:
      wait.deadline =
          awaited_.empty() ? quiet_since_ + kIdlePing : std::min(quiet_since_ + timeout_, polled_at_ + kLongestStep);
      wait.deadline = std::min(wait.deadline, check_memory_at_);
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
