// The sink for parked events, and lanes that leave with some of them claimed.
#include "relay/destination/retry_warning.h"
#include "relay_parked_fixture.h"
#include "sink/went_back.h"

namespace outbox::relay {
namespace {

TEST_F(ParkedTest, TheRetrySinkIsClosedWhenIdleAndMadeAgain) {
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

// Only this sink gets no connection (its broker lets so many in): why, is told, also when it was closed for its
// silence.
TEST_F(ParkedTest, WhyTheRetrySinkTakesNothingIsTold) {
  FailAlone();
  sink->DeliverAll();
  RunUntil(RowOf(first).due - FakeClock::kWallAtZero);
  retry->SetDown({ErrorClass::kDestination, "_TRANSPORT", "Connection reset by peer"});
  RunUntil(clock.now + 30'000'000);
  ASSERT_EQ(RowOf(first).sender, 0u);
  const LaneStatus status = Status();
  ASSERT_NE(status.error, nullptr);
  EXPECT_EQ(status.error->code, "_TRANSPORT");
  EXPECT_EQ(status.error->message, "Connection reset by peer");
  std::vector<DestinationStatus> destinations;
  engine->Destinations(&destinations);
  EXPECT_TRUE(destinations[0].reason.ok());
  ASSERT_NE(destinations[0].warning, nullptr);
  EXPECT_EQ(destinations[0].warning->code, "_TRANSPORT");
  ASSERT_NE(destinations[0].retry_trouble, nullptr);
  // The next one has not found out yet, and what was told stays.
  RunUntil(clock.now + 100'000);
  ASSERT_EQ(Order(retry), (Events{first}));
  ASSERT_NE(Status().error, nullptr);
  EXPECT_EQ(Status().error->code, "_TRANSPORT");
  RunUntil(clock.now + 30'000'000);
  ASSERT_NE(Status().error, nullptr);
  EXPECT_EQ(Status().error->code, "_TRANSPORT");
  // It is over with the event.
  RunUntil(clock.now + 10'000'000);
  ASSERT_NE(retry, nullptr);
  for (int i = 0; i < 3; i++) {
    retry->DeliverAll();
    Turn();
  }
  EXPECT_TRUE(table.rows.empty());
  EXPECT_EQ(Status().error, nullptr);
  engine->Destinations(&destinations);
  EXPECT_EQ(destinations[0].warning, nullptr);
  EXPECT_EQ(destinations[0].retry_trouble, nullptr);
}

// A quota that only a replay meets, say: the lanes' sink has nothing to send. What the lanes' sink warns of comes
// first.
TEST_F(ParkedTest, WhatTheRetrySinkWarnsOfIsTold) {
  FailAlone();
  sink->DeliverAll();
  RunUntil(RowOf(first).due - FakeClock::kWallAtZero);
  std::vector<DestinationStatus> destinations;
  retry->SetWarning({ErrorClass::kDestination, "THROTTLED", "its brokers throttle it"});
  engine->Destinations(&destinations);
  ASSERT_NE(destinations[0].warning, nullptr);
  EXPECT_EQ(destinations[0].warning->code, "THROTTLED");
  EXPECT_EQ(destinations[0].sink_warning, destinations[0].warning) << "for the log";
  EXPECT_TRUE(destinations[0].only_warning);
  sink->SetWarning({ErrorClass::kDestination, "EVICTION", "it evicts"});
  engine->Destinations(&destinations);
  EXPECT_EQ(destinations[0].sink_warning->code, "EVICTION");
  sink->SetWarning({});
  // The sink has gone, and with it what it said.
  for (int i = 0; i < 3; i++) {
    retry->DeliverAll();
    Turn();
  }
  RunUntil(clock.now + 60'000'000);
  ASSERT_EQ(retry, nullptr);
  engine->Destinations(&destinations);
  EXPECT_EQ(destinations[0].warning, nullptr);
}

// A partition that has lost what it had acknowledged to the lanes' sink, which writes nothing there now.
TEST_F(ParkedTest, ALossThatTheRetrySinkMeetsIsToldForAnHour) {
  FailAlone();
  sink->DeliverAt("7", "11");
  RunUntil(RowOf(first).due - FakeClock::kWallAtZero);
  clock.now += 1;
  retry->DeliverAt("5", "5");
  Turn();
  std::vector<DestinationStatus> destinations;
  engine->Destinations(&destinations);
  ASSERT_NE(destinations[0].warning, nullptr);
  EXPECT_EQ(destinations[0].warning->code, "OFFSETS_WENT_BACK");
  while (retry != nullptr) {
    retry->DeliverAll();
    RunUntil(clock.now + 10'000'000);
  }
  engine->Destinations(&destinations);
  EXPECT_NE(destinations[0].warning, nullptr) << "its sink has gone";
  RunUntil(clock.now + 3'600'000'000);
  engine->Destinations(&destinations);
  EXPECT_EQ(destinations[0].warning, nullptr);
}

TEST_F(ParkedTest, WhatWasOnItsWayAtTheRetrySinkShowsNoLoss) {
  FailAlone();
  sink->DeliverAll();
  RunUntil(RowOf(first).due - FakeClock::kWallAtZero);
  ASSERT_FALSE(retry->pending.empty());
  Emit("z");
  Turn();
  clock.now += 1;
  sink->DeliverAt("11", "11");
  Turn();
  clock.now += 1;
  retry->DeliverAt("10", "10");
  Turn();
  std::vector<DestinationStatus> destinations;
  engine->Destinations(&destinations);
  EXPECT_EQ(destinations[0].warning, nullptr);
  // It was acknowledged; and what that sink itself finds lost is told when it has gone, too.
  clock.now += 1;
  ASSERT_FALSE(retry->pending.empty());
  retry->SetWarning({ErrorClass::kDestination, sink::kOffsetsWentBack, "topic \"t\" has lost something"});
  while (retry != nullptr) {
    retry->DeliverAll();
    RunUntil(clock.now + 10'000'000);
  }
  engine->Destinations(&destinations);
  ASSERT_NE(destinations[0].warning, nullptr);
  EXPECT_EQ(destinations[0].warning->code, "OFFSETS_WENT_BACK");
}

// A Redis that lets nobody else in refuses each try at once: that is told as well, once it has lasted, and whether it
// is over.
TEST_F(ParkedTest, WhyTheRetrySinkRefusesAllIsTold) {
  FailAlone();
  sink->DeliverAll();
  RunUntil(RowOf(first).due - FakeClock::kWallAtZero);
  std::vector<DestinationStatus> destinations;
  const auto refuse_until = [&](int64_t until) {
    while (clock.now < until) {
      RunUntil(clock.now + 200'000);
      if (retry != nullptr) {
        retry->SetDown({ErrorClass::kDestination, "ERR", "max number of clients reached"});
        while (!retry->pending.empty()) {
          retry->Abort(retry->pending[0].flow, 0);
        }
      }
      Turn();
    }
    engine->Destinations(&destinations);
  };
  const int64_t began = clock.now;
  refuse_until(began + 29'000'000);
  EXPECT_EQ(destinations[0].retry_trouble, nullptr);
  refuse_until(began + 45'000'000);
  ASSERT_NE(destinations[0].retry_trouble, nullptr);
  EXPECT_EQ(destinations[0].retry_trouble->code, "ERR");
  EXPECT_LT(destinations[0].retry_trouble_since, began + 10'000'000);
  EXPECT_FALSE(destinations[0].retries_work);
  RunUntil(clock.now + 60'000'000);
  ASSERT_NE(retry, nullptr);
  retry->SetUp(true);
  for (int i = 0; i < 3; i++) {
    retry->DeliverAll();
    Turn();
  }
  engine->Destinations(&destinations);
  EXPECT_EQ(destinations[0].retry_trouble, nullptr);
  EXPECT_TRUE(destinations[0].retries_work);
}

// The lanes are refused as well: that is the destination's trouble, and its end is not the beginning of another.
TEST_F(ParkedTest, RefusalsWhileTheDestinationIsDownDoNotCount) {
  RetryWarning warning;
  const Error why{ErrorClass::kDestination, "ERR", "down"};
  warning.OnRefusal(why, true, 1);
  warning.OnRefusal(why, false, 20'000'000);
  warning.OnRefusal(why, true, 40'000'000);
  EXPECT_EQ(warning.Now(40'000'000), nullptr);
  warning.OnRefusal(why, true, 70'000'000);
  ASSERT_NE(warning.Now(70'000'000), nullptr);
  EXPECT_EQ(warning.since(), 40'000'000);
  EXPECT_EQ(warning.Now(370'000'000), nullptr);  // nothing was tried for long: nobody knows
  EXPECT_FALSE(warning.over());
}

// A large event over a slow link: the sink says that bytes move.
TEST_F(ParkedTest, WhatIsOnItsWayToTheRetrySinkIsNotBegunAgain) {
  FailAlone();
  sink->DeliverAll();
  RunUntil(RowOf(first).due - FakeClock::kWallAtZero);
  FakeSink* const used = retry;
  retry->SetSending(true);
  RunUntil(clock.now + 600'000'000);
  ASSERT_EQ(retry, used);
  ASSERT_EQ(retry_sinks, 1);
  // What stops on its way is: from then on it has half a minute.
  retry->SetSending(false);
  Turn();
  RunUntil(clock.now + 29'999'999);
  EXPECT_EQ(retry, used);
  clock.now += 1;
  Turn();
  EXPECT_EQ(retry, nullptr);
  EXPECT_EQ(RowOf(first).sender, 0u);
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

// Both are sent when the process is back, and both were alone of their lanes: only one of them is tested at a time.
TEST_F(ParkedTest, AnEventOfAnotherLaneIsNotBlamedForADeath) {
  const int64_t poison = Park("a", 0);
  const int64_t good = Park("b", 0);
  ParkedTable others{&server};
  others.rows[good] = table.rows.extract(good).mapped();
  Restart();
  auto spec = fakes::Spec(config);
  ASSERT_TRUE(engine->AddLane(LaneId{2, 0}, spec, Logs(spec, &others), kDestination));
  int together = 0;
  const auto poll = [&] {
    const auto pending = Order(retry);
    if (std::find(pending.begin(), pending.end(), poison) != pending.end()) {
      together += pending.size() > 1 ? 1 : 0;
      retry->Die();
    } else if (!pending.empty()) {
      retry->DeliverAll();
    }
  };
  clock.now += 1'000'001;
  Turn();
  ASSERT_EQ(Order(retry).size(), 2u);
  retry->on_poll = poll;
  RunUntil(clock.now + 60'000'000);
  EXPECT_EQ(together, 1);
  EXPECT_EQ(RowOf(poison).state, ParkedState::kDead);
  EXPECT_EQ(RowOf(poison).error.code, "SINK_DIED");
  EXPECT_TRUE(others.rows.empty());
  EXPECT_EQ(others.ever_dead.size(), 0u);
  EXPECT_EQ(others.delivered.count(good), 1u);
}

// Of parked events as of a lane's own: it is a person's to mend, and of all lanes together one event at most is blamed.
TEST_F(ParkedTest, ASinkThatDiesWhateverIsSentIsToldAlikeAndBlamesOneEventOfAllLanes) {
  ParkedTable others{&server};
  for (int i = 0; i < 5; ++i) {
    const int64_t mine = Park("", 0);
    const int64_t theirs = Park("", 0);
    others.rows[theirs] = table.rows.extract(theirs).mapped();
    ASSERT_NE(mine, theirs);
  }
  Restart();
  auto spec = fakes::Spec(config);
  ASSERT_TRUE(engine->AddLane(LaneId{2, 0}, spec, Logs(spec, &others), kDestination));
  clock.now += 1'000'001;
  Turn();
  retry->on_poll = [&] {
    if (!retry->pending.empty()) {
      retry->Die();
    }
  };
  RunUntil(clock.now + 600'000'000);
  EXPECT_LE(table.ever_dead.size() + others.ever_dead.size(), 1u);
  ASSERT_NE(Status().error, nullptr);
  EXPECT_EQ(Status().error->code, "SINK_DIED");
  EXPECT_EQ(Status().error->error_class, ErrorClass::kConfig);
  retry->on_poll = [&] { retry->DeliverAll(); };
  RunUntil(clock.now + 120'000'000);
  EXPECT_EQ(table.delivered.size() + others.delivered.size() + table.ever_dead.size() + others.ever_dead.size(), 10u);
}

}  // namespace
}  // namespace outbox::relay
