// Parked events in the engine: what is parked how, who waits, and when they are sent again.
#include <new>

#include "relay_parked_fixture.h"

namespace outbox::relay {
namespace {

// --- what is parked, and who waits -------------------------------------------------------------------------------

TEST_F(ParkedTest, AnEventThatFailsAloneIsRetriedAndItsKeyWaits) {
  FailAlone();
  EXPECT_EQ(Order(sink), (Events{other}));
  EXPECT_EQ(RowOf(first).state, ParkedState::kRetrying);
  EXPECT_EQ(RowOf(first).attempts, 1);
  EXPECT_EQ(RowOf(first).error.code, "INVALID_RECORD");
  EXPECT_EQ(RowOf(first).order_key, OrderKey("outbox.event.order", "order", "a"));
  EXPECT_GT(RowOf(first).due, clock.WallMicros());
  EXPECT_LE(RowOf(first).due, clock.WallMicros() + 1'000'001);
  EXPECT_EQ(RowOf(second).state, ParkedState::kBlocked);
  EXPECT_EQ(RowOf(third).state, ParkedState::kBlocked);
  EXPECT_EQ(Internals().held_keys, 1u);
  EXPECT_EQ(table.rows.size(), 3u);
  EXPECT_EQ(retry_sinks, 0);
  // When it is due it goes to a sink of its own; its key follows when that is committed.
  RunUntil(RowOf(first).due - FakeClock::kWallAtZero);
  ASSERT_NE(retry, nullptr);
  EXPECT_EQ(Order(retry), (Events{first}));
  EXPECT_EQ(Order(sink), (Events{other}));
  EXPECT_EQ(Status().retrying_count, 1);
  bool settles = false;
  server.fails = [&](const char* function) { return std::string(function) == "Settle" && !settles; };
  retry->DeliverAll();
  RunUntil(clock.now + 1'000'000);
  EXPECT_TRUE(retry->pending.empty());
  EXPECT_EQ(Status().error->code, "57014");
  settles = true;
  RunUntil(clock.now + 60'000);
  RunUntil(clock.now + 30'000'000);
  EXPECT_EQ(Order(retry), (Events{second, third}));
  // Nothing of the key waits any more: it goes with the lane again.
  retry->DeliverAll();
  Turn();
  EXPECT_EQ(Internals().held_keys, 0u);
  const int64_t fourth = Emit("a");
  Turn();
  EXPECT_EQ(Order(sink), (Events{other, fourth}));
  EXPECT_TRUE(table.rows.empty());
  EXPECT_EQ(table.wrong, "");
}

// Its route is about to get another number of lanes: the lane that has the event then sends it.
TEST_F(ParkedTest, ALaneThatRestsAtACommonSnapshotClaimsNothing) {
  const int64_t parked = Park("a", 1);
  engine = std::make_unique<Engine>(&clock, options);
  retry = nullptr;
  engine->SetDestination(kDestination, MakeFactory(), 0);
  auto spec = fakes::Spec(config);
  LaneLogs logs = Logs(spec, &table);
  static_cast<FakeLog*>(logs.log.get())->limit = server.Current();
  ASSERT_TRUE(engine->AddLane(kLane, spec, std::move(logs), kDestination));
  RunUntil(clock.now + 60'000'000);
  EXPECT_EQ(retry_sinks, 0);
  Restart();
  RunUntil(clock.now + 60'000'000);
  ASSERT_NE(retry, nullptr);
  EXPECT_EQ(Order(retry), (Events{parked}));
}

// It may be of a key that waits, which its old name does not tell.
TEST_F(ParkedTest, UnderNewNamesNothingIsSentBeforeTheKeysAreReadAgain) {
  const Events parked = {Park("a", 1), Park("b", 1)};
  Restart();
  Turn();
  ASSERT_NE(retry, nullptr);
  ASSERT_EQ(Order(retry), parked);
  bool reads = false;
  server.fails = [&](const char* function) { return std::string(function) == "LoadHeld" && !reads; };
  config.topic = "new";
  engine->UpdateLane(kLane, fakes::Spec(config));
  retry->Fail(0, ErrorClass::kSolo);
  retry->Fail(0, ErrorClass::kSolo);
  RunUntil(clock.now + 10'000'000);
  ASSERT_NE(retry, nullptr);
  EXPECT_EQ(Order(retry), Events());
  reads = true;
  RunUntil(clock.now + 10'000'000);
  ASSERT_NE(retry, nullptr);
  EXPECT_FALSE(Order(retry).empty());
}

TEST_F(ParkedTest, NothingParkedIsSentBeforeTheStandbysHaveIt) {
  Turn();
  server.synchronous = false;
  const int64_t edited = Park("a", 1);
  Turn(true, true);
  EXPECT_EQ(retry, nullptr);  // nothing is sent
  RunUntil(clock.now + 1'000'000);
  EXPECT_EQ(Status().error, nullptr);  // the standby has a moment to come
  table.calls.clear();
  server.calls.clear();
  RunUntil(clock.now + 10'000'000);
  ASSERT_NE(Status().error, nullptr);
  EXPECT_EQ(Status().error->code, "NO_STANDBY");
  EXPECT_EQ(table.calls["Claim"], 0);                                                            // it is claimed
  EXPECT_LE(server.calls["CheckDurable"], 2 * (10'000'000 / options.durable_retry_micros + 1));  // the lane looks, too
  EXPECT_EQ(retry, nullptr);
  server.flushed = server.lsn;
  RunUntil(clock.now + 1'000'000);
  EXPECT_EQ(Status().error, nullptr);
  ASSERT_NE(retry, nullptr);
  EXPECT_EQ(Order(retry), (Events{edited}));
}

// Whatever was in the way of finding out whether its commit may be sent is nothing to an event that is not to be sent.
TEST_F(ParkedTest, WhatIsPausedWhileItCannotBeFoundOutWhetherStandbysHaveItIsGivenBackAtOnce) {
  Turn();
  server.synchronous = false;
  server.fails = [](const char* function) { return std::string(function) == "CheckDurable"; };
  Park("a", 1);
  RunUntil(clock.now + 120'000'000);  // the pauses between two tries are long by now
  ASSERT_NE(Status().error, nullptr);
  format::RouteConfig paused = config;
  paused.paused = true;
  engine->UpdateLane(kLane, fakes::Spec(paused));
  table.calls.clear();
  RunUntil(clock.now + 100'000);
  EXPECT_EQ(table.calls["Settle"], 1);
}

TEST_F(ParkedTest, WhatIsPausedWhileTheStandbysAreAwayIsNotSentWhenTheyAreBack) {
  Turn();
  server.synchronous = false;
  Park("a", 1);
  const int64_t other = Park("b", 1);
  RunUntil(clock.now + 10'000'000);
  format::RouteConfig paused = config;
  paused.paused_keys.push_back({"order", "a"});
  table.paused.insert("a");
  engine->UpdateLane(kLane, fakes::Spec(paused));
  RunUntil(clock.now + 1'000'000);
  server.flushed = server.lsn;
  RunUntil(clock.now + 1'000'000);
  ASSERT_NE(retry, nullptr);
  EXPECT_EQ(Order(retry), (Events{other}));
  paused.paused = true;
  server.synchronous = false;
  retry->DeliverAll();
  Park("c", 1);
  RunUntil(clock.now + 10'000'000);
  ASSERT_NE(Status().error, nullptr);
  engine->UpdateLane(kLane, fakes::Spec(paused));
  RunUntil(clock.now + 1'000'000);
  EXPECT_EQ(Status().error, nullptr);  // a paused route awaits nothing
}

// Whose claim takes a while.
class SlowParkedLog final : public FakeParkedLog {
 public:
  SlowParkedLog(ParkedTable* table, uint64_t incarnation, fakes::FakeClock* clock)
      : FakeParkedLog(table, incarnation), clock_(clock) {}
  Status Claim(const ClaimLimits& limits, ClaimedChunk* chunk, int64_t* next_due) override {
    clock_->now += 5'000;
    return FakeParkedLog::Claim(limits, chunk, next_due);
  }

 private:
  fakes::FakeClock* const clock_;
};

TEST_F(ParkedTest, ManyLanesThatLookForParkedEventsHoldUpNoEventOfTheLog) {
  constexpr size_t kLanes = 100;
  std::vector<std::unique_ptr<ParkedTable>> tables;
  for (size_t i = 0; i < kLanes; ++i) {
    auto spec = fakes::Spec(config);
    LaneLogs logs = fakes::Logs(&server, spec);
    tables.push_back(std::make_unique<ParkedTable>(&server));
    logs.parked = std::make_unique<SlowParkedLog>(tables.back().get(), ++incarnation, &clock);
    ASSERT_TRUE(engine->AddLane({.route_id = 100 + static_cast<int64_t>(i)}, spec, std::move(logs), kDestination));
  }
  const int64_t began = clock.now;
  Emit("k");
  Turn();
  Turn();
  EXPECT_EQ(sink->pending.size(), kLanes + 1);
  EXPECT_LT(clock.now - began, 4 * options.turn_micros);
}

TEST_F(ParkedTest, APermanentRefusalIsADeadLetterAtOnceAndItsKeyGoesOn) {
  const int64_t bad = Emit("a");
  const int64_t good = Emit("a");
  Turn();
  sink->Fail(0, ErrorClass::kMessage);
  Turn();
  EXPECT_EQ(RowOf(bad).state, ParkedState::kDead);
  EXPECT_EQ(RowOf(bad).attempts, 1);
  EXPECT_EQ(Order(sink), (Events{good}));
  EXPECT_EQ(Internals().held_keys, 0u);
}

TEST_F(ParkedTest, UnderBlockTheKeyWaitsForAPersonAndNoOtherKeyDoes) {
  Restart(format::OnFailure::kBlock);
  const int64_t bad = Emit("a");
  const int64_t behind = Emit("a");
  const int64_t free = Emit("b");
  Turn();
  sink->Fail(0, ErrorClass::kMessage);
  RunUntil(clock.now + 50'000'000);  // after a minute without an outcome the sink would be recreated
  EXPECT_EQ(RowOf(bad).state, ParkedState::kDead);
  EXPECT_EQ(RowOf(behind).state, ParkedState::kBlocked);
  EXPECT_EQ(Order(sink), (Events{free}));
  sink->DeliverAll();
  // Another worker takes over: it still waits.
  Restart(format::OnFailure::kBlock);
  const int64_t later = Emit("a");
  RunUntil(clock.now + 1'000'000);
  EXPECT_EQ(RowOf(later).state, ParkedState::kBlocked);
  EXPECT_EQ(retry, nullptr);
  EXPECT_TRUE(table.Remove(bad));
  Turn(true, true);
  ASSERT_NE(retry, nullptr);
  EXPECT_EQ(Order(retry), (Events{behind, later}));
}

TEST_F(ParkedTest, AStaleHoldHealsItself) {
  FailAlone();
  sink->DeliverAll();
  table.Remove(first);
  table.Remove(second);
  table.Remove(third);  // and the lane was not told
  const int64_t next = Emit("a");
  Turn();
  ASSERT_NE(retry, nullptr);
  EXPECT_EQ(Order(retry), (Events{next}));
  retry->DeliverAll();
  Turn();
  EXPECT_EQ(Internals().held_keys, 0u);
}

TEST_F(ParkedTest, ManyBlockedEventsAreParkedInFewTransactions) {
  FailAlone();
  table.calls.clear();
  for (int i = 0; i < 2500; ++i) {
    Emit("a");
  }
  RunUntil(clock.now + 10'000);
  EXPECT_EQ(table.rows.size(), 2503u);
  EXPECT_EQ(table.largest_park, 1000u);
}

TEST_F(ParkedTest, NothingIsParkedBehindAPausedKeyBeforeWhatIsUnderWayHasItsOutcome) {
  const int64_t under_way = Emit("a");
  Turn();
  config.paused_keys = {{"order", "a"}};
  table.paused = {"a"};
  engine->UpdateLane(kLane, fakes::Spec(config));
  const int64_t later = Emit("a");
  const int64_t free = Emit("b");
  RunUntil(clock.now + 2'000'000);
  EXPECT_EQ(Order(sink), (Events{under_way}));
  EXPECT_TRUE(table.rows.empty());
  sink->Abort(sink->pending[0].flow, 0);
  RunUntil(clock.now + 2'000'000);
  EXPECT_EQ(Order(sink), (Events{free}));
  EXPECT_EQ(RowOf(under_way).state, ParkedState::kBlocked);
  EXPECT_EQ(RowOf(later).state, ParkedState::kBlocked);
  // Resumed: in order.
  config.paused_keys.clear();
  table.paused.clear();
  table.PromoteAll();
  engine->UpdateLane(kLane, fakes::Spec(config));
  const int64_t last = Emit("a");
  Turn(true, true);
  ASSERT_NE(retry, nullptr);
  EXPECT_EQ(Order(retry), (Events{under_way, later}));
  EXPECT_EQ(RowOf(last).state, ParkedState::kBlocked);
}

// --- attempts ----------------------------------------------------------------------------------------------------

TEST_F(ParkedTest, AttemptsAreCountedToDeathAndThenTheKeyGoesOn) {
  FailAlone();
  for (int attempt = 2; attempt <= 3; ++attempt) {
    RunUntil(RowOf(first).due - FakeClock::kWallAtZero);
    ASSERT_NE(retry, nullptr);
    ASSERT_EQ(Order(retry), (Events{first}));
    retry->Fail(0, ErrorClass::kSolo, "AGAIN");
    Turn();
    EXPECT_EQ(RowOf(first).attempts, attempt);
  }
  EXPECT_EQ(RowOf(first).state, ParkedState::kDead);
  EXPECT_EQ(RowOf(first).error.code, "AGAIN");
  EXPECT_EQ(Order(retry), (Events{second, third}));
}

// The format `outbox`, but a record of key "large" takes memory that may not be there.
bool memory_is_short = false;
class LargeEncoder final : public format::Encoder {
 public:
  explicit LargeEncoder(const format::Use& use) : encoder_(format::kOutboxFormat.make(use)) {}
  bool Encode(const Event& event, sink::Record* record, Error* error) override {
    EXPECT_FALSE(interrupted_) << "used again";
    if (memory_is_short && event.aggregate_id == "large") {
      interrupted_ = true;
      throw std::bad_alloc();
    }
    return encoder_->Encode(event, record, error);
  }

 private:
  const std::unique_ptr<format::Encoder> encoder_;
  bool interrupted_ = false;
};
constinit const format::Format kLargeFormat = {
    .name = "large",
    .make = [](const format::Use& use) -> std::unique_ptr<format::Encoder> {
      return std::make_unique<LargeEncoder>(use);
    },
};

// Neither does the worker end, which the next one would do as well, nor is it the end of the event.
TEST_F(ParkedTest, AnEventForWhoseRecordThereIsNoMemoryIsTriedAgain) {
  config.format = &kLargeFormat;
  Restart();
  memory_is_short = true;
  const int64_t before = Emit("a");
  const int64_t large = Emit("large");
  const int64_t behind = Emit("large");
  const int64_t after = Emit("b");
  for (int i = 0; i < 3; ++i) {
    Turn();
    sink->DeliverAll();
  }
  EXPECT_EQ(broker.Order(), (Events{before, after}));
  EXPECT_EQ(RowOf(large).state, ParkedState::kRetrying);
  EXPECT_EQ(RowOf(large).attempts, 1);
  EXPECT_EQ(RowOf(large).error.code, "OUT_OF_MEMORY");
  EXPECT_EQ(RowOf(behind).state, ParkedState::kBlocked);
  RunUntil(RowOf(large).due - FakeClock::kWallAtZero);
  EXPECT_EQ(RowOf(large).state, ParkedState::kRetrying);
  EXPECT_EQ(RowOf(large).attempts, 2);
  EXPECT_EQ(RowOf(large).error.code, "OUT_OF_MEMORY");
  memory_is_short = false;
  RunUntil(RowOf(large).due - FakeClock::kWallAtZero);
  ASSERT_NE(retry, nullptr);
  EXPECT_EQ(Order(retry), (Events{large}));
  retry->DeliverAll();
  RunUntil(clock.now + 1'000'000);
  EXPECT_EQ(Order(retry), (Events{behind}));
  retry->DeliverAll();
  Turn();
  // Where there never is, its attempts come to an end.
  memory_is_short = true;
  const int64_t hopeless = Emit("large");
  Turn();
  for (int attempt = 1; attempt < 3; ++attempt) {
    Turn();
    RunUntil(RowOf(hopeless).due - FakeClock::kWallAtZero);
  }
  EXPECT_EQ(RowOf(hopeless).state, ParkedState::kDead);
  EXPECT_EQ(RowOf(hopeless).attempts, 3);
  memory_is_short = false;
}

TEST_F(ParkedTest, OneOfManyRetriesThatIsRefusedHurtsNoNeighbour) {
  std::vector<int64_t> events;
  for (int i = 0; i < 20; ++i) {
    events.push_back(Park("k" + std::to_string(i), 1));
  }
  Restart();
  Turn();
  ASSERT_NE(retry, nullptr);
  ASSERT_EQ(Order(retry), events);
  // The whole batch is refused, as Kafka does it.
  while (!retry->pending.empty()) {
    retry->Fail(0, ErrorClass::kSolo, "INVALID_RECORD");
  }
  int alone = 0;
  retry->on_poll = [&] {
    EXPECT_LE(retry->pending.size(), 1u);
    if (!retry->pending.empty()) {
      ++alone;
      retry->pending[0].record.created_at == events[7] ? retry->Fail(0, ErrorClass::kSolo) : retry->Deliver();
    }
  };
  RunUntil(clock.now + 1000);
  EXPECT_EQ(alone, 20);
  ASSERT_EQ(table.rows.size(), 1u);
  EXPECT_EQ(RowOf(events[7]).attempts, 2);
}

TEST_F(ParkedTest, TroubleOfADestinationIsChargedToNoEventAndItsRecoveryEndsTheBackOff) {
  FailAlone();
  sink->DeliverAll();
  RunUntil(RowOf(first).due - FakeClock::kWallAtZero);
  for (ErrorClass error_class : {ErrorClass::kDestination, ErrorClass::kConfig, ErrorClass::kFatalClient,
                                 ErrorClass::kInternal, static_cast<ErrorClass>(99)}) {
    ASSERT_EQ(Order(retry), (Events{first}));
    retry->Fail(0, error_class, "TROUBLE");
    Turn();
    EXPECT_TRUE(retry->pending.empty());
    EXPECT_EQ(RowOf(first).attempts, 1);
    EXPECT_EQ(RowOf(first).sender, 0u);
    EXPECT_EQ(Status().error->code, "TROUBLE");
    // A person may act on it meanwhile. Up again: at once.
    sink->SetUp(false);
    Turn();
    sink->SetUp(true);
    Turn();
  }
  EXPECT_EQ(Order(retry), (Events{first}));
  retry->DeliverAll();
  Turn();
  EXPECT_EQ(Status().error, nullptr);
}

TEST_F(ParkedTest, NothingIsClaimedWhileTheBreakerIsOpenAndAFewWhenItIsTried) {
  for (int i = 0; i < 40; ++i) {
    Park("", 1);
  }
  Restart();
  sink->SetUp(false);
  Turn();
  EXPECT_EQ(retry, nullptr);
  sink->SetUp(true);
  Turn();
  ASSERT_NE(retry, nullptr);
  EXPECT_EQ(retry->pending.size(), 16u);  // the probe of an idle lane
  retry->DeliverAll();
  Turn();
  EXPECT_EQ(retry->pending.size(), 24u);
}

TEST_F(ParkedTest, ATopicInTroubleStopsNoOtherTopicsRetries) {
  FailAlone();
  sink->DeliverAll();
  server.EmitCommitted("c", 10, "missing");
  const int64_t missing = server.rows.back().created_at;
  Turn();
  sink->Fail(0, ErrorClass::kSolo);
  Turn();
  sink->Fail(0, ErrorClass::kSolo);
  Turn();
  int tried = 0;
  clock.now += 1'000'001;
  Turn();
  retry->on_poll = [&] {
    while (!retry->pending.empty()) {
      if (retry->pending[0].record.topic == "missing") {
        ++tried;
        retry->Fail(0, ErrorClass::kTopic);
      } else {
        retry->Deliver();
      }
    }
  };
  RunUntil(clock.now + 60'000'000);
  EXPECT_EQ(table.rows.size(), 1u);
  EXPECT_EQ(RowOf(missing).attempts, 1);
  EXPECT_GT(tried, 3);
  EXPECT_LT(tried, 60);
}

TEST_F(ParkedTest, AnEventThatKillsTheSinkThreeTimesAloneIsADeadLetter) {
  FailAlone();
  sink->DeliverAll();
  const int64_t good = Park("b", 0);
  Restart();
  int deaths = 0;
  clock.now += 1'000'001;
  Turn();
  ASSERT_EQ(Order(retry), (Events{first, good}));
  retry->on_poll = [&] {
    if (retry->pending.empty()) {
      return;
    }
    if (retry->pending[0].record.created_at == first) {
      ++deaths;
      retry->Die();
    } else {
      retry->DeliverAll();
    }
  };
  RunUntil(clock.now + 60'000'000);
  EXPECT_EQ(deaths, 4);
  EXPECT_EQ(RowOf(first).state, ParkedState::kDead);
  EXPECT_EQ(RowOf(first).error.code, "SINK_DIED");
  EXPECT_EQ(table.rows.size(), 1u);
}

TEST_F(ParkedTest, ASinkThatDiesWhateverIsSentIsNoEventsFault) {
  for (int i = 0; i < 5; ++i) {
    Park("", 0);
  }
  Restart();
  Turn();
  retry->on_poll = [&] {
    if (!retry->pending.empty()) {
      retry->Die();
    }
  };
  RunUntil(clock.now + 600'000'000);
  EXPECT_LE(table.ever_dead.size(), 1u);
}

// --- scheduled ---------------------------------------------------------------------------------------------------

// It uses up no attempts, and whoever looks at the event, or at its idle lane, sees why it does not go.
TEST_F(ParkedTest, AScheduledEventWhoseTopicIsInTroubleWhenItIsDueSaysWhy) {
  const int64_t due = clock.WallMicros() + 5'000'000;
  std::vector<int64_t> late;
  for (int i = 0; i < 2; ++i) {
    server.EmitCommitted("", 10, "missing");
    server.rows.back().deliver_at = due;
    late.push_back(server.rows.back().created_at);
  }
  RunUntil(due - FakeClock::kWallAtZero - 1);
  EXPECT_EQ(Status().error, nullptr);
  ++clock.now;
  Turn();
  ASSERT_NE(retry, nullptr);
  bool well = false;
  retry->on_poll = [&] {
    while (!retry->pending.empty()) {
      well ? retry->Deliver() : retry->Fail(0, ErrorClass::kTopic, "WRONGTYPE");
    }
  };
  for (int i = 0; i < 10; ++i) {
    RunUntil(clock.now + 3'000'000);
    ASSERT_NE(Status().error, nullptr);
    EXPECT_EQ(Status().error->code, "WRONGTYPE");
    EXPECT_STREQ(LaneStateName(Status().state), "idle");
    EXPECT_GE(Status().error_since_unix, due);
    EXPECT_LT(Status().error_since_unix, due + 1'000'000);
    for (const int64_t one : late) {
      EXPECT_EQ(RowOf(one).state, ParkedState::kScheduled);
      EXPECT_EQ(RowOf(one).attempts, 0);
      EXPECT_EQ(RowOf(one).error.code, "WRONGTYPE");
    }
  }
  well = true;
  RunUntil(clock.now + 60'000'000);
  EXPECT_TRUE(table.rows.empty());
  EXPECT_EQ(Status().error, nullptr);
  EXPECT_EQ(table.wrong, "");
}

// Somebody has taken the event away: the topic is nobody's business any more.
TEST_F(ParkedTest, TheTroubleOfATopicIsForgottenWithItsLastEvent) {
  server.EmitCommitted("", 10, "missing");
  server.rows.back().deliver_at = clock.WallMicros() + 1;
  const int64_t late = server.rows.back().created_at;
  Turn();
  clock.now += 2;
  Turn();
  ASSERT_NE(retry, nullptr);
  retry->on_poll = [&] {
    while (!retry->pending.empty()) {
      retry->Fail(0, ErrorClass::kTopic, "WRONGTYPE");
    }
  };
  RunUntil(clock.now + 10'000'000);
  ASSERT_NE(Status().error, nullptr);
  table.rows.erase(late);
  RunUntil(clock.now + 120'000'000);
  EXPECT_EQ(Status().error, nullptr);
}

TEST_F(ParkedTest, AScheduledEventThatIsDueWhileTheDestinationIsDownSaysWhy) {
  const int64_t due = clock.WallMicros() + 5'000'000;
  Emit("a", due);
  Turn();
  sink->SetUp(false);
  RunUntil(due - FakeClock::kWallAtZero - 1);
  EXPECT_EQ(Status().error, nullptr);
  EXPECT_STREQ(LaneStateName(Status().state), "idle");
  RunUntil(clock.now + 20'000'000);
  ASSERT_NE(Status().error, nullptr);
  EXPECT_EQ(Status().error->error_class, ErrorClass::kDestination);
  EXPECT_STREQ(LaneStateName(Status().state), "backing off");
  sink->SetUp(true);
  Turn();
  ASSERT_NE(retry, nullptr);
  retry->DeliverAll();
  Turn();
  EXPECT_TRUE(table.rows.empty());
  EXPECT_EQ(Status().error, nullptr);
  EXPECT_STREQ(LaneStateName(Status().state), "idle");
}

TEST_F(ParkedTest, AScheduledEventIsHeldUntilItIsDueAndNothingWaitsForIt) {
  const int64_t due = clock.WallMicros() + 5'000'000;
  const int64_t later = Emit("a", due);
  const int64_t now = Emit("a");
  const int64_t past = Emit("a", clock.WallMicros() - 1);
  Turn();
  EXPECT_EQ(Order(sink), (Events{now, past}));
  EXPECT_EQ(RowOf(later).state, ParkedState::kScheduled);
  EXPECT_EQ(RowOf(later).due, due);
  EXPECT_EQ(Internals().held_keys, 0u);
  RunUntil(due - FakeClock::kWallAtZero - 1);
  EXPECT_EQ(retry, nullptr);
  RunUntil(due - FakeClock::kWallAtZero);
  ASSERT_NE(retry, nullptr);
  EXPECT_EQ(Order(retry), (Events{later}));
  // Refused, it is like any other: what comes now waits behind it.
  retry->Fail(0, ErrorClass::kSolo);
  sink->DeliverAll();
  Turn();
  const int64_t behind = Emit("a");
  Turn();
  EXPECT_EQ(RowOf(later).state, ParkedState::kRetrying);
  EXPECT_EQ(RowOf(behind).state, ParkedState::kBlocked);
}

// A sink may refuse an event ahead of those of its key that it aborts (it has learnt what its topic refuses).
TEST_F(ParkedTest, UnderBlockAnEventIsParkedOnlyWhenAllBeforeItOfItsKeyAreDone) {
  Restart(format::OnFailure::kBlock);
  first = Emit("a");
  other = Emit("b");
  second = Emit("a");
  third = Emit("a");
  Turn();
  sink->Fail(2, ErrorClass::kMessage);
  Turn();
  EXPECT_TRUE(table.rows.empty());
  EXPECT_EQ(Order(sink), (Events{first, other, second, third}));
  sink->Deliver(0);
  sink->Fail(1, ErrorClass::kMessage);
  Turn();
  EXPECT_EQ(RowOf(second).state, ParkedState::kDead);
  EXPECT_EQ(Order(sink), (Events{other}));
  EXPECT_EQ(RowOf(third).state, ParkedState::kBlocked);
}

// --- trouble of a call that is wanted no more -----------------------------------------------------------------------

TEST_F(ParkedTest, ARouteThatIsPausedWhileWhatIsParkedCannotBeReadIsPausedAndNoMore) {
  Park("a", 1);
  server.fails = [](const char* function) { return std::string(function) == "Claim"; };
  RunUntil(clock.now + 3'000'000);
  ASSERT_NE(Status().error, nullptr);
  config.paused = true;
  engine->UpdateLane(kLane, fakes::Spec(config));
  RunUntil(clock.now + options.backoff_cap_micros + 2'000'000);
  EXPECT_EQ(Status().error, nullptr);
}

TEST_F(ParkedTest, AScheduledEventThatCouldNotBeParkedUntilItWasDueIsSent) {
  sink->on_poll = nullptr;
  Emit("b");
  Turn();
  ASSERT_EQ(sink->pending.size(), 1u);
  server.fails = [](const char* function) { return std::string(function) == "Park"; };
  Emit("a", clock.WallMicros() + 3'000'000);
  RunUntil(clock.now + 2'000'000);
  ASSERT_NE(Status().error, nullptr);
  sink->Die();  // what is in flight is sent again, and it behind that
  clock.now += 1'500'000;
  sink->on_poll = [&] { sink->DeliverAll(); };
  RunUntil(clock.now + 3'000'000);
  EXPECT_EQ(broker.log.size(), 2u);
  EXPECT_TRUE(table.rows.empty());
  EXPECT_EQ(Status().error, nullptr);
}

}  // namespace
}  // namespace outbox::relay
