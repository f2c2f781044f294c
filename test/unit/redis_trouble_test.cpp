// matrix: D9 D10 E-2 E-3 E-5 E-6 E-7 E-8 E-9 E-10
// RedisSink when the server says no: dead, silent, transactions forbidden, no permission, a replica, a changed
// password.
#include <gtest/gtest.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <atomic>
#include <cstring>
#include <filesystem>
#include <string>
#include <thread>
#include <vector>

#include "redis_sink_fixture.h"
#include "signal_storm.h"
#include "slow_link.h"

namespace outbox::sink {
namespace {

TEST_F(RedisSinkTest, ADeadServerIsDestinationTroubleUntilItIsBack) {
  BEGIN_OR_SKIP();
  driver_->Submit(1, 0, {To("s", "k", "0")});
  ASSERT_TRUE(driver_->UntilResolved());
  server_.Stop();
  ASSERT_TRUE(driver_->Until([&] { return !sink_->health().up; }));
  EXPECT_EQ(sink_->health().error.error_class, ErrorClass::kDestination);
  uint64_t lost = driver_->Submit(1, 1, {To("s", "k", "1")});
  ASSERT_TRUE(driver_->UntilResolved());
  EXPECT_EQ(driver_->outcome(lost), Outcome::kAborted);
  EXPECT_TRUE(driver_->unsent(lost)) << "no connection: nothing was written";
  ASSERT_TRUE(server_.Start());
  ASSERT_TRUE(driver_->Until([&] { return sink_->health().up; }));
  uint64_t again = driver_->Submit(1, 2, {To("s", "k", "1")});
  ASSERT_TRUE(driver_->UntilResolved());
  EXPECT_EQ(driver_->outcome(again), Outcome::kDelivered);
}

// Servers (timeout) and proxies close what lies idle: no trouble, and the connection is there before the next record.
TEST_F(RedisSinkTest, AConnectionThatIsClosedAtRestIsNoTrouble) {
  BEGIN_OR_SKIP();
  for (uint32_t i = 0; i < 3; ++i) {
    driver_->Submit(1, 0, {To("s", "k", std::to_string(i))});
    ASSERT_TRUE(driver_->UntilResolved());
    EXPECT_EQ(driver_->Count(Outcome::kDelivered), i + 1) << "nothing was aborted";
    const int64_t rests_until = MonotonicMicros() + 1200000;
    ASSERT_TRUE(driver_->Until([&] { return MonotonicMicros() >= rests_until; }));
    const int64_t connections = Connections();
    const uint64_t changes = sink_->health().changes;
    server_.Command({"CLIENT", "KILL", "TYPE", "normal", "SKIPME", "yes"});
    ASSERT_TRUE(driver_->Until([&] { return Connections() > connections; })) << "made again with nothing to send";
    EXPECT_EQ(sink_->health().changes, changes) << sink_->health().error.message;
  }
  EXPECT_TRUE(sink_->health().up);
  EXPECT_EQ(Payloads("s"), Numbers(3));
}

// While it connects, is refused, connects again, writes and reads: every call may be interrupted.
TEST_F(RedisSinkTest, AStormOfSignalsIsNoTrouble) {
  BEGIN_OR_SKIP();
  // A connect over TCP goes on while it is interrupted; one to a socket file ends at once.
  std::vector<std::string> over_tcp = {"--port", std::to_string(FreePort())};
  server_.Stop();
  ASSERT_TRUE(server_.Start(over_tcp));
  ASSERT_TRUE(RedisSink::Make({"test", {{"host", "127.0.0.1"}, {"port", over_tcp[1]}}, 0, 0}, &sink_).ok());
  driver_ = std::make_unique<Driver>(sink_.get());
  size_t delivered = 0;
  {
    SignalStorm storm;
    for (uint32_t epoch = 0; epoch < 6; ++epoch) {
      std::vector<TestRecord> records;
      for (int i = 0; i < 2000; ++i) {
        records.push_back(To("s", "k", std::to_string(epoch * 2000 + i)));
      }
      driver_->Submit(1, epoch, records);
      ASSERT_TRUE(driver_->UntilResolved(30));
      EXPECT_EQ(driver_->Count(Outcome::kDelivered), delivered += 2000) << sink_->health().error.message;
      server_.Stop();
      ASSERT_TRUE(driver_->Until([&] { return !sink_->health().up; }));
      ASSERT_TRUE(server_.Start(over_tcp));
      ASSERT_TRUE(driver_->Until([&] { return sink_->health().up; }, 30)) << sink_->health().error.message;
    }
    EXPECT_GT(storm.count(), 10);
  }
}

TEST_F(RedisSinkTest, ASilentServerTimesOut) {
  BEGIN_OR_SKIP({{"timeout", "300"}});
  driver_->Submit(1, 0, {To("s", "k", "0")});
  ASSERT_TRUE(driver_->UntilResolved());
  server_.Signal(SIGSTOP);
  uint64_t asked = driver_->Submit(1, 0, {To("s", "k", "1")});
  int64_t begin = MonotonicMicros();
  ASSERT_TRUE(driver_->UntilResolved());
  EXPECT_EQ(driver_->outcome(asked), Outcome::kAborted);
  EXPECT_GE(MonotonicMicros() - begin, 290000);
  EXPECT_FALSE(sink_->health().up);
  EXPECT_EQ(sink_->health().error.code, "TIMEOUT");
  server_.Signal(SIGCONT);
  ASSERT_TRUE(driver_->Until([&] { return sink_->health().up; }));
}

// What a given-up connection has not sent is not sent any more: the server would execute it behind what came later.
TEST_F(RedisSinkTest, WhatLiesInTheSocketOfALeftConnectionIsNeverSent) {
  const std::string port = std::to_string(FreePort());
  BEGIN_OR_SKIP({{"host", "127.0.0.1"}, {"port", port}, {"unix_socket", ""}, {"timeout", "300"}},
                {"--port", port, "--bind", "127.0.0.1"});
  driver_->Submit(1, 0, {To("s", "k", "0")});
  ASSERT_TRUE(driver_->UntilResolved());

  server_.Signal(SIGSTOP);
  // More than the system takes for the server meanwhile, and less than it takes of us.
  const TestRecord record = To("s", "k", std::string(1'000'000, 'x'));
  const uint64_t first = driver_->Submit(1, 0, {record});
  ASSERT_TRUE(driver_->UntilResolved());
  EXPECT_EQ(driver_->outcome(first), Outcome::kAborted);
  EXPECT_EQ(sink_->health().error.code, "TIMEOUT");
  server_.Signal(SIGCONT);

  driver_->Submit(1, 1, {To("s", "k", "1")});
  ASSERT_TRUE(driver_->UntilResolved());
  ASSERT_TRUE(driver_->Until([this] { return Clients() <= 2; })) << "it has closed the one that was left";
  EXPECT_EQ(server_.Integer({"XLEN", "s"}), 2);
}

// A connection that a device on the way has dropped: until `timeout` is over nothing else tells why nothing arrives.
TEST_F(RedisSinkTest, ASilenceThatIsWaitedForIsToldOf) {
  BEGIN_OR_SKIP({{"timeout", "300000"}});
  driver_->Submit(1, 0, {To("s", "k", "0")});
  ASSERT_TRUE(driver_->UntilResolved());
  server_.Signal(SIGSTOP);
  driver_->Submit(1, 0, {To("s", "k", "1")});
  ASSERT_TRUE(driver_->Until([&] { return sink_->health().warning.code == "SILENT"; }, 60));
  EXPECT_TRUE(sink_->health().up) << "it may be busy";
  EXPECT_NE(sink_->health().warning.message.find("after 300000 ms without an answer"), std::string::npos);
  server_.Signal(SIGCONT);
  ASSERT_TRUE(driver_->UntilResolved());
  EXPECT_TRUE(driver_->Until([&] { return sink_->health().warning.ok(); })) << "it answers again";
}

// A record that takes longer than the timeout on its way is sent once: the server is not silent, it has no more yet.
TEST_F(RedisSinkTest, ASlowWayIsNoSilenceOfTheServer) {
  BEGIN_OR_SKIP();
  const int port = FreePort();
  SlowLink link(port, server_.socket());
  Connect({{"unix_socket", ""}, {"host", "127.0.0.1"}, {"port", std::to_string(port)}, {"timeout", "1500"}});
  const uint64_t large = driver_->Submit(1, 0, {To("s", "k", std::string(2000000, 'x'))});
  ASSERT_TRUE(driver_->UntilResolved(60));
  EXPECT_EQ(driver_->outcome(large), Outcome::kDelivered) << sink_->health().error.message;
  EXPECT_EQ(server_.Integer({"XLEN", "s"}), 1);
  EXPECT_EQ(link.connections(), 1);
  server_.Signal(SIGSTOP);
  const uint64_t silent = driver_->Submit(1, 0, {To("s", "k", "1")});
  ASSERT_TRUE(driver_->UntilResolved(60));
  EXPECT_EQ(driver_->outcome(silent), Outcome::kAborted) << "silence is noticed nevertheless";
  EXPECT_EQ(sink_->health().error.code, "TIMEOUT");
}

TEST_F(RedisSinkTest, TimeInWhichWeStoodStillIsNoSilenceOfTheServer) {
  BEGIN_OR_SKIP({{"timeout", "1000"}});
  driver_->Submit(1, 0, {To("s", "k", "0")});
  ASSERT_TRUE(driver_->UntilResolved());
  server_.Signal(SIGSTOP);
  const uint64_t asked = driver_->Submit(1, 0, {To("s", "k", "1")});
  for (int turn = 0; turn < 3; ++turn) {
    driver_->Turn(0);  // it is on its way
  }
  usleep(1500000);
  driver_->Turn(0);
  EXPECT_TRUE(sink_->health().up);
  server_.Signal(SIGCONT);
  ASSERT_TRUE(driver_->UntilResolved());
  EXPECT_EQ(driver_->outcome(asked), Outcome::kDelivered);
  EXPECT_EQ(Payloads("s"), (std::vector<std::string>{"0", "1"}));
}

TEST_F(RedisSinkTest, WithoutTransactionsStillInOrderPerKey) {
  BEGIN_OR_SKIP();
  server_.SetUser("writer", {"on", ">pw", "~*", "+@all", "-@transaction"});
  Connect({{"username", "writer"}, {"password", "pw"}});
  std::vector<TestRecord> records;
  for (int i = 0; i < 2000; ++i) {
    records.push_back(To("s", "k" + std::to_string(i % 7), std::to_string(i)));
  }
  driver_->Submit(1, 0, records);
  driver_->Submit(1, 0, {To("channel", "k", "x", RecordForm::kPublish), To("list", "k", "x", RecordForm::kList)});
  ASSERT_TRUE(driver_->UntilResolved());
  EXPECT_EQ(driver_->Count(Outcome::kDelivered), 2002u);
  std::map<int, int> last;
  for (const std::string& body : Payloads("s")) {
    int i = std::stoi(body);
    EXPECT_TRUE(last.find(i % 7) == last.end() || last[i % 7] < i) << "key " << i % 7;
    last[i % 7] = i;
  }
  EXPECT_EQ(server_.Integer({"XLEN", "s"}), 2000);
}

TEST_F(RedisSinkTest, NoPermissionForAStreamIsThatStreamsTrouble) {
  BEGIN_OR_SKIP();
  server_.SetUser("writer", {"on", ">pw", "~mine*", "+@all"});
  Connect({{"username", "writer"}, {"password", "pw"}});
  uint64_t mine = driver_->Submit(1, 0, {To("mine", "k", "1")});
  uint64_t theirs = driver_->Submit(2, 0, {To("theirs", "k", "1")});
  ASSERT_TRUE(driver_->UntilResolved());
  EXPECT_EQ(driver_->outcome(mine), Outcome::kDelivered);
  ASSERT_EQ(driver_->outcome(theirs), Outcome::kFailed);
  EXPECT_EQ(driver_->error(theirs).error_class, ErrorClass::kTopic);
  EXPECT_EQ(driver_->error(theirs).code, "NOPERM");
  EXPECT_TRUE(sink_->health().up);
}

TEST_F(RedisSinkTest, NoPermissionToWriteIsConfiguration) {
  BEGIN_OR_SKIP();
  server_.SetUser("writer", {"on", ">pw", "~*", "+@all", "-xadd"});
  Connect({{"username", "writer"}, {"password", "pw"}});
  uint64_t record = driver_->Submit(1, 0, {To("s", "k", "1")});
  ASSERT_TRUE(driver_->UntilResolved());
  EXPECT_EQ(driver_->error(record).error_class, ErrorClass::kConfig);
  EXPECT_EQ(driver_->error(record).code, "NOPERM");
}

// After a failover that the old primary survived as a replica: no event is charged, and the name is looked up again.
TEST_F(RedisSinkTest, AReplicaIsLeftForTheServerThatAnswersNext) {
  BEGIN_OR_SKIP();
  driver_->Submit(1, 0, {To("s", "k", "1")});
  ASSERT_TRUE(driver_->UntilResolved());
  server_.Command({"REPLICAOF", "127.0.0.1", "1"});
  const int64_t connections = Connections();
  uint64_t refused = driver_->Submit(1, 0, {To("s", "k", "2")});
  ASSERT_TRUE(driver_->UntilResolved());
  ASSERT_EQ(driver_->outcome(refused), Outcome::kFailed);
  EXPECT_EQ(driver_->error(refused).code, "READONLY");
  EXPECT_EQ(driver_->error(refused).error_class, ErrorClass::kDestination);
  ASSERT_TRUE(driver_->Until([&] { return Connections() > connections + 1; }));
  EXPECT_FALSE(sink_->health().up) << "it says itself what it is";
  EXPECT_EQ(sink_->health().error.code, "READONLY");
  server_.Command({"REPLICAOF", "NO", "ONE"});
  uint32_t epoch = 1;
  ASSERT_TRUE(driver_->Until([&] {
    const uint64_t again = driver_->Submit(1, epoch++, {To("s", "k", "2")});
    EXPECT_TRUE(driver_->UntilResolved());
    return driver_->outcome(again) == Outcome::kDelivered;
  }));
  EXPECT_EQ(Payloads("s"), (std::vector<std::string>{"1", "2"}));
  EXPECT_TRUE(sink_->health().warning.ok()) << sink_->health().warning.message;
}

TEST_F(RedisSinkTest, APasswordChangedUnderItIsConfigurationAndHeals) {
  BEGIN_OR_SKIP({{"password", "one"}}, {"--requirepass", "one"});
  server_.set_password("one");
  driver_->Submit(1, 0, {To("s", "k", "1")});
  ASSERT_TRUE(driver_->UntilResolved());
  EXPECT_EQ(driver_->Count(Outcome::kDelivered), 1u);
  server_.Command({"CONFIG", "SET", "requirepass", "two"});
  server_.Command({"CLIENT", "KILL", "TYPE", "normal", "SKIPME", "yes"});
  ASSERT_TRUE(driver_->Until([&] { return sink_->health().error.code == "WRONGPASS"; }));
  EXPECT_EQ(sink_->health().error.error_class, ErrorClass::kConfig);
  uint64_t waits = driver_->Submit(1, 1, {To("s", "k", "2")});
  ASSERT_TRUE(driver_->UntilResolved());
  EXPECT_EQ(driver_->outcome(waits), Outcome::kAborted) << "charged to nobody";
  server_.Command({"CONFIG", "SET", "requirepass", "one"});
  ASSERT_TRUE(driver_->Until([&] { return sink_->health().up; }));
  driver_->Submit(1, 2, {To("s", "k", "2")});
  ASSERT_TRUE(driver_->UntilResolved());
  EXPECT_EQ(Payloads("s"), (std::vector<std::string>{"1", "2"}));
}

// An unknown reply is the server's trouble, and after a while the stream's; never the event's.
TEST_F(RedisSinkTest, AnUnknownReplyIsTheStreamsTroubleAfterAWhile) {
  BEGIN_OR_SKIP(
      {{"maxlen", "not a number"}});  // "ERR value is not an integer": the option's own check lets no such pass
  uint32_t epoch = 0;
  std::vector<ErrorClass> classes;
  const auto refused = [&](const char* stream) {
    const uint64_t seq = driver_->Submit(1, epoch++, {To(stream, "k", "1")});
    EXPECT_TRUE(driver_->UntilResolved());
    EXPECT_EQ(driver_->error(seq).code, "ERR");
    return driver_->error(seq).error_class;
  };
  for (int i = 0; i < 7; ++i) {
    classes.push_back(refused("s"));
  }
  const ErrorClass D = ErrorClass::kDestination, T = ErrorClass::kTopic;
  EXPECT_EQ(classes, (std::vector<ErrorClass>{D, D, D, D, D, T, T}));
  EXPECT_EQ(refused("another"), D);
}

// What an OddServer does not know, and in which words it says so.
std::string unknown_command;
std::string unknown_answer;
// Of how many servers now one and now another answers INFO, as behind a proxy of several.
std::atomic<int> servers_behind = 1;
std::atomic<int> info_asked = 0;

// A server that speaks the protocol and answers questions about the end of a stream with ids that are none.
std::string AnswerWithBadIds(const redisReply& command) {
  std::vector<std::string> words;
  for (size_t i = 0; i < command.elements; ++i) {
    words.emplace_back(command.element[i]->str, command.element[i]->len);
  }
  const auto bulk = [](const std::string& text) { return "$" + std::to_string(text.size()) + "\r\n" + text + "\r\n"; };
  if (words[0] == unknown_command) {
    return unknown_answer;
  }
  if (words[0] == "INFO") {
    const std::string id = std::to_string(info_asked++ % servers_behind) + "123456789abcdef";
    return bulk("# All\r\nrun_id:" + id + "\r\nmaster_replid:" + id + "\r\n");
  }
  if (words[0] == "XINFO" && words[2] == "large") {  // an entry, a field, and very many
    const std::string large = bulk(std::string(size_t{257} << 20, 'x'));
    return "*4\r\n" + bulk("first-entry") + "*2\r\n" + bulk("1-1") + "*2\r\n" + bulk("payload") + large +
           bulk("last-generated-id") + bulk("2-2");
  }
  if (words[0] == "XINFO" && words[2] == "many") {
    std::string many = "*4\r\n" + bulk("last-entry") + "*2\r\n" + bulk("1-1") + "*1000000\r\n";
    for (int i = 0; i < 1000000; ++i) {
      many += "$1\r\nx\r\n";
    }
    return many + bulk("last-generated-id") + bulk("2-2");
  }
  if (words[0] == "XINFO") {  // the name of the stream says what is bad about it
    const bool last = words[2].starts_with("last ");
    return "*4\r\n" + bulk("last-generated-id") + bulk(last ? words[2].substr(5) : "2-2") +
           bulk("max-deleted-entry-id") + bulk(words[2] == "deleted" ? "abc" : "0-0");
  }
  if (words[0] == "XREVRANGE") {
    return words[1] == "number" ? ":1\r\n" : "*1\r\n*2\r\n" + bulk(words[1] == "entry" ? "abc" : words[2]) + "*0\r\n";
  }
  return words[0] == "PING" ? "+PONG\r\n" : bulk("0123456789012345678901234567890123456789");
}

// Answers so at the socket of a server that is not there. `hangs_up`: behind the PING that ends the greeting.
class OddServer {
 public:
  OddServer(const std::string& socket_path, bool hangs_up) : path_(socket_path), hangs_up_(hangs_up) {
    unlink(path_.c_str());
    sockaddr_un address{};
    address.sun_family = AF_UNIX;
    EXPECT_LT(path_.size(), sizeof(address.sun_path));
    memcpy(address.sun_path, path_.data(), path_.size());
    EXPECT_EQ(bind(listener_, reinterpret_cast<sockaddr*>(&address), sizeof(address)), 0);
    EXPECT_EQ(listen(listener_, 8), 0);
    thread_ = std::thread([this] {
      for (int peer = 0; (peer = accept(listener_, nullptr, nullptr)) >= 0; close(peer)) {
        ++connections_;
        Answer(peer);
      }
    });
  }
  // After the sink has closed its end.
  ~OddServer() {
    shutdown(listener_, SHUT_RDWR);
    thread_.join();
    close(listener_);
    unlink(path_.c_str());
  }
  OddServer(const OddServer&) = delete;
  OddServer& operator=(const OddServer&) = delete;
  int connections() const { return connections_; }

 private:
  void Answer(int peer) const {
    redisReader* reader = redisReaderCreate();
    char bytes[4096];
    bool ended = false;
    for (ssize_t got = 0; !ended && (got = recv(peer, bytes, sizeof(bytes), 0)) > 0;) {
      redisReaderFeed(reader, bytes, static_cast<size_t>(got));
      void* command = nullptr;
      while (redisReaderGetReply(reader, &command) == REDIS_OK && command != nullptr) {
        const std::string answer = AnswerWithBadIds(*static_cast<redisReply*>(command));
        (void)send(peer, answer.data(), answer.size(), MSG_NOSIGNAL);
        ended |= hangs_up_ && answer == "+PONG\r\n";
        freeReplyObject(command);
        command = nullptr;
      }
    }
    redisReaderFree(reader);
  }

  const std::string path_;
  const bool hangs_up_;
  const int listener_ = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
  std::atomic<int> connections_ = 0;
  std::thread thread_;
};

TEST_F(RedisSinkTest, AnIdThatIsNoneTellsNothing) {
  server_.Stop();
  const OddServer odd(server_.socket(), false);
  checks_server_ = true;
  Connect();
  EXPECT_TRUE(UntilMet()) << sink_->health().error.message;
  std::vector<AskedStream> asked;
  for (const char* stream :
       {"last abc", "last -", "last 5-", "last 99999999999999999999-1", "deleted", "number", "entry"}) {
    asked.push_back({stream, "1-1"});
  }
  EXPECT_TRUE(Ends(asked).empty());
  asked.push_back({"good", "1-1"});
  const std::vector<StreamEnd> ends = Ends(asked);
  EXPECT_EQ(ends.size(), 1u);
  EXPECT_EQ(Survived(ends), "2-2");
  sink_->Close();
}

// An event may have as many bytes as a server takes, and other clients write what they like.
TEST_F(RedisSinkTest, WhatIsInAStreamMayBeOfAnySize) {
  server_.Stop();
  const OddServer odd(server_.socket(), false);
  checks_server_ = true;
  Connect({{"timeout", "60000"}});  // a busy machine takes its time to make what is answered
  ASSERT_TRUE(UntilMet()) << sink_->health().error.message;
  for (const char* stream : {"large", "many"}) {
    const std::vector<StreamEnd> ends = Ends({{stream, "2-2"}});
    ASSERT_EQ(ends.size(), 1u) << stream << sink_->health().error.message;
    EXPECT_EQ(ends[0].kept, "2-2");
  }
  sink_->Close();
}

// Proxies have words of their own for what they do not pass on.
TEST_F(RedisSinkTest, HoweverItIsRefusedThatNothingIsCheckedIsTold) {
  server_.Stop();
  checks_server_ = true;
  struct Case {
    const char* command;
    const char* answer;
  };
  for (const Case& one : {Case{"XINFO", "-ERR unsupported command\r\n"}, Case{"INFO", "-ERR unsupported command\r\n"},
                          Case{"INFO", "-FORBIDDEN for normal user\r\n"}, Case{"INFO", "$9\r\n# Server\n\r\n"}}) {
    unknown_command = one.command;
    unknown_answer = one.answer;
    const OddServer odd(server_.socket(), false);
    Connect();
    driver_->Submit(1, 0, {To("s", "k", "1")});
    EXPECT_TRUE(driver_->Until([&] { return sink_->health().warning.code == "NO_LOSS_CHECK"; })) << one.answer;
    EXPECT_NE(sink_->health().warning.message.find(one.command), std::string::npos) << sink_->health().warning.message;
    sink_->Close();
  }
  unknown_command.clear();
}

// What one of them says of itself says nothing about the others: neither is it checked, nor was it a replica meanwhile.
TEST_F(RedisSinkTest, BehindAProxyOfSeveralServersNothingIsCheckedWhichIsTold) {
  server_.Stop();
  checks_server_ = true;
  servers_behind = 2;
  const OddServer odd(server_.socket(), false);
  Connect();
  driver_->Submit(1, 0, {To("s", "k", "1")});
  EXPECT_TRUE(driver_->Until([&] { return sink_->health().warning.code == "NO_LOSS_CHECK"; }));
  EXPECT_NE(sink_->health().warning.message.find("a proxy of several"), std::string::npos);
  EXPECT_EQ(sink_->identity()->server_run, "") << "it is let in";
  sink_->Close();
  servers_behind = 1;
}

// Redis takes PING for a write while it cannot save: what goes to channels is none, and is published.
TEST_F(RedisSinkTest, AServerThatCannotSaveLetsInWhoPublishes) {
  BEGIN_OR_SKIP({}, {"--save", "3600 1"});
  const std::filesystem::path dump = server_.directory() + "/dump.rdb";
  ASSERT_TRUE(std::filesystem::create_directories(dump / "in the way"));
  server_.Command({"SET", "x", "1"});
  server_.Command({"BGSAVE"});
  ASSERT_TRUE(driver_->Until([this] { return server_.Command({"PING"})->type == REDIS_REPLY_ERROR; }));

  ASSERT_TRUE(Connect());  // anew
  driver_->Submit(1, 0, {To("c", "k", "1", RecordForm::kPublish)});
  ASSERT_TRUE(driver_->UntilResolved());
  EXPECT_EQ(driver_->Count(Outcome::kDelivered), 1u) << sink_->health().error.message;

  const uint64_t written = driver_->Submit(1, 0, {To("s", "k", "1")});
  ASSERT_TRUE(driver_->UntilResolved());
  EXPECT_EQ(driver_->outcome(written), Outcome::kFailed);
  EXPECT_EQ(driver_->error(written).code, "MISCONF");
}

TEST_F(RedisSinkTest, AServerWithoutPingIsWrittenTo) {
  BEGIN_OR_SKIP({}, {"--rename-command", "PING", ""});
  driver_->Submit(1, 0, {To("s", "k", "1")});
  ASSERT_TRUE(driver_->UntilResolved());
  EXPECT_EQ(driver_->Count(Outcome::kDelivered), 1u) << sink_->health().error.message;
}

// A proxy with nothing behind it, say: to try it again and again at once helps nobody.
TEST_F(RedisSinkTest, AServerThatClosesEachConnectionAtOnceIsTrouble) {
  server_.Stop();
  const OddServer odd(server_.socket(), true);
  Connect();
  ASSERT_TRUE(driver_->Until([&] { return !sink_->health().up; }));
  // Lost, where the other side had not read all that it was sent: the system says so instead of an end.
  const std::string code = sink_->health().error.code;
  EXPECT_TRUE(code == "CONNECTION_CLOSED" || code == "CONNECTION_LOST") << code;
  const int connections = odd.connections();
  const int64_t begin = MonotonicMicros();
  ASSERT_TRUE(driver_->Until([&] { return odd.connections() > connections + 3; }));
  EXPECT_GE(MonotonicMicros() - begin, 40000) << "not as fast as it goes";
  sink_->Close();
}

// Whoever answers there must not be able to fill the machine: one reply without an end, and one of very many parts.
TEST_F(RedisSinkTest, AnAnswerWithoutAnEndIsBrokenOff) {
  for (const char* head : {"$2000000000\r\n", "*1000000\r\n", "+"}) {
    server_.Stop();
    unlink(server_.socket().c_str());
    sockaddr_un path{};
    path.sun_family = AF_UNIX;
    ASSERT_LT(server_.socket().size(), sizeof(path.sun_path));
    memcpy(path.sun_path, server_.socket().data(), server_.socket().size());
    const int listener = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    ASSERT_EQ(bind(listener, reinterpret_cast<sockaddr*>(&path), sizeof(path)), 0);
    ASSERT_EQ(listen(listener, 1), 0);
    size_t sent = 0;
    std::thread hostile([&] {
      const int peer = accept(listener, nullptr, nullptr);
      const std::string more = head[0] == '*' ? ":1\r\n:1\r\n:1\r\n:1\r\n" : "xxxxxxxxxxxxxxxx";
      std::string bytes = head;
      while (sent < (size_t{64} << 20)) {
        const ssize_t wrote = send(peer, bytes.data(), bytes.size(), MSG_NOSIGNAL);
        if (wrote <= 0) {
          break;
        }
        sent += static_cast<size_t>(wrote);
        bytes.clear();
        while (bytes.size() < 65536) {
          bytes += more;
        }
      }
      close(peer);
    });
    Connect({{"connect_timeout", "60000"}});
    const bool down = driver_->Until([&] { return sink_->health().error.code == "PROTOCOL"; }, 30);
    EXPECT_TRUE(down) << head << sink_->health().error.message;
    EXPECT_NE(sink_->health().error.message.find("more than 1 MB at once"), std::string::npos)
        << sink_->health().error.message;
    sink_->Close();
    hostile.join();
    close(listener);
    EXPECT_LT(sent, size_t{4} << 20) << head;
    unlink(server_.socket().c_str());
  }
}

}  // namespace
}  // namespace outbox::sink
