// matrix: E-5 E-6
// What a server says of itself, as Redis and as Valkey say it.
#include "sink/redis/server_info.h"

#include <gtest/gtest.h>

#include <string>

namespace outbox::sink {
namespace {

class ServerInfoTest : public ::testing::Test {
 protected:
  const redisReply& Reply(std::string text) {
    text_ = std::move(text);
    reply_ = {};
    reply_.type = REDIS_REPLY_STRING;
    reply_.str = text_.data();
    reply_.len = text_.size();
    return reply_;
  }
  std::string text_;
  redisReply reply_{};
};

// The beginnings of INFO server of Redis 7.0.15 and of Valkey 8.1.1.
std::string Redis(const std::string& mode) {
  return "# Server\r\nredis_version:7.0.15\r\nredis_git_sha1:00000000\r\nredis_mode:" + mode +
         "\r\nos:Linux 6.18 x86_64\r\nrun_id:0123\r\n";
}
std::string Valkey(const std::string& mode) {
  return "# Server\r\nredis_version:7.2.4\r\nserver_name:valkey\r\nvalkey_version:8.1.1\r\nvalkey_release_stage:ga\r\n"
         "redis_git_sha1:00000000\r\nserver_mode:" +
         mode + "\r\nos:Linux 6.18 x86_64\r\nrun_id:0123\r\n";
}

TEST_F(ServerInfoTest, ASentinelIsNoServerOfData) {
  ServerInfo info;
  for (const std::string& text : {Redis("sentinel"), Valkey("sentinel")}) {
    EXPECT_EQ(ReadServerInfo(Reply(text), &info).code, "SENTINEL") << text;
  }
  for (const std::string& text : {Redis("standalone"), Valkey("standalone"), Redis("cluster"), Valkey("cluster")}) {
    EXPECT_TRUE(ReadServerInfo(Reply(text), &info).ok()) << text;
    EXPECT_EQ(info.run_id, "0123");
  }
}

TEST_F(ServerInfoTest, ANodeOfAClusterSaysSo) {
  for (const char* mode : {"standalone", "cluster", "sentinel"}) {
    const bool cluster = std::string(mode) == "cluster";
    EXPECT_EQ(IsOfCluster(Reply(Redis(mode))), cluster) << mode;
    EXPECT_EQ(IsOfCluster(Reply(Valkey(mode))), cluster) << mode;
  }
}

// Valkey says which Redis it stands in for, too.
TEST_F(ServerInfoTest, TheVersionIsItsOwn) {
  EXPECT_EQ(ReadVersion(Reply(Redis("standalone"))), "Redis 7.0.15");
  EXPECT_EQ(ReadVersion(Reply(Valkey("standalone"))), "Valkey 8.1.1");
  EXPECT_EQ(ReadVersion(Reply("# Server\r\nrun_id:0123\r\n")), "");
}

}  // namespace
}  // namespace outbox::sink
