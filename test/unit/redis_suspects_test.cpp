// matrix: E-2
// Records at which a Redis closes the connection: found, and no others blamed.
#include <gtest/gtest.h>

#include <memory>
#include <span>
#include <string>
#include <vector>

#include "redis_sink_fixture.h"
#include "sink/redis/suspects.h"
#include "slow_link.h"

namespace outbox::sink {
namespace {

class RedisSuspectsTest : public RedisSinkTest {
 protected:
  // False: there is no server.
  bool BeginBehindLink(const char* multi) {
    link_.reset();
    server_.Stop();
    if (!Begin()) {
      return false;
    }
    server_.Command({"ACL", "SETUSER", "default", multi});
    const int port = FreePort();
    link_ = std::make_unique<SlowLink>(port, server_.socket());
    return Connect({{"unix_socket", ""}, {"host", "127.0.0.1"}, {"port", std::to_string(port)}});
  }

  std::unique_ptr<SlowLink> link_;
};

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
TEST_F(RedisSuspectsTest, ARecordAtWhichTheServerHangsUpIsRefused) {
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
TEST_F(RedisSuspectsTest, RecordsInARowAtWhichTheServerHangsUpAreRefused) {
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
TEST_F(RedisSuspectsTest, ARecordAtWhichTheServerHangsUpIsFoundAmongMany) {
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
TEST_F(RedisSuspectsTest, ALostConnectionCostsFewRoundTrips) {
  for (const char* right : {"+multi", "-multi"}) {
    OR_SKIP(BeginBehindLink(right));
    link_->HangUpAt("XADD");
    const std::vector<TestRecord> records = ManyKeys(500);
    driver_->Submit(1, 0, records);
    ASSERT_TRUE(driver_->UntilResolved(60));
    ASSERT_EQ(driver_->Count(Outcome::kAborted), records.size()) << right;
    link_->HangUpAt(nullptr);
    const int before = link_->moves();
    driver_->Submit(1, 1, records);
    ASSERT_TRUE(driver_->UntilResolved(120));
    EXPECT_EQ(driver_->Count(Outcome::kDelivered), records.size()) << right;
    EXPECT_LT(link_->moves() - before, 250) << right << ": alone they are 500 at least";
    EXPECT_EQ(Payloads("s"), Numbers(500)) << right;
  }
}

// It answers whatever the greeting asks, but writes are paused behind a proxy, or it lets none through.
TEST_F(RedisSuspectsTest, NoRecordIsToBlameWhereNoWriteGetsThrough) {
  for (const char* right : {"+multi", "-multi"}) {
    OR_SKIP(BeginBehindLink(right));
    link_->HangUpAt("XADD");
    for (uint32_t epoch = 0; epoch < 7; ++epoch) {
      const uint64_t record = driver_->Submit(1, epoch, {To("s", "k", "1")});
      ASSERT_TRUE(driver_->UntilResolved(60));
      ASSERT_EQ(driver_->outcome(record), Outcome::kAborted) << right << epoch;
    }
    EXPECT_GE(link_->connections(), 7);
    link_->HangUpAt(nullptr);
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

}  // namespace
}  // namespace outbox::sink
