// The sink for parked events, and lanes that leave with some of them claimed.
#include "relay_parked_fixture.h"

namespace outbox::relay {
namespace {

TEST_F(ParkedTest, TheRetrySinkIsClosedWhenIdleAndMadeAnew) {
  FailAlone();
  sink->DeliverAll();
  RunUntil(RowOf(first).due - FakeClock::kWallAtZero);
  retry->DeliverAll();
  Turn();
  retry->DeliverAll();
  const int64_t used = clock.now;
  RunUntil(used + 59'999'999);
  EXPECT_NE(retry, nullptr);
  RunUntil(used + 60'000'000);
  EXPECT_EQ(retry, nullptr);
  FailAlone();
  RunUntil(RowOf(first).due - FakeClock::kWallAtZero);
  EXPECT_EQ(retry_sinks, 2);
}

TEST_F(ParkedTest, WhatTheRetrySinkKeepsToItselfIsTakenBack) {
  FailAlone();
  sink->DeliverAll();
  RunUntil(RowOf(first).due - FakeClock::kWallAtZero);
  const int64_t sent = clock.now;
  RunUntil(sent + 29'999'999);
  EXPECT_NE(RowOf(first).sender, 0u);
  clock.now = sent + 30'000'000;
  Turn();
  EXPECT_EQ(retry, nullptr);
  EXPECT_EQ(RowOf(first).sender, 0u);
  EXPECT_EQ(RowOf(first).attempts, 1);
  RunUntil(clock.now + 100'000);
  EXPECT_EQ(Order(retry), (Events{first}));
}

TEST_F(ParkedTest, AReplacedDestinationReplacesTheRetrySinkToo) {
  FailAlone();
  sink->DeliverAll();
  RunUntil(RowOf(first).due - FakeClock::kWallAtZero);
  FakeSink* old = retry;
  engine->SetDestination(kDestination, MakeFactory(), clock.now + 1'000'000);
  Turn();
  EXPECT_EQ(retry, old);
  EXPECT_EQ(Order(retry), (Events{first}));
  retry->DeliverAll();
  Turn();
  ASSERT_NE(retry, nullptr);
  EXPECT_EQ(retry_sinks, 2);
  EXPECT_EQ(Order(retry), (Events{second, third}));
}

TEST_F(ParkedTest, AReleasedLaneWaitsForItsClaimAndGivesTheRestBack) {
  FailAlone();
  sink->DeliverAll();
  RunUntil(RowOf(first).due - FakeClock::kWallAtZero);
  engine->ReleaseLane(kLane, clock.now + 1'000'000);
  Turn();
  EXPECT_TRUE(engine->HasLane(kLane));
  retry->DeliverAll();
  Turn();
  EXPECT_FALSE(engine->HasLane(kLane));
  EXPECT_EQ(Gone(), GoneReason::kReleased);
  EXPECT_EQ(table.delivered.size(), 1u);
  EXPECT_EQ(RowOf(second).sender, 0u);
  AddLane();
  Turn();
  EXPECT_EQ(Order(retry), (Events{second, third}));
  // At the deadline what has no outcome is given back.
  engine->ReleaseLane(kLane, clock.now + 1'000'000);
  Turn();
  retry->Deliver();
  clock.now += 1'000'000;
  Turn();
  EXPECT_FALSE(engine->HasLane(kLane));
  EXPECT_EQ(Gone(), GoneReason::kUnclean);
  EXPECT_EQ(table.rows.size(), 1u);
  EXPECT_EQ(RowOf(third).sender, 0u);
}

TEST_F(ParkedTest, OnALostLaneNothingIsSettled) {
  FailAlone();
  sink->DeliverAll();
  RunUntil(RowOf(first).due - FakeClock::kWallAtZero);
  server.owned = false;
  retry->DeliverAll();
  Turn();
  EXPECT_FALSE(engine->HasLane(kLane));
  EXPECT_EQ(Gone(), GoneReason::kLost);
  EXPECT_TRUE(table.delivered.empty());
  AddLane();  // and a lane that is another's from the start
  Turn();
  EXPECT_EQ(Gone(), GoneReason::kLost);
}

TEST_F(ParkedTest, APausedRouteRetriesNothing) {
  FailAlone();
  sink->DeliverAll();
  config.paused = true;
  engine->UpdateLane(kLane, fakes::Spec(config));
  RunUntil(clock.now + 60'000'000);
  EXPECT_EQ(retry, nullptr);
  config.paused = false;
  engine->UpdateLane(kLane, fakes::Spec(config));
  Turn();
  EXPECT_NE(retry, nullptr);
}

}  // namespace
}  // namespace outbox::relay
