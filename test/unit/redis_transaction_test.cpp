// matrix: E-1 E-2 E-3 E-6 E-7 E-8 E-9
// Transactions of the Redis sink: what is refused when it is queued, when it is executed, and not at all; all or
// nothing.
#include <gtest/gtest.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cstring>
#include <thread>

#include "redis_proxy.h"
#include "redis_sink_fixture.h"

namespace outbox::sink {
namespace {

class RedisTransactionTest : public RedisSinkTest {
 protected:
  // The commands that a client of the server has in an open transaction, at most.
  int64_t Queued() {
    const std::vector<int64_t> queued = InTransactions();
    return queued.empty() ? -1 : *std::max_element(queued.begin(), queued.end());
  }
  // How many transactions the server has executed.
  int64_t Executed() {
    const std::string calls = server_.Command({"INFO", "commandstats"})->str;
    const size_t at = calls.find("cmdstat_exec:calls=");
    return at == std::string::npos ? 0 : std::stoll(calls.substr(at + 19));
  }
};

// What the server turns into while a transaction is complete and not executed yet; and back.
struct Change {
  const char* name;
  std::vector<std::string> change;
  std::vector<std::string> heal;
  ErrorClass error_class;
  const char* code;
};

TEST_F(RedisTransactionTest, WhatIsRefusedAtExecIsNotWrittenAtAll) {
  BEGIN_OR_SKIP();
  server_.SetUser("writer", {"on", ">pw", "~*", "+@all"});
  Proxy proxy(server_.directory() + "/proxy", server_.socket());
  Connect({{"unix_socket", proxy.path()}, {"username", "writer"}, {"password", "pw"}});
  const auto D = ErrorClass::kDestination;
  const Change changes[] = {
      {"memory", {"CONFIG", "SET", "maxmemory", "1"}, {"CONFIG", "SET", "maxmemory", "0"}, D, "OOM"},
      {"role", {"REPLICAOF", "127.0.0.1", "1"}, {"REPLICAOF", "NO", "ONE"}, D, "READONLY"},
      {"replicas",
       {"CONFIG", "SET", "min-replicas-to-write", "1"},
       {"CONFIG", "SET", "min-replicas-to-write", "0"},
       D,
       "NOREPLICAS"},
      {"xadd",
       {"ACL", "SETUSER", "writer", "-xadd"},
       {"ACL", "SETUSER", "writer", "+xadd"},
       ErrorClass::kConfig,
       "NOPERM"},
      {"keys",
       {"ACL", "SETUSER", "writer", "resetkeys", "~mine"},
       {"ACL", "SETUSER", "writer", "~*"},
       ErrorClass::kTopic,
       "NOPERM"},
      {"type", {"SET", "type", "x"}, {"DEL", "type"}, ErrorClass::kTopic, "WRONGTYPE"},
  };
  uint32_t epoch = 0;
  for (const Change& change : changes) {
    driver_->Submit(1, epoch, {To("warm", "k", "up")});
    ASSERT_TRUE(driver_->UntilResolved()) << change.name;
    proxy.set_mode(Proxy::Mode::kHold);
    const uint64_t first = driver_->Submit(1, epoch++, Records(change.name, 100));
    ASSERT_TRUE(driver_->Until([&] { return Queued() == 100; }, 30)) << change.name;
    server_.Command(change.change);
    proxy.set_mode(Proxy::Mode::kPass);
    ASSERT_TRUE(driver_->UntilResolved()) << change.name;
    EXPECT_EQ(driver_->outcome(first), Outcome::kFailed) << change.name;
    EXPECT_EQ(driver_->error(first).code, change.code) << change.name << ": " << driver_->error(first).message;
    EXPECT_EQ(driver_->error(first).error_class, change.error_class) << change.name;
    for (uint64_t seq = first + 1; seq < driver_->submitted(); ++seq) {
      ASSERT_EQ(driver_->outcome(seq), Outcome::kAborted) << change.name;
    }
    server_.Command(change.heal);
    EXPECT_EQ(server_.Integer({"EXISTS", change.name}), 0) << change.name;
    for (bool again = true; again;) {  // a connection to the replica that it was may have been made meanwhile
      const uint64_t seq = driver_->Submit(1, epoch++, {To("warm", "k", "up")});
      ASSERT_TRUE(driver_->UntilResolved(30)) << change.name;
      again = driver_->outcome(seq) != Outcome::kDelivered;
    }
    driver_->Submit(1, epoch++, Records(change.name, 100));
    ASSERT_TRUE(driver_->UntilResolved()) << change.name;
    EXPECT_EQ(Payloads(change.name), Numbers(100)) << change.name;
  }
}

// On a loopback, more waits for a segment that does not fit into what Redis lets come at once.
TEST_F(RedisTransactionTest, NoneIsLargerThanTheServerTakesAtOnce) {
  BEGIN_OR_SKIP();
  driver_->Submit(1, 0, {To("warm", "k", "up")});
  ASSERT_TRUE(driver_->UntilResolved());
  const int64_t before = Executed();
  const std::string kilobyte(1024, 'x');
  driver_->Submit(1, 0, std::vector<TestRecord>(1000, To("s", "k", kilobyte)));
  ASSERT_TRUE(driver_->UntilResolved());
  EXPECT_EQ(server_.Integer({"XLEN", "s"}), 1000);
  EXPECT_GE(Executed() - before, 6);  // 1.1 MB
  EXPECT_LE(Executed() - before, 8);
}

// The one way to a duplicate: all that was in the transaction comes twice, in order, none alone.
TEST_F(RedisTransactionTest, AnAnswerThatIsLostRepeatsTheWholeTransaction) {
  BEGIN_OR_SKIP();
  Proxy proxy(server_.directory() + "/proxy", server_.socket());
  Connect({{"unix_socket", proxy.path()}});
  driver_->Submit(1, 0, {To("warm", "k", "up")});
  ASSERT_TRUE(driver_->UntilResolved());
  proxy.set_mode(Proxy::Mode::kCut);
  const uint64_t first = driver_->Submit(1, 0, Records("s", 100));
  ASSERT_TRUE(driver_->UntilResolved(30));
  for (uint64_t seq = first; seq < driver_->submitted(); ++seq) {
    ASSERT_EQ(driver_->outcome(seq), Outcome::kAborted);
  }
  ASSERT_TRUE(driver_->Until([&] { return server_.Integer({"XLEN", "s"}) == 100; }));
  driver_->Submit(1, 1, Records("s", 100));
  ASSERT_TRUE(driver_->UntilResolved(30));
  std::vector<std::string> twice = Numbers(100);
  const std::vector<std::string> once = twice;
  twice.insert(twice.end(), once.begin(), once.end());
  EXPECT_EQ(Payloads("s"), twice);
}

// One that is lost before its EXEC was never written.
TEST_F(RedisTransactionTest, AConnectionLostBeforeExecWritesNothing) {
  BEGIN_OR_SKIP();
  Proxy proxy(server_.directory() + "/proxy", server_.socket());
  Connect({{"unix_socket", proxy.path()}});
  driver_->Submit(1, 0, {To("warm", "k", "up")});
  ASSERT_TRUE(driver_->UntilResolved());
  proxy.set_mode(Proxy::Mode::kHold);
  driver_->Submit(1, 0, Records("s", 100));
  ASSERT_TRUE(driver_->Until([&] { return Queued() == 100; }, 30));
  server_.Command({"CLIENT", "KILL", "TYPE", "normal", "SKIPME", "yes"});
  ASSERT_TRUE(driver_->UntilResolved(30));
  EXPECT_EQ(driver_->Count(Outcome::kAborted), 100u);
  EXPECT_EQ(server_.Integer({"EXISTS", "s"}), 0);
  proxy.set_mode(Proxy::Mode::kPass);
  driver_->Submit(1, 1, Records("s", 100));
  ASSERT_TRUE(driver_->UntilResolved(30));
  EXPECT_EQ(Payloads("s"), Numbers(100));
}

// EXEC or MULTI is taken away while records are on their way: they go again, one by one.
TEST_F(RedisTransactionTest, ForbiddenInTheMiddleLosesNoOrder) {
  for (const char* what : {"-multi", "-exec", "-@transaction"}) {
    server_.Stop();
    BEGIN_OR_SKIP();
    server_.SetUser("writer", {"on", ">pw", "~*", "+@all"});
    Connect({{"username", "writer"}, {"password", "pw"}});
    driver_->Submit(1, 0, {To("warm", "k", "up")});
    ASSERT_TRUE(driver_->UntilResolved());
    driver_->Submit(1, 0, Records("s", 3000));
    driver_->Turn(0);
    server_.Command({"ACL", "SETUSER", "writer", what});
    ASSERT_TRUE(driver_->UntilResolved()) << what;
    EXPECT_EQ(driver_->Count(Outcome::kDelivered), 3001u) << what;
    EXPECT_EQ(Payloads("s"), Numbers(3000)) << what;
    // And back: the next connection finds out.
    server_.Command({"ACL", "SETUSER", "writer", "+@all"});
    const int64_t connections = Connections();
    server_.Command({"CLIENT", "KILL", "USER", "writer"});
    // It may be back within the turn in which it sees that it was gone.
    ASSERT_TRUE(driver_->Until([&] { return Connections() > connections; })) << what;
    ASSERT_TRUE(driver_->Until([&] { return Queued() >= 0; })) << what;
  }
}

// Where they are refused, that is told; and that they are not any more is found out, with nobody's help.
TEST_F(RedisTransactionTest, RefusedOnesAreToldAndTriedAgain) {
  BEGIN_OR_SKIP();
  server_.SetUser("writer", {"on", ">pw", "~*", "+@all", "-multi"});
  Connect({{"username", "writer"}, {"password", "pw"}});
  const auto warned = [&] { return sink_->health().warning.code == "NO_TRANSACTIONS"; };
  driver_->Submit(1, 0, Records("s", 100));
  ASSERT_TRUE(driver_->UntilResolved());
  EXPECT_TRUE(driver_->Until(warned));
  const uint64_t changes = sink_->health().changes;
  const int64_t connections = Connections();
  ASSERT_TRUE(driver_->Until([&] { return Connections() > connections; }, 30));  // is it so still?
  driver_->Submit(1, 0, Records("s", 100));
  ASSERT_TRUE(driver_->UntilResolved());
  EXPECT_TRUE(warned());
  EXPECT_EQ(sink_->health().changes, changes);  // told once
  server_.Command({"ACL", "SETUSER", "writer", "+multi"});
  EXPECT_TRUE(driver_->Until([&] { return !warned(); }, 30));
  const int64_t before = Executed();
  driver_->Submit(1, 0, Records("s", 100));
  ASSERT_TRUE(driver_->UntilResolved());
  EXPECT_GT(Executed(), before);
  std::vector<std::string> thrice;
  for (int i = 0; i < 300; ++i) {
    thrice.push_back(std::to_string(i % 100));
  }
  EXPECT_EQ(Payloads("s"), thrice);
  EXPECT_EQ(driver_->Count(Outcome::kDelivered), 300u);
}

// A transaction that may be begun and not be ended, with none of the commands that end one.
TEST_F(RedisTransactionTest, WhatNothingEndsIsNotBegun) {
  checks_server_ = true;
  BEGIN_OR_SKIP({}, {"--rename-command", "EXEC", "", "--rename-command", "DISCARD", ""});
  ASSERT_TRUE(UntilMet());
  EXPECT_EQ(Ends({{"s", "1-1"}}).size(), 1u) << "it can be asked";
  sink_->Admit(sink_->identity()->server_run, false);
  driver_->Submit(1, 0, Records("s", 100));
  ASSERT_TRUE(driver_->UntilResolved()) << sink_->health().error.message;
  EXPECT_EQ(driver_->Count(Outcome::kDelivered), 100u);
  EXPECT_EQ(Payloads("s"), Numbers(100));
  EXPECT_TRUE(driver_->Until([&] { return sink_->health().warning.code == "NO_TRANSACTIONS"; }));
  // Whether it is so still.
  const uint64_t changes = sink_->health().changes;
  const int64_t connections = Connections();
  ASSERT_TRUE(driver_->Until([&] { return Connections() >= connections + 2; }, 30));
  driver_->Submit(1, 0, Records("s", 100));
  ASSERT_TRUE(driver_->UntilResolved());
  EXPECT_EQ(driver_->Count(Outcome::kDelivered), 200u);
  EXPECT_EQ(sink_->health().changes, changes);
  EXPECT_TRUE(sink_->identity()->server_run.empty());
}

// Streams of another type, and such that may not be written to, among those of one transaction: only these fail.
TEST_F(RedisTransactionTest, AFewBadStreamsOfManyHoldUpNone) {
  BEGIN_OR_SKIP();
  server_.SetUser("writer", {"on", ">pw", "~ok*", "~type*", "+@all"});
  server_.Command({"SET", "type1", "x"});
  server_.Command({"RPUSH", "type2", "x"});
  Connect({{"username", "writer"}, {"password", "pw"}});
  const std::string bad[] = {"type1", "type2", "denied1", "denied2"};
  std::map<std::string, uint64_t> first;
  for (uint32_t i = 0; i < 65; ++i) {
    const std::string stream = i % 16 == 8 ? bad[i / 16] : "ok" + std::to_string(i);
    first[stream] = driver_->Submit(i, 0, Records(stream, 7));
  }
  ASSERT_TRUE(driver_->UntilResolved());
  for (const auto& [stream, seq] : first) {
    const bool fails = !stream.starts_with("ok");
    EXPECT_EQ(driver_->outcome(seq), fails ? Outcome::kFailed : Outcome::kDelivered) << stream;
    if (fails) {
      EXPECT_EQ(driver_->error(seq).error_class, ErrorClass::kTopic) << stream;
      EXPECT_EQ(driver_->error(seq).code, stream.starts_with("type") ? "WRONGTYPE" : "NOPERM") << stream;
    } else {
      EXPECT_EQ(Payloads(stream), Numbers(7)) << "once, in order";
    }
  }
}

// A cluster takes no transaction over streams of several slots, though one node has them all.
TEST_F(RedisTransactionTest, ANodeThatHasAllSlotsGetsAStreamAtATime) {
  int port = FreePort();
  while (port > 55535) {  // a cluster's own port is 10000 above
    port = FreePort();
  }
  BEGIN_OR_SKIP({}, {"--cluster-enabled", "yes", "--port", std::to_string(port)});
  if (server_.Command({"CLUSTER", "ADDSLOTSRANGE", "0", "16383"})->type == REDIS_REPLY_ERROR) {
    GTEST_SKIP() << "Redis before 7";
  }
  ASSERT_TRUE(driver_->Until([&] {
    return std::string(server_.Command({"CLUSTER", "INFO"})->str).find("cluster_state:ok") != std::string::npos;
  }));
  for (uint32_t i = 0; i < 30; ++i) {
    driver_->Submit(i, 0, Records("s" + std::to_string(i), 50));
  }
  ASSERT_TRUE(driver_->UntilResolved());
  EXPECT_EQ(driver_->Count(Outcome::kDelivered), 1500u);
  for (uint32_t i = 0; i < 30; ++i) {
    EXPECT_EQ(Payloads("s" + std::to_string(i)), Numbers(50));
  }
  // Slots that are another node's.
  server_.Command({"CLUSTER", "DELSLOTSRANGE", "0", "16383"});
  const uint64_t moved = driver_->Submit(1, 1, Records("s1", 50));
  ASSERT_TRUE(driver_->UntilResolved());
  EXPECT_EQ(driver_->outcome(moved), Outcome::kFailed);
  EXPECT_EQ(driver_->error(moved).code, "CLUSTERDOWN");
}

// Ids that run out: what is written stays written and is told so, the rest is the stream's trouble.
TEST_F(RedisTransactionTest, AStreamThatRunsOutOfIdsKeepsItsBeginning) {
  BEGIN_OR_SKIP();
  server_.Command({"XADD", "s", "18446744073709551615-18446744073709551612", "payload", "old"});
  const uint64_t first = driver_->Submit(1, 0, Records("s", 10));
  ASSERT_TRUE(driver_->UntilResolved());
  EXPECT_EQ(driver_->outcome(first + 2), Outcome::kDelivered);
  EXPECT_EQ(driver_->outcome(first + 3), Outcome::kFailed);
  EXPECT_EQ(driver_->error(first + 3).code, "STREAM_EXHAUSTED");
  EXPECT_EQ(driver_->outcome(first + 4), Outcome::kAborted);
  EXPECT_EQ(Payloads("s"), (std::vector<std::string>{"old", "0", "1", "2"}));
}

// A transaction is open between two events; what else the sink has to ask the server is not queued in it.
TEST_F(RedisTransactionTest, TenIdleSecondsWithATransactionOpen) {
  BEGIN_OR_SKIP();
  driver_->Submit(1, 0, {To("s", "k", "0")});
  ASSERT_TRUE(driver_->UntilResolved());
  // By a PING, or by a look at the server's memory, whichever is due first: the transaction ends before it.
  const auto executions = [&] {
    const std::string stats = server_.Command({"INFO", "commandstats"})->str;
    return stats.substr(stats.find("cmdstat_exec:calls=") + 19, 3);
  };
  ASSERT_TRUE(driver_->Until([&] { return Queued() == 0; })) << "open";
  const std::string before = executions();
  ASSERT_TRUE(driver_->Until([&] { return executions() != before; }, 20)) << "executed, not queued";
  ASSERT_TRUE(driver_->Until([&] { return Queued() == 0; })) << "open again";
  driver_->Submit(1, 0, {To("s", "k", "1")});
  ASSERT_TRUE(driver_->UntilResolved());
  EXPECT_EQ(Payloads("s"), (std::vector<std::string>{"0", "1"}));
  EXPECT_TRUE(sink_->health().up);
}

// A server that greets like Redis, and answers transactions as it is told.
class FakeRedis {
 public:
  // `exec`: what it says to EXEC; "": it hangs up. `queued`: to each command before. `no_multi`: to MULTI, EXEC and
  // DISCARD, whatever was said.
  FakeRedis(const std::string& path, std::string queued, std::string exec, std::string no_multi = "")
      : queued_(std::move(queued)), exec_(std::move(exec)), no_multi_(std::move(no_multi)) {
    unlink(path.c_str());
    sockaddr_un address{};
    address.sun_family = AF_UNIX;
    EXPECT_LT(path.size(), sizeof(address.sun_path));
    memcpy(address.sun_path, path.data(), path.size());
    Listen(reinterpret_cast<const sockaddr*>(&address), sizeof(address));
  }
  // At a port of this machine, which the system chooses.
  FakeRedis(std::string queued, std::string exec) : queued_(std::move(queued)), exec_(std::move(exec)) {
    sockaddr_in address{};
    socklen_t size = sizeof(address);
    address.sin_family = AF_INET;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    Listen(reinterpret_cast<const sockaddr*>(&address), size);
    EXPECT_EQ(getsockname(listener_, reinterpret_cast<sockaddr*>(&address), &size), 0);
    port_ = std::to_string(ntohs(address.sin_port));
  }
  ~FakeRedis() {
    shutdown(listener_, SHUT_RDWR);
    shutdown(peer_, SHUT_RDWR);  // the test may have ended before its sink
    thread_.join();
    close(listener_);
  }
  FakeRedis(const FakeRedis&) = delete;
  FakeRedis& operator=(const FakeRedis&) = delete;

  const std::string& port() const { return port_; }

 private:
  void Listen(const sockaddr* address, socklen_t size) {
    listener_ = socket(address->sa_family, SOCK_STREAM | SOCK_CLOEXEC, 0);
    EXPECT_EQ(bind(listener_, address, size), 0);
    EXPECT_EQ(listen(listener_, 8), 0);
    thread_ = std::thread([this] { Run(); });
  }
  void Run() {
    for (int peer = 0; (peer = accept(listener_, nullptr, nullptr)) >= 0;) {
      peer_ = peer;
      redisReader* reader = redisReaderCreate();
      bool open = true;
      size_t commands = 0;
      char bytes[4096];
      for (ssize_t got = 0; open && (got = recv(peer, bytes, sizeof(bytes), 0)) > 0;) {
        redisReaderFeed(reader, bytes, static_cast<size_t>(got));
        void* command = nullptr;
        while (open && redisReaderGetReply(reader, &command) == REDIS_OK && command != nullptr) {
          const std::string answer = Answer(static_cast<redisReply*>(command)->element[0]->str, &commands);
          open = !answer.empty() && send(peer, answer.data(), answer.size(), MSG_NOSIGNAL) > 0;
          freeReplyObject(command);
          command = nullptr;
        }
      }
      redisReaderFree(reader);
      close(peer);
    }
  }
  std::string Answer(const std::string& word, size_t* commands) const {
    if (!no_multi_.empty() && (word == "MULTI" || word == "EXEC" || word == "DISCARD")) {
      return no_multi_;
    }
    if (word == "XADD") {
      ++*commands;
      return queued_;
    }
    if (word == "EXEC") {
      return std::exchange(*commands, 0) == 0 ? "*0\r\n" : exec_;
    }
    return word == "INFO" ? "$0\r\n\r\n" : "+OK\r\n";
  }

  const std::string queued_;
  const std::string exec_;
  const std::string no_multi_;
  std::string port_;
  int listener_ = -1;
  std::atomic<int> peer_ = -1;
  std::thread thread_;
};

struct Odd {
  const char* what;
  std::string queued;
  std::string exec;
  std::string outcomes;  // of three records: d, f, a
  std::string code;      // of the one that failed, or else of the connection; "": neither
};

// Whatever comes instead of three ids: each record has one outcome, and none is told to be written that may not be.
TEST_F(RedisTransactionTest, OddAnswers) {
  server_.Stop();
  const std::string queued = "+QUEUED\r\n", id = "$3\r\n1-1\r\n", later = "$3\r\n1-3\r\n";
  const std::string large = "-ERR Elements are too large to be stored\r\n";
  const Odd odds[] = {
      {"as it should be", queued, "*3\r\n" + id + id + later, "ddd", ""},
      {"hangs up", queued, "", "aaa", "CONNECTION_CLOSED"},
      {"nil", queued, "*-1\r\n", "faa", "UNEXPECTED_REPLY"},
      {"null bulk", queued, "$-1\r\n", "faa", "UNEXPECTED_REPLY"},
      {"a number", queued, ":3\r\n", "faa", "UNEXPECTED_REPLY"},
      {"too few", queued, "*2\r\n" + id + later, "faa", "UNEXPECTED_REPLY"},
      {"too many", queued, "*4\r\n" + id + id + id + later, "faa", "UNEXPECTED_REPLY"},
      {"none", queued, "*0\r\n", "faa", "UNEXPECTED_REPLY"},
      {"a nested array", queued, "*3\r\n" + id + "*1\r\n" + id + later, "dfa", "UNEXPECTED_REPLY"},
      {"numbers", queued, "*3\r\n:1\r\n:1\r\n:1\r\n", "faa", "UNEXPECTED_REPLY"},
      {"queued for ever", queued, "*3\r\n+QUEUED\r\n+QUEUED\r\n+QUEUED\r\n", "faa", "UNEXPECTED_REPLY"},
      {"one is too large", queued, "*3\r\n" + id + large + later, "dfa", "TOO_LARGE"},
      {"the first is", queued, "*3\r\n" + large + id + later, "faa", "TOO_LARGE"},
      {"the last is", queued, "*3\r\n" + id + later + large, "ddf", "TOO_LARGE"},
      {"discarded, no reason", queued, "-EXECABORT Transaction discarded because of previous errors.\r\n", "faa",
       "EXECABORT"},
      {"discarded for memory", queued, "-EXECABORT Transaction discarded because of: OOM command not allowed\r\n",
       "faa", "OOM"},
      {"moved", queued, "-MOVED 1 127.0.0.1:1\r\n", "faa", "MOVED"},
      {"refused when queued", "-MISCONF no disk\r\n",
       "-EXECABORT Transaction discarded because of previous errors.\r\n", "faa", "MISCONF"},
      {"refused, and hangs up", "-ERR Protocol error: invalid bulk length\r\n", "", "faa", "TOO_LARGE"},
      {"done at once, not queued", id, "-ERR EXEC without MULTI\r\n", "aaa", "PROTOCOL"},
      {"queued as a string", "$6\r\nQUEUED\r\n", "*3\r\n" + id + id + later, "aaa", "PROTOCOL"},
  };
  for (const Odd& odd : odds) {
    const FakeRedis fake(server_.socket(), odd.queued, odd.exec);
    Connect({{"timeout", "3000"}});
    const uint64_t first = driver_->Submit(1, 0, Records("s", 3));
    ASSERT_TRUE(driver_->UntilResolved()) << odd.what;
    std::string outcomes;
    std::string code = sink_->health().up ? "" : sink_->health().error.code;
    for (uint64_t seq = first; seq < first + 3; ++seq) {
      const Outcome outcome = driver_->outcome(seq);
      outcomes += outcome == Outcome::kDelivered ? 'd' : outcome == Outcome::kFailed ? 'f' : 'a';
      code = outcome == Outcome::kFailed ? driver_->error(seq).code : code;
    }
    EXPECT_EQ(outcomes, odd.outcomes) << odd.what << ": " << sink_->health().error.message;
    EXPECT_EQ(code, odd.code) << odd.what;
    sink_->Close();
  }
}

// Over TCP the sink sleeps until as many bytes are there as the answers to a large transaction have at least.
TEST_F(RedisTransactionTest, RefusedInFewBytes) {
  for (const char* refusal : {"-OOM\r\n", "-\r\n"}) {
    const FakeRedis fake(refusal, "-EXECABORT Transaction discarded because of previous errors.\r\n");
    ASSERT_TRUE(
        RedisSink::Make({"test", {{"host", "127.0.0.1"}, {"port", fake.port()}, {"timeout", "15000"}}, 0, 0}, &sink_)
            .ok());
    driver_ = std::make_unique<Driver>(sink_.get());
    const uint64_t first = driver_->Submit(1, 0, Records("s", 1000));
    ASSERT_TRUE(driver_->UntilResolved(60)) << refusal;
    EXPECT_EQ(driver_->outcome(first), Outcome::kFailed) << sink_->health().error.message;
    EXPECT_NE(driver_->error(first).code, "TIMEOUT") << refusal;
    sink_->Close();
  }
}

// Proxies refuse transactions in words of their own: what may be written one by one is.
TEST_F(RedisTransactionTest, RefusedInWordsThatNobodyKnows) {
  server_.Stop();
  for (const char* words : {"-ERR forbid transaction in current server pool\r\n", "-unsupported command 'multi'\r\n",
                            "-ERR unknown command 'MULTI'\r\n"}) {
    const FakeRedis fake(server_.socket(), "$3\r\n1-1\r\n", "", words);
    Connect({{"timeout", "3000"}});
    const uint64_t first = driver_->Submit(1, 0, Records("s", 3));
    ASSERT_TRUE(driver_->UntilResolved()) << words;
    for (uint64_t seq = first; seq < first + 3; ++seq) {
      EXPECT_EQ(driver_->outcome(seq), Outcome::kDelivered) << words;
    }
    EXPECT_TRUE(sink_->health().up) << words;
    EXPECT_EQ(sink_->health().warning.code, "NO_TRANSACTIONS") << words;
    sink_->Close();
  }
  // What says how the server fares says nothing about transactions.
  for (const char* words :
       {"-LOADING the dataset\r\n", "-MASTERDOWN no link\r\n", "-ERR max number of clients reached\r\n"}) {
    const FakeRedis fake(server_.socket(), "$3\r\n1-1\r\n", "", words);
    Connect({{"timeout", "3000"}});
    EXPECT_TRUE(driver_->Until([&] { return !sink_->health().error.ok(); })) << words;
    EXPECT_FALSE(sink_->health().up) << words;
    sink_->Close();
  }
}

// Byte by byte: replies in any pieces are the same replies.
TEST_F(RedisTransactionTest, RepliesInPieces) {
  const std::string whole = "*3\r\n$3\r\n1-1\r\n-ERR no\r\n:12\r\n";
  std::vector<ReplyView> elements;
  for (size_t size = 0; size < whole.size(); ++size) {
    EXPECT_EQ(ReadElements(std::string_view(whole).substr(0, size), &elements), 0u) << size;
  }
  const std::string more = whole + "+OK\r\n";
  ASSERT_EQ(ReadElements(more, &elements), whole.size());
  ASSERT_EQ(elements.size(), 3u);
  EXPECT_EQ(elements[0].text, "1-1");
  EXPECT_EQ(elements[1].type, REDIS_REPLY_ERROR);
  EXPECT_EQ(elements[1].text, "ERR no");
  EXPECT_EQ(elements[2].type, REDIS_REPLY_INTEGER);
  for (const char* other : {"", "*", "*\r\n", "*-1\r\n", "*x\r\n", "+OK\r\n", "*1\r\n*0\r\n", "*1\r\n$-1\r\n",
                            "*1\r\n$99999999999999999999\r\n", "*1\r\n$9223372036854775807\r\n", "*1\r\n$1\r\nxyz"}) {
    EXPECT_EQ(ReadElements(other, &elements), 0u) << other;
  }
  EXPECT_EQ(ReadElements("*0\r\n", &elements), 4u);
}

}  // namespace
}  // namespace outbox::sink
