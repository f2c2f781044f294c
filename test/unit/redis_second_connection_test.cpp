// The Redis sink's second connection: the next transaction is queued there while one is executed, and nothing of it is
// written before all of that one is.
#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <vector>

#include "redis_proxy.h"
#include "redis_sink_fixture.h"

namespace outbox::sink {
namespace {

constexpr int kRecords = 1700;  // three full transactions and a bit
const std::vector<int64_t> kBoth{500, 500};

class RedisSecondConnectionTest : public RedisSinkTest {
 protected:
  // One transaction waits for its EXEC, the next one behind it is queued. `records`: in the order of their numbers.
  void HoldTwo(const std::vector<TestRecord>& records, uint32_t epoch = 0) {
    proxy_->set_mode(Proxy::Mode::kHold);
    first_ = driver_->Submit(1, epoch, records);
    ASSERT_TRUE(driver_->Until([&] { return InTransactions() == kBoth; }, 30));
    ASSERT_EQ(driver_->resolved(), first_);
  }
  bool BeginBehindProxy(Options options = {}) {
    if (!server_.Start()) {
      return false;
    }
    proxy_ = std::make_unique<Proxy>(server_.directory() + "/proxy", server_.socket());
    return ConnectToProxy(options);
  }
  // Connects, and has written a record.
  bool ConnectToProxy(Options options = {}) {
    options.emplace("unix_socket", proxy_->path());
    Connect(options);
    driver_->Submit(1, 0, {To("warm", "k", "up")});
    EXPECT_TRUE(driver_->UntilResolved());
    first_ = driver_->submitted();
    return true;
  }
  // The numbers of the sink's connections, oldest first.
  std::vector<std::string> SinkConnections() {
    const int64_t own = server_.Integer({"CLIENT", "ID"});
    const std::string clients = server_.Command({"CLIENT", "LIST"})->str;
    std::vector<int64_t> numbers;
    for (size_t at = 0; at < clients.size(); at = clients.find('\n', at) + 1) {
      if (const int64_t number = std::stoll(clients.substr(at + 3)); number != own) {
        numbers.push_back(number);
      }
    }
    std::sort(numbers.begin(), numbers.end());
    std::vector<std::string> texts;
    for (int64_t number : numbers) {
      texts.push_back(std::to_string(number));
    }
    return texts;
  }
  void Kill(const std::string& connection) { server_.Command({"CLIENT", "KILL", "ID", connection}); }

  std::unique_ptr<Proxy> proxy_;
  uint64_t first_ = 0;
};

#define BEGIN_BEHIND_PROXY_OR_SKIP(...)                       \
  if (!BeginBehindProxy(__VA_ARGS__)) {                       \
    GTEST_SKIP() << "neither redis-server nor valkey-server"; \
  }

TEST_F(RedisSecondConnectionTest, WhatIsQueuedWaitsForWhatIsExecuted) {
  BEGIN_BEHIND_PROXY_OR_SKIP();
  for (const RecordForm form : {RecordForm::kStream, RecordForm::kList}) {
    const bool list = form == RecordForm::kList;
    proxy_->set_mode(Proxy::Mode::kHold);
    driver_->Submit(1, 0, Records(list ? "list" : "s", kRecords, form));
    // Of a list's records one command is made.
    ASSERT_TRUE(driver_->Until([&] { return InTransactions() == (list ? std::vector<int64_t>{1, 1} : kBoth); }, 30));
    for (int turn = 0; turn < 20; ++turn) {
      driver_->Turn(5000);
    }
    ASSERT_EQ(server_.Integer({"EXISTS", list ? "list" : "s"}), 0);
    proxy_->set_mode(Proxy::Mode::kPass);
    ASSERT_TRUE(driver_->UntilResolved(30));
    EXPECT_EQ(driver_->Count(Outcome::kDelivered), driver_->submitted());
  }
  EXPECT_EQ(Payloads("s"), Numbers(kRecords));
  EXPECT_EQ(server_.Integer({"LLEN", "list"}), kRecords);
  for (int i : {0, 499, 500, 999, 1000, kRecords - 1}) {
    EXPECT_EQ(server_.Command({"LINDEX", "list", std::to_string(i)})->str, std::to_string(i));
  }
}

TEST_F(RedisSecondConnectionTest, LittleNeedsOne) {
  BEGIN_BEHIND_PROXY_OR_SKIP();
  proxy_->set_mode(Proxy::Mode::kHold);
  driver_->Submit(1, 0, Records("s", 100));
  ASSERT_TRUE(driver_->Until([&] { return InTransactions() == std::vector<int64_t>{100}; }, 30));
  driver_->Submit(1, 0, Records("s", 499));
  for (int turn = 0; turn < 50; ++turn) {
    driver_->Turn(5000);
  }
  EXPECT_EQ(InTransactions(), std::vector<int64_t>{100});
  proxy_->set_mode(Proxy::Mode::kPass);
  ASSERT_TRUE(driver_->UntilResolved(30));
  EXPECT_EQ(SinkConnections().size(), 1u);
}

// What the server turns into while two transactions are complete.
TEST_F(RedisSecondConnectionTest, WhereOneIsRefusedTheNextIsNotWritten) {
  BEGIN_BEHIND_PROXY_OR_SKIP();
  struct Change {
    const char* name;
    std::vector<std::string> change;
    std::vector<std::string> heal;
  };
  const Change changes[] = {
      {"memory", {"CONFIG", "SET", "maxmemory", "1"}, {"CONFIG", "SET", "maxmemory", "0"}},
      {"replicas", {"CONFIG", "SET", "min-replicas-to-write", "1"}, {"CONFIG", "SET", "min-replicas-to-write", "0"}},
      {"xadd", {"ACL", "SETUSER", "default", "-xadd"}, {"ACL", "SETUSER", "default", "+xadd"}},
      {"exec", {"ACL", "SETUSER", "default", "-exec"}, {"ACL", "SETUSER", "default", "+exec"}},
      {"discard", {"ACL", "SETUSER", "default", "-xadd", "-discard"}, {"ACL", "SETUSER", "default", "+@all"}},
      {"type", {"SET", "type", "x"}, {"DEL", "type"}},
  };
  uint32_t epoch = 0;
  for (const Change& change : changes) {
    SCOPED_TRACE(change.name);
    // Once with the first connection's refused, once with the second one's.
    for (const bool second : {false, true}) {
      const std::string stream = change.name;
      proxy_->set_mode(Proxy::Mode::kPass);
      driver_->Submit(1, ++epoch, {To("warm", "k", "up")});
      ASSERT_TRUE(driver_->UntilResolved());
      HoldTwo(Records(stream, kRecords), epoch);
      size_t written = 0;
      if (second) {
        proxy_->set_mode(Proxy::Mode::kHoldSecond);  // the third one is queued on the first connection then
        ASSERT_TRUE(driver_->Until([&] { return driver_->resolved() == first_ + 500 && InTransactions() == kBoth; }));
        written = 500;
        if (stream == "type") {
          server_.Command({"DEL", "type"});
        }
      }
      server_.Command(change.change);
      proxy_->set_mode(Proxy::Mode::kPass);
      if (stream == "exec") {  // one by one then, without a failure
        ASSERT_TRUE(driver_->UntilResolved(30));
        EXPECT_EQ(Payloads(stream), Numbers(kRecords));
        server_.Command(change.heal);
        server_.Command({"DEL", stream});
        sink_->Close();
        ConnectToProxy();
        continue;
      }
      ASSERT_TRUE(driver_->UntilResolved(30));
      EXPECT_EQ(driver_->outcome(first_ + written), Outcome::kFailed);
      for (uint64_t seq = first_ + written + 1; seq < driver_->submitted(); ++seq) {
        ASSERT_EQ(driver_->outcome(seq), Outcome::kAborted);
      }
      EXPECT_TRUE(driver_->unsent(driver_->submitted() - 1));
      server_.Command(change.heal);
      EXPECT_EQ(Payloads(stream), Numbers(stream == "type" ? 0 : static_cast<int>(written)));
      server_.Command({"DEL", stream});
      // Behind a right that was taken away it may have connected anew.
      for (bool again = true; again;) {
        const uint64_t seq = driver_->Submit(1, ++epoch, {To("warm", "k", "up")});
        ASSERT_TRUE(driver_->UntilResolved(30));
        again = driver_->outcome(seq) != Outcome::kDelivered;
      }
      driver_->Submit(1, epoch, Records(stream, kRecords));
      ASSERT_TRUE(driver_->UntilResolved(30));
      EXPECT_EQ(Payloads(stream), Numbers(kRecords));
      server_.Command({"DEL", stream});
      sink_->Close();
      ConnectToProxy();  // the one that was refused waits before it has a second one again
    }
  }
}

// One of two flows is refused in the middle; the other goes on in order.
TEST_F(RedisSecondConnectionTest, WhatWasTakenBackIsStillInOrder) {
  BEGIN_BEHIND_PROXY_OR_SKIP();
  proxy_->set_mode(Proxy::Mode::kHold);
  for (int i = 0; i < kRecords; ++i) {
    driver_->Submit(1, 0, {To("bad", "k", std::to_string(i))});
    driver_->Submit(2, 0, {To("good", "k", std::to_string(i))});
    if (i == 400) {  // both are in the first transaction
      ASSERT_TRUE(driver_->Until([&] { return InTransactions() == std::vector<int64_t>{500}; }, 30));
    }
  }
  ASSERT_TRUE(driver_->Until([&] { return InTransactions() == kBoth; }, 30));
  server_.Command({"SET", "bad", "x"});
  proxy_->set_mode(Proxy::Mode::kPass);
  ASSERT_TRUE(driver_->UntilResolved(30));
  EXPECT_EQ(driver_->Count(Outcome::kDelivered), static_cast<size_t>(kRecords) + 1);
  EXPECT_EQ(driver_->Count(Outcome::kFailed), 1u);
  EXPECT_EQ(Payloads("good"), Numbers(kRecords));
}

TEST_F(RedisSecondConnectionTest, LostWhileItsRecordsWaitNothingIsSentTwice) {
  BEGIN_BEHIND_PROXY_OR_SKIP();
  HoldTwo(Records("s", kRecords));
  Kill(SinkConnections()[1]);
  for (int turn = 0; turn < 20; ++turn) {
    driver_->Turn(5000);
  }
  proxy_->set_mode(Proxy::Mode::kPass);
  ASSERT_TRUE(driver_->UntilResolved(30));
  EXPECT_EQ(driver_->Count(Outcome::kAborted), 0u);
  EXPECT_EQ(Payloads("s"), Numbers(kRecords));
  EXPECT_TRUE(sink_->health().up);
}

TEST_F(RedisSecondConnectionTest, LostWhileItsOwnAreExecutedAllIsOpen) {
  BEGIN_BEHIND_PROXY_OR_SKIP();
  HoldTwo(Records("s", kRecords));
  proxy_->set_mode(Proxy::Mode::kHoldSecond);
  ASSERT_TRUE(driver_->Until([&] { return driver_->resolved() == first_ + 500 && InTransactions() == kBoth; }));
  Kill(SinkConnections()[1]);
  ASSERT_TRUE(driver_->UntilResolved(30));
  EXPECT_EQ(driver_->Count(Outcome::kDelivered), first_ + 500);
  EXPECT_EQ(driver_->Count(Outcome::kAborted), static_cast<size_t>(kRecords) - 500);
  EXPECT_FALSE(driver_->unsent(first_ + 500)) << "may have been executed";
  EXPECT_FALSE(driver_->unsent(first_ + 999));
  EXPECT_TRUE(driver_->unsent(first_ + 1000)) << "was queued on the other one";
  EXPECT_EQ(Payloads("s"), Numbers(500));
  proxy_->set_mode(Proxy::Mode::kPass);
  std::vector<TestRecord> rest = Records("s", kRecords);
  rest.erase(rest.begin(), rest.begin() + 500);
  driver_->Submit(1, 1, rest);
  ASSERT_TRUE(driver_->UntilResolved(30));
  EXPECT_EQ(Payloads("s"), Numbers(kRecords));
}

// The first one lost while the second one's are executed, and its own are queued.
TEST_F(RedisSecondConnectionTest, TheFirstLostWhileTheSecondExecutes) {
  BEGIN_BEHIND_PROXY_OR_SKIP();
  HoldTwo(Records("s", kRecords));
  proxy_->set_mode(Proxy::Mode::kHoldSecond);
  ASSERT_TRUE(driver_->Until([&] { return driver_->resolved() == first_ + 500 && InTransactions() == kBoth; }));
  Kill(SinkConnections()[0]);
  for (int turn = 0; turn < 20; ++turn) {
    driver_->Turn(5000);
  }
  proxy_->set_mode(Proxy::Mode::kPass);
  ASSERT_TRUE(driver_->UntilResolved(30));
  const size_t delivered = driver_->Count(Outcome::kDelivered);
  EXPECT_GE(delivered, first_ + 500);
  const std::vector<std::string> written = Payloads("s");
  EXPECT_GE(written.size() + first_, delivered);
  EXPECT_EQ(written, Numbers(static_cast<int>(written.size()))) << "in order, none twice";
}

// One that is silent stops all until its time is over: it is not tried again at once.
TEST_F(RedisSecondConnectionTest, ASilentOneIsNotHadAgainSoon) {
  BEGIN_BEHIND_PROXY_OR_SKIP({{"timeout", "1000"}});
  HoldTwo(Records("s", kRecords));
  proxy_->set_mode(Proxy::Mode::kMuteSecond);
  ASSERT_TRUE(driver_->UntilResolved(30));
  EXPECT_EQ(driver_->Count(Outcome::kDelivered), first_ + 500);
  for (uint32_t epoch = 1; epoch < 4; ++epoch) {
    const size_t before = driver_->Count(Outcome::kDelivered);
    driver_->Submit(1, epoch, Records("t", 20 * kRecords));
    ASSERT_TRUE(driver_->UntilResolved(30));
    EXPECT_EQ(driver_->Count(Outcome::kDelivered), before + 20 * kRecords) << epoch;
  }
  EXPECT_EQ(SinkConnections().size(), 1u);
}

// Behind one name, or after a failover, may be another server: records would go to both.
TEST_F(RedisSecondConnectionTest, AnotherServerIsNotASecondConnection) {
  BEGIN_BEHIND_PROXY_OR_SKIP();
  RedisServer other;
  ASSERT_TRUE(other.Start());
  proxy_->set_server(other.socket());
  driver_->Submit(1, 0, Records("s", 20 * kRecords));
  ASSERT_TRUE(driver_->UntilResolved(30));
  EXPECT_EQ(driver_->Count(Outcome::kDelivered), driver_->submitted());
  EXPECT_EQ(Payloads("s"), Numbers(20 * kRecords));
  EXPECT_EQ(other.Integer({"DBSIZE"}), 0);
  const std::string stats = other.Command({"INFO", "commandstats"})->str;
  EXPECT_NE(stats.find("cmdstat_info"), std::string::npos) << "it was asked";
  EXPECT_EQ(stats.find("cmdstat_xadd"), std::string::npos);
}

// Without these rights all goes as it did, by one connection.
TEST_F(RedisSecondConnectionTest, WhoMayNotHasOne) {
  for (const char* right : {"-info", "-discard"}) {
    SCOPED_TRACE(right);
    if (!server_.Start()) {
      GTEST_SKIP() << "neither redis-server nor valkey-server";
    }
    server_.SetUser("writer", {"on", ">pw", "~*", "+@all", right});
    Connect({{"username", "writer"}, {"password", "pw"}});
    driver_->Submit(1, 0, Records("s", 20 * kRecords));
    ASSERT_TRUE(driver_->UntilResolved(30));
    EXPECT_EQ(driver_->Count(Outcome::kDelivered), driver_->submitted());
    EXPECT_EQ(Payloads("s"), Numbers(20 * kRecords));
    EXPECT_LE(InTransactions().size(), 1u);
    EXPECT_TRUE(sink_->health().up);
    server_.Stop();
  }
}

// Database, user and password are the first one's.
TEST_F(RedisSecondConnectionTest, ItIsTheSameUserAndDatabase) {
  if (!server_.Start()) {
    GTEST_SKIP() << "neither redis-server nor valkey-server";
  }
  server_.SetUser("writer", {"on", ">pw", "~*", "+@all"});
  server_.SetUser("default", {"-xadd"});
  proxy_ = std::make_unique<Proxy>(server_.directory() + "/proxy", server_.socket());
  ConnectToProxy({{"username", "writer"}, {"password", "pw"}, {"db", "3"}});
  HoldTwo(Records("s", kRecords));
  proxy_->set_mode(Proxy::Mode::kPass);
  ASSERT_TRUE(driver_->UntilResolved(30));
  EXPECT_EQ(driver_->Count(Outcome::kDelivered), driver_->submitted());
  EXPECT_EQ(server_.Integer({"EXISTS", "s"}), 0);
  EXPECT_NE(std::string(server_.Command({"INFO", "keyspace"})->str).find("db3:keys=2"), std::string::npos);
}

// A server that has no room for it.
TEST_F(RedisSecondConnectionTest, TooManyConnections) {
  BEGIN_BEHIND_PROXY_OR_SKIP();
  server_.Command({"CONFIG", "SET", "maxclients", "2"});  // the sink's, and the one that asks here
  driver_->Submit(1, 0, Records("s", 20 * kRecords));
  ASSERT_TRUE(driver_->UntilResolved(30));
  EXPECT_EQ(driver_->Count(Outcome::kDelivered), driver_->submitted());
  EXPECT_TRUE(sink_->health().up);
  server_.Command({"CONFIG", "SET", "maxclients", "100"});
  EXPECT_EQ(Payloads("s"), Numbers(20 * kRecords));
}

TEST_F(RedisSecondConnectionTest, ItGoesWhenItIsNotNeeded) {
  BEGIN_BEHIND_PROXY_OR_SKIP();
  HoldTwo(Records("s", kRecords));
  proxy_->set_mode(Proxy::Mode::kPass);
  ASSERT_TRUE(driver_->UntilResolved(30));
  ASSERT_EQ(SinkConnections().size(), 2u);
  ASSERT_TRUE(driver_->Until([&] { return SinkConnections().size() == 1; }, 20));
  EXPECT_TRUE(sink_->health().up);
  driver_->Submit(1, 0, {To("warm", "k", "up")});  // behind the sign of life that it asks for by now
  ASSERT_TRUE(driver_->UntilResolved());
  HoldTwo(Records("t", kRecords));  // and is back when it is
  proxy_->set_mode(Proxy::Mode::kPass);
  ASSERT_TRUE(driver_->UntilResolved(30));
  EXPECT_EQ(Payloads("t"), Numbers(kRecords));
}

// A large record over a slow link is no silence, and its owner is told that it is on its way.
TEST_F(RedisSecondConnectionTest, WhatTakesLongIsSaidToBeOnItsWay) {
  BEGIN_BEHIND_PROXY_OR_SKIP({{"timeout", "1500"}});
  proxy_->set_mode(Proxy::Mode::kSlow);
  driver_->Submit(1, 0, {To("large", "k", std::string(600'000, 'x'))});
  EXPECT_TRUE(driver_->Until([&] { return sink_->health().sending; }, 60));
  EXPECT_TRUE(driver_->UntilResolved(120));
  EXPECT_EQ(driver_->Count(Outcome::kDelivered), 2u);
  EXPECT_FALSE(sink_->health().sending);
  EXPECT_TRUE(sink_->health().up);
}

}  // namespace
}  // namespace outbox::sink
