// matrix: E-3 E-6 E-7 E-8
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
  bool capped = false;
};

const Known kKnown[] = {
    {"OOM command not allowed when used memory > 'maxmemory'.", ErrorClass::kDestination, "OOM", false},
    {"MISCONF Redis is configured to save RDB snapshots", ErrorClass::kDestination, "MISCONF", false},
    {"NOREPLICAS Not enough good replicas to write.", ErrorClass::kDestination, "NOREPLICAS", false},
    {"READONLY You can't write against a read only replica.", ErrorClass::kDestination, "READONLY", true},
    {"MASTERDOWN Link with MASTER is down", ErrorClass::kDestination, "MASTERDOWN", true},
    {"LOADING Redis is loading the dataset in memory", ErrorClass::kDestination, "LOADING", true},
    {"REDIRECT 127.0.0.1:6380", ErrorClass::kDestination, "REDIRECT", true},
    {"BUSY Redis is busy running a script.", ErrorClass::kDestination, "BUSY", false},
    {"TRYAGAIN Multiple keys request during rehashing of slot", ErrorClass::kDestination, "TRYAGAIN", false},
    {"CLUSTERDOWN Hash slot not served", ErrorClass::kDestination, "CLUSTERDOWN", false},
    {"NOAUTH Authentication required.", ErrorClass::kConfig, "NOAUTH", true},
    {"WRONGPASS invalid username-password pair or user is disabled.", ErrorClass::kConfig, "WRONGPASS", true},
    {"NOPERM this user has no permissions to run the 'xadd' command", ErrorClass::kConfig, "NOPERM", false},
    {"NOPERM The user executing the script can't run this command or subcommand", ErrorClass::kConfig, "NOPERM", false},
    {"NOPERM No permissions to access a key", ErrorClass::kTopic, "NOPERM", false},
    {"NOPERM User keys has no permissions to access the 'orders' key", ErrorClass::kTopic, "NOPERM", false},
    {"NOPERM User keys has no permissions to run the 'xadd' command", ErrorClass::kConfig, "NOPERM", false},
    {"NOPERM This user has no permissions to access one of the keys used as arguments", ErrorClass::kTopic, "NOPERM",
     false},
    {"NOPERM No permissions to access a channel", ErrorClass::kTopic, "NOPERM", false},
    {"NOPERM something new", ErrorClass::kConfig, "NOPERM", false},
    {"NOPERM ACLs rules changed between the moment the transaction was accumulated and the EXEC call. This command is "
     "no "
     "longer allowed for the following reason: no permission to touch the specified keys",
     ErrorClass::kTopic, "NOPERM", false},
    {"NOPERM ACLs rules changed between the moment the transaction was accumulated and the EXEC call. This command is "
     "no "
     "longer allowed for the following reason: no permission to execute the command or subcommand",
     ErrorClass::kConfig, "NOPERM", false},
    {"ERR Transaction contains write commands but instance is now a read-only replica. EXEC aborted.",
     ErrorClass::kDestination, "READONLY", true},
    {"DENIED Redis is running in protected mode", ErrorClass::kConfig, "DENIED", true},
    {"MOVED 3999 127.0.0.1:6381", ErrorClass::kTopic, "MOVED", false},
    {"ASK 3999 127.0.0.1:6381", ErrorClass::kTopic, "ASK", false},
    {"CROSSSLOT Keys in request don't hash to the same slot", ErrorClass::kConfig, "CROSSSLOT", false},
    {"WRONGTYPE Operation against a key holding the wrong kind of value", ErrorClass::kTopic, "WRONGTYPE", false},
    {"NOSCRIPT of a command that is not ours", ErrorClass::kDestination, "NOSCRIPT", false, true},
    {"EXECABORT Transaction discarded because of previous errors.", ErrorClass::kInternal, "EXECABORT", false},
    {"ERR Elements are too large to be stored", ErrorClass::kMessage, "TOO_LARGE", false},
    {"ERR Protocol error: invalid bulk length", ErrorClass::kMessage, "TOO_LARGE", false},
    {"ERR Protocol error: invalid multibulk length", ErrorClass::kMessage, "TOO_LARGE", false},
    {"ERR string exceeds maximum allowed size (proto-max-bulk-len)", ErrorClass::kMessage, "TOO_LARGE", false},
    {"ERR The stream has exhausted the last possible ID, unable to add more items", ErrorClass::kTopic,
     "STREAM_EXHAUSTED", false},
    {"ERR The ID specified in XADD is equal or smaller than the target stream top item", ErrorClass::kTopic,
     "STREAM_ID", false},
    {"ERR unknown command 'MULTI', with args beginning with: 'secret'", ErrorClass::kConfig, "UNKNOWN_COMMAND", false},
    {"ERR DB index is out of range", ErrorClass::kConfig, "DB_INDEX", true},
    {"ERR invalid DB index", ErrorClass::kConfig, "DB_INDEX", true},
    {"ERR AUTH <password> called without any password configured for the default user", ErrorClass::kConfig, "AUTH",
     true},
    {"ERR Client sent AUTH, but no password is set", ErrorClass::kConfig, "AUTH", true},
    {"ERR wrong number of arguments for 'auth' command", ErrorClass::kConfig, "AUTH", true},
    {"ERR Protocol error: unauthenticated bulk length", ErrorClass::kConfig, "AUTH", true},
    {"ERR max number of clients reached", ErrorClass::kDestination, "MAX_CLIENTS", true},
    {"BUSYGROUP of a command that is not ours", ErrorClass::kDestination, "BUSYGROUP", false, true},
    {"BUSYKEY of a command that is not ours", ErrorClass::kDestination, "BUSYKEY", false, true},
    {"INPROG of a command that is not ours", ErrorClass::kDestination, "INPROG", false, true},
    {"INVALIDOBJ of a command that is not ours", ErrorClass::kDestination, "INVALIDOBJ", false, true},
    {"IOERR of a command that is not ours", ErrorClass::kDestination, "IOERR", false, true},
    {"NOGOODSLAVE of a command that is not ours", ErrorClass::kDestination, "NOGOODSLAVE", false, true},
    {"NOGROUP of a command that is not ours", ErrorClass::kDestination, "NOGROUP", false, true},
    {"NOMASTERLINK of a command that is not ours", ErrorClass::kDestination, "NOMASTERLINK", false, true},
    {"NOPROTO of a command that is not ours", ErrorClass::kDestination, "NOPROTO", false, true},
    {"NOQUORUM of a command that is not ours", ErrorClass::kDestination, "NOQUORUM", false, true},
    {"NOSUB of a command that is not ours", ErrorClass::kDestination, "NOSUB", false, true},
    {"NOTBUSY of a command that is not ours", ErrorClass::kDestination, "NOTBUSY", false, true},
    {"UNBLOCKED of a command that is not ours", ErrorClass::kDestination, "UNBLOCKED", false, true},
    {"UNKILLABLE of a command that is not ours", ErrorClass::kDestination, "UNKILLABLE", false, true},
    {"ERR something new", ErrorClass::kDestination, "ERR", false, true},
    {"SOMETHINGNEW happened", ErrorClass::kDestination, "REPLY", false, true},
    {"upstream failure", ErrorClass::kDestination, "REPLY", false, true},
    {"", ErrorClass::kDestination, "REPLY", false, true},
};

TEST(ReplyRules, EveryKnownReplyHasItsClass) {
  for (const Known& known : kKnown) {
    Error error = ReplyError(known.reply);
    EXPECT_EQ(error.error_class, known.error_class) << known.reply;
    EXPECT_EQ(error.code, known.code) << known.reply;
    EXPECT_EQ(NeedsReconnect(error), known.reconnect) << known.reply;
    EXPECT_EQ(IsCapped(error), known.capped) << known.reply;
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

TEST(ReplyRules, RowsOfOneCodeAgree) {
  for (const ReplyRule& a : ReplyRules()) {
    for (const ReplyRule& b : ReplyRules()) {
      if (std::string(a.code) == b.code) {
        EXPECT_EQ(a.reconnect, b.reconnect) << a.code;
        EXPECT_EQ(a.capped, b.capped) << a.code;
      }
    }
  }
}

// Events become dead letters for these alone; whatever is new is never one of them.
TEST(ReplyRules, FewRepliesAreTheMessages) {
  for (const ReplyRule& rule : ReplyRules()) {
    EXPECT_EQ(rule.error_class == ErrorClass::kMessage, std::string(rule.code) == "TOO_LARGE") << rule.code;
    EXPECT_TRUE(!rule.capped || rule.error_class == ErrorClass::kDestination) << rule.code;
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

TEST(ReplyRules, MessagesAreWellFormedWhateverTheServerSent) {
  EXPECT_EQ(ReplyError("ERR \xFF\xC3").message, "the Redis server said: ERR ??");
  std::string euros;
  for (int i = 0; i < 200; ++i) {
    euros += "\xE2\x82\xAC";
  }
  // Cut between characters: 300 bytes are "ERR " and 98 of them, and two bytes too few for another.
  EXPECT_EQ(ReplyError("ERR " + euros).message, "the Redis server said: ERR " + euros.substr(0, 98 * 3));
}

}  // namespace
}  // namespace outbox::sink
