// The relay engine over crashes, restarts, changed destinations and routes; and what barriers promise.
#include "relay_engine_fixture.h"

namespace outbox::relay {
namespace {

// --- crash and restart -------------------------------------------------------------------------------------------

TEST_F(EngineTest, ACrashBetweenPublishAndAcknowledgementRepeatsOnlyWhatWasNotSaved) {
  for (int i = 0; i < 10; ++i) {
    server.EmitCommitted("k");
  }
  Turn();
  for (int i = 0; i < 4; ++i) {
    sink->Deliver();
  }
  Turn();  // saved: four of ten
  ASSERT_EQ(server.saves.size(), 1u);
  EXPECT_EQ(server.saves[0].done_to, server.rows[3].created_at);
  for (int i = 0; i < 3; ++i) {
    sink->Deliver();  // acknowledged by the broker, never by us
  }
  server.EmitCommitted("k");
  Restart();
  Turn();
  std::vector<int64_t> expected = AllRows();
  expected.erase(expected.begin(), expected.begin() + 4);
  EXPECT_EQ(PendingOrder(), expected);
  sink->DeliverAll();
  RunUntil(clock.now + 1'000'000);
  std::set<int64_t> distinct;
  for (int64_t created_at : broker.Order()) {
    distinct.insert(created_at);
  }
  EXPECT_EQ(distinct.size(), 11u);
  EXPECT_EQ(broker.log.size(), 14u);
}

TEST_F(EngineTest, AnOrderlyStopRepeatsNothing) {
  for (int i = 0; i < 10; ++i) {
    server.EmitCommitted("k");
  }
  Turn();
  sink->Deliver();
  Turn();
  engine->Stop(clock.now + 1'000'000);
  server.EmitCommitted("k");
  EXPECT_EQ(Turn(true), clock.now + 1'000'000);
  EXPECT_FALSE(engine->stopped());
  EXPECT_EQ(State(), "releasing");
  EXPECT_EQ(sink->pending.size(), 9u);
  sink->DeliverAll();
  Turn();
  EXPECT_TRUE(engine->stopped());
  EXPECT_EQ(Gone()[0].reason, GoneReason::kReleased);
  Restart();
  sink->on_poll = [&] { sink->DeliverAll(); };
  RunUntil(clock.now + 1'000'000);
  EXPECT_EQ(broker.Order(), AllRows());
}

TEST_F(EngineTest, AStopThatRunsIntoItsDeadlineSavesWhatIsAcknowledged) {
  for (int i = 0; i < 10; ++i) {
    server.EmitCommitted("k");
  }
  Turn();
  engine->Stop(clock.now + 1'000'000);
  sink->Deliver();
  Turn();
  EXPECT_FALSE(engine->stopped());
  clock.now += 1'000'000;
  Turn();
  EXPECT_TRUE(engine->stopped());
  EXPECT_EQ(Gone()[0].reason, GoneReason::kUnclean);
  EXPECT_EQ(server.position.done_to, server.rows[0].created_at);
}

TEST_F(EngineTest, ALaneIsReleasedAndTakenAgain) {
  server.EmitCommitted("k");
  Turn();
  engine->ReleaseLane(kLane, clock.now + 1'000'000);
  EXPECT_FALSE(engine->AddLane(kLane, spec, fakes::Logs(&server, spec), kDestination));
  sink->DeliverAll();
  Turn();
  EXPECT_FALSE(engine->HasLane(kLane));
  AddLane();
  server.EmitCommitted("k");
  Turn();
  sink->DeliverAll();
  EXPECT_EQ(broker.Order(), AllRows());
}

// --- changed destinations and routes -----------------------------------------------------------------------------

TEST_F(EngineTest, AReplacedDestinationDrainsAndRepeatsNothing) {
  for (int i = 0; i < 3; ++i) {
    server.EmitCommitted("k");
  }
  Turn();
  auto made = std::make_unique<FakeSink>(&broker, &server);
  FakeSink* next = made.get();
  engine->SetDestination(kDestination, fakes::Factory(std::move(made)), clock.now + 1'000'000);
  server.EmitCommitted("k");
  Turn(true);
  EXPECT_EQ(sink->pending.size(), 3u);
  EXPECT_TRUE(next->pending.empty());
  sink->DeliverAll();
  Turn();
  ASSERT_EQ(next->pending.size(), 1u);
  EXPECT_EQ(next->pending[0].record.created_at, server.rows[3].created_at);
}

TEST_F(EngineTest, AReplacedDestinationThatDoesNotAnswerIsGivenUpAndSentAgain) {
  for (int i = 0; i < 3; ++i) {
    server.EmitCommitted("k");
  }
  Turn();
  const uint64_t seq = sink->highest_seq;
  auto made = std::make_unique<FakeSink>(&broker, &server);
  FakeSink* next = made.get();
  engine->SetDestination(kDestination, fakes::Factory(std::move(made)), clock.now + 1'000'000);
  EXPECT_EQ(Turn(), clock.now + 1'000'000);
  clock.now += 1'000'000;
  Turn();
  ASSERT_EQ(next->pending.size(), 3u);
  EXPECT_GT(next->pending[0].seq, seq);
  next->DeliverAll();
  Turn();
  EXPECT_EQ(broker.Order(), AllRows());
}

TEST_F(EngineTest, AReplacedDestinationThatIsDownIsGivenUpAtOnce) {
  server.EmitCommitted("k");
  Turn();
  sink->SetUp(false);
  sink->Fail(0, ErrorClass::kConfig);
  Turn();
  EXPECT_EQ(State(), "backing off");
  auto made = std::make_unique<FakeSink>(&broker, &server);
  FakeSink* next = made.get();
  engine->SetDestination(kDestination, fakes::Factory(std::move(made)), clock.now + 1'000'000);
  Turn();
  EXPECT_EQ(next->pending.size(), 1u);
}

TEST_F(EngineTest, ARemovedDestinationReleasesItsLanesAndCloses) {
  bool closed = false;
  sink->on_close = [&] { closed = true; };
  server.EmitCommitted("k");
  Turn();
  engine->RemoveDestination(kDestination, clock.now + 1'000'000);
  EXPECT_FALSE(engine->HasDestination(kDestination));
  Turn();
  EXPECT_FALSE(closed);
  sink->DeliverAll();
  Turn();
  EXPECT_TRUE(closed);
  EXPECT_EQ(Gone().size(), 1u);
  EXPECT_EQ(server.position.base, server.Current());
}

TEST_F(EngineTest, AChangedRouteTakesEffectForEventsSentFromThenOn) {
  server.EmitCommitted("k");
  Turn();
  format::RouteConfig config;
  config.topic = "new.{event_type}";
  engine->UpdateLane(kLane, fakes::Spec(config));
  server.EmitCommitted("k");
  Turn(true);
  ASSERT_EQ(sink->pending.size(), 1u);  // keys have other numbers under the new topic: what is in flight ends first
  EXPECT_EQ(sink->pending[0].record.topic, "outbox.event.order");
  sink->DeliverAll();
  RunUntil(clock.now + 1'000'000);
  ASSERT_EQ(sink->pending.size(), 1u);
  EXPECT_EQ(sink->pending[0].record.topic, "new.created");
}

// --- barriers ----------------------------------------------------------------------------------------------------

TEST_F(EngineTest, ABarrierIsDoneWhenAllThatWasCommittedBeforeItIsDelivered) {
  Turn();
  server.EmitCommitted("k");
  Turn(false, 1);  // a barrier wakes by itself
  EXPECT_EQ(sink->pending.size(), 1u);
  EXPECT_EQ(Status().barrier_done, 0u);
  server.EmitCommitted("k");
  Turn(true, 2);
  sink->Deliver();
  Turn(false, 2);
  EXPECT_EQ(Status().barrier_done, 1u);
  sink->Deliver();
  Turn(false, 2);
  EXPECT_EQ(Status().barrier_done, 2u);
}

TEST_F(EngineTest, ABarrierWithNothingToDoIsDoneInTheSameTurn) {
  Turn();
  Turn(false, 7);
  EXPECT_EQ(Status().barrier_done, 7u);
}

TEST_F(EngineTest, ABarrierWaitsForRetriesButNotForTheDead) {
  server.EmitCommitted("k");
  Turn(true, 1);
  sink->Fail(0, ErrorClass::kTopic);
  Turn(false, 1);
  EXPECT_EQ(Status().barrier_done, 0u);
  RunUntil(clock.now + options.backoff_cap_micros);
  sink->Fail(0, ErrorClass::kMessage);
  Turn(false, 1);
  EXPECT_EQ(server.parked.size(), 1u);
  EXPECT_EQ(Status().barrier_done, 1u);
}

TEST_F(EngineTest, ABarrierSeenWhileABacklogIsReadCountsFromTheWindowThatEndsNow) {
  for (int i = 0; i < 3; ++i) {
    server.EmitCommitted("k");
    server.ticks.push_back(server.Current());
  }
  server.EmitCommitted("k");
  Turn(false, 4);
  for (int i = 0; i < 3; ++i) {
    sink->Deliver();
    Turn(false, 4);
    EXPECT_EQ(Status().barrier_done, 0u);
  }
  sink->Deliver();
  Turn(false, 4);
  EXPECT_EQ(Status().barrier_done, 4u);
}

TEST_F(EngineTest, ABarrierWithNothingNewWaitsForWhatIsInFlight) {
  server.EmitCommitted("k");
  Turn(true);
  Turn(false, 3);  // nothing new since
  EXPECT_EQ(Status().barrier_done, 0u);
  sink->Deliver();
  Turn(false, 3);
  EXPECT_EQ(Status().barrier_done, 3u);
}

}  // namespace
}  // namespace outbox::relay
