// matrix: D21
// The circuit breaker of a destination: alone, and over the engine with several lanes.
#include "relay/destination/breaker.h"

#include "relay_engine_fixture.h"

namespace outbox::relay {
namespace {

const Error kDown{ErrorClass::kDestination, "DOWN", "the test says so"};

// --- alone -------------------------------------------------------------------------------------------------------

TEST(Breaker, OpensWaitsLetsOneSmallBatchThroughAndCloses) {
  Breaker breaker(100, 1'000);
  EXPECT_EQ(breaker.Admits(), UINT32_MAX);
  breaker.Trip(3, kDown, 50, 7'000, 99);
  EXPECT_EQ(breaker.state(), BreakerState::kOpen);
  EXPECT_EQ(breaker.reason().code, "DOWN");
  EXPECT_EQ(breaker.since_unix(), 7'000);
  EXPECT_EQ(breaker.trips(), 1u);
  EXPECT_EQ(breaker.Admits(), 0u);
  EXPECT_GT(breaker.next_try(), 50);
  EXPECT_LE(breaker.next_try(), 150);
  breaker.OnTime(breaker.next_try() - 1, 8'000);
  EXPECT_EQ(breaker.state(), BreakerState::kOpen);
  breaker.OnTime(breaker.next_try(), 8'000);
  EXPECT_EQ(breaker.state(), BreakerState::kHalfOpen);
  EXPECT_EQ(breaker.since_unix(), 7'000) << "when the outage began, not when it was last tried";
  EXPECT_EQ(breaker.Admits(), Breaker::kProbe);
  breaker.OnSent(4);
  EXPECT_EQ(breaker.Admits(), 0u);
  breaker.OnAnswer(3, 300, 9'000);  // of what was sent long ago
  EXPECT_EQ(breaker.state(), BreakerState::kHalfOpen);
  breaker.OnAnswer(4, 300, 9'000);
  EXPECT_EQ(breaker.state(), BreakerState::kClosed);
  EXPECT_TRUE(breaker.reason().ok());
  EXPECT_EQ(breaker.since_unix(), 9'000);
  breaker.Trip(3, kDown, 400, 10'000, 99);
  EXPECT_EQ(breaker.since_unix(), 10'000) << "another outage";
}

TEST(Breaker, TroubleOfTheProbeOpensItForLonger) {
  Breaker breaker(100, 100'000);
  int64_t now = 0;
  breaker.Trip(1, kDown, now, 0, UINT64_MAX);
  int64_t longest = 0;
  for (int i = 0; i < 12; ++i) {
    longest = std::max(longest, breaker.next_try() - now);
    now = breaker.next_try();
    breaker.OnTime(now, 0);
    breaker.OnSent(2);
    breaker.Trip(1, {ErrorClass::kDestination, "LATE", ""}, now, 0, 5);  // not the probe's
    EXPECT_EQ(breaker.reason().code, "DOWN");
    breaker.Trip(2, kDown, now, 0, UINT64_MAX - static_cast<uint64_t>(i));
    EXPECT_EQ(breaker.state(), BreakerState::kOpen);
  }
  EXPECT_GT(longest, 10'000);
  EXPECT_EQ(breaker.trips(), 1u);  // it never closed in between
}

TEST(Breaker, FlappingDoesNotStartTheDelaysOver) {
  Breaker breaker(1'000, 1'000'000);
  int64_t now = 0;
  int64_t longest = 0;
  for (int i = 0; i < 30; ++i) {
    breaker.Trip(1, kDown, now, 0, 0x9e3779b97f4a7c15 * static_cast<uint64_t>(i + 1));
    longest = std::max(longest, breaker.next_try() - now);
    now = breaker.next_try();
    breaker.OnTime(now, 0);
    breaker.OnSent(1);
    breaker.OnAnswer(1, now, 0);  // closed, and in trouble again a microsecond later
    now += 1;
  }
  EXPECT_GT(longest, 100'000);
  now += 10'000'000;
  breaker.Trip(1, kDown, now, 0, UINT64_MAX);
  EXPECT_LE(breaker.next_try() - now, 1'000);
}

TEST(Breaker, SaysWhatIsInTheWayNow) {
  Breaker breaker(100, 1'000);
  breaker.Explain(kDown);
  EXPECT_TRUE(breaker.reason().ok());  // closed
  breaker.Trip(1, kDown, 0, 0, 1);
  const int64_t next_try = breaker.next_try();
  breaker.Explain({ErrorClass::kDestination, "NO_SOCKET", ""});
  EXPECT_EQ(breaker.reason().code, "NO_SOCKET");
  EXPECT_EQ(breaker.next_try(), next_try);
  breaker.OnTime(next_try, 0);
  breaker.Explain(kDown);
  EXPECT_EQ(breaker.reason().code, "DOWN");
  EXPECT_EQ(breaker.state(), BreakerState::kHalfOpen);
}

TEST(Breaker, ALaneThatGoesTakesItsProbeWithIt) {
  Breaker breaker(100, 1'000);
  breaker.Trip(1, kDown, 0, 0, 1);
  breaker.OnUp(5, 5);
  EXPECT_EQ(breaker.state(), BreakerState::kHalfOpen);
  breaker.OnSent(1);
  EXPECT_EQ(breaker.Admits(), 0u);
  breaker.Forget(1);
  EXPECT_EQ(breaker.Admits(), Breaker::kProbe);
}

TEST(Breaker, ADestinationThatIsDownAndSilentIsNotWaitedForHalfOpen) {
  Breaker breaker(100, 1'000);
  breaker.Trip(1, kDown, 0, 0, 1);
  int64_t now = breaker.next_try();
  breaker.OnTime(now, 1);
  breaker.OnSent(1);
  const Error silent{ErrorClass::kDestination, "SILENT", ""};
  for (int i = 0; i < 3; ++i) {
    breaker.GiveUp(silent, now + Breaker::kPatience - 1, 2, 3);
    ASSERT_EQ(breaker.state(), BreakerState::kHalfOpen);
    now = breaker.patience_ends();
    breaker.GiveUp(silent, now, 2, 3);
    ASSERT_EQ(breaker.state(), BreakerState::kOpen);
    EXPECT_EQ(breaker.reason().code, "SILENT");
    EXPECT_EQ(breaker.late(false), 1u);
    EXPECT_GT(breaker.next_try(), now);
    now = breaker.next_try();
    breaker.OnTime(now, 1);
    EXPECT_EQ(breaker.state(), BreakerState::kHalfOpen);
    EXPECT_EQ(breaker.Admits(), 0u);  // what it sent first is still the one that is tried
    EXPECT_TRUE(breaker.probing(1));
  }
  EXPECT_EQ(breaker.trips(), 1u);
  breaker.Forget(1);  // it came back without an answer
  EXPECT_EQ(breaker.Admits(), Breaker::kProbe);
  EXPECT_EQ(breaker.late(false), 0u);
}

TEST(Breaker, ALateAnswerClosesIt) {
  Breaker breaker(100, 1'000);
  breaker.Trip(1, kDown, 0, 0, 1);
  breaker.OnTime(breaker.next_try(), 1);
  breaker.OnSent(1);
  breaker.GiveUp(kDown, breaker.patience_ends(), 2, 3);
  breaker.OnAnswer(2, 9, 9);
  EXPECT_EQ(breaker.state(), BreakerState::kOpen);
  breaker.OnAnswer(1, 9, 9);
  EXPECT_EQ(breaker.state(), BreakerState::kClosed);
  EXPECT_EQ(breaker.late(false), 0u);
}

TEST(Breaker, ALateAnswerClosesItAlsoWhenItIsTriedAgain) {
  Breaker breaker(100, 1'000);
  breaker.Trip(1, kDown, 0, 0, 1);
  breaker.OnTime(breaker.next_try(), 1);
  breaker.OnSent(1);
  breaker.GiveUp(kDown, breaker.patience_ends(), 2, 3);
  breaker.OnUp(9, 9);
  EXPECT_EQ(breaker.Admits(), Breaker::kProbe);  // it is there again: no lane has to wait for the old batch
  breaker.OnAnswer(1, 9, 9);
  EXPECT_EQ(breaker.state(), BreakerState::kClosed);
}

// A sink that reports by itself that it is back is not waited for longer and longer: a sink process that is killed
// again and again, say.
TEST(Breaker, ComingUpStartsTheDelaysOver) {
  Breaker breaker(100'000, 30'000'000);
  int64_t now = 0;
  for (int i = 0; i < 20; ++i) {
    breaker.Trip(0, kDown, now, 0, UINT64_MAX - 1);
    now += 50'000;
    breaker.OnUp(now, 0);
    breaker.OnSent(1);
    breaker.Trip(1, kDown, now, 0, UINT64_MAX - 1);  // killed with the probe in flight
    now += 50'000;
    breaker.OnUp(now, 0);
    breaker.OnSent(1);
    breaker.OnAnswer(1, now, 0);
    now += 200'000;
  }
  breaker.Trip(0, kDown, now, 0, UINT64_MAX - 1);
  breaker.OnUp(now, 0);
  breaker.OnSent(1);
  breaker.Trip(1, {ErrorClass::kDestination, "ABORTED", ""}, now, 0, UINT64_MAX - 1);  // nothing comes up after this
  EXPECT_LE(breaker.next_try() - now, 100'000);
}

TEST(Breaker, WhatTheSecondSinkTriesHoldsUpNoLane) {
  Breaker breaker(100, 1'000);
  breaker.Trip(0, kDown, 0, 0, 1);
  breaker.OnUp(0, 0);
  EXPECT_EQ(breaker.Admits(true), Breaker::kProbe);
  breaker.OnSent(7, true);
  EXPECT_EQ(breaker.Admits(true), 0u);
  EXPECT_EQ(breaker.Admits(), Breaker::kProbe);
  EXPECT_TRUE(breaker.probing(7));
  breaker.OnSent(1);
  EXPECT_EQ(breaker.Admits(), 0u);
  breaker.Trip(7, kDown, 10, 0, 1);  // the lane's own will tell
  EXPECT_EQ(breaker.state(), BreakerState::kHalfOpen);
  EXPECT_FALSE(breaker.probing(7));
  EXPECT_EQ(breaker.Admits(true), 0u);
  breaker.OnAnswer(1, 20, 0);
  EXPECT_EQ(breaker.state(), BreakerState::kClosed);

  for (const bool good : {true, false}) {  // alone it decides
    breaker.Trip(0, kDown, 30, 0, 1);
    breaker.OnUp(0, 0);
    breaker.OnSent(7, true);
    if (good) {
      breaker.OnAnswer(7, 40, 0);
    } else {
      breaker.Trip(7, kDown, 40, 0, 1);
    }
    EXPECT_EQ(breaker.state(), good ? BreakerState::kClosed : BreakerState::kOpen);
  }
}

TEST(Breaker, ABatchWithoutAnAnswerIsPassedOnWhileTheDestinationIsUp) {
  Breaker breaker(100, 1'000);
  breaker.Trip(0, kDown, 0, 0, 1);
  breaker.OnUp(10, 0);
  EXPECT_FALSE(breaker.tried());
  breaker.OnSent(1);
  EXPECT_TRUE(breaker.tried());
  breaker.PassOn(breaker.patience_ends() - 1);
  EXPECT_EQ(breaker.Admits(), 0u);
  breaker.PassOn(breaker.patience_ends());
  EXPECT_EQ(breaker.Admits(), Breaker::kProbe);
  breaker.OnSent(2);
  breaker.Trip(1, kDown, 20, 0, 1);  // not the one that is tried now
  EXPECT_EQ(breaker.state(), BreakerState::kHalfOpen);
  breaker.OnAnswer(1, 30, 0);
  EXPECT_EQ(breaker.state(), BreakerState::kClosed);
}

TEST(Breaker, ALateAnswerOfTheSecondSinkClosesItAndHoldsUpNoLane) {
  Breaker breaker(100, 1'000);
  breaker.Trip(0, kDown, 0, 0, 1);
  breaker.OnTime(breaker.next_try(), 0);
  breaker.OnSent(7, true);
  breaker.GiveUp(kDown, breaker.patience_ends(), 2, 3);
  EXPECT_EQ(breaker.late(true), 7u);
  EXPECT_EQ(breaker.late(false), 0u);
  breaker.OnTime(breaker.next_try(), 0);
  EXPECT_TRUE(breaker.probing(7));
  EXPECT_EQ(breaker.Admits(), Breaker::kProbe);
  breaker.GiveUp(kDown, breaker.patience_ends(), 2, 3);
  breaker.OnAnswer(7, 9, 9);
  EXPECT_EQ(breaker.state(), BreakerState::kClosed);
}

// --- over the engine ---------------------------------------------------------------------------------------------

class BreakerTest : public EngineTest {
 protected:
  BreakerTest() { EXPECT_TRUE(engine->AddLane({2, 0}, spec, fakes::Logs(&second, spec), kDestination)); }
  DestinationStatus Destination() {
    engine->Destinations(&destinations);
    return destinations.at(0);
  }
  void ToNextTry() {
    const int64_t next_try = Destination().next_try_unix - FakeClock::kWallAtZero;
    ASSERT_LE(Turn(), next_try);
    clock.now = next_try;
    Turn();
  }
  Server second{&clock};
  std::vector<DestinationStatus> destinations;
};

TEST_F(BreakerTest, TroubleOfOneLaneStopsAllAndOneSmallBatchFindsOut) {
  for (int i = 0; i < 100; ++i) {
    server.EmitCommitted("k");
    second.EmitCommitted("k");
  }
  Turn();
  EXPECT_EQ(sink->pending.size(), 200u);
  const uint32_t flow = sink->pending[0].flow;
  sink->Fail(0, ErrorClass::kConfig, "SASL_AUTHENTICATION_FAILED");
  Turn();
  EXPECT_EQ(Destination().state, BreakerState::kOpen);
  EXPECT_EQ(Destination().reason.code, "SASL_AUTHENTICATION_FAILED");
  EXPECT_GT(Destination().next_try_unix, clock.WallMicros());
  EXPECT_EQ(Destination().trips, 1u);
  // What the other lane has in flight is still awaited.
  EXPECT_EQ(sink->pending.size(), 100u);
  EXPECT_NE(sink->pending[0].flow, flow);
  sink->Abort(sink->pending[0].flow, 0);
  const int submits = sink->submits;
  for (int i = 0; i < 10; ++i) {
    ToNextTry();
    ASSERT_EQ(sink->submits, submits + i + 1);  // one of the two, one batch
    ASSERT_LE(sink->pending.size(), 16u);
    EXPECT_EQ(Destination().state, BreakerState::kHalfOpen);
    sink->Fail(0, ErrorClass::kConfig, "SASL_AUTHENTICATION_FAILED");
    Turn();
    EXPECT_EQ(Destination().state, BreakerState::kOpen);
    for (int lane = 0; lane < 2; ++lane) {
      Status();
      EXPECT_STREQ(LaneStateName(statuses[lane].state), "backing off");
      ASSERT_NE(statuses[lane].error, nullptr);
      EXPECT_EQ(statuses[lane].error->code, "SASL_AUTHENTICATION_FAILED");
    }
  }
  EXPECT_EQ(Destination().trips, 1u);
  ToNextTry();
  sink->Deliver();
  Turn();
  EXPECT_EQ(Destination().state, BreakerState::kClosed);
  EXPECT_TRUE(Destination().reason.ok());
  sink->on_poll = [&] { sink->DeliverAll(); };
  RunUntil(clock.now + 1'000'000);
  EXPECT_EQ(broker.log.size(), 200u);
  EXPECT_TRUE(server.parked.empty());
  EXPECT_TRUE(second.parked.empty());
}

TEST_F(BreakerTest, ADestinationThatGoesDownWithNothingUnderWayOpensItAndComingUpLetsTryAtOnce) {
  Turn();
  sink->SetUp(false);
  Turn();
  EXPECT_EQ(Destination().state, BreakerState::kOpen);
  EXPECT_EQ(Destination().reason.code, "DOWN");
  server.EmitCommitted("k");
  clock.now = 1;
  sink->SetUp(true);
  Turn(true);
  EXPECT_EQ(sink->pending.size(), 1u);
  sink->DeliverAll();
  Turn();
  EXPECT_EQ(Destination().state, BreakerState::kClosed);
}

// As librdkafka does when its brokers are away: it keeps what it was given, and says nothing until they are back.
TEST_F(BreakerTest, WhileASilentDestinationIsDownItIsOpenWithANextTryAndNothingPilesUp) {
  Turn();
  sink->SetUp(false);
  for (int i = 0; i < 100; ++i) {
    server.EmitCommitted("k");
    second.EmitCommitted("k");
  }
  Turn(true);
  EXPECT_EQ(Destination().state, BreakerState::kOpen);
  for (int i = 0; i < 20; ++i) {
    ToNextTry();
    EXPECT_EQ(Destination().state, BreakerState::kHalfOpen);
    EXPECT_EQ(Destination().next_try_unix, 0);
    EXPECT_EQ(sink->pending.size(), 16u);
    ASSERT_LE(Turn(), clock.now + Breaker::kPatience);  // it asks to be called in time
    clock.now += Breaker::kPatience;
    Turn();
    EXPECT_EQ(Destination().state, BreakerState::kOpen);
    EXPECT_EQ(Destination().reason.code, "DOWN");
    EXPECT_GT(Destination().next_try_unix, clock.WallMicros());
  }
  EXPECT_EQ(sink->pending.size(), 16u);
  EXPECT_EQ(Destination().trips, 1u);
  // It comes back: what was kept arrives and closes it, at once.
  sink->SetUp(true);
  sink->DeliverAll();
  Turn();
  EXPECT_EQ(Destination().state, BreakerState::kClosed);
  sink->on_poll = [&] { sink->DeliverAll(); };
  RunUntil(clock.now + 1'000'000);
  EXPECT_EQ(broker.log.size(), 200u);
  EXPECT_TRUE(server.parked.empty());
}

TEST_F(BreakerTest, WhatASilentDestinationGivesBackIsSentAgainAtTheNextTry) {
  Turn();
  sink->SetUp(false);
  for (int i = 0; i < 100; ++i) {
    server.EmitCommitted("k");
  }
  Turn(true);
  ToNextTry();
  ASSERT_EQ(sink->pending.size(), 16u);
  clock.now += Breaker::kPatience;
  Turn();
  EXPECT_EQ(Destination().state, BreakerState::kOpen);
  sink->Abort(sink->pending[0].flow, 0);
  Turn();
  EXPECT_EQ(Destination().state, BreakerState::kOpen);
  ToNextTry();
  EXPECT_EQ(Destination().state, BreakerState::kHalfOpen);
  EXPECT_EQ(sink->pending.size(), 16u);
  sink->SetUp(true);
  sink->on_poll = [&] { sink->DeliverAll(); };
  RunUntil(clock.now + 1'000'000);
  EXPECT_EQ(PendingOrder().size(), 0u);
  EXPECT_EQ(broker.log.size(), 100u);
}

// A broker that comes back with another password: first it was away.
TEST_F(BreakerTest, ThatAPersonMustActIsShownAsSoonAsItIsKnown) {
  Turn();
  sink->SetUp(false);
  Turn();
  EXPECT_EQ(Destination().reason.error_class, ErrorClass::kDestination);
  sink->SetDown({ErrorClass::kConfig, "_AUTHENTICATION", "wrong password"});
  Turn();
  EXPECT_EQ(Destination().state, BreakerState::kOpen);
  EXPECT_EQ(Destination().reason.code, "_AUTHENTICATION");
}

TEST_F(BreakerTest, AnAnswerForTheEventsOrTheTopicsSakeClosesIt) {
  for (ErrorClass error_class : {ErrorClass::kMessage, ErrorClass::kSolo, ErrorClass::kTopic}) {
    server.EmitCommitted("k");
    sink->SetUp(false);
    Turn(true);
    sink->SetUp(true);
    Turn(true);
    ASSERT_EQ(sink->pending.size(), 1u);
    sink->Fail(0, error_class);
    Turn();
    EXPECT_EQ(Destination().state, BreakerState::kClosed) << static_cast<int>(error_class);
    sink->on_poll = [&] { sink->DeliverAll(); };
    RunUntil(clock.now + options.backoff_cap_micros);
    sink->on_poll = nullptr;
  }
}

// It went and came back while nobody had anything to send: no record will ask it, and people look at its state.
TEST_F(BreakerTest, ADestinationThatIsBackIsClosedWithoutTraffic) {
  Turn();
  for (int i = 0; i < 2; ++i) {
    sink->SetUp(false);
    Turn();
    RunUntil(clock.now + 20'000'000);
    EXPECT_NE(Destination().state, BreakerState::kClosed);
    sink->SetUp(true);
    const int64_t next = Turn();
    EXPECT_EQ(Destination().state, BreakerState::kHalfOpen);
    ASSERT_LE(next, clock.now + Breaker::kPatience);
    RunUntil(clock.now + Breaker::kPatience);
    EXPECT_EQ(Destination().state, BreakerState::kClosed);
    EXPECT_TRUE(Destination().trouble.empty());
  }
  // It refuses the next event all the same: then it is in trouble again.
  server.EmitCommitted("k");
  Turn(true);
  ASSERT_EQ(sink->pending.size(), 1u);
  sink->Fail(0, ErrorClass::kDestination, "READONLY");
  Turn();
  EXPECT_EQ(Destination().state, BreakerState::kOpen);
  // Who has something to send finds out with a small batch, however long that takes.
  RunUntil(Destination().next_try_unix - FakeClock::kWallAtZero + 3 * Breaker::kPatience);
  EXPECT_EQ(Destination().state, BreakerState::kHalfOpen);
}

// Its options may be as wrong as the last ones: the outage goes on until it has answered.
TEST_F(BreakerTest, ANewSinkIsTriedAtOnceAndAnOutageGoesOn) {
  server.EmitCommitted("k");
  Turn();
  sink->Fail(0, ErrorClass::kConfig);
  Turn();
  EXPECT_EQ(Destination().state, BreakerState::kOpen);
  const int64_t since = Destination().since_unix;
  for (const bool wrong : {true, false}) {
    clock.now += 1'000'000;
    engine->SetDestination(kDestination, MakeSinks(), clock.now);
    Turn();
    EXPECT_EQ(Destination().state, BreakerState::kHalfOpen);
    ASSERT_EQ(sink->pending.size(), 1u);
    EXPECT_EQ(Destination().since_unix, since);
    if (wrong) {
      sink->Fail(0, ErrorClass::kConfig);
      Turn();
      EXPECT_EQ(Destination().state, BreakerState::kOpen);
      EXPECT_EQ(Destination().since_unix, since);
    }
  }
  sink->Deliver();
  Turn();
  EXPECT_EQ(Destination().state, BreakerState::kClosed);
  EXPECT_NE(Destination().since_unix, since);
}

// A lane's events are of a topic that takes nothing, the other's are well.
TEST_F(BreakerTest, ATopicThatTakesNothingHoldsUpNoOtherHalfOpen) {
  sink->SetUp(false);
  Turn();
  server.EmitCommitted("stuck");
  sink->SetUp(true);
  Turn(true);
  ASSERT_EQ(sink->pending.size(), 1u);
  EXPECT_EQ(Destination().state, BreakerState::kHalfOpen);
  second.EmitCommitted("k");
  const int64_t start = clock.now;
  for (int64_t next = Turn(true); sink->pending.size() < 2 && next < start + 60'000'000; next = Turn()) {
    ASSERT_GT(next, clock.now);
    clock.now = next;
  }
  ASSERT_EQ(sink->pending.size(), 2u);
  EXPECT_LE(clock.now - start, Breaker::kPatience);
  sink->Deliver(1);
  Turn();
  EXPECT_EQ(Destination().state, BreakerState::kClosed);
}

}  // namespace
}  // namespace outbox::relay
