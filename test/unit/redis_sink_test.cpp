// matrix: D9 D10 E-2 E-3 E-5 E-6 E-7 E-8 E-11
// RedisSink against a real server: order, refusals half-way, a full server, lost connections, forbidden transactions.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <random>

#include "redis_sink_fixture.h"
#include "sink/redis/admission.h"

namespace outbox::sink {
namespace {

TEST_F(RedisSinkTest, WritesTheFieldsOfTheWireTable) {
  BEGIN_OR_SKIP();
  std::string packed;
  Record record;
  record.topic = "s";
  record.key = "42";
  record.body = std::string_view("a\0\r\n$", 5);
  record.fields = {{"id", "0198"}, {"type", "order.created"}, {"h:x", ""}};
  ASSERT_TRUE(PackRecord(record, &packed));
  record.key = {};
  record.body = {};
  record.fields.resize(1);
  ASSERT_TRUE(PackRecord(record, &packed));
  record.body = "";
  ASSERT_TRUE(PackRecord(record, &packed));
  driver_->SubmitPacked(1, 0, 3, packed);
  ASSERT_TRUE(driver_->UntilResolved());
  auto entries = server_.Stream("s");
  EXPECT_EQ(entries[0], (std::vector<std::string>{"key", "42", "payload", std::string("a\0\r\n$", 5), "id", "0198",
                                                  "type", "order.created", "h:x", ""}));
  EXPECT_EQ(entries[1], (std::vector<std::string>{"id", "0198"}));
  EXPECT_EQ(entries[2], (std::vector<std::string>{"payload", "", "id", "0198"}));
}

TEST_F(RedisSinkTest, ManyStreamsEachInOrder) {
  BEGIN_OR_SKIP();
  std::mt19937 random(1);
  std::map<std::string, std::vector<std::string>> expected;
  for (int batch = 0; batch < 50; ++batch) {
    std::vector<TestRecord> records;
    for (int i = 0; i < 400; ++i) {
      std::string stream = "s" + std::to_string(random() % 30);
      std::string body = std::to_string(batch * 1000 + i);
      expected[stream].push_back(body);
      records.push_back(To(stream, "k", body));
    }
    driver_->Submit(static_cast<uint32_t>(batch % 3), 0, records);
    driver_->Turn(0);
  }
  ASSERT_TRUE(driver_->UntilResolved());
  EXPECT_EQ(driver_->Count(Outcome::kDelivered), 20000u);
  for (const auto& [stream, bodies] : expected) {
    EXPECT_EQ(Payloads(stream), bodies) << stream;
  }
}

TEST_F(RedisSinkTest, ARefusedRecordStopsItsFlowAndNothingElse) {
  BEGIN_OR_SKIP();
  server_.Command({"SET", "bad", "a string"});
  uint64_t one = driver_->Submit(1, 0, {To("a", "k", "1"), To("bad", "k", "2"), To("a", "k", "3")});
  uint64_t other = driver_->Submit(2, 0, {To("b", "k", "1"), To("b", "k", "2")});
  ASSERT_TRUE(driver_->UntilResolved());
  EXPECT_EQ(driver_->outcome(one + 1), Outcome::kFailed);
  EXPECT_EQ(driver_->error(one + 1).error_class, ErrorClass::kTopic);
  EXPECT_EQ(driver_->error(one + 1).code, "WRONGTYPE");
  EXPECT_EQ(driver_->outcome(other), Outcome::kDelivered);
  EXPECT_EQ(driver_->outcome(other + 1), Outcome::kDelivered);
  // The same epoch is over; the next one goes.
  uint64_t stale = driver_->Submit(1, 0, {To("a", "k", "stale")});
  uint64_t fresh = driver_->Submit(1, 1, {To("a", "k", "fresh")});
  ASSERT_TRUE(driver_->UntilResolved());
  EXPECT_EQ(driver_->outcome(stale), Outcome::kAborted);
  EXPECT_EQ(driver_->outcome(fresh), Outcome::kDelivered);
  EXPECT_EQ(Payloads("a").back(), "fresh");
  EXPECT_TRUE(sink_->health().up);
}

// Two flows share the stream that turns bad in the middle of a call's work: each flow fails at its own first record.
TEST_F(RedisSinkTest, FlowsThatShareAStreamFailEachForItself) {
  BEGIN_OR_SKIP();
  server_.Command({"SET", "bad", "a string"});
  uint64_t first = driver_->Submit(1, 0, {To("bad", "k", "1"), To("bad", "k", "2")});
  uint64_t second = driver_->Submit(2, 0, {To("bad", "k", "3"), To("bad", "k", "4")});
  ASSERT_TRUE(driver_->UntilResolved());
  EXPECT_EQ(driver_->outcome(first), Outcome::kFailed);
  EXPECT_EQ(driver_->outcome(first + 1), Outcome::kAborted);
  EXPECT_EQ(driver_->outcome(second), Outcome::kFailed);
  EXPECT_EQ(driver_->outcome(second + 1), Outcome::kAborted);
  EXPECT_TRUE(driver_->unsent(first + 1)) << "refused, too";
  EXPECT_TRUE(driver_->unsent(second + 1));
}

// As in ARefusedRecord..., but what is refused depends on size, so a plain pipeline would let small ones overtake.
// Resubmitting under higher epochs must bring everything in order, each record once at first.
TEST_F(RedisSinkTest, AFullServerReordersNothing) {
  BEGIN_OR_SKIP({}, {"--maxmemory", "4mb", "--maxmemory-policy", "noeviction"});
  std::vector<std::string> bodies;
  std::mt19937 random(2);
  for (int i = 0; i < 3000; ++i) {
    bodies.push_back(std::to_string(i) + ":" + std::string(random() % 4 == 0 ? 8000 : 10, 'x'));
  }
  size_t delivered = 0;
  uint32_t epoch = 0;
  bool refused = false;
  while (delivered < bodies.size()) {
    std::vector<TestRecord> records;
    for (size_t i = delivered; i < bodies.size(); ++i) {
      records.push_back(To("s", "k", bodies[i]));
    }
    uint64_t first = driver_->Submit(1, epoch++, records);
    ASSERT_TRUE(driver_->UntilResolved());
    size_t before = delivered;
    for (uint64_t seq = first; driver_->outcome(seq) == Outcome::kDelivered; ++seq) {
      ++delivered;
    }
    for (uint64_t seq = first + (delivered - before); seq < driver_->submitted(); ++seq) {
      ASSERT_NE(driver_->outcome(seq), Outcome::kDelivered) << "overtook a refused one";
    }
    if (delivered < bodies.size()) {
      uint64_t failed = first + (delivered - before);
      ASSERT_EQ(driver_->outcome(failed), Outcome::kFailed);
      EXPECT_EQ(driver_->error(failed).error_class, ErrorClass::kDestination);
      EXPECT_EQ(driver_->error(failed).code, "OOM");
      refused = true;
      server_.Command({"CONFIG", "SET", "maxmemory", "200mb"});
    }
  }
  EXPECT_TRUE(refused);
  EXPECT_EQ(Payloads("s"), bodies);
}

TEST_F(RedisSinkTest, AKilledConnectionAbortsAndComesBack) {
  BEGIN_OR_SKIP();
  driver_->Submit(1, 0, {To("s", "k", "0")});
  ASSERT_TRUE(driver_->UntilResolved());
  std::vector<TestRecord> records(2000, To("s", "k", "x"));
  driver_->Submit(1, 0, records);
  driver_->Turn(0);
  server_.Command({"CLIENT", "KILL", "TYPE", "normal", "SKIPME", "yes"});
  uint64_t changes = sink_->health().changes;
  ASSERT_TRUE(driver_->UntilResolved());
  EXPECT_GT(driver_->Count(Outcome::kAborted), 0u);
  EXPECT_EQ(driver_->Count(Outcome::kFailed), 0u) << "a lost connection is no record's fault";
  EXPECT_GT(sink_->health().changes, changes);
  driver_->Submit(1, 1, {To("s", "k", "after")});
  ASSERT_TRUE(driver_->UntilResolved());
  EXPECT_EQ(driver_->outcome(driver_->submitted() - 1), Outcome::kDelivered);
  EXPECT_TRUE(sink_->health().up);
}

TEST_F(RedisSinkTest, PlacesAreWhereTheEntriesAre) {
  BEGIN_OR_SKIP();
  for (int i = 0; i < 100; ++i) {
    driver_->Submit(1, 0, {To("a", "k", std::to_string(i)), To("b", "k", std::to_string(i))});
    driver_->Submit(2, 0, {To("list", "k", "x", RecordForm::kList), To("channel", "k", "x", RecordForm::kPublish)});
  }
  ASSERT_TRUE(driver_->UntilResolved());
  ASSERT_EQ(driver_->Count(Outcome::kDelivered), 400u);
  Places merged;
  for (const Place& place : driver_->places()) {
    merged.Add(place);
  }
  std::vector<Place> places;
  merged.Take(&places);
  ASSERT_EQ(places.size(), 4u);
  for (const Place& place : places) {
    EXPECT_EQ(place.partition, -1);
    if (place.flow == 2) {
      EXPECT_TRUE(place.topic == "list" || place.topic == "channel");
      EXPECT_EQ(place.first + place.last, "");
      continue;
    }
    EXPECT_EQ(place.first, Id({"XRANGE", place.topic, "-", "+", "COUNT", "1"})) << place.topic;
    EXPECT_EQ(place.last, Id({"XREVRANGE", place.topic, "+", "-", "COUNT", "1"})) << place.topic;
  }
}

TEST_F(RedisSinkTest, PlacesWithoutTransactionsToo) {
  BEGIN_OR_SKIP();
  server_.Command({"ACL", "SETUSER", "default", "-@transaction"});
  Connect();
  driver_->Submit(1, 0, {To("s", "a", "1"), To("s", "b", "2"), To("s", "c", "3")});
  ASSERT_TRUE(driver_->UntilResolved());
  Places merged;
  for (const Place& place : driver_->places()) {
    merged.Add(place);
  }
  std::vector<Place> places;
  merged.Take(&places);
  ASSERT_EQ(places.size(), 1u);
  EXPECT_EQ(places[0].first, Id({"XRANGE", "s", "-", "+", "COUNT", "1"}));
  EXPECT_EQ(places[0].last, Id({"XREVRANGE", "s", "+", "-", "COUNT", "1"}));
}

// Nothing is written to another life of the server before the owner has asked what it has still, and admitted it.
// A server that is busy has not said that it lacks nothing, and keeps its name for the moment only.
TEST_F(RedisSinkTest, AServerThatIsBusyIsAskedAgain) {
  checks_server_ = true;
  BEGIN_OR_SKIP({}, {"--lua-time-limit", "5"});
  server_.Command({"XADD", "s", "5-5", "a", "b"});
  driver_->Submit(1, 0, {To("s", "k", "1")});
  ASSERT_TRUE(UntilMet());
  KeepBusy();
  sink_->Ask({{"s", "5-5"}, {"gone", "1-1"}});
  std::vector<StreamEnd> ends;
  EXPECT_TRUE(driver_->Until([&] { return sink_->TakeEnds(&ends) || sink_->identity()->server_run.empty(); }));
  EXPECT_EQ(sink_->identity()->server_run, "") << "nothing is said of the streams: it is met again";
  EXPECT_EQ(sink_->health().error.code, "BUSY");
  EndBusy();
  ASSERT_TRUE(UntilMet());
  ends = Ends({{"s", "5-5"}, {"gone", "1-1"}});
  ASSERT_EQ(ends.size(), 2u);
  EXPECT_EQ(ends[0].lacking + ends[1].lacking, 1);
}

// One that was busy when it was asked for its history is asked again before anything is written to it.
TEST_F(RedisSinkTest, AHistoryThatWasNotToldIsAskedForAgain) {
  checks_server_ = true;
  BEGIN_OR_SKIP({}, {"--lua-time-limit", "5"});
  ASSERT_TRUE(UntilMet());
  sink_->Admit(sink_->identity()->server_run, false);
  KeepBusy();
  driver_->Submit(1, 0, {To("s", "k", "1")});
  ASSERT_TRUE(driver_->UntilResolved());
  EXPECT_EQ(driver_->Count(Outcome::kDelivered), 0u);
  EndBusy();
  BecomeReplicaForAMoment();
  driver_->Submit(1, 1, {To("s", "k", "1")});
  ASSERT_TRUE(driver_->Until([&] { return !sink_->identity()->server_run.empty() || driver_->resolved() == 2; }));
  EXPECT_NE(sink_->identity()->server_run, "") << "it may have lost something";
  EXPECT_EQ(server_.Integer({"XLEN", "s"}), 0);
}

// Its first replica changes the server's replication id, and nothing else: it is the run that it was.
TEST_F(RedisSinkTest, AServerThatGetsAReplicaWasNone) {
  checks_server_ = true;
  BEGIN_OR_SKIP();
  ASSERT_TRUE(UntilMet());
  sink_->Admit(sink_->identity()->server_run, false);
  driver_->Submit(1, 0, {To("s", "k", "1")});
  ASSERT_TRUE(driver_->UntilResolved());
  const uint64_t changes = sink_->health().changes;

  const std::string before = ReplicationId();
  busy_.reset(redisConnectUnix(server_.socket().c_str()));
  redisAppendCommand(busy_.get(), "SYNC");
  for (int done = 0; done == 0;) {
    ASSERT_EQ(redisBufferWrite(busy_.get(), &done), REDIS_OK);
  }
  ASSERT_TRUE(driver_->Until([&] { return ReplicationId() != before; }));
  const int64_t connections = Connections();
  driver_->Submit(1, 0, {To("s", "k", "2")});
  ASSERT_TRUE(driver_->UntilResolved());
  EXPECT_EQ(driver_->Count(Outcome::kDelivered), 2u);
  EXPECT_EQ(sink_->health().changes, changes) << sink_->health().error.message;

  // Nor is it another one to the next connection.
  server_.Command({"CLIENT", "KILL", "TYPE", "normal", "SKIPME", "yes"});
  ASSERT_TRUE(driver_->Until([&] { return Connections() > connections && sink_->health().up; }));
  EXPECT_EQ(sink_->identity()->server_run, "");
}

TEST_F(RedisSinkTest, RightsThatAreTakenAreMissedAtOnceAndUsedAgain) {
  checks_server_ = true;
  BEGIN_OR_SKIP();
  ASSERT_TRUE(UntilMet());
  sink_->Admit(sink_->identity()->server_run, false);
  server_.Command({"ACL", "SETUSER", "default", "-info"});
  driver_->Submit(1, 0, {To("s", "k", "1")});
  ASSERT_TRUE(driver_->Until([&] { return sink_->health().warning.code == "NO_LOSS_CHECK"; }, 5));
  ASSERT_TRUE(driver_->UntilResolved());
  EXPECT_EQ(driver_->Count(Outcome::kDelivered), 1u) << "events go on";
  EXPECT_TRUE(sink_->health().up);
  server_.Command({"ACL", "SETUSER", "default", "+info", "-xinfo"});
  EXPECT_FALSE(driver_->Until([&] { return sink_->health().warning.code != "NO_LOSS_CHECK"; }, 11)) << "one is missing";
  server_.Command({"ACL", "SETUSER", "default", "+xinfo"});
  ASSERT_TRUE(driver_->Until([&] { return sink_->health().warning.ok(); }, 30));
  BecomeReplicaForAMoment();
  driver_->Submit(1, 0, {To("s", "k", "2")});
  ASSERT_TRUE(driver_->Until([&] { return !sink_->identity()->server_run.empty(); })) << "it checks again";
}

// With nothing but that right gone, though all goes on over the connection that was checked.
TEST_F(RedisSinkTest, XinfoThatIsTakenIsMissed) {
  checks_server_ = true;
  BEGIN_OR_SKIP();
  ASSERT_TRUE(UntilMet());
  const std::string run = sink_->identity()->server_run;
  sink_->Admit(run, false);
  driver_->Submit(1, 0, {To("s", "k", "1")});
  ASSERT_TRUE(driver_->UntilResolved());
  server_.Command({"ACL", "SETUSER", "default", "-xinfo"});
  ASSERT_TRUE(driver_->Until([&] { return sink_->health().warning.code == "NO_LOSS_CHECK"; }, 60));
  EXPECT_TRUE(sink_->health().up);
  server_.Command({"ACL", "SETUSER", "default", "+xinfo"});
  ASSERT_TRUE(driver_->Until([&] { return sink_->health().warning.ok(); }, 60));
  EXPECT_EQ(sink_->identity()->server_run, "") << "that run has been asked";
}

// A run that would not tell has another name than the same one once it tells: it is met again then, and asked.
TEST_F(RedisSinkTest, ARunThatWouldNotTellIsMetAgainWhenItDoes) {
  checks_server_ = true;
  ASSERT_TRUE(server_.Start());
  server_.Command({"ACL", "SETUSER", "default", "-xinfo"});
  Connect();
  ASSERT_TRUE(UntilMet());
  const std::string untold = sink_->identity()->server_run;
  EXPECT_TRUE(untold.ends_with("?")) << untold;
  EXPECT_TRUE(Ends({{"s", "1-1"}}).empty());
  sink_->Admit(untold, false);
  driver_->Submit(1, 0, {To("s", "k", "1")});
  ASSERT_TRUE(driver_->UntilResolved());
  server_.Command({"CLIENT", "KILL", "TYPE", "normal", "SKIPME", "yes"});
  ASSERT_TRUE(driver_->Until([&] { return !sink_->health().up; }));
  ASSERT_TRUE(driver_->Until([&] { return sink_->health().up; })) << "the same run on another connection";
  server_.Command({"ACL", "SETUSER", "default", "+xinfo"});
  ASSERT_TRUE(driver_->Until([&] { return !sink_->identity()->server_run.empty(); }, 60));
  EXPECT_EQ(sink_->identity()->server_run + "?", untold);
  EXPECT_EQ(Ends({{"s", "1-1"}}).size(), 1u);
  // The right is gone between the greeting and the question.
  sink_->Admit(sink_->identity()->server_run, false);
  Connect();
  ASSERT_TRUE(UntilMet());
  server_.Command({"ACL", "SETUSER", "default", "-xinfo"});
  EXPECT_TRUE(Ends({{"s", "1-1"}}).empty());
  EXPECT_EQ(sink_->identity()->server_run, untold);
  sink_->Admit(untold, false);
  EXPECT_TRUE(sink_->health().up);
}

// A user may be let write to a stream and not read it: then nothing tells what is lost there.
TEST_F(RedisSinkTest, AStreamThatMayOnlyBeWrittenToIsUnchecked) {
  checks_server_ = true;
  ASSERT_TRUE(server_.Start());
  if (server_.Command({"ACL", "SETUSER", "writer", "on", ">pw", "+@all", "%W~s", "~t", "&*"})->type ==
      REDIS_REPLY_ERROR) {
    GTEST_SKIP() << "Redis before 7";
  }
  const auto unchecked = [&] { return sink_->health().warning.code == "NO_LOSS_CHECK"; };
  Connect({{"username", "writer"}, {"password", "pw"}});
  ASSERT_TRUE(UntilMet());
  EXPECT_TRUE(Ends({{"t", "1-1"}}).size() == 1);
  sink_->Admit(sink_->identity()->server_run, false);
  driver_->Submit(1, 0, {To("t", "k", "1")});
  ASSERT_TRUE(driver_->UntilResolved());
  EXPECT_FALSE(driver_->Until(unchecked, 1)) << "what it may read is no trouble";
  // The first stream of a life that may not be read, in the answers to what is asked,
  Connect({{"username", "writer"}, {"password", "pw"}});
  ASSERT_TRUE(UntilMet());
  EXPECT_TRUE(Ends({{"s", "1-1"}}).empty());
  sink_->Admit(sink_->identity()->server_run, false);
  driver_->Submit(1, 0, {To("t", "k", "2")});
  EXPECT_TRUE(driver_->Until(unchecked, 5));
  // or as soon as it is written to.
  Connect({{"username", "writer"}, {"password", "pw"}});
  ASSERT_TRUE(UntilMet());
  sink_->Admit(sink_->identity()->server_run, false);
  driver_->Submit(1, 0, {To("s", "k", "1")});
  ASSERT_TRUE(driver_->Until(unchecked, 5));
  const std::string message = sink_->health().warning.message;
  EXPECT_NE(message.find("may not read stream \"s\""), std::string::npos) << message;
  EXPECT_NE(message.find("ACL SETUSER ... %R~s"), std::string::npos) << message;
  EXPECT_FALSE(driver_->Until([&] { return !unchecked(); }, 11)) << "it is so still";
  server_.Command({"ACL", "SETUSER", "writer", "%R~s"});
  EXPECT_TRUE(driver_->Until([&] { return sink_->health().warning.ok(); }, 30)) << "as is said there";
}

// Runs are known by the address for as long as they are kept, so these never change.
TEST(RedisAddressTest, IsWhatTheOptionsComeToHoweverTheyAreWritten) {
  const auto address = [](const Options& options) {
    SinkConfig config;
    config.options = options;
    config.checks_server = true;
    Admission admission(config);
    ServerInfo info;
    info.run_id = "run";
    EXPECT_FALSE(admission.Meet(info, true));
    return admission.identity().server_run.substr(0, 8);
  };
  EXPECT_EQ(address({{"host", "redis"}, {"port", "6379"}}), "99bb7a39");
  EXPECT_EQ(address({{"host", "redis"}}), "99bb7a39");
  EXPECT_EQ(address({{"host", "redis"}, {"port", "6379"}, {"db", "0"}}), "99bb7a39");
  EXPECT_EQ(address({{"host", "redis"}, {"port", "6379"}, {"db", "2"}}), "e6d6f0fc");
  EXPECT_EQ(address({{"host", "localhost"}, {"port", "6379"}}), "d31b9af0");
  EXPECT_EQ(address({}), "d31b9af0");
  EXPECT_EQ(address({{"db", "0"}}), "d31b9af0");
  EXPECT_EQ(address({{"port", "6379"}}), "d31b9af0");
  EXPECT_EQ(address({{"unix_socket", "/run/redis.sock"}}), "055ee07f");
  EXPECT_EQ(address({{"unix_socket", "/run/redis.sock"}, {"host", "unused"}, {"db", "0"}}), "055ee07f");
}

TEST_F(RedisSinkTest, AnotherLifeOfTheServerIsMetFirst) {
  checks_server_ = true;
  BEGIN_OR_SKIP({}, {"--appendonly", "yes", "--appendfsync", "always"});
  driver_->Submit(1, 0, {To("s", "k", "1")});
  ASSERT_TRUE(UntilMet());
  const std::string first = sink_->identity()->server_run;
  EXPECT_TRUE(Ends({}).empty());
  EXPECT_FALSE(driver_->Until([&] { return driver_->Count(Outcome::kDelivered) > 0; }, 0.1));
  sink_->Admit("somebody else", false);
  EXPECT_EQ(sink_->identity()->server_run, first);
  sink_->Admit(first, false);
  ASSERT_TRUE(driver_->UntilResolved());
  EXPECT_EQ(driver_->Count(Outcome::kDelivered), 1u);
  driver_->Submit(1, 0, {To("t", "k", "1")});
  ASSERT_TRUE(driver_->UntilResolved());
  const std::string last = Id({"XREVRANGE", "s", "+", "-", "COUNT", "1"});
  server_.Command({"XADD", "trimmed", "9-9", "a", "b"});
  server_.Command({"XTRIM", "trimmed", "MAXLEN", "0"});

  // The same life on another connection: no meeting.
  server_.Command({"CLIENT", "KILL", "TYPE", "normal", "SKIPME", "yes"});
  ASSERT_TRUE(driver_->Until([&] { return !sink_->health().up; }));
  ASSERT_TRUE(driver_->Until([&] { return sink_->health().up; }));
  EXPECT_EQ(sink_->identity()->server_run, "");

  // Another one that has all.
  server_.Stop();
  ASSERT_TRUE(driver_->Until([&] { return !sink_->health().up; }));
  ASSERT_TRUE(server_.Start({"--appendonly", "yes", "--appendfsync", "always"}));
  ASSERT_TRUE(UntilMet());
  EXPECT_NE(sink_->identity()->server_run, first);
  EXPECT_EQ(sink_->identity()->server_run.substr(0, 9), first.substr(0, 9)) << "the same address";
  server_.Command({"SET", "string", "x"});
  const std::vector<StreamEnd> ends = Ends({{"s", last}, {"none", "1-1"}, {"string", "1-1"}, {"trimmed", "9-9"}});
  ASSERT_EQ(ends.size(), 3u) << "what it does not tell is left out";
  EXPECT_EQ(ends[0].stream + " " + ends[0].last, "s " + last);
  EXPECT_EQ(ends[1].stream + " " + ends[1].last, "none ");
  EXPECT_EQ(ends[2].stream + " " + ends[2].last, "trimmed 9-9") << "trimming forgets no id";
  EXPECT_FALSE(sink_->health().up);
  const uint64_t waits = driver_->Submit(1, 1, {To("s", "k", "2")});
  driver_->Turn();
  sink_->Admit(sink_->identity()->server_run, true);
  EXPECT_TRUE(sink_->health().up);
  ASSERT_TRUE(driver_->UntilResolved());
  EXPECT_EQ(driver_->outcome(waits), Outcome::kAborted);
  driver_->Submit(1, 2, {To("s", "k", "2")});
  ASSERT_TRUE(driver_->UntilResolved());
  EXPECT_EQ(driver_->Count(Outcome::kDelivered), 3u);
  EXPECT_EQ(Payloads("s"), (std::vector<std::string>{"1", "2"}));

  // It dies while it is met, and once more after it was asked.
  for (const bool asked : {false, true}) {
    server_.Stop();
    ASSERT_TRUE(driver_->Until([&] { return !sink_->health().up; }));
    ASSERT_TRUE(server_.Start({"--appendonly", "yes", "--appendfsync", "always"}));
    ASSERT_TRUE(UntilMet());
    if (asked) {
      sink_->Ask({{"s", "1-1"}});
    }
    server_.Stop();
    ASSERT_TRUE(driver_->Until([&] { return sink_->identity()->server_run.empty(); }));
    std::vector<StreamEnd> none;
    EXPECT_FALSE(sink_->TakeEnds(&none));
    ASSERT_TRUE(server_.Start({"--appendonly", "yes", "--appendfsync", "always"}));
    ASSERT_TRUE(UntilMet());
    EXPECT_EQ(Ends({{"s", "1-1"}}).size(), 1u);
    sink_->Admit(sink_->identity()->server_run, false);
    ASSERT_TRUE(driver_->Until([&] { return sink_->health().up; }));
  }
}

// What is there of an entry that was acknowledged, when others have written to its stream since.
TEST_F(RedisSinkTest, ItIsToldWhetherAnEntryIsThereThoughTheStreamGoesOn) {
  checks_server_ = true;
  BEGIN_OR_SKIP();
  ASSERT_TRUE(UntilMet());
  const std::string now =
      std::to_string(std::stoll(server_.Command({"TIME"})->element[0]->str) * 1000);  // in this second the server began
  const auto add = [&](const char* stream, const char* id) { server_.Command({"XADD", stream, id, "f", "v"}); };
  for (const char* stream : {"there", "older", "trimmed", "deleted", "emptied"}) {
    add(stream, "1-0");
    add(stream, "2-0");
  }
  add("remade", "3-0");  // by the process before, without what was there
  add("lost", "1-0");
  server_.Command({"XTRIM", "trimmed", "MAXLEN", "0"});
  server_.Command({"XDEL", "deleted", "2-0"});
  server_.Command({"XDEL", "emptied", "1-0"});
  server_.Command({"XDEL", "emptied", "2-0"});
  for (const char* stream : {"there", "trimmed", "deleted", "emptied", "remade", "lost", "new"}) {
    server_.Command({"XADD", stream, "*", "f", "v"});
  }
  struct Case {
    const char* stream;
    const char* kept;
    bool lacking;
    bool by_counts = false;  // Redis before 7 keeps none of what was added and deleted, and cannot tell
    bool lost = false;       // nor can it here
  };
  const Case cases[] = {{"there", "2-0", false},
                        {"older", "2-0", false},
                        {"trimmed", "", false},
                        {"deleted", "1-0", false, true},
                        {"emptied", "", false},
                        {"remade", "3-0", false, true},
                        {"lost", "1-0", true, false, true},
                        {"new", "", true, true},
                        {"none", "", true},
                        {"ended", "1-0", true, false, true},
                        {"group", "0-0", true}};
  server_.Command({"XADD", "ended", "1-0", "f", "v"});
  server_.Command({"XGROUP", "CREATE", "group", "g", "$", "MKSTREAM"});
  const RedisServer::Reply about = server_.Command({"XINFO", "STREAM", "there"});
  bool counts = false;
  for (size_t i = 0; i < about->elements; i += 2) {
    counts |= std::string_view(about->element[i]->str) == "entries-added";
  }
  std::vector<AskedStream> asked;
  for (const Case& one : cases) {
    asked.push_back({one.stream, "2-0"});
  }
  std::vector<StreamEnd> ends = Ends(asked);
  ASSERT_EQ(ends.size(), std::size(cases));
  for (const Case& one : cases) {
    const auto end = std::find_if(ends.begin(), ends.end(), [&](const StreamEnd& e) { return e.stream == one.stream; });
    ASSERT_NE(end, ends.end()) << one.stream;
    EXPECT_EQ(end->acknowledged, "2-0");
    if (counts || !one.by_counts) {
      EXPECT_EQ(end->kept, one.kept) << one.stream;
      EXPECT_EQ(end->lacking, one.lacking) << one.stream;
      EXPECT_EQ(end->lost, one.lost && (counts || one.stream == std::string_view("ended"))) << one.stream;
    }
  }

  // A process that is older than the entry, a replica that took over: what is there is there, and so is all before.
  // What is younger may be somebody's who has written since, and tells nothing of what another stream lacks.
  const std::string late = std::to_string(std::stoll(now) + 3'600'000) + "-0";
  const std::string later = std::to_string(std::stoll(now) + 3'600'001) + "-0";
  const std::string before = std::to_string(std::stoll(now) + 3'599'999) + "-0";
  add("over", before.c_str());
  add("over", later.c_str());
  add("short", "1-0");
  add("short", later.c_str());
  ends = Ends({{"over", before}, {"short", late}});
  ASSERT_EQ(ends.size(), 2u);
  EXPECT_EQ(ends[0].kept, before);
  EXPECT_FALSE(ends[0].lacking);
  EXPECT_EQ(ends[1].kept, "1-0");
  EXPECT_TRUE(ends[1].lacking);
  EXPECT_EQ(Survived(ends), before) << "what is younger than that is lost";
  add("whole", late.c_str());
  add("whole", later.c_str());
  ends = Ends({{"over", before}, {"whole", late}});
  EXPECT_EQ(Survived(ends), later) << "nothing is";
}

// No proxy keeps anything back.
TEST_F(RedisSinkTest, WhatIsNoStreamAnyMoreIsToldAsThat) {
  checks_server_ = true;
  BEGIN_OR_SKIP();
  driver_->Submit(1, 0, {To("s", "k", "1")});
  ASSERT_TRUE(UntilMet());
  server_.Command({"SET", "string", "x"});
  EXPECT_TRUE(Ends({{"string", "1-1"}}).empty());
  EXPECT_EQ(sink_->health().warning.code, "NO_LOSS_CHECK");
  const std::string& told = sink_->health().warning.message;
  EXPECT_TRUE(told.starts_with("what is at \"string\" is no stream any more: ")) << told;
  EXPECT_TRUE(told.ends_with("give that another name (RENAME)")) << told;
}

// The server would walk over all that is there, from the end on, to find nothing.
TEST_F(RedisSinkTest, AStreamIsNotAskedForWhatIsOlderThanItsFirstEntry) {
  checks_server_ = true;
  BEGIN_OR_SKIP();
  ASSERT_TRUE(UntilMet());
  const auto asked = [&] {
    const std::string info = server_.Command({"INFO", "commandstats"})->str;
    const size_t at = info.find("cmdstat_xrevrange:calls=");
    return at == std::string::npos ? 0 : std::stoi(info.substr(at + strlen("cmdstat_xrevrange:calls=")));
  };
  const auto add = [&](const char* stream, const char* id) { server_.Command({"XADD", stream, id, "f", "v"}); };
  add("trimmed", "1-0");
  server_.Command({"XTRIM", "trimmed", "MAXLEN", "0"});
  add("trimmed", "3-0");  // older than the server's process
  add("trimmed", "*");
  add("young", "*");
  add("young", "*");
  std::vector<StreamEnd> ends = Ends({{"trimmed", "2-0"}, {"young", "2-0"}});
  ASSERT_EQ(ends.size(), 2u);
  EXPECT_EQ(asked(), 1) << "where trimmed ended when the server began, which is not before its first";
  EXPECT_EQ(ends[0].stream + " " + ends[0].kept, "trimmed 3-0");
  EXPECT_EQ(ends[1].stream + " " + ends[1].kept, "young ");

  // The entry itself is the first.
  add("first", "2-0");
  add("first", "*");
  ends = Ends({{"first", "2-0"}});
  ASSERT_EQ(ends.size(), 1u);
  EXPECT_EQ(ends[0].kept, "2-0");
  EXPECT_FALSE(ends[0].lacking);
  EXPECT_EQ(asked(), 3);
}

// A server that does not tell who it is is taken for the same.
TEST_F(RedisSinkTest, AServerThatKeepsItsNameToItselfIsNotMet) {
  checks_server_ = true;
  BEGIN_OR_SKIP();
  server_.Command({"ACL", "SETUSER", "default", "-info"});
  Connect();
  driver_->Submit(1, 0, {To("s", "k", "1")});
  ASSERT_TRUE(driver_->UntilResolved());
  EXPECT_EQ(driver_->Count(Outcome::kDelivered), 1u);
}

TEST_F(RedisSinkTest, WrongCredentialsAreConfigurationAndHeal) {
  BEGIN_OR_SKIP();
  server_.Command({"ACL", "SETUSER", "writer", "on", ">right", "~*", "+@all"});
  Connect({{"username", "writer"}, {"password", "wrong"}});
  uint64_t record = driver_->Submit(1, 0, {To("s", "k", "1")});
  ASSERT_TRUE(driver_->UntilResolved());
  EXPECT_EQ(driver_->outcome(record), Outcome::kAborted);
  EXPECT_EQ(sink_->health().error.error_class, ErrorClass::kConfig);
  EXPECT_EQ(sink_->health().error.code, "WRONGPASS");
  EXPECT_EQ(sink_->health().error.message.find("wrong"), std::string::npos) << "no secret in messages";
  server_.Command({"ACL", "SETUSER", "writer", "resetpass", ">wrong"});
  ASSERT_TRUE(driver_->Until([&] { return sink_->health().up; }));
}

TEST_F(RedisSinkTest, ListsAndChannels) {
  BEGIN_OR_SKIP();
  std::vector<TestRecord> records;
  for (int i = 0; i < 1500; ++i) {
    records.push_back(To("list", "k", std::to_string(i), RecordForm::kList));
    records.push_back(To("channel", "k", std::to_string(i), RecordForm::kPublish));
  }
  driver_->Submit(1, 0, records);
  ASSERT_TRUE(driver_->UntilResolved());
  EXPECT_EQ(driver_->Count(Outcome::kDelivered), 3000u);
  RedisServer::Reply list = server_.Command({"LRANGE", "list", "0", "-1"});
  ASSERT_EQ(list->elements, 1500u);
  for (size_t i = 0; i < list->elements; ++i) {
    EXPECT_EQ(list->element[i]->str, std::to_string(i));
  }
  uint64_t wrong = driver_->Submit(1, 0, {To("list", "k", "x")});
  ASSERT_TRUE(driver_->UntilResolved());
  EXPECT_EQ(driver_->error(wrong).code, "WRONGTYPE");
}

TEST_F(RedisSinkTest, ARecordOfThousandsOfFieldsBetweenOthers) {
  BEGIN_OR_SKIP();
  TestRecord wide = To("s", "k", "wide");
  for (int i = 0; i < 5000; ++i) {
    wide.fields.emplace_back("h:" + std::to_string(i), "v");
  }
  driver_->Submit(1, 0, {To("s", "k", "before"), wide, To("s", "k", "after")});
  ASSERT_TRUE(driver_->UntilResolved());
  EXPECT_EQ(Payloads("s"), (std::vector<std::string>{"before", "wide", "after"}));
}

TEST_F(RedisSinkTest, DatabaseAndMaxlen) {
  BEGIN_OR_SKIP({{"db", "3"}, {"maxlen", "1000"}});
  std::vector<TestRecord> records(20000, To("s", "k", "x"));
  driver_->Submit(1, 0, records);
  ASSERT_TRUE(driver_->UntilResolved());
  EXPECT_EQ(server_.Integer({"EXISTS", "s"}), 0);
  server_.Command({"SELECT", "3"});
  int64_t length = server_.Integer({"XLEN", "s"});
  EXPECT_GE(length, 1000);
  EXPECT_LT(length, 2000);
}

TEST_F(RedisSinkTest, ADatabaseThatDoesNotExistIsConfiguration) {
  BEGIN_OR_SKIP({{"db", "99"}});
  ASSERT_TRUE(driver_->Until([&] { return !sink_->health().up; }));
  EXPECT_EQ(sink_->health().error.error_class, ErrorClass::kConfig);
  EXPECT_EQ(sink_->health().error.code, "DB_INDEX");
}

TEST_F(RedisSinkTest, MalformedAndEmptyRecordsFailAlone) {
  BEGIN_OR_SKIP();
  std::string packed;
  Record empty;
  empty.topic = "s";
  ASSERT_TRUE(PackRecord(empty, &packed));
  uint64_t nothing = driver_->SubmitPacked(1, 0, 1, packed);
  packed.clear();
  Pack(To("s", "k", "good"), &packed);
  uint64_t good = driver_->SubmitPacked(2, 0, 3, packed + "rubbish");
  ASSERT_TRUE(driver_->UntilResolved());
  EXPECT_EQ(driver_->error(nothing).code, "EMPTY_RECORD");
  EXPECT_EQ(driver_->error(nothing).error_class, ErrorClass::kMessage);
  EXPECT_EQ(driver_->outcome(good), Outcome::kDelivered);
  EXPECT_EQ(driver_->error(good + 1).code, "BAD_RECORD");
  EXPECT_EQ(driver_->outcome(good + 2), Outcome::kAborted);
}

TEST_F(RedisSinkTest, ATcpServerThatIsNotThere) {
  SinkConfig config{"test", {{"host", "127.0.0.1"}, {"port", "1"}}, 0, 0};
  ASSERT_TRUE(RedisSink::Make(config, &sink_).ok());
  driver_ = std::make_unique<Driver>(sink_.get());
  uint64_t record = driver_->Submit(1, 0, {To("s", "k", "1")});
  ASSERT_TRUE(driver_->UntilResolved());
  EXPECT_EQ(driver_->outcome(record), Outcome::kAborted);
  EXPECT_EQ(sink_->health().error.code, "CONNECT");
  EXPECT_NE(sink_->health().error.message.find("127.0.0.1:1"), std::string::npos);
}

TEST_F(RedisSinkTest, ManyShortLivedStreamsAreForgotten) {
  BEGIN_OR_SKIP();
  std::vector<TestRecord> records;
  for (int i = 0; i < 20000; ++i) {
    records.push_back(To("s" + std::to_string(i), "k", "x"));
  }
  driver_->Submit(1, 0, records);
  ASSERT_TRUE(driver_->UntilResolved());
  EXPECT_EQ(driver_->Count(Outcome::kDelivered), 20000u);
  EXPECT_EQ(server_.Integer({"DBSIZE"}), 20000);
}

}  // namespace
}  // namespace outbox::sink
