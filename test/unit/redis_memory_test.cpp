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

}  // namespace
}  // namespace outbox::sink
