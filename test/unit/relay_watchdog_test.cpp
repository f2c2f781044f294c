// matrix: D18 R1
// A sink that forgets the outcome of a record: found after a minute, said, and recreated.
#include "relay/common/watchdog.h"

#include "relay_parked_fixture.h"
#include "relay_sides_fixture.h"

namespace outbox::relay {
namespace {

constexpr int64_t kMinute = 60'000'000;

// As a sink would that has a bug: no outcome, for ever.
void Forget(FakeSink* sink, size_t i = 0) {
  sink->pending.erase(sink->pending.begin() + static_cast<std::ptrdiff_t>(i));
}

class WatchdogTest : public EngineTest {
 protected:
  DestinationStatus Destination() {
    engine->Destinations(&destinations);
    return destinations.at(0);
  }

  std::vector<DestinationStatus> destinations;
};

class ForgottenTest : public WatchdogTest, public testing::WithParamInterface<size_t> {};

TEST_P(ForgottenTest, ALaneThatDrainsForAMinuteIsHealed) {
  for (size_t i = 0; i < GetParam() + 2; ++i) {
    server.EmitCommitted(std::to_string(i));
  }
  Turn(true);
  for (size_t i = 0; i < GetParam(); ++i) {
    Forget(sink);
  }
  sink->Abort(sink->pending[0].flow, 0);
  Turn();
  EXPECT_EQ(State(), "draining");
  const int64_t since = clock.now;
  RunUntil(since + kMinute - 2'000'000);
  EXPECT_EQ(State(), "draining");
  EXPECT_EQ(sinks, 1);
  RunUntil(since + kMinute + 1'000'000);
  ASSERT_EQ(sinks, 2);
  EXPECT_EQ(PendingOrder(), AllRows());
  ASSERT_NE(Status().error, nullptr);
  EXPECT_EQ(Status().error->code, "NO_OUTCOME");
  EXPECT_NE(Status().error->message.find(" " + std::to_string(GetParam()) + " events"), std::string::npos);
  EXPECT_EQ(Destination().renewals, 1u);
  ASSERT_NE(Destination().warning, nullptr);
  EXPECT_EQ(Destination().warning->code, "NO_OUTCOME");
  sink->DeliverAll();
  Turn();
  EXPECT_EQ(State(), "idle");
  EXPECT_EQ(Status().error, nullptr);
  EXPECT_EQ(broker.Order(), AllRows());
}

INSTANTIATE_TEST_SUITE_P(Events, ForgottenTest, testing::Values(1, 2, 65));

// A large record over a slow link: its sink says that bytes move. It is not begun again and again.
TEST_F(WatchdogTest, WhatIsOnItsWayStillIsNotForgotten) {
  server.EmitCommitted("large");
  Turn(true);
  sink->SetSending(true);
  RunUntil(clock.now + 5 * kMinute);
  ASSERT_EQ(sinks, 1);
  sink->SetSending(false);
  RunUntil(clock.now + kMinute - 2'000'000);
  EXPECT_EQ(sinks, 1);
  sink->DeliverAll();
  Turn();
  EXPECT_EQ(State(), "idle");
  EXPECT_EQ(broker.Order(), AllRows());
}

// The lane does not even drain: all others are delivered, but nothing can be acknowledged past the one.
TEST_F(WatchdogTest, WhileOthersAreDeliveredAllTheTime) {
  server.EmitCommitted("lost");
  server.EmitCommitted("with it");
  Turn(true);
  Forget(sink);
  for (int i = 0; i < 70 && sinks == 1; ++i) {
    server.EmitCommitted("a");
    Turn(true);
    sink->DeliverAll();
    Turn();
    clock.now += 1'000'000;
  }
  ASSERT_EQ(sinks, 2);
  sink->DeliverAll();
  Turn();
  sink->DeliverAll();
  Turn();
  EXPECT_EQ(State(), "idle");
  EXPECT_TRUE(server.position.base.Covers(server.Current()));
}

// A destination that is slow or away, or a worker that was stopped, is not taken for a forgotten record.
TEST_F(WatchdogTest, NotWhileAnythingIsHeard) {
  for (int i = 0; i < 100; ++i) {
    server.EmitCommitted(std::to_string(i));
  }
  Turn(true);
  while (!sink->pending.empty()) {
    RunUntil(clock.now + kMinute - 2'000'000);
    sink->Deliver();
    Turn();
  }
  EXPECT_EQ(sinks, 1);
}

TEST_F(WatchdogTest, NotWhileTheDestinationIsDown) {
  server.EmitCommitted("a");
  Turn(true);
  sink->SetUp(false);
  RunUntil(clock.now + 60 * kMinute);
  sink->SetUp(true);
  RunUntil(clock.now + kMinute - 2'000'000);
  EXPECT_EQ(sinks, 1);
  RunUntil(clock.now + 4'000'000);
  EXPECT_EQ(sinks, 2);
}

// Nor while the sink waits to be admitted to a server: `well` is false then.
TEST(Watchdog, CountsWhileTheSinkIsWellOnly) {
  Watchdog watchdog;
  const OldestRecord oldest{7, 2};
  int64_t now = 0;
  const auto look = [&](bool well, const OldestRecord& record) {
    return watchdog.Check(record, well, now += 1'000'000);
  };
  for (int i = 0; i < 1'000; ++i) {
    ASSERT_FALSE(look(false, oldest));
  }
  EXPECT_FALSE(watchdog.waits());
  for (int i = 0; i < 59; ++i) {
    ASSERT_FALSE(look(true, oldest));
  }
  EXPECT_TRUE(watchdog.waits());
  ASSERT_FALSE(look(true, {7, 1}));  // one that was sent with it has its outcome
  for (int i = 0; i < 59; ++i) {
    ASSERT_FALSE(look(true, {7, 1}));
  }
  EXPECT_TRUE(look(true, {7, 1}));
}

TEST_F(WatchdogTest, TimeInWhichTheWorkerStoodStillDoesNotCount) {
  server.EmitCommitted("a");
  Turn(true);
  for (int i = 0; i < 50; ++i) {
    clock.now += 60 * kMinute;
    Turn();
  }
  EXPECT_EQ(sinks, 1);
}

// A sink that always forgets is not recreated without end at full speed: once a minute, and the breaker opens.
TEST_F(WatchdogTest, OneThatAlwaysForgets) {
  server.EmitCommitted("a");
  Turn(true);
  for (int i = 0; i < 600; ++i) {
    while (!sink->pending.empty()) {
      Forget(sink);
    }
    clock.now += 1'000'000;
    Turn();
  }
  EXPECT_GE(sinks, 5);
  EXPECT_LE(sinks, 11);
}

// --- the second sink -----------------------------------------------------------------------------------------------

class SecondSinkTest : public ParkedTest {};

// Others are heard of all the time, so that it is never silent as a whole.
TEST_F(SecondSinkTest, AParkedEventThatIsForgotten) {
  FailAlone();
  sink->DeliverAll();
  const int64_t far = Park("far", 0);
  ParkedTable others{&server};
  others.rows[far] = table.rows.extract(far).mapped();
  auto spec = fakes::Spec(config);
  RunUntil(RowOf(first).due - FakeClock::kWallAtZero);
  ASSERT_EQ(Order(retry), (Events{first}));
  Forget(retry);
  sink->on_poll = [this] { sink->DeliverAll(); };
  ASSERT_TRUE(engine->AddLane(LaneId{2, 0}, spec, Logs(spec, &others), kDestination));
  const int before = retry_sinks;
  for (int i = 0; i < 80 && retry_sinks == before; ++i) {
    if (retry != nullptr && !retry->pending.empty()) {
      retry->Fail(0, ErrorClass::kTopic);
    }
    RunUntil(clock.now + 1'000'000);
  }
  ASSERT_EQ(retry_sinks, before + 1);
  for (int i = 0; i < 100 && table.rows.count(first) != 0; ++i) {
    RunUntil(clock.now + 1'000'000);
    if (retry != nullptr) {
      retry->DeliverAll();
    }
  }
  EXPECT_EQ(table.rows.count(first), 0u);
  std::vector<DestinationStatus> destinations;
  engine->Destinations(&destinations);
  EXPECT_EQ(destinations[0].renewals, 1u);
}

// Two side lanes try their topics; what one tried is forgotten.
TEST_F(SidesTest, AProbeThatIsForgotten) {
  AnswerByItself();
  bad = {"ill", "lost"};
  Emit("ill");
  Emit("lost");
  RunUntil(clock.now + 5'000'000);
  ASSERT_EQ(server.sides.size(), 2u);
  ASSERT_NE(probe, nullptr);
  FakeSink* first = probe;
  bool forgotten = false;
  first->on_poll = [&, first] {
    for (size_t i = 0; i < first->pending.size() && !forgotten; ++i) {
      if (first->pending[i].record.topic == "lost") {
        Forget(first, i);
        forgotten = true;
      }
    }
    Answer(first);
  };
  RunUntil(clock.now + 40'000'000);
  ASSERT_TRUE(forgotten);
  bad = {"ill"};
  RunUntil(clock.now + 2 * kMinute);
  EXPECT_EQ(Written("lost"), Rows("lost"));
  EXPECT_TRUE(Written("ill").empty());
  bad = {};
  RunUntil(clock.now + kMinute);
  EXPECT_EQ(Written("ill"), Rows("ill"));
}

}  // namespace
}  // namespace outbox::relay
