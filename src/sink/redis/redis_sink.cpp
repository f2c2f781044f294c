#include "sink/redis/redis_sink.h"

#include <algorithm>
#include <utility>

#include "base/monotonic.h"
#include "sink/options.h"
#include "sink/redis/commands.h"
#include "sink/redis/errors.h"
#include "sink/redis/reply.h"
#include "sink/redis/resp.h"

namespace outbox::sink {
namespace {

constexpr int64_t kFirstRetry = 100 * kMilli;
constexpr int64_t kLastRetry = 5 * kSecond;
constexpr int64_t kIdlePing = 10 * kSecond;
constexpr int64_t kSending = 2 * kSecond;  // a record that takes so long is said to be on its way
constexpr int64_t kSilent =
    20 * kSecond;                    // no answer for so long is told of, where the option timeout waits for longer
constexpr int64_t kOfUse = kSecond;  // a connection that could be used for so long
constexpr int64_t kIdentifyAgain = 3 * kSecond;
constexpr int64_t kTransactionsAgain = 10 * kSecond;  // where they are refused: whether they still are
constexpr int64_t kCheckMemoryEvery = 10 * kSecond;   // at how the server's memory is set up, its clock, and rights
constexpr const char* kAskTheServer =
    "ask the server itself, or through a proxy that passes INFO, XINFO and XREVRANGE on";
constexpr int kRunAsked = 3;             // times more in a greeting, to find a proxy of several servers
constexpr int64_t kAhead = 5 * kSecond;  // ids, of the clock of the server that gives them

Address AddressOf(const Options& options) {
  return {TextOption(options, "host", "localhost"), TextOption(options, "port", "6379"),
          TextOption(options, "unix_socket", "")};
}

bool ClosedByPeer(const Error& error) {
  return error.code == "CONNECTION_CLOSED" || error.code == "CONNECTION_LOST";
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
    : login_(LoginCommands(config.options)),
      connect_timeout_(IntegerOption(config.options, "connect_timeout", 5000) * kMilli),
      timeout_(IntegerOption(config.options, "timeout", 5000) * kMilli),
      pipeline_(AddressOf(config.options), tls),
      second_(AddressOf(config.options), std::move(tls), login_, connect_timeout_),
      admission_(config),
      stream_ends_(
          &pipeline_, [this](Error error) { Lost(std::move(error)); },
          [this](const std::string& stream, const redisReply& reply) { NoteStreamRefused(stream, reply); }),
      writer_(&pipeline_, &second_, TextOption(config.options, "maxlen", "")),
      backoff_(kFirstRetry, kLastRetry),
      random_(std::random_device()()) {}

void RedisSink::SetHealth(bool up, Error error) {
  if (up != health_.up || error.code != health_.error.code || error.message != health_.error.message) {
    health_.up = up;
    health_.error = std::move(error);
    ++health_.changes;
  }
}

void RedisSink::Submit(Batch batch) {
  if (state_ != State::kClosed) {
    writer_.Submit(std::move(batch));
    ShowWarning();
  }
}

void RedisSink::Poll(std::vector<Result>* results) {
  if (state_ == State::kClosed) {
    return;
  }
  pipeline_.CountPause();
  if (state_ == State::kWaiting && MonotonicMicros() >= retry_at_) {
    Connect();
  }
  // First the connection whose records wait: if it is lost, nothing is to be executed there.
  const bool second_runs = writer_.second_runs();
  if (state_ != State::kWaiting && !second_runs) {
    PumpSecond();
  }
  if (state_ != State::kWaiting) {
    Pump();
  }
  if (state_ != State::kWaiting && second_runs) {
    PumpSecond();
  }
  if (state_ != State::kWaiting) {
    CheckDeadlines();
  }
  NoteSingles();
  if (state_ == State::kReady && writer_.untold()) {
    state_ = State::kLeaving;
  }
  if (state_ == State::kReady) {
    writer_.Dispatch();
  }
  LeaveIfIdle();
  const size_t before = results->size();
  writer_.outcomes()->TakeResults(results);
  ShowSending(/*outcomes=*/results->size() != before);
  if (Silence().ok() == (health_.warning.code == "SILENT")) {
    ShowWarning();
  }
}

// The connection on which records are executed.
const Pipeline& RedisSink::Executes() {
  return writer_.second_runs() ? *second_.pipeline() : pipeline_;
}

// Until it has lasted for the option timeout nothing else tells that what is on its way has no answer.
Error RedisSink::Silence() {
  const Pipeline& executes = Executes();
  const bool connected = state_ != State::kConnecting && state_ != State::kGreeting;
  if (!connected || !executes.awaits() || MonotonicMicros() < executes.quiet_since() + kSilent) {
    return {};
  }
  return {ErrorClass::kDestination, "SILENT",
          "the Redis server has not answered for " + std::to_string(kSilent / kSecond) +
              " s; the connection is given up after " + std::to_string(timeout_ / kMilli) +
              " ms without an answer, as option timeout has it"};
}

// A record of a megabyte takes minutes where the way to the server is slow. Its owner is not to take it for forgotten:
// a server that is silent is left in time.
void RedisSink::ShowSending(bool outcomes) {
  const int64_t now = MonotonicMicros();
  outcome_at_ = outcomes ? now : outcome_at_;
  const Pipeline& executes = Executes();
  const bool sending =
      state_ == State::kReady && executes.awaits() && now - std::max(outcome_at_, executes.awaits_since()) >= kSending;
  if (sending != health_.sending) {
    health_.sending = sending;
    ++health_.changes;
  }
}

void RedisSink::Connect() {
  state_ = State::kConnecting;
  connect_by_ = MonotonicMicros() + connect_timeout_;
  Status status = pipeline_.Begin(connect_by_);
  if (!status.ok()) {
    Lost(status.error());
  }
}

void RedisSink::Pump() {
  const Status advanced = pipeline_.Advance([this] { Greet(); });
  if (state_ == State::kWaiting) {
    return;  // a handler has ended the connection
  }
  if (ClosedAtRest(advanced) || (advanced.ok() && writer_.stuck())) {
    Reconnect();
  } else {
    Lost(advanced.ok() ? writer_.TakeReconnect() : advanced.error());
  }
}

// Servers and proxies close what nothing was sent over for a while (Redis: timeout). It was of use, and no record is
// concerned; whether there is trouble, the next connection tells. One that is closed as soon as it is made is trouble:
// made again at once, it would be made without end.
bool RedisSink::ClosedAtRest(const Status& advanced) const {
  return state_ == State::kReady && ClosedByPeer(advanced.error()) && writer_.nothing_out() &&
         MonotonicMicros() >= ready_since_ + kOfUse;
}

// Without it all goes on as before, unless it is the one that owes an answer.
void RedisSink::PumpSecond() {
  const Status status = second_.Poll();
  if (!status.ok() && writer_.second_runs()) {
    second_.Failed();
    Lost(status.error());
  } else if (!status.ok() || (second_.Unwanted() && !writer_.second_runs())) {
    writer_.LeaveSecond();
  }
  Lost(writer_.TakeReconnect());
}

// All in one go; the first refusal ends the connection.
void RedisSink::Greet() {
  state_ = State::kGreeting;
  Introduce();
  AskForInfo();
  CheckMemory();
  writer_.Probe([this](Error error) { Lost(std::move(error)); });
  AskWhetherLetIn();
}

void RedisSink::AskWhetherLetIn() {
  pipeline_.Send(resp::Command({"PING"}), [this](const redisReply& reply) {
    Error error = ErrorOf(reply);
    if (!IsLetIn(error)) {
      Lost(std::move(error));
    } else if (Text(reply) == "QUEUED") {
      AskWhetherLetIn();  // EXEC did not end the transaction; DISCARD goes before this
    } else {
      Meet();
    }
  });
}

void RedisSink::Introduce() {
  const auto handle = [this](const redisReply& reply) {
    Error error = ErrorOf(reply);
    if (error.code == "ERR") {
      error.error_class = ErrorClass::kConfig;  // whatever it says, it is about these options
    }
    Lost(std::move(error));
  };
  for (const std::string& command : login_) {
    pipeline_.Send(command, handle);
  }
}

void RedisSink::AskForInfo() {
  server_ = {};
  no_loss_check_ = {};
  pipeline_.Send(resp::Command({"INFO", "server"}), [this](const redisReply& reply) {
    NoteRefused("INFO", reply);
    Lost(ReadServerInfo(reply, &server_));
    if (server_.run_id.empty() && PassingError(reply).ok()) {
      NoteUnchecked("the Redis server does not tell its run_id in INFO", kAskTheServer);
    }
  });
  pipeline_.Send(resp::Command({"INFO", "replication"}),
                 [this](const redisReply& reply) { Lost(ReadReplicationInfo(reply, &server_)); });
  for (const char* section : kReceivedIn) {
    pipeline_.Send(resp::Command({"INFO", section}),
                   [this](const redisReply& reply) { Lost(ReadReceived(reply, &server_)); });
  }
  for (int i = 0; admission_.checks_server() && i < kRunAsked; ++i) {
    pipeline_.Send(resp::Command({"INFO", "server"}), [this](const redisReply& reply) { CheckRun(reply); });
  }
  pipeline_.Send(resp::Command({"INFO", "persistence"}),
                 [this](const redisReply& reply) { Lost(ReadPersistenceInfo(reply)); });
  AskForStream([this](const redisReply& reply) { Lost(PassingError(reply)); });
}

// A proxy may have gone on to another server, which another connection finds out. Where one greeting is answered by
// several, what one of them says of its run and history says nothing about what the others have kept.
void RedisSink::CheckRun(const redisReply& reply) {
  const std::string run = InfoField(reply, "\nrun_id:");
  if (run.empty() || server_.run_id.empty() || run == server_.run_id) {
    return;
  }
  if (state_ == State::kReady) {
    state_ = State::kLeaving;
  } else if (state_ == State::kGreeting) {
    server_.run_id.clear();
    NoteUnchecked("INFO is answered by one Redis server and then by another, as behind a proxy of several",
                  "host and port of a single Redis server make it possible");
  }
}

// Of whatever stream: only a refusal of the command tells something.
void RedisSink::AskForStream(const Pipeline::Handler& then) {
  if (admission_.checks_server()) {
    pipeline_.Send(resp::Command({"XINFO", "STREAM", "outbox"}), [this, then](const redisReply& reply) {
      NoteRefused("XINFO", reply);
      then(reply);
    });
  }
}

// Of what was written since it was asked last; where nothing was, what is known holds.
void RedisSink::CheckIds(const redisReply& reply) {
  const int64_t now = ReadServerTime(reply);
  const Outcomes::Newest newest = now == 0 ? Outcomes::Newest() : writer_.outcomes()->TakeNewest();
  if (newest.id.time == 0) {
    return;
  }
  ids_ahead_ = {};
  if (newest.id.time > static_cast<uint64_t>(now + kAhead / kMilli)) {
    ids_ahead_ = {
        ErrorClass::kDestination, "IDS_AHEAD",
        "stream \"" + newest.stream + "\" gives ids that are ahead of the Redis server's clock, by " +
            std::to_string((newest.id.time - static_cast<uint64_t>(now)) / 1000) +
            " s: if the server loses events that it has acknowledged, more of them arrive twice, and those of "
            "a stream that is gone may not be missed"};
  }
  ShowWarning();
}

void RedisSink::CheckMemory() {
  check_memory_at_ = MonotonicMicros() + kCheckMemoryEvery;
  if (!reading_.refused && !writer_.outcomes()->stream().empty()) {
    reading_.stream = writer_.outcomes()->stream();
  }
  pipeline_.Send(resp::Command({"INFO", "memory"}), [this](const redisReply& reply) {
    NoteRefused("INFO", reply);
    if (PassingError(reply).ok()) {
      eviction_ = ReadMemoryInfo(reply);
      ShowWarning();
    }
    info_refused_ = RefusesCommand(reply);
  });
  if (!admission_.checks_server()) {
    return;
  }
  pipeline_.Send(resp::Command({"INFO", "server"}), [this](const redisReply& reply) {
    info_refused_ |= InfoField(reply, "\nrun_id:").empty();
    CheckRun(reply);
    CheckIds(reply);
  });
  TryReading();
  if (state_ == State::kGreeting) {
    return;  // it has been asked that
  }
  AskForStream([this, told = !no_loss_check_.ok()](const redisReply& reply) {
    if (told && state_ == State::kReady && !info_refused_ && !reading_.refused && !RefusesCommand(reply)) {
      state_ = State::kLeaving;  // the rights were given back: another connection checks
    }
  });
}

// Whether what is written may be read. The answer is small, however many entries there are and however large.
void RedisSink::TryReading() {
  reading_.refused = false;
  if (!reading_.stream.empty()) {
    const auto handle = [this](const redisReply& reply) {
      reading_.refused = RefusesKey(reply);
      if (reading_.refused) {
        NoteStreamRefused(reading_.stream, reply);
      }
    };
    pipeline_.Send(ReadNothing(reading_.stream), handle, Pipeline::Reading::kOutline);
  }
}

// Before there was a stream none could be tried.
bool RedisSink::ReadsFirst() const {
  return state_ == State::kReady && admission_.checks_server() && reading_.stream.empty() &&
         !writer_.outcomes().stream().empty();
}

// Notes that the check for lost writes is off: nothing else would tell.
void RedisSink::NoteUnchecked(const std::string& why, const std::string& advice) {
  if (no_loss_check_.ok() && admission_.checks_server()) {
    check_memory_at_ = MonotonicMicros() + kCheckMemoryEvery;
    no_loss_check_ = {ErrorClass::kConfig, "NO_LOSS_CHECK",
                      why +
                          ": if the server loses events that it has acknowledged (a restart, a failover), that is "
                          "not noticed, and they are not sent again; " +
                          advice};
    ShowWarning();
  }
}

void RedisSink::NoteRefused(const char* command, const redisReply& reply) {
  if (!RefusesCommand(reply)) {
    return;
  }
  const Error error = ErrorOf(reply);
  if (IsCapped(error)) {
    NoteUnchecked(std::string(command) + " is refused (" + error.message + ")", kAskTheServer);
  } else {
    NoteUnchecked("the Redis user may not call " + std::string(command), "ACL SETUSER ... +info +xinfo +xrevrange");
  }
}

void RedisSink::NoteStreamRefused(const std::string& stream, const redisReply& reply) {
  const Error error = ErrorOf(reply);
  if (RefusesKey(reply) || RefusesCommand(reply)) {
    admission_.NoteUntold();
  }
  if (RefusesKey(reply)) {
    reading_.stream = stream;  // what is asked again, until it is answered
    reading_.refused = true;
    NoteUnchecked("the Redis user may not read stream \"" + stream + "\"", "ACL SETUSER ... %R~" + stream);
    return;
  }
  if (error.code == "WRONGTYPE") {
    NoteUnchecked("what is at \"" + stream + "\" is no stream any more", "give that another name (RENAME)");
    return;
  }
  NoteRefused("XINFO", reply);
  NoteUnchecked(
      "XINFO does not tell where stream \"" + stream + "\" ends" + (error.ok() ? "" : " (" + error.message + ")"),
      kAskTheServer);
}

// Events still arrive, in order, but several times slower, and nothing else would tell. The right may be given back,
// which another connection finds out, as the first one did.
void RedisSink::NoteSingles() {
  const bool singles = writer_.sends_singles();
  const bool told = !no_transactions_.ok();
  if (state_ != State::kReady || (!singles && !told)) {
    return;
  }
  const int64_t now = MonotonicMicros();
  if (singles && told) {
    if (now >= transactions_again_at_) {
      transactions_again_at_ = now + kTransactionsAgain;
      state_ = State::kLeaving;
    }
    return;
  }
  no_transactions_ = {};
  if (singles) {
    transactions_again_at_ = now + kTransactionsAgain;
    const Error& why = writer_.why_singles();
    no_transactions_ =
        why.code == "NOPERM"
            ? Error{ErrorClass::kDestination, "NO_TRANSACTIONS",
                    "the Redis user may not call MULTI, EXEC or DISCARD: of each key one event is sent at a time, "
                    "which is "
                    "several times slower; ACL SETUSER ... +multi +exec +discard"}
            : Error{ErrorClass::kDestination, "NO_TRANSACTIONS",
                    "MULTI or EXEC is refused, as some proxies do: of each key one event is sent at a time, which is "
                    "several times slower; " +
                        why.message};
  }
  ShowWarning();
}

void RedisSink::ShowWarning() {
  const Error silence = Silence();
  const Error& warning = !silence.ok()                                      ? silence
                         : writer_.writes_streams() && !no_loss_check_.ok() ? no_loss_check_
                         : !stream_ends_.unasked().ok()                     ? stream_ends_.unasked()
                         : !no_transactions_.ok()                           ? no_transactions_
                         : !eviction_.ok()                                  ? eviction_
                                                                            : ids_ahead_;
  if (warning.message != health_.warning.message) {
    health_.warning = warning;
    ++health_.changes;
  }
}

// Called when the server has let the sink in.
void RedisSink::Meet() {
  if (!admission_.Meet(server_, no_loss_check_.ok())) {
    state_ = State::kAwaitingAdmission;
    return;
  }
  Enter();
}

void RedisSink::Enter() {
  state_ = State::kReady;
  ready_since_ = MonotonicMicros();
  pipeline_.LetIn();
  second_.Expect(server_);
  writer_.Meet(server_.run_id);
  writer_.ExpectHistory(admission_.checks_server() && no_loss_check_.ok() ? server_ : ServerInfo());
  SetHealth(true, {});
}

void RedisSink::Ask(std::vector<AskedStream> streams) {
  if (state_ == State::kAwaitingAdmission) {
    stream_ends_.Ask(std::move(streams), server_);
    ShowWarning();
  }
}

bool RedisSink::TakeEnds(std::vector<StreamEnd>* ends) {
  if (!stream_ends_.Take(ends)) {
    return false;
  }
  if (admission_.ReportUntold()) {
    ends->clear();
    return false;
  }
  return true;
}

void RedisSink::IdentifyAgain() {
  if (state_ == State::kReady) {
    state_ = State::kLeaving;
  }
  if (state_ != State::kAwaitingAdmission) {
    return;
  }
  Lost({ErrorClass::kDestination, "LOST_WRITES",
        "a Redis server answers that lacks what was acknowledged; it is looked at once more before that is believed"});
  retry_at_ = MonotonicMicros() + kIdentifyAgain;
}

// What was sent has its answers, so nothing is sent twice; what waits goes to the next connection.
void RedisSink::LeaveIfIdle() {
  if (state_ == State::kLeaving && writer_.nothing_out()) {
    Reconnect();
  }
}

void RedisSink::Reconnect() {
  pipeline_.Drop();
  writer_.ForgetConnection();
  stream_ends_.Forget();
  Connect();
}

void RedisSink::Admit(const std::string& server_run, bool drop) {
  if (state_ != State::kAwaitingAdmission || !admission_.Admit(server_run)) {
    return;
  }
  if (drop) {
    writer_.AbortWaiting();
  }
  Enter();
}

void RedisSink::CheckDeadlines() {
  const int64_t now = MonotonicMicros();
  const Pipeline& executes = Executes();
  if (state_ == State::kConnecting || state_ == State::kGreeting) {
    if (now >= connect_by_) {
      Lost(ConnectTimeout(pipeline_.resolving(), connect_timeout_ / kMilli));
    }
  } else if (executes.awaits() && now >= executes.quiet_since() + timeout_) {
    if (writer_.second_runs()) {
      second_.Failed();
    }
    Lost({ErrorClass::kDestination, "TIMEOUT",
          "the Redis server was silent for " + std::to_string(timeout_ / kMilli) + " ms"});
  } else if (!pipeline_.awaits() && now >= pipeline_.quiet_since() + kIdlePing && writer_.TryIdle()) {
    AskWhileIdle();
  } else if (now >= check_memory_at_ && writer_.TryIdle()) {
    CheckMemory();
  } else if (ReadsFirst() && writer_.TryIdle()) {
    reading_.stream = writer_.outcomes()->stream();
    TryReading();
  }
}

// Any answer is a sign of life. One that was a replica meanwhile is found out before there is anything to send.
void RedisSink::AskWhileIdle() {
  if (writer_.knows_history()) {
    writer_.AskForHistory();
  } else {
    pipeline_.Send(resp::Command({"PING"}), [](const redisReply&) {});
  }
}

void RedisSink::Lost(Error error) {
  if (error.ok()) {
    return;
  }
  pipeline_.Drop();
  writer_.AbortAll(ClosedByPeer(error));
  if (ClosedByPeer(error) && stream_ends_.HungUp(&error)) {
    backoff_.Reset();
    ShowWarning();
  }
  stream_ends_.Forget();
  admission_.Forget();
  if (writer_.outcomes()->TakeProgress()) {
    backoff_.Reset();
  }
  // Where a person must act there is no hurry.
  const int64_t delay = backoff_.Next(random_());
  const int64_t slow = Backoff::Delay(kLastRetry, kLastRetry, 1, random_());
  const bool hurry = error.error_class != ErrorClass::kConfig;
  state_ = State::kWaiting;
  retry_at_ = MonotonicMicros() + std::max(hurry ? delay : slow, (hurry ? kFirstRetry : kLastRetry) / 10);
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
    case State::kGreeting:
      wait.deadline = connect_by_;
      break;
    case State::kAwaitingAdmission:
    case State::kReady:
    case State::kLeaving:
      wait.deadline = pipeline_.awaits() ? std::min(pipeline_.quiet_since() + timeout_, pipeline_.CountPauseBy())
                                         : pipeline_.quiet_since() + kIdlePing;
      wait.deadline = writer_.may_idle() ? std::min(wait.deadline, ReadsFirst() ? 0 : check_memory_at_) : wait.deadline;
      break;
  }
  if (!writer_.outcomes()->empty()) {
    wait.deadline = MonotonicMicros();
  }
  pipeline_.AppendWait(wait, waits);
  second_.AppendWaits(timeout_, waits);
}

void RedisSink::Close() {
  state_ = State::kClosed;
  pipeline_.Drop();
  second_.Drop();
  writer_.Clear();
}

}  // namespace outbox::sink
