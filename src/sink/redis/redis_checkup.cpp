#include "sink/redis/redis_checkup.h"

#include <poll.h>

#include <algorithm>
#include <memory>
#include <span>
#include <string>
#include <utility>

#include "base/monotonic.h"
#include "sink/options.h"
#include "sink/redis/command_pipeline.h"
#include "sink/redis/commands.h"
#include "sink/redis/errors.h"
#include "sink/redis/redis_sink.h"
#include "sink/redis/reply.h"
#include "sink/redis/resp.h"
#include "sink/redis/server_info.h"
#include "sink/redis/tls.h"

namespace outbox::sink::redis {
namespace {

struct Advice {
  const char* code;
  const char* hint;
};
constexpr const char* kLogin =
    "Put username and password of the Redis user into the user mapping that counts: ALTER USER MAPPING ... SERVER ... "
    "OPTIONS (SET password '...').";
constexpr const char* kHangsUp =
    "A server that hangs up at once: one for TLS that is spoken to without (option tls), or one that is no Redis.";
constexpr const char* kTlsHangsUp =
    "A server that hangs up at once: one without TLS, or one that is no Redis. Is that its tls-port (option tls)?";
constexpr const char* kBusy =
    "It runs a script or function and answers nobody until that has ended: SCRIPT KILL or FUNCTION KILL ends one that "
    "has not written; SLOWLOG GET says afterwards which one it was. After how long others are told so is "
    "lua-time-limit.";
constexpr const char* kPrimary = "host and port have to name the primary itself.";
constexpr const char* kCluster =
    "A node of a Redis cluster takes the topics whose slots it has: host and port have to name a single Redis server, "
    "or "
    "a proxy that knows the cluster (behind which lost writes may not be noticed).";
// Of a node that has answered: a topic may be in its slots.
constexpr const char* kOfCluster =
    "Warning: this is a Redis cluster. A node takes the topics whose slots it has, and what goes to others waits "
    "(MOVED) "
    "until host and port name a single Redis server, or a proxy that knows the cluster (behind which lost writes may "
    "not be noticed); test_server() with a topic "
    "tries that one. ";
constexpr Advice kAdvice[] = {
    {"RESOLVE", "Is the name right, and known to the resolver of the database server's machine? Set option host."},
    {"CONNECT", "Does Redis run there and listen on that address (bind, protected-mode), and is the port right?"},
    {"TIMEOUT",
     "A firewall that drops packets, or a wrong address: nobody answers there. With tls missing a TLS "
     "server waits like that, too."},
    {"CONNECTION_CLOSED", kHangsUp},
    {"CONNECTION_LOST", kHangsUp},
    {"PROTOCOL", "Something else than Redis, or Redis with TLS, listens on that port."},
    {"NOAUTH", kLogin},
    {"WRONGPASS", kLogin},
    {"AUTH",
     "That Redis user has no password, or Redis is older than 6 and knows no usernames: take out of the user mapping "
     "what it does not know (ALTER USER MAPPING ... OPTIONS (DROP password)), or set a password in Redis."},
    {"DENIED", "Redis is in protected mode: it wants a password, or to be told to listen to others."},
    {"DB_INDEX", "Set option db to a database that the server has."},
    {"READONLY", kPrimary},
    {"MASTERDOWN", kPrimary},
    {"BUSY", kBusy},
    {"SENTINEL", kPrimary},
    {"MOVED", kCluster},
    {"CLUSTERDOWN",
     "The cluster itself is down, or no node of it has that slot: CLUSTER INFO and CLUSTER NODES tell which node is "
     "missing. Bring it back, or give its slots to another."},
    {"ASK", kCluster},
    {"LOADING", "It loads its data: wait until it has."},
    {"OOM", "Raise maxmemory, or have consumers trim what they have read; option maxlen trims streams."},
    {"MISCONF", "Redis cannot save its data (disk full?): its log says why."},
    {"NOREPLICAS", "It has fewer replicas than min-replicas-to-write."},
    {"MAX_CLIENTS", "Raise maxclients of the server."},
    {"WRONGTYPE",
     "Another topic, or a route whose option mode is what is there; where nobody reads that any more, give it another "
     "name (RENAME)."},
    {"UNKNOWN_COMMAND",
     "It has that command under another name or not at all (rename-command in redis.conf), or is a proxy that does not "
     "pass it on. Of all commands, those that write are needed: XADD, or RPUSH or PUBLISH, as option mode of the route "
     "has it."},
};

// The same with option tls.
constexpr Advice kTlsAdvice[] = {
    {"TIMEOUT",
     "A firewall that drops packets, or a wrong address: nobody answers there. A server without TLS waits like that, "
     "too: "
     "is that its tls-port?"},
    {"CONNECTION_CLOSED", kTlsHangsUp},
    {"CONNECTION_LOST", kTlsHangsUp},
    {"PROTOCOL", "Something else than Redis listens on that port."},
};

// With option unix_socket.
constexpr Advice kSocketAdvice[] = {
    {"CONNECT",
     "Does Redis run there and listen on that socket (unixsocket), and may the database server's user write to it "
     "(unixsocketperm, and the directories above it)?"},
};

// Of a server that has answered before: no wrong address, and nothing in between.
constexpr const char* kSilent =
    "It has answered, and then no more: its writes are paused (CLIENT PAUSE; CLIENT UNPAUSE ends it), or it is slow "
    "(SLOWLOG GET, INFO persistence), or more time is needed (timeout).";

const char* Find(std::span<const Advice> advice, const Error& error) {
  const auto found =
      std::find_if(advice.begin(), advice.end(), [&](const Advice& one) { return error.code == one.code; });
  return found == advice.end() ? nullptr : found->hint;
}

const char* HintOf(const Error& error, const Options& options, bool answered) {
  if (answered && error.code == "TIMEOUT") {
    return kSilent;
  }
  if (error.code == "TLS") {
    return TlsHint(error.message);
  }
  const char* hint = BoolOption(options, "tls", false) ? Find(kTlsAdvice, error) : nullptr;
  if (hint == nullptr && !TextOption(options, "unix_socket", "").empty()) {
    hint = Find(kSocketAdvice, error);
  }
  hint = hint == nullptr ? Find(kAdvice, error) : hint;
  return hint == nullptr ? "" : hint;
}

// What is under that name, as TYPE has it; nullptr: channels are no keys.
const char* TypeOf(RecordForm form) {
  return form == RecordForm::kStream ? "stream" : form == RecordForm::kList ? "list" : nullptr;
}

// A command that writes to it, as a worker would send it.
std::string WriteTo(RecordForm form, const std::string& topic) {
  switch (form) {
    case RecordForm::kList:
      return resp::Command({"RPUSH", topic, "x"});
    case RecordForm::kPublish:
      return resp::Command({"PUBLISH", topic, "x"});
    case RecordForm::kStream:
      break;
  }
  return resp::Command({"XADD", topic, "*", "id", "x"});
}

class RedisCheckup {
 public:
  RedisCheckup(const CheckupRequest& request, std::shared_ptr<TlsContext> tls)
      : request_(request),
        options_(request.config.options),
        pipeline_({TextOption(options_, "host", "localhost"), TextOption(options_, "port", "6379"),
                   TextOption(options_, "unix_socket", "")},
                  std::move(tls)),
        by_(MonotonicMicros() + int64_t{request.timeout_ms} * 1000) {}

  std::vector<CheckupRow> Run() {
    Note("connection", pipeline_.Begin(by_).error());
    bool greeted = false;
    while (!over_) {
      const Status advanced = pipeline_.Advance([&] {
        greeted = true;
        Greet();
      });
      // Before anything has been answered it is the connection: TLS shakes hands with the first bytes.
      const char* check = rows_.empty() ? "connection" : "server";
      Note(check, advanced.error());
      if (greeted && !pipeline_.awaits()) {
        break;
      }
      if (!over_ && MonotonicMicros() >= by_) {
        Note(check, ConnectTimeout(pipeline_.resolving(), request_.timeout_ms));
      }
      if (!over_) {
        Wait();
      }
    }
    return std::move(rows_);
  }

 private:
  void Wait() {
    std::vector<WaitSpec> waits;
    WaitSpec wait;
    wait.deadline = by_;
    pipeline_.AppendWait(wait, &waits);
    for (const WaitSpec& one : waits) {
      pollfd ready{one.fd, static_cast<short>((one.read ? POLLIN : 0) | (one.write ? POLLOUT : 0)), 0};
      const int64_t left =
          std::max<int64_t>(0, std::min(one.deadline < 0 ? by_ : one.deadline, by_) - MonotonicMicros());
      poll(&ready, one.fd < 0 ? 0 : 1, static_cast<int>(left / 1000) + 1);
    }
  }

  // All that a worker needs of that user, to be typed as it stands.
  std::string RightsHint() const {
    const std::string topic = request_.topic.empty() ? "outbox.*" : request_.topic;
    const char* write = request_.form == RecordForm::kList      ? "+rpush ~"
                        : request_.form == RecordForm::kPublish ? "+publish &"
                                                                : "+xadd ~";
    const char* select = IntegerOption(options_, "db", 0) == 0 ? "" : "+select ";
    return std::string("ACL SETUSER ... ") + select + "+multi +exec +discard +info +xinfo +xrevrange " +
           (write + topic) + " gives the user the commands, and the " +
           (request_.form == RecordForm::kPublish ? "channel." : "key.");
  }
  void Ok(const char* check, std::string detail, std::string hint = "") {
    rows_.push_back({check, {}, std::move(detail), std::move(hint)});
  }
  // The first error is what is wrong; what comes behind it follows from it.
  void Note(const char* check, Error error) {
    if (error.ok() || over_) {
      return;
    }
    std::string hint = error.code == "NOPERM" ? RightsHint() : HintOf(error, options_, /*answered=*/!rows_.empty());
    rows_.push_back({check, std::move(error), "", std::move(hint)});
    over_ = true;
  }
  // `handle` is called with the reply if it is no error, and if all was well before it.
  void Send(const char* check, const std::string& command, std::function<void(const redisReply&)> handle,
            bool refusal_matters = true) {
    pipeline_.Send(command, [this, check, handle = std::move(handle), refusal_matters](const redisReply& reply) {
      if (over_) {
        return;
      }
      if (!IsError(reply)) {
        handle(reply);
      } else if (refusal_matters) {
        Note(check, ReplyError(Text(reply)));
      }
    });
  }

  void Greet() {
    const std::string username = TextOption(options_, "username", "");
    const std::string password = TextOption(options_, "password", "");
    const auto nothing = [](const redisReply&) {};
    if (!username.empty()) {
      Send("login", resp::Command({"AUTH", username, password}), nothing);
    } else if (!password.empty()) {
      Send("login", resp::Command({"AUTH", password}), nothing);
    }
    const int64_t db = IntegerOption(options_, "db", 0);
    if (db != 0) {
      Send("login", resp::Command({"SELECT", std::to_string(db)}), nothing);
    }
    const std::string user = username.empty() ? "the default user" : "user " + username;
    // Any user may ask that who is let in; without the right the answer tells as much.
    pipeline_.Send(resp::Command({"PING"}), [this, user](const redisReply& reply) {
      Error error = ErrorOf(reply);
      if (!IsLetIn(error)) {
        Note(error.error_class == ErrorClass::kConfig ? "login" : "server", std::move(error));
      } else if (!over_) {
        Ok("login", "the server lets " + user + " in");
      }
    });
    AskServer();
    if (!request_.topic.empty()) {
      AskTopic();
    }
  }

  void AskServer() {
    Send(
        "server", resp::Command({"INFO", "server"}),
        [this](const redisReply& reply) {
          ServerInfo info;
          Note("server", ReadServerInfo(reply, &info));
          version_ = ReadVersion(reply);
          cluster_ = IsOfCluster(reply) ? kOfCluster : "";
        },
        false);
    Send(
        "server", resp::Command({"INFO", "replication"}),
        [this](const redisReply& reply) {
          ServerInfo info;
          Note("server", ReadReplicationInfo(reply, &info));
        },
        false);
    Send(
        "server", resp::Command({"INFO", "persistence"}),
        [this](const redisReply& reply) { Note("server", ReadPersistenceInfo(reply)); }, false);
    if (request_.form == RecordForm::kStream) {
      AskWhatLossesNeed();
    }
    if (request_.topic.empty() && request_.form != RecordForm::kPublish) {
      TryWriting();
    }
    pipeline_.Send(resp::Command({"INFO", "memory"}), [this](const redisReply& reply) {
      if (over_) {
        return;
      }
      if (const Error warning = IsError(reply) ? Error() : ReadMemoryInfo(reply); !warning.ok()) {
        warnings_ += "Warning: " + warning.message + ".";
      }
      Ok("server",
         (version_.empty() ? "a Redis server that does not tell its version" : version_ + ", a primary") + "; " +
             RedisSink::Library(),
         cluster_ + warnings_);
    });
  }

  // Whether the server takes writes at all: it judges its memory, its replicas and its cluster before it looks at the
  // arguments, and no stream takes the id 0-0. That user's rights, and where that key would be, are a topic's matter.
  void TryWriting() {
    pipeline_.Send(resp::Command({"XADD", "outbox", "0-0", "id", "x"}),
                   [this](const redisReply& reply) { Note("server", PassingError(reply)); });
  }

  // Without that events are delivered all the same.
  void AskWhatLossesNeed() {
    const auto note = [this](const redisReply& reply, bool refused) {
      if (refused && warnings_.empty()) {
        warnings_ =
            "Warning: if the server loses events that it has acknowledged, that would not be noticed "
            "(NO_LOSS_CHECK): " +
            ErrorOf(reply).message + ". ";
      }
    };
    const auto note_command = [note](const redisReply& reply) { note(reply, RefusesCommand(reply)); };
    pipeline_.Send(resp::Command({"INFO", "server"}), note_command);
    pipeline_.Send(resp::Command({"XINFO", "STREAM", "outbox"}), note_command);
    if (!request_.topic.empty()) {
      const auto note_key = [note](const redisReply& reply) { note(reply, RefusesKey(reply)); };
      pipeline_.Send(ReadNothing(request_.topic), note_key, Pipeline::Reading::kOutline);
    }
  }

  void AskTopic() {
    const std::string& topic = request_.topic;
    const char* wanted = TypeOf(request_.form);
    if (wanted != nullptr) {
      Send(
          "topic", resp::Command({"TYPE", topic}),
          [this, wanted](const redisReply& reply) {
            const std::string type(Text(reply));
            if (type == wanted) {
              Ok("topic", std::string(wanted) + " \"" + request_.topic + "\" is there");
            } else if (type == "none") {
              Ok("topic",
                 std::string(wanted) + " \"" + request_.topic + "\" is not there yet: the first event makes it");
            } else if (reply.type != REDIS_REPLY_STATUS || type == "OK") {
              Note("topic",
                   {ErrorClass::kDestination, "PROTOCOL", "the answer to TYPE makes no sense: is that a Redis?"});
            } else {
              Note("topic", {ErrorClass::kTopic, "WRONGTYPE",
                             "\"" + request_.topic + "\" is there and is no " + wanted + ", but of type " + type});
            }
          },
          false);
    }
    // Queued and thrown away: a server judges rights, memory and its own state when a command is queued. Only once it
    // is known to be queued: without MULTI it would be written.
    pipeline_.Send(resp::Command({"MULTI"}), [this](const redisReply& reply) {
      if (over_) {
        return;
      }
      const Error error = ErrorOf(reply);
      if (RefusesCommand(reply)) {
        AskWithoutTransaction(error);
      } else if (!error.ok()) {
        Note("rights", error);
      } else {
        TryToEndIt();
      }
    });
  }

  // A transaction of nothing, first: one that cannot be ended is of no use.
  void TryToEndIt() {
    pipeline_.Send(resp::Command({"EXEC"}), [this](const redisReply& ended) {
      if (over_) {
        return;
      }
      if (IsError(ended)) {
        pipeline_.Send(resp::Command({"DISCARD"}), [](const redisReply&) {});
        AskWithoutTransaction(WhyDiscarded(ended));
        return;
      }
      pipeline_.Send(resp::Command({"MULTI"}), [](const redisReply&) {});
      Send("rights", WriteTo(request_.form, request_.topic),
           [this](const redisReply&) { Ok("rights", "it may be written to"); });
      pipeline_.Send(resp::Command({"DISCARD"}), [](const redisReply&) {});
    });
  }

  // Redis judges rights before it looks at the arguments: an entry whose id is none is never written, and what it is
  // refused for tells whether one may be.
  void AskWithoutTransaction(const Error& why) {
    const bool not_allowed = why.code == "NOPERM";
    const char* faster = not_allowed
                             ? "ACL SETUSER ... +multi +exec +discard makes it several times faster."
                             : "A proxy that knows transactions, or the server itself, is several times faster.";
    const std::string refused = "MULTI or EXEC is refused" + (not_allowed ? "" : " (" + why.message + ")") +
                                ": of each key one event is sent at a time";
    if (request_.form != RecordForm::kStream) {
      Ok("rights", "cannot be tried without writing, and " + refused, faster);
      return;
    }
    pipeline_.Send(resp::Command({"XADD", request_.topic, "none", "key", "x"}), [=, this](const redisReply& reply) {
      const Error error = ErrorOf(reply);
      if (over_) {
        return;
      }
      if (error.ok() || Text(reply).find("stream ID") != std::string_view::npos) {
        Ok("rights", "it may be written to, but " + refused, faster);
      } else {
        Note("rights", error);
      }
    });
  }

  const CheckupRequest& request_;
  const Options& options_;
  Pipeline pipeline_;
  const int64_t by_;
  std::string version_;
  std::string cluster_;  // warning
  std::string warnings_;
  std::vector<CheckupRow> rows_;
  bool over_ = false;  // something is wrong
};

}  // namespace

std::vector<CheckupRow> CheckUp(const CheckupRequest& request) {
  std::shared_ptr<TlsContext> tls;
  if (Status status = MakeTls(request.config.options, &tls); !status.ok()) {
    const std::string hint = TlsHint(status.error().message);
    return {{"options", status.error(), "", hint.empty() ? "docs/options.md says what the options mean." : hint}};
  }
  return RedisCheckup(request, std::move(tls)).Run();
}

}  // namespace outbox::sink::redis
