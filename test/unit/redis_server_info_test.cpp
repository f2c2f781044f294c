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

// INFO replication of Redis 7.0.15.
std::string Replication(const std::string& role, const std::string& id, const std::string& followed) {
  return "# Replication\r\nrole:" + role + "\r\nconnected_slaves:0\r\nmaster_replid:" + id +
         "\r\nmaster_replid2:" + followed + "\r\nmaster_repl_offset:0\r\n";
}

// A first replica changes the id, and so does the last one when it has been gone for an hour.
TEST_F(ServerInfoTest, WhoeverHasFollowedNobodyKeepsItsHistory) {
  const std::string none(40, '0');
  const std::string first(40, 'a');
  const std::string second(40, 'b');
  const std::string alone = ReadHistory(Reply(Replication("master", first, none)));
  EXPECT_EQ(alone, none);
  EXPECT_EQ(ReadHistory(Reply(Replication("master", second, none))), alone);

  EXPECT_EQ(ReadHistory(Reply(Replication("slave", first, none))), first) << "the data are its primary's";
  const std::string promoted = ReadHistory(Reply(Replication("master", second, first)));
  EXPECT_EQ(promoted, second);
  EXPECT_TRUE(HasForgotten(promoted, alone)) << "after an hour";
  EXPECT_FALSE(HasForgotten(alone, alone));
  EXPECT_FALSE(HasForgotten(alone, promoted));
  EXPECT_FALSE(HasForgotten(promoted, first));

  EXPECT_EQ(ReadHistory(Reply("# Replication\r\nrole:master\r\nmaster_replid:" + first + "\r\n")), first)
      << "one that knows only that";
  EXPECT_EQ(ReadHistory(Reply("# Replication\r\nrole:master\r\n")), "");
}

// Valkey says which Redis it stands in for, too.
TEST_F(ServerInfoTest, TheVersionIsItsOwn) {
  EXPECT_EQ(ReadVersion(Reply(Redis("standalone"))), "Redis 7.0.15");
  EXPECT_EQ(ReadVersion(Reply(Valkey("standalone"))), "Valkey 8.1.1");
  EXPECT_EQ(ReadVersion(Reply("# Server\r\nrun_id:0123\r\n")), "");
}

}  // namespace
}  // namespace outbox::sink
