// matrix: S3 D19
// Pauses of routes and topics, and more topics in trouble than there are side lanes.
#include "relay_sides_fixture.h"

namespace outbox::relay {
namespace {

format::RouteConfig PausedRoute() {
  format::RouteConfig config;
  config.paused = true;
  config.pause_reason = "maintenance";
  return config;
}

format::RouteConfig PausedTopics(std::vector<std::string> topics) {
  format::RouteConfig config;
  config.paused_topics = std::move(topics);
  return config;
}

// --- a route -----------------------------------------------------------------------------------------------------

TEST_F(SidesTest, APausedRouteReadsAndSendsNothingButAwaitsWhatIsUnderWay) {
  Emit("a");
  Emit("a");
  Turn();
  SetSpec(PausedRoute());
  Emit("a");
  Turn(true, 1);
  EXPECT_EQ(State(), "paused");
  EXPECT_EQ(sink->pending.size(), 2u);
  sink->DeliverAll();
  const int reads = server.calls["OpenWindow"];
  RunUntil(clock.now + 60'000'000);
  EXPECT_EQ(State(), "paused");
  EXPECT_EQ(server.calls["OpenWindow"], reads);
  EXPECT_EQ(broker.log.size(), 2u);
  EXPECT_GT(server.saves.size(), 0u);  // what was delivered is saved
  EXPECT_EQ(Status().barrier_done, 0u);
  SetSpec({});
  AnswerByItself();
  RunUntil(clock.now + 1'000'000);
  EXPECT_EQ(broker.Order(), AllRows());
  EXPECT_EQ(Status().barrier_done, 1u);
}

TEST_F(SidesTest, APausedRouteAwaitsNoStandby) {
  AnswerByItself();
  server.synchronous = false;
  Emit("a");
  RunUntil(clock.now + 10'000'000);
  ASSERT_NE(Status().error, nullptr);
  EXPECT_EQ(Status().error->code, "NO_STANDBY");
  SetSpec(PausedRoute());
  RunUntil(clock.now + 1'000'000);
  EXPECT_EQ(Status().error, nullptr);  // it says of none whether it is there by now
  EXPECT_EQ(State(), "paused");
  SetSpec({});
  RunUntil(clock.now + 1'000'000);
  EXPECT_EQ(Status().error, nullptr);  // not at once: it has a moment to come
  RunUntil(clock.now + 10'000'000);
  ASSERT_NE(Status().error, nullptr);
  EXPECT_EQ(Status().error->code, "NO_STANDBY");
  server.flushed = server.lsn;
  RunUntil(clock.now + 1'000'000);
  EXPECT_EQ(Status().error, nullptr);
  EXPECT_EQ(broker.Order(), AllRows());
}

TEST_F(SidesTest, WhatFailsDuringAPauseIsSentAfterIt) {
  Emit("a");
  Turn();
  SetSpec(PausedRoute());
  sink->Abort(sink->pending[0].flow, 0);
  RunUntil(clock.now + 10'000'000);
  EXPECT_EQ(State(), "paused");
  EXPECT_TRUE(sink->pending.empty());
  SetSpec({});
  AnswerByItself();
  RunUntil(clock.now + 1'000'000);
  EXPECT_EQ(broker.Order(), AllRows());
}

TEST_F(SidesTest, ARouteIsPausedFromTheStartAndInTrouble) {
  spec = fakes::Spec(PausedRoute());
  Restart();
  AnswerByItself();
  Emit("a");
  RunUntil(10'000'000);
  EXPECT_EQ(State(), "paused");
  EXPECT_TRUE(broker.log.empty());
  SetSpec({});
  sink->on_poll = nullptr;
  RunUntil(clock.now + 10'000);
  sink->Fail(0, ErrorClass::kDestination);
  Turn();
  EXPECT_EQ(State(), "backing off");
  SetSpec(PausedRoute());
  EXPECT_EQ(State(), "paused");
  RunUntil(clock.now + 60'000'000);
  EXPECT_TRUE(sink->pending.empty());
}

TEST_F(SidesTest, SideLanesPauseWithTheRoute) {
  AnswerByItself();
  bad = {"b"};
  Emit("b");
  RunUntil(1'000'000);
  SetSpec(PausedRoute());
  Turn();
  const size_t before = refusals.size();
  RunUntil(clock.now + 60'000'000);
  EXPECT_EQ(refusals.size(), before);
  EXPECT_STREQ(LaneStateName(Side(1)->state), "paused");
  bad.clear();
  SetSpec({});
  RunUntil(clock.now + 60'000'000);
  EXPECT_EQ(broker.Order(), AllRows());
  EXPECT_TRUE(server.sides.empty());
}

// --- topics ------------------------------------------------------------------------------------------------------

TEST_F(SidesTest, APausedTopicLeavesWhenWhatIsUnderWayIsDone) {
  Emit("a");
  Emit("b");
  Turn();
  SetSpec(PausedTopics({"b"}));
  Emit("b");
  Emit("a");
  Turn(true);
  EXPECT_EQ(State(), "draining");
  EXPECT_TRUE(server.sides.empty());
  AnswerByItself();
  RunUntil(clock.now + 60'000'000);
  EXPECT_EQ(Written("a"), Rows("a"));
  EXPECT_EQ(Written("b").size(), 1u);  // that was in flight
  ASSERT_EQ(server.sides.size(), 1u);
  EXPECT_EQ(server.sides.at(1).record.topics.at(0).error.code, "PAUSED");
  EXPECT_STREQ(LaneStateName(Side(1)->state), "paused");
  EXPECT_TRUE(forked.empty());
  // It survives a restart, and is not tried.
  Restart();
  AnswerByItself();
  Emit("b");
  RunUntil(clock.now + 60'000'000);
  EXPECT_STREQ(LaneStateName(Side(1)->state), "paused");
  EXPECT_EQ(Written("b").size(), 1u);
  SetSpec({});
  RunUntil(clock.now + 60'000'000);
  EXPECT_EQ(Written("b"), Rows("b"));
  EXPECT_TRUE(server.sides.empty());
}

TEST_F(SidesTest, TopicsPausedFromTheStartAreNeverSent) {
  spec = fakes::Spec(PausedTopics({"b", "outbox.event.order"}));
  Restart();
  AnswerByItself();
  Emit("b");
  Emit("");  // the route's own template
  Emit("a");
  RunUntil(60'000'000);
  EXPECT_EQ(broker.Order(), (std::vector<int64_t>{server.rows[2].created_at}));
  EXPECT_EQ(server.sides.size(), 2u);
  SetSpec(PausedTopics({"b"}));
  RunUntil(clock.now + 60'000'000);
  EXPECT_EQ(broker.log.size(), 2u);
  EXPECT_EQ(broker.log[1].topic, "outbox.event.order");
  EXPECT_EQ(server.sides.size(), 1u);
}

TEST_F(SidesTest, APauseThatIsTakenBackBeforeItBeganForksNothing) {
  Emit("b");
  Turn();
  SetSpec(PausedTopics({"b"}));
  EXPECT_EQ(State(), "draining");
  SetSpec({});
  sink->DeliverAll();
  RunUntil(clock.now + 1'000'000);
  EXPECT_TRUE(server.sides.empty());
  EXPECT_EQ(State(), "idle");
}

TEST_F(SidesTest, ATopicInTroubleThatIsPausedIsNotTriedUntilItIsResumed) {
  AnswerByItself();
  bad = {"b"};
  Emit("b");
  RunUntil(10'000'000);
  SetSpec(PausedTopics({"b"}));
  EXPECT_STREQ(LaneStateName(Side(1)->state), "paused");
  const size_t before = refusals.size();
  RunUntil(clock.now + 120'000'000);
  EXPECT_EQ(refusals.size(), before);
  SetSpec({});
  RunUntil(clock.now + 60'000'000);
  EXPECT_GT(refusals.size(), before);
}

// --- a route that is changed -------------------------------------------------------------------------------------

TEST_F(SidesTest, ANewTopicTemplateMovesNoEventFromOneReaderToAnother) {
  AnswerByItself();
  bad = {"outbox.event.order"};
  Emit("", "x");
  Emit("", "y");
  Emit("a", "x");
  RunUntil(10'000'000);
  ASSERT_EQ(server.sides.size(), 1u);
  EXPECT_EQ(server.sides.at(1).record.topic_template, "outbox.event.{aggregate_type}");
  format::RouteConfig config;
  config.topic = "new";
  SetSpec(config);
  Emit("", "x");
  Restart();  // and the new one is all that the next worker knows
  AnswerByItself();
  Emit("", "y");
  RunUntil(clock.now + 120'000'000);
  EXPECT_EQ(Written("new").size(), 4u);
  EXPECT_EQ(broker.log.size(), server.rows.size());
  EXPECT_TRUE(server.sides.empty());
  const std::vector<int64_t> order = Written("new");
  EXPECT_TRUE(std::is_sorted(order.begin(), order.end()));
}

format::RouteConfig Renamed(std::vector<std::string> paused) {
  format::RouteConfig config = PausedTopics(std::move(paused));
  config.topic = "new";
  return config;
}

// Readers are told apart by the former template for as long as "a" is away; what is paused is a name that is sent to.
TEST_F(SidesTest, APauseHoldsWhatGoesToATopicUnderANewTemplate) {
  AnswerByItself();
  SetSpec(PausedTopics({"a"}));
  Emit("a");
  RunUntil(1'000'000);
  SetSpec(Renamed({"a"}));
  SetSpec(Renamed({"a", "new"}));
  RunUntil(clock.now + 1'000'000);
  EXPECT_EQ(server.sides.size(), 1u) << "no event of the former template has that name";
  for (const char* key : {"x", "y", "x"}) {
    Emit("", key);
  }
  Emit("b");
  RunUntil(clock.now + 60'000'000);
  EXPECT_TRUE(Written("new").empty());
  EXPECT_EQ(Written("b"), Rows("b"));
  ASSERT_EQ(server.sides.size(), 2u);
  EXPECT_STREQ(LaneStateName(Side(2)->state), "paused");
  Restart();
  AnswerByItself();
  SetSpec(Renamed({"a", "new"}));
  Emit("", "y");
  Emit("b");
  RunUntil(clock.now + 60'000'000);
  EXPECT_TRUE(Written("new").empty());
  EXPECT_EQ(Written("b"), Rows("b"));
  SetSpec(Renamed({"a"}));
  RunUntil(clock.now + 60'000'000);
  EXPECT_EQ(Written("new").size(), 4u);
  const std::vector<int64_t> order = Written("new");
  EXPECT_TRUE(std::is_sorted(order.begin(), order.end()));
  EXPECT_TRUE(Written("a").empty());
  SetSpec(Renamed({"new"}));
  RunUntil(clock.now + 60'000'000);
  EXPECT_EQ(Written("a"), Rows("a"));
  ASSERT_EQ(server.sides.size(), 1u)
      << "the former template has ended, and the name that is paused is one of the present";
  EXPECT_EQ(server.sides.begin()->second.record.topic_template, "new");
  SetSpec(Renamed({}));
  RunUntil(clock.now + 60'000'000);
  EXPECT_TRUE(server.sides.empty());
  EXPECT_EQ(broker.log.size(), server.rows.size());
}

TEST_F(SidesTest, APauseHoldsATopicInTroubleUnderItsMendedName) {
  AnswerByItself();
  bad = {"outbox.event.order"};
  for (const char* key : {"x", "y", "x"}) {
    Emit("", key);
  }
  RunUntil(10'000'000);
  ASSERT_EQ(server.sides.size(), 1u);
  SetSpec(PausedTopics({"new"}));
  RunUntil(clock.now + 1'000'000);
  SetSpec(Renamed({"new"}));
  Emit("", "y");
  RunUntil(clock.now + 120'000'000);
  EXPECT_TRUE(Written("new").empty());
  ASSERT_NE(Side(1), nullptr);
  EXPECT_STREQ(LaneStateName(Side(1)->state), "paused");
  SetSpec(Renamed({}));
  RunUntil(clock.now + 120'000'000);
  EXPECT_EQ(Written("new").size(), 4u);
  EXPECT_TRUE(server.sides.empty());
  const std::vector<int64_t> order = Written("new");
  EXPECT_TRUE(std::is_sorted(order.begin(), order.end()));
}

// People are told of the topic that events are sent to, which may be wrong again.
TEST_F(SidesTest, ATopicInTroubleIsToldOfUnderTheNameThatWasRefusedLast) {
  AnswerByItself();
  bad = {"outbox.event.order", "new"};
  Emit("");
  RunUntil(10'000'000);
  ASSERT_NE(Side(1), nullptr);
  ASSERT_NE(Side(1)->error_topic, nullptr);
  EXPECT_EQ(*Side(1)->error_topic, "outbox.event.order");
  SetSpec(Renamed({}));
  RunUntil(clock.now + 120'000'000);
  ASSERT_NE(Side(1), nullptr);
  EXPECT_EQ(refusals.back(), "new");
  EXPECT_EQ(*Side(1)->error_topic, "new");
  EXPECT_EQ(*Side(1)->topic, "outbox.event.order") << "which is the side lane's name";
}

// --- more topics than side lanes ---------------------------------------------------------------------------------

// 65 are in trouble to the end; what heals among them flows again at once, whatever the others do.
TEST_F(SidesTest, OneOfManyHealsWhileTheOthersStayIll) {
  AnswerByItself();
  for (int i = 0; i < 65; ++i) {
    bad.insert("t" + std::to_string(i));
    Emit("t" + std::to_string(i));
  }
  Emit("good");
  bad.insert("good");
  RunUntil(60'000'000);
  EXPECT_EQ(server.sides.size(), 66u);
  for (int i = 0; i < 10; ++i) {
    Emit("good", "k" + std::to_string(i));
  }
  RunUntil(clock.now + 10'000'000);
  EXPECT_TRUE(Written("good").empty());
  bad.erase("good");
  RunUntil(clock.now + 31'000'000);  // the longest time between two tries
  EXPECT_EQ(Written("good"), Rows("good"));
  EXPECT_EQ(server.sides.size(), 65u);
  Emit("good");
  RunUntil(clock.now + 1'000'000);
  EXPECT_EQ(Written("good"), Rows("good"));
  // They survive a restart, and heal one by one.
  Restart();
  AnswerByItself();
  for (int i = 0; i < 65; ++i) {
    Emit("t" + std::to_string(i));
    bad.erase("t" + std::to_string(i));
    Emit("good");
    RunUntil(clock.now + 2'000'000);
    EXPECT_EQ(Written("good"), Rows("good"));
  }
  RunUntil(clock.now + 300'000'000);
  EXPECT_TRUE(server.sides.empty());
  EXPECT_TRUE(server.parked.empty());
  EXPECT_EQ(broker.log.size(), server.rows.size());
}

TEST_F(SidesTest, BeyondTheCapEventsOfTopicsInTroubleAreParkedAndChargedWithNothing) {
  options.max_sides = 3;
  Restart();
  AnswerByItself();
  Emit("good");
  for (int i = 0; i < 5; ++i) {
    bad.insert("t" + std::to_string(i));
    Emit("t" + std::to_string(i));
  }
  RunUntil(60'000'000);
  EXPECT_EQ(server.sides.size(), 3u);
  EXPECT_EQ(Written("good"), Rows("good"));
  ASSERT_EQ(server.refusals.size(), 2u);
  for (const Parking& parking : server.refusals) {
    EXPECT_EQ(parking.state, ParkedState::kRetrying);
    EXPECT_EQ(parking.attempts, 0);
    EXPECT_EQ(parking.error.error_class, ErrorClass::kTopic);
  }
  EXPECT_EQ(Side(0)->error, nullptr);
}

// A pause is wanted by an operator: there is room for it, whatever is in trouble.
TEST_F(SidesTest, APausedTopicLeavesBeyondTheCap) {
  options.max_sides = 2;
  Restart();
  AnswerByItself();
  for (int i = 0; i < 2; ++i) {
    bad.insert("t" + std::to_string(i));
    Emit("t" + std::to_string(i));
  }
  RunUntil(10'000'000);
  SetSpec(PausedTopics({"p0", "p1", "p2"}));
  for (int i = 0; i < 3; ++i) {
    Emit("p" + std::to_string(i));
  }
  Emit("good");
  RunUntil(clock.now + 10'000'000);
  EXPECT_EQ(server.sides.size(), 5u);
  EXPECT_EQ(broker.log.size(), 1u);
  SetSpec({});
  bad.clear();
  RunUntil(clock.now + 300'000'000);
  EXPECT_EQ(broker.log.size(), server.rows.size());
  EXPECT_TRUE(server.sides.empty());
}

// What 0.1 left: one side lane of several topics. An ill one among them does not hold the others.
TEST_F(SidesTest, ASideLaneOfSeveralTopicsLetsThemGo) {
  const Position begin = server.position;
  for (int i = 0; i < 6; ++i) {
    Emit("t" + std::to_string(i % 3));
  }
  SideLane shared;
  shared.side = 16;
  shared.topic_template = "outbox.event.{aggregate_type}";
  for (int i = 0; i < 3; ++i) {
    shared.topics.push_back({"t" + std::to_string(i), begin, {ErrorClass::kTopic, "UNKNOWN_TOPIC_OR_PART", ""}, 1});
  }
  server.sides[16] = {shared, begin};
  Restart();
  AnswerByItself();
  bad = {"t0"};
  RunUntil(120'000'000);
  EXPECT_EQ(Written("t1"), Rows("t1"));
  EXPECT_EQ(Written("t2"), Rows("t2"));
  EXPECT_EQ(server.sides.size(), 1u);
  bad.clear();
  RunUntil(clock.now + 120'000'000);
  EXPECT_EQ(Written("t0"), Rows("t0"));
  EXPECT_TRUE(server.sides.empty());
}

// --- while the destination is away -------------------------------------------------------------------------------
// A sink keeps what it was given and writes it the moment the destination is back. What is paused meanwhile must not
// go.

class PausedWhileAwayTest : public EngineTest {
 protected:
  void Deliver(int64_t micros) {
    for (const int64_t until = clock.now + micros; clock.now < until;) {
      sink->DeliverAll();
      RunUntil(std::min(until, clock.now + 100'000));
    }
  }
};

TEST_F(PausedWhileAwayTest, WhatItsSinkHasIsTakenBackAtOnce) {
  server.EmitCommitted("a");
  server.EmitCommitted("b");
  Turn(true);
  ASSERT_EQ(sink->pending.size(), 2u);
  sink->SetUp(false);
  RunUntil(clock.now + 5'000'000);
  ASSERT_EQ(sinks, 1);
  ASSERT_EQ(sink->pending.size(), 2u) << "it is kept as long as the destination is away";
  SetSpec(PausedRoute());
  Turn();
  EXPECT_EQ(sinks, 2);
  EXPECT_TRUE(sink->pending.empty());
  RunUntil(clock.now + 60'000'000);
  EXPECT_EQ(sinks, 2) << "once";
  EXPECT_EQ(State(), "paused");
  EXPECT_TRUE(sink->pending.empty());
  SetSpec({});
  Deliver(60'000'000);
  EXPECT_EQ(broker.Order(), AllRows());
  EXPECT_EQ(State(), "idle");
}

TEST_F(PausedWhileAwayTest, WhatIsAwaitedIsTakenBackWhereTheDestinationGoesThen) {
  server.EmitCommitted("a");
  Turn(true);
  SetSpec(PausedRoute());
  RunUntil(clock.now + 2'000'000);
  EXPECT_EQ(sinks, 1) << "it is there, and will answer";
  sink->SetUp(false);
  Turn();
  EXPECT_EQ(sinks, 2);
  RunUntil(clock.now + 60'000'000);
  EXPECT_TRUE(sink->pending.empty());
}

TEST_F(PausedWhileAwayTest, NothingIsTakenBackWhereThePauseIsOver) {
  server.EmitCommitted("a");
  Turn(true);
  SetSpec(PausedRoute());
  Turn();
  sink->DeliverAll();
  RunUntil(clock.now + 1'000'000);
  SetSpec({});
  server.EmitCommitted("b");
  Turn(true);
  ASSERT_EQ(sink->pending.size(), 1u);
  sink->SetUp(false);
  RunUntil(clock.now + 60'000'000);
  EXPECT_EQ(sinks, 1);
}

TEST_F(PausedWhileAwayTest, OtherKeysGoOnWithoutThePausedOne) {
  for (const char* key : {"a", "b", "a"}) {
    server.EmitCommitted(key);
  }
  Turn(true);
  sink->SetUp(false);
  RunUntil(clock.now + 5'000'000);
  ASSERT_FALSE(sink->pending.empty());
  format::RouteConfig config;
  config.paused_keys = {{"order", "a"}};
  SetSpec(config);
  RunUntil(clock.now + 1'000'000);
  ASSERT_EQ(sinks, 2);
  Deliver(60'000'000);
  EXPECT_EQ(broker.Order(), std::vector<int64_t>{server.rows[1].created_at});
  EXPECT_EQ(server.parked, (std::vector<int64_t>{server.rows[0].created_at, server.rows[2].created_at}));
}

}  // namespace
}  // namespace outbox::relay
