// matrix: E-4
// RedisSink on a server whose memory is limited: what it may throw away.
#include <gtest/gtest.h>

#include "redis_sink_fixture.h"

namespace outbox::sink {
namespace {

// A person is warned of a server that may throw whole streams away, for as long as it may.
TEST_F(RedisSinkTest, AnEvictionPolicyThatTakesStreamsIsAWarning) {
  BEGIN_OR_SKIP({}, {"--maxmemory", "100mb", "--maxmemory-policy", "allkeys-lru"});
  uint32_t epoch = 0;
  const auto warning = [&] {
    driver_->Submit(1, epoch++, {To("s", "k", "1")});
    EXPECT_TRUE(driver_->UntilResolved());
    EXPECT_TRUE(sink_->health().up);
    return sink_->health().warning;
  };
  const Error evicts = warning();
  EXPECT_EQ(evicts.code, "EVICTION");
  EXPECT_NE(evicts.message.find("allkeys-lru"), std::string::npos);
  EXPECT_EQ(driver_->Count(Outcome::kDelivered), 1u) << "it is usable";
  // Streams have no expiry; without a limit nothing is evicted; noeviction never does.
  const std::vector<std::vector<std::string>> harmless = {
      {"maxmemory-policy", "volatile-lru"}, {"maxmemory-policy", "noeviction"}, {"maxmemory", "0"}};
  for (const std::vector<std::string>& setting : harmless) {
    server_.Command({"CONFIG", "SET", "maxmemory-policy", "allkeys-random"});
    server_.Command({"CONFIG", "SET", setting[0], setting[1]});
    Connect();
    EXPECT_EQ(warning().code, "") << setting[0] << " " << setting[1];
  }
  server_.Command({"CONFIG", "SET", "maxmemory", "100mb"});
  Connect();
  EXPECT_EQ(warning().code, "EVICTION");
  server_.Command({"CONFIG", "SET", "maxmemory-policy", "noeviction"});
  server_.Command({"CLIENT", "KILL", "TYPE", "normal", "SKIPME", "yes"});
  ASSERT_TRUE(driver_->Until([&] { return !sink_->health().up; }));
  EXPECT_EQ(warning().code, "") << "looked at with each connection";
  // Who is not told says nothing.
  server_.Command({"CONFIG", "SET", "maxmemory-policy", "allkeys-lru"});
  server_.Command({"ACL", "SETUSER", "default", "-info"});
  Connect();
  EXPECT_EQ(warning().code, "");
}

// A server holds what it answers until that is read, in the memory that streams lie in.
TEST_F(RedisSinkTest, ToAskAboutStreamsTakesNoMemoryFromThem) {
  checks_server_ = true;
  BEGIN_OR_SKIP();
  std::vector<AskedStream> asked;
  for (int i = 0; i < 60; ++i) {
    const std::string stream = "s" + std::to_string(i);
    const std::string id = server_.Command({"XADD", stream, "*", "payload", std::string(500'000, 'x')})->str;
    asked.push_back({stream, id});
  }
  const std::string memory = server_.Command({"INFO", "memory"})->str;
  const int64_t used = std::stoll(memory.substr(memory.find("used_memory:") + 12));
  ASSERT_TRUE(UntilMet());
  server_.Command({"CONFIG", "SET", "maxmemory", std::to_string(used + 15'000'000)});
  server_.Command({"CONFIG", "SET", "maxmemory-policy", "allkeys-lru"});
  const std::vector<StreamEnd> ends = Ends(asked);
  EXPECT_EQ(ends.size(), asked.size());
  for (const StreamEnd& end : ends) {
    EXPECT_EQ(end.kept, end.acknowledged) << end.stream;
  }
  EXPECT_EQ(server_.Integer({"DBSIZE"}), 60);
}

class HangsUpTest : public RedisSinkTest {
 protected:
  // As its owner does, asks each time when it meets the server, until that has answered.
  std::vector<StreamEnd> EndsInTheEnd(const std::vector<AskedStream>& streams) {
    std::vector<StreamEnd> ends;
    uint64_t met = 0;
    EXPECT_TRUE(driver_->Until(
        [&] {
          const ServerIdentity& identity = *sink_->identity();
          if (!identity.server_run.empty() && identity.number != met) {
            met = identity.number;
            sink_->Ask(streams);
          }
          named_ |= sink_->health().error.message.find("client-output-buffer-limit") != std::string::npos;
          return sink_->TakeEnds(&ends);
        },
        60));
    return ends;
  }
  bool named_ = false;  // the error said what to look at
};

// Redis closes the connection of who has not read what it answered, from a certain size on.
TEST_F(HangsUpTest, AStreamAtWhichTheServerHangsUpStopsNothing) {
  checks_server_ = true;
  BEGIN_OR_SKIP({}, {"--client-output-buffer-limit", "normal 256kb 0 0"});
  std::vector<AskedStream> asked;
  for (const char* stream : {"a", "large", "larger", "z"}) {
    const size_t size = stream[0] == 'l' ? 4'000'000 : 10;
    asked.push_back({stream, server_.Command({"XADD", stream, "*", "payload", std::string(size, 'x')})->str});
  }
  ASSERT_TRUE(UntilMet());
  const std::vector<StreamEnd> ends = EndsInTheEnd(asked);
  ASSERT_EQ(ends.size(), 2u) << "those that it tells of";
  EXPECT_EQ(ends[0].stream, "a");
  EXPECT_EQ(ends[1].stream, "z");
  EXPECT_TRUE(named_);
  EXPECT_EQ(sink_->health().warning.code, "NO_LOSS_CHECK");
  EXPECT_NE(sink_->health().warning.message.find("\"large\""), std::string::npos) << sink_->health().warning.message;
  sink_->Admit(sink_->identity()->server_run, false);
  driver_->Submit(1, 0, {To("s", "k", "1")});
  ASSERT_TRUE(driver_->UntilResolved());
  EXPECT_EQ(driver_->Count(Outcome::kDelivered), 1u);
  EXPECT_EQ(sink_->health().warning.code, "NO_LOSS_CHECK");
}

// Where each answer is small enough, no two large ones wait to be read.
TEST_F(HangsUpTest, ManyLargeAnswersFitWhereOneDoes) {
  checks_server_ = true;
  BEGIN_OR_SKIP({}, {"--client-output-buffer-limit", "normal 10mb 0 0"});
  std::vector<AskedStream> asked;
  for (int i = 0; i < 30; ++i) {
    const std::string stream = "s" + std::to_string(i);
    asked.push_back({stream, server_.Command({"XADD", stream, "*", "payload", std::string(500'000, 'x')})->str});
  }
  ASSERT_TRUE(UntilMet());
  EXPECT_EQ(EndsInTheEnd(asked).size(), 30u);
  EXPECT_FALSE(named_);
  EXPECT_TRUE(sink_->health().warning.ok());
}

}  // namespace
}  // namespace outbox::sink
