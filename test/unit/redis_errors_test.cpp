// The table of Redis replies, whole.
#include "sink/redis/errors.h"

#include <gtest/gtest.h>

#include <set>
#include <string>

namespace outbox::sink {
namespace {

struct Known {
  const char* reply;  // as servers say it
  ErrorClass error_class;
  const char* code;
  bool reconnect;
};

const Known kKnown[] = {
    {"OOM command not allowed when used memory > 'maxmemory'.", ErrorClass::kDestination, "OOM", false},
    {"MISCONF Redis is configured to save RDB snapshots", ErrorClass::kDestination, "MISCONF", false},
    {"NOREPLICAS Not enough good replicas to write.", ErrorClass::kDestination, "NOREPLICAS", false},
    {"READONLY You can't write against a read only replica.", ErrorClass::kDestination, "READONLY", true},
    {"MASTERDOWN Link with MASTER is down", ErrorClass::kDestination, "MASTERDOWN", true},
    {"LOADING Redis is loading the dataset in memory", ErrorClass::kDestination, "LOADING", true},
    {"BUSY Redis is busy running a script.", ErrorClass::kDestination, "BUSY", false},
    {"TRYAGAIN Multiple keys request during rehashing of slot", ErrorClass::kDestination, "TRYAGAIN", false},
    {"CLUSTERDOWN Hash slot not served", ErrorClass::kDestination, "CLUSTERDOWN", false},
    {"NOAUTH Authentication required.", ErrorClass::kConfig, "NOAUTH", true},
    {"WRONGPASS invalid username-password pair or user is disabled.", ErrorClass::kConfig, "WRONGPASS", true},
    {"NOPERM this user has no permissions to run the 'xadd' command", ErrorClass::kConfig, "NOPERM", false},
    {"DENIED Redis is running in protected mode", ErrorClass::kConfig, "DENIED", true},
    {"MOVED 3999 127.0.0.1:6381", ErrorClass::kConfig, "MOVED", false},
    {"ASK 3999 127.0.0.1:6381", ErrorClass::kConfig, "ASK", false},
    {"CROSSSLOT Keys in request don't hash to the same slot", ErrorClass::kConfig, "CROSSSLOT", false},
    {"WRONGTYPE Operation against a key holding the wrong kind of value", ErrorClass::kTopic, "WRONGTYPE", false},
    {"NOSCRIPT No matching script. Please use EVAL.", ErrorClass::kDestination, "NOSCRIPT", false},
    {"EXECABORT Transaction discarded because of previous errors.", ErrorClass::kInternal, "EXECABORT", false},
    {"ERR Elements are too large to be stored", ErrorClass::kMessage, "TOO_LARGE", false},
    {"ERR Protocol error: invalid bulk length", ErrorClass::kMessage, "TOO_LARGE", false},
    {"ERR string exceeds maximum allowed size (proto-max-bulk-len)", ErrorClass::kMessage, "TOO_LARGE", false},
    {"ERR The stream has exhausted the last possible ID, unable to add more items", ErrorClass::kTopic,
     "STREAM_EXHAUSTED", false},
    {"ERR The ID specified in XADD is equal or smaller than the target stream top item", ErrorClass::kTopic,
     "STREAM_ID", false},
    {"ERR unknown command 'EVALSHA', with args beginning with: 'secret'", ErrorClass::kConfig, "UNKNOWN_COMMAND",
     false},
    {"ERR DB index is out of range", ErrorClass::kConfig, "DB_INDEX", true},
    {"ERR invalid DB index", ErrorClass::kConfig, "DB_INDEX", true},
    {"ERR AUTH <password> called without any password configured for the default user", ErrorClass::kConfig, "AUTH",
     true},
    {"ERR Client sent AUTH, but no password is set", ErrorClass::kConfig, "AUTH", true},
    {"ERR wrong number of arguments for 'auth' command", ErrorClass::kConfig, "AUTH", true},
    {"ERR max number of clients reached", ErrorClass::kDestination, "MAX_CLIENTS", true},
    {"ERR something new", ErrorClass::kDestination, "ERR", false},
    {"SOMETHINGNEW happened", ErrorClass::kDestination, "REPLY", false},
    {"", ErrorClass::kDestination, "REPLY", false},
};

TEST(ReplyRules, EveryKnownReplyHasItsClass) {
  for (const Known& known : kKnown) {
    Error error = ReplyError(known.reply);
    EXPECT_EQ(error.error_class, known.error_class) << known.reply;
    EXPECT_EQ(error.code, known.code) << known.reply;
    EXPECT_EQ(NeedsReconnect(error), known.reconnect) << known.reply;
    EXPECT_FALSE(error.ok());
  }
}

TEST(ReplyRules, EveryRowIsReachedByAKnownReply) {
  std::set<const ReplyRule*> reached;
  for (const Known& known : kKnown) {
    reached.insert(&FindReplyRule(known.reply));
  }
  for (const ReplyRule& rule : ReplyRules()) {
    EXPECT_TRUE(reached.count(&rule)) << rule.word << " " << (rule.text == nullptr ? "" : rule.text);
  }
}

TEST(ReplyRules, RowsOfOneCodeAgreeAboutReconnecting) {
  for (const ReplyRule& a : ReplyRules()) {
    for (const ReplyRule& b : ReplyRules()) {
      if (std::string(a.code) == b.code) {
        EXPECT_EQ(a.reconnect, b.reconnect) << a.code;
      }
    }
  }
}

TEST(ReplyRules, OnlyTheFirstWordCounts) {
  EXPECT_EQ(ReplyError("ERR this is not OOM").code, "ERR");
  EXPECT_EQ(ReplyError("OOMPH").code, "REPLY");
}

TEST(ReplyRules, MessagesHideArgumentsAndStayOneLine) {
  EXPECT_EQ(ReplyError("ERR unknown command 'AUTH', with args beginning with: 'secret'").message,
            "the Redis server said: ERR unknown command 'AUTH'");
  EXPECT_EQ(ReplyError("ERR a\nb\x1b[").message, "the Redis server said: ERR a b [");
  EXPECT_LT(ReplyError("ERR " + std::string(10000, 'x')).message.size(), 400u);
}

}  // namespace
}  // namespace outbox::sink
