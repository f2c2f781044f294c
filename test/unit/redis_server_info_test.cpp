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

// What else INFO tells, by Redis 7 (bytes) and by Redis 6 (calls).
std::string Stats(const std::string& bytes) {
  return "# Stats\r\ntotal_net_input_bytes:99\r\ntotal_net_repl_input_bytes:" + bytes + "\r\nkeyspace_hits:0\r\n";
}
std::string Calls(const std::string& calls) {
  return "# Commandstats\r\ncmdstat_info:calls=7,usec=70\r\n" + calls;
}

class HistoryTest : public ServerInfoTest {
 protected:
  std::string History(const std::string& replication, const std::string& stats, const std::string& calls = Calls("")) {
    ServerInfo info;
    EXPECT_TRUE(ReadReplicationInfo(Reply(replication), &info).ok());
    EXPECT_TRUE(ReadReceived(Reply(stats), &info).ok());
    EXPECT_TRUE(ReadReceived(Reply(calls), &info).ok());
    return info.history;
  }
  const std::string none_ = std::string(40, '0');
  const std::string first_ = std::string(40, 'a');
  const std::string second_ = std::string(40, 'b');
  const std::string of_redis_6_ = "# Stats\r\ntotal_net_input_bytes:99\r\n";
};

// A first replica changes the id, and so does the last one when it has been gone for an hour.
TEST_F(HistoryTest, WhoeverHasFollowedNobodyKeepsIt) {
  const std::string alone = History(Replication("master", first_, none_), Stats("0"));
  EXPECT_EQ(alone, none_);
  EXPECT_EQ(History(Replication("master", second_, none_), Stats("0")), alone);
  EXPECT_EQ(History(Replication("master", second_, none_), of_redis_6_), alone);
  EXPECT_EQ(History("# Replication\r\nrole:master\r\nmaster_replid:" + first_ + "\r\n", ""), first_)
      << "one that knows only that";
  EXPECT_EQ(History("# Replication\r\nrole:master\r\n", ""), "");
}

// After an hour it does not know whom it followed any more, and looks like one that never did.
TEST_F(HistoryTest, WhatAReplicaHasReceivedIsNotForgotten) {
  for (const bool counts : {true, false}) {
    const auto of = [&](const char* id, int times, bool forgotten) {
      const std::string calls = std::to_string(times);
      return History(Replication("master", id, forgotten ? none_ : first_), counts ? Stats(calls + "00") : of_redis_6_,
                     Calls("cmdstat_slaveof:calls=" + calls + ",usec=5\r\ncmdstat_replicaof:calls=1,usec=9\r\n"));
    };
    const std::string promoted = of("b", 1, false);
    EXPECT_EQ(of("c", 1, true), promoted) << "an hour later";
    EXPECT_NE(promoted.substr(0, 16), none_.substr(0, 16));
    EXPECT_NE(of("c", 2, true), promoted) << "it was a replica once more";
    EXPECT_FALSE(HasForgotten(promoted, of("c", 2, true)));
  }
}

TEST_F(HistoryTest, OneThatHasGotNothingHasItsOwn) {
  const std::string alone = History(Replication("master", first_, none_), Stats("0"));
  const std::string told = History(Replication("master", second_, first_), Stats("0"));
  EXPECT_EQ(told, second_);
  EXPECT_TRUE(HasForgotten(told, alone)) << "after an hour";
  EXPECT_FALSE(HasForgotten(alone, alone));
  EXPECT_FALSE(HasForgotten(alone, told));
  EXPECT_FALSE(HasForgotten(told, first_));
  EXPECT_TRUE(HasForgotten(History(Replication("master", second_, none_), Stats("5")), alone)) << "CONFIG RESETSTAT";
}

// That a count of Redis 7 is nothing does not mean that it counts calls.
TEST_F(HistoryTest, WhereBytesAreCountedNoCallsAre) {
  const std::string calls = Calls("cmdstat_replicaof:calls=2,usec=9\r\n");
  EXPECT_EQ(History(Replication("master", first_, none_), Stats("0"), calls), none_);
  ServerInfo info;
  EXPECT_TRUE(ReadReceived(Reply(Stats("0")), &info).ok());
  EXPECT_STREQ(ReceivedIn(info), "stats");
  info = {};
  EXPECT_TRUE(ReadReceived(Reply(of_redis_6_), &info).ok());
  EXPECT_STREQ(ReceivedIn(info), "commandstats");
}

// Valkey says which Redis it stands in for, too.
TEST_F(ServerInfoTest, TheVersionIsItsOwn) {
  EXPECT_EQ(ReadVersion(Reply(Redis("standalone"))), "Redis 7.0.15");
  EXPECT_EQ(ReadVersion(Reply(Valkey("standalone"))), "Valkey 8.1.1");
  EXPECT_EQ(ReadVersion(Reply("# Server\r\nrun_id:0123\r\n")), "");
}

}  // namespace
}  // namespace outbox::sink
