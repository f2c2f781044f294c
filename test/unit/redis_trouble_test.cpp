// matrix: D9 D10 E-2 E-3 E-5 E-6 E-7 E-8 E-9 E-10
// RedisSink when the server says no: dead, silent, transactions forbidden, no permission, a replica, a changed
// password.
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <atomic>
#include <cstring>
#include <span>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "redis_sink_fixture.h"
#include "signal_storm.h"

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

// A way to the server's socket that takes 10 kB at a time, 50 times a second, as long as it is there.
class SlowLink {
 public:
  SlowLink(int port, const std::string& server) : server_(server) {
    const int room = 32768;
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_port = htons(static_cast<uint16_t>(port));
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    setsockopt(listener_, SOL_SOCKET, SO_RCVBUF, &room, sizeof(room));
    EXPECT_EQ(bind(listener_, reinterpret_cast<const sockaddr*>(&address), sizeof(address)), 0);
    EXPECT_EQ(listen(listener_, 8), 0);
    thread_ = std::thread([this] { Run(); });
  }
  ~SlowLink() {
    ended_ = true;
    thread_.join();
    close(listener_);
  }
  SlowLink(const SlowLink&) = delete;
  SlowLink& operator=(const SlowLink&) = delete;
  int connections() const { return connections_; }
  // How often something came of the client.
  int moves() const { return moves_; }
  // A connection is closed at the client's bytes with this word; nullptr: at none.
  void HangUpAt(const char* word) { word_ = word; }

 private:
  void Run() {
    std::vector<std::pair<int, int>> pairs;
    while (!ended_) {
      pollfd comes{listener_, POLLIN, 0};
      if (poll(&comes, 1, 20) > 0) {
        sockaddr_un path{};
        path.sun_family = AF_UNIX;
        memcpy(path.sun_path, server_.data(), server_.size());
        pairs.emplace_back(accept(listener_, nullptr, nullptr), socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
        EXPECT_EQ(connect(pairs.back().second, reinterpret_cast<const sockaddr*>(&path), sizeof(path)), 0);
        ++connections_;
      }
      std::erase_if(pairs, [this](const auto& pair) {
        const auto [client, server] = pair;
        Move(server, client, 65536);
        if (Move(client, server, 10000, &moves_)) {
          return false;
        }
        close(client);
        close(server);
        return true;
      });
    }
    for (const auto& [client, server] : pairs) {
      close(client);
      close(server);
    }
  }
  bool Move(int from, int to, size_t most, std::atomic<int>* moves = nullptr) {
    char bytes[65536];
    const ssize_t got = recv(from, bytes, most, MSG_DONTWAIT);
    if (got <= 0) {
      return got != 0;
    }
    if (moves != nullptr) {
      ++*moves;
    }
    const char* word = word_;
    if (word != nullptr && std::string_view(bytes, static_cast<size_t>(got)).find(word) != std::string_view::npos) {
      return false;
    }
    (void)send(to, bytes, static_cast<size_t>(got), MSG_NOSIGNAL);
    return true;
  }

  const std::string server_;
  const int listener_ = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  std::atomic<bool> ended_ = false;
  std::atomic<int> connections_ = 0;
  std::atomic<int> moves_ = 0;
  std::atomic<const char*> word_ = nullptr;
  std::thread thread_;
};

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

std::vector<TestRecord> ManyKeys(int count) {
  std::vector<TestRecord> records;
  for (int i = 0; i < count; ++i) {
    records.push_back(To("s", std::to_string(i), std::to_string(i)));
  }
  return records;
}

// Submits to a stream until nothing is aborted any more: what was is sent again. Returns the one that was refused.
uint64_t SubmitUntilRefused(Driver* driver, const std::vector<TestRecord>& records, uint32_t flow = 7) {
  for (uint32_t epoch = 0; epoch < 12; ++epoch) {
    const uint64_t first = driver->Submit(flow, epoch, records);
    EXPECT_TRUE(driver->UntilResolved(60));
    for (uint64_t seq = first; seq < driver->submitted(); ++seq) {
      if (driver->outcome(seq) == Outcome::kFailed) {
        return seq - first;
      }
    }
  }
  return UINT64_MAX;
}

// The server closes the connection at a record that is larger than a client may send at once: it is refused, and the
// others go on.
TEST_F(RedisSinkTest, ARecordAtWhichTheServerHangsUpIsRefused) {
  checks_server_ = true;
  for (const char* right : {"+multi", "-multi"}) {
    OR_SKIP(BeginWithLimit(right));
    ASSERT_TRUE(UntilMet());
    sink_->Admit(sink_->identity()->server_run, false);
    const std::vector<TestRecord> records = {To("a", "k", "1"), To("b", "k", "2"), To("c", "k", "3")};
    std::vector<TestRecord> with_large = records;
    with_large[1].body.assign(3000000, 'x');
    const int64_t before = Connections();
    ASSERT_EQ(SubmitUntilRefused(driver_.get(), with_large), 1u) << right;
    EXPECT_GE(Connections() - before, 3) << "closed three times when it was alone";
    EXPECT_LE(Connections() - before, 4) << "and at most once when it was not";
    const uint64_t refused = driver_->submitted() - 2;
    EXPECT_EQ(driver_->error(refused).code, "CLOSES_CONNECTION");
    EXPECT_EQ(driver_->error(refused).error_class, ErrorClass::kSolo) << "the engine sees what comes of it alone";
    EXPECT_TRUE(sink_->health().up);
    driver_->Submit(7, 99, records);
    ASSERT_TRUE(driver_->UntilResolved());
    EXPECT_EQ(driver_->outcome(driver_->submitted() - 1), Outcome::kDelivered);
    EXPECT_EQ(server_.Integer({"XLEN", "b"}), 1);
  }
}

// One behind the other, with nothing between them that the server would take. One that is told is known when it comes
// again.
TEST_F(RedisSinkTest, RecordsInARowAtWhichTheServerHangsUpAreRefused) {
  for (const char* right : {"+multi", "-multi"}) {
    OR_SKIP(BeginWithLimit(right));
    std::vector<TestRecord> records = {To("s", "large", "1"), To("s", "larger", "2"), To("s", "k", "3")};
    records[0].body.assign(2000000, 'x');
    records[1].body.assign(3000000, 'x');
    uint32_t flow = 10;
    for (const char* key : {"large", "larger"}) {
      ASSERT_EQ(SubmitUntilRefused(driver_.get(), records, flow++), 0u) << key << right;
      const int64_t before = Connections();
      ASSERT_EQ(SubmitUntilRefused(driver_.get(), records, flow++), 0u) << key << right;
      if (right[0] == '+') {  // where it sends singles it connects every ten seconds, to see whether it still has to
        EXPECT_LE(Connections() - before, 1) << "once more is enough";
      }
      records.erase(records.begin());
    }
    driver_->Submit(7, 99, records);
    ASSERT_TRUE(driver_->UntilResolved());
    EXPECT_EQ(driver_->outcome(driver_->submitted() - 1), Outcome::kDelivered);
    EXPECT_EQ(Payloads("s"), std::vector<std::string>{"3"}) << "and no other write changes anything";
  }
}

// Of many that were on their way it is found after few closes, each time with a part of them.
TEST_F(RedisSinkTest, ARecordAtWhichTheServerHangsUpIsFoundAmongMany) {
  for (const char* right : {"+multi", "-multi"}) {
    OR_SKIP(BeginWithLimit(right));
    std::vector<TestRecord> records = ManyKeys(400);
    records[123].body.assign(2000000, 'x');
    const int64_t before = Connections();
    ASSERT_EQ(SubmitUntilRefused(driver_.get(), records), 123u) << right;
    EXPECT_LE(Connections() - before, 12) << "with those of the second connection";
  }
}

// Mostly it is closed for another reason. What was on its way does not go alone from then on, one round trip for each.
TEST_F(RedisSinkTest, ALostConnectionCostsFewRoundTrips) {
  for (const char* right : {"+multi", "-multi"}) {
    server_.Stop();
    BEGIN_OR_SKIP();
    server_.Command({"ACL", "SETUSER", "default", right});
    const int port = FreePort();
    SlowLink link(port, server_.socket());
    Connect({{"unix_socket", ""}, {"host", "127.0.0.1"}, {"port", std::to_string(port)}});
    link.HangUpAt("XADD");
    const std::vector<TestRecord> records = ManyKeys(500);
    driver_->Submit(1, 0, records);
    ASSERT_TRUE(driver_->UntilResolved(60));
    ASSERT_EQ(driver_->Count(Outcome::kAborted), records.size()) << right;
    link.HangUpAt(nullptr);
    const int before = link.moves();
    driver_->Submit(1, 1, records);
    ASSERT_TRUE(driver_->UntilResolved(120));
    EXPECT_EQ(driver_->Count(Outcome::kDelivered), records.size()) << right;
    EXPECT_LT(link.moves() - before, 250) << right << ": alone they are 500 at least";
    EXPECT_EQ(Payloads("s"), Numbers(500)) << right;
  }
}

// It answers whatever the greeting asks, but writes are paused behind a proxy, or it lets none through.
TEST_F(RedisSinkTest, NoRecordIsToBlameWhereNoWriteGetsThrough) {
  for (const char* right : {"+multi", "-multi"}) {
    server_.Stop();
    BEGIN_OR_SKIP();
    server_.Command({"ACL", "SETUSER", "default", right});
    const int port = FreePort();
    SlowLink link(port, server_.socket());
    link.HangUpAt("XADD");
    Connect({{"unix_socket", ""}, {"host", "127.0.0.1"}, {"port", std::to_string(port)}});
    for (uint32_t epoch = 0; epoch < 7; ++epoch) {
      const uint64_t record = driver_->Submit(1, epoch, {To("s", "k", "1")});
      ASSERT_TRUE(driver_->UntilResolved(60));
      ASSERT_EQ(driver_->outcome(record), Outcome::kAborted) << right << epoch;
    }
    EXPECT_GE(link.connections(), 7);
    link.HangUpAt(nullptr);
    const uint64_t record = driver_->Submit(1, 7, {To("s", "k", "1")});
    ASSERT_TRUE(driver_->UntilResolved(60));
    EXPECT_EQ(driver_->outcome(record), Outcome::kDelivered) << right;
    EXPECT_EQ(Payloads("s"), std::vector<std::string>{"1"});
  }
}

TEST(Suspects, GoInSmallerGroupsAtEachClose) {
  std::vector<Suspects::Record> records;
  for (uint64_t hash = 0; hash < 1000; ++hash) {
    records.push_back({hash, 100});
  }
  const std::span<const Suspects::Record> all = records;
  Suspects suspects;
  suspects.Met("a");
  suspects.Closed(all, 0);
  EXPECT_EQ(suspects.Together(999), 125u);
  suspects.Met("a");
  suspects.Closed(all.first(125), 0);
  EXPECT_EQ(suspects.Together(0), 125u) << "no write gets through: nothing is known of them";
  suspects.Wrote();
  suspects.Closed(all.first(125), 0);
  EXPECT_EQ(suspects.Together(0), 15u);
  EXPECT_EQ(suspects.Together(125), 125u) << "was not with them";
  suspects.Closed(all.first(15), 0);
  EXPECT_EQ(suspects.Together(14), 1u);
  suspects.Closed(all.first(1), 0);
  EXPECT_EQ(suspects.Together(0), 1u);
  suspects.Written(records[0]);
  EXPECT_EQ(suspects.Together(0), Suspects::kInnocent);

  Group group;
  for (int i = 0; i < 14; ++i) {
    group.Add(Suspects::kInnocent);
  }
  EXPECT_TRUE(group.Takes(15));
  EXPECT_FALSE(group.Takes(1));
  EXPECT_FALSE(group.Takes(Suspects::kGuilty));
  group.Add(15);
  EXPECT_FALSE(group.Takes(Suspects::kInnocent)) << "as many as each of them lets";
}

TEST(Suspects, NoRecordIsToBlameForAServerThatStartsAgainOrTakesNoWrites) {
  constexpr size_t kLarge = Suspects::kSmall;
  const std::vector<Suspects::Record> one = {{1, kLarge}};
  const std::vector<Suspects::Record> three = {{1, kLarge}, {2, kLarge}, {3, kLarge}};
  Suspects suspects;
  const auto close = [&](const char* run, const std::vector<Suspects::Record>& records, bool writes = true) {
    suspects.Met(run);
    if (writes) {
      suspects.Wrote();
    }
    suspects.Closed(records, 0);
  };
  close("", one);
  EXPECT_FALSE(suspects.any()) << "a server that does not tell which run it is";
  for (const char* run : {"a", "b", "c", "d", "d"}) {
    close(run, one);
    EXPECT_EQ(suspects.Together(1), 1u) << run;
  }
  for (int i = 0; i < 5; ++i) {
    close("d", one, false);
  }
  EXPECT_EQ(suspects.Together(1), 1u) << "whatever is written: no record's fault";
  close("d", one);
  EXPECT_EQ(suspects.Together(1), Suspects::kGuilty);
  suspects.Met("e");
  EXPECT_EQ(suspects.Together(1), Suspects::kInnocent) << "the run that closed is gone: it was its own trouble";
  for (int i = 0; i < 5; ++i) {
    close("e", three);
  }
  EXPECT_EQ(suspects.Together(1), 1u) << "never with others";
  suspects.Written(one[0]);
  EXPECT_EQ(suspects.Together(1), Suspects::kInnocent);
  for (int i = 0; i < 3; ++i) {
    close("e", {three[1]});
    close("e", {three[2]});
  }
  EXPECT_EQ(suspects.Together(2), Suspects::kGuilty);
  suspects.Blame(three[1]);
  EXPECT_EQ(suspects.Together(2), 1u) << "tested once more";
  EXPECT_EQ(suspects.Together(3), Suspects::kGuilty);
  suspects.Expire(121'000'000);
  EXPECT_FALSE(suspects.any());
}

// A disk that is slow, behind a proxy without patience: it takes writes that change nothing, and answers none of
// records.
TEST(Suspects, NoSmallRecordIsToBlameNorOneWhileLargerOnesAreWritten) {
  const Suspects::Record small = {1, Suspects::kSmall - 1};
  const Suspects::Record large = {2, Suspects::kSmall};
  Suspects suspects;
  const auto close = [&suspects](const Suspects::Record& record) {
    suspects.Met("a");
    suspects.Wrote();
    suspects.Closed({&record, 1}, 0);
  };
  for (int i = 0; i < 10; ++i) {
    close(small);
  }
  EXPECT_EQ(suspects.Together(1), 1u) << "alone, but never accused";
  close(large);
  close(large);
  suspects.Written({3, large.size});
  close(large);
  close(large);
  suspects.Written({4, large.size - 1});
  EXPECT_EQ(suspects.Together(2), 1u) << "its size was no hindrance";
  close(large);
  EXPECT_EQ(suspects.Together(2), Suspects::kGuilty);
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
