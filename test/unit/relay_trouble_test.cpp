// matrix: D1 D5
// The relay engine when a destination, an event or the log is in trouble.
#include "relay_engine_fixture.h"

namespace outbox::relay {
namespace {

// --- a destination in trouble ------------------------------------------------------------------------------------

TEST_F(EngineTest, AbortedEventsAreSentAgainAtOnceInOrderUnderAHigherEpoch) {
  for (int i = 0; i < 6; ++i) {
    server.EmitCommitted("k" + std::to_string(i % 3));
  }
  Turn();
  const uint32_t epoch = sink->pending[0].epoch;
  sink->Deliver(1);
  sink->Abort(sink->pending[0].flow, 2);
  Turn();
  std::vector<int64_t> again = AllRows();
  again.erase(again.begin() + 1);
  EXPECT_EQ(PendingOrder(), again);
  EXPECT_GT(sink->pending[0].epoch, epoch);
}

TEST_F(EngineTest, NothingIsSentAgainBeforeEverythingUnderWayHasItsOutcome) {
  for (int i = 0; i < 4; ++i) {
    server.EmitCommitted("k" + std::to_string(i));
  }
  Turn();
  // Another partition's record is still in flight at the sink while the first has failed already.
  std::deque<Pending> held(sink->pending.begin() + 2, sink->pending.end());
  sink->pending.erase(sink->pending.begin() + 2, sink->pending.end());
  sink->Fail(0, ErrorClass::kDestination);
  clock.now += 1;
  const int submits = sink->submits;
  RunUntil(clock.now + 25'000'000);
  EXPECT_EQ(sink->submits, submits);
  EXPECT_EQ(State(), "draining");
  sink->pending = held;
  sink->DeliverAll();
  RunUntil(clock.now + 25'000'000);
  EXPECT_EQ(PendingOrder(), (std::vector<int64_t>{server.rows[0].created_at, server.rows[1].created_at}));
}

TEST_F(EngineTest, BackOffGrowsToItsCapWithJitterAndChargesNothing) {
  server.EmitCommitted("k");
  std::vector<int64_t> delays;
  Turn();
  for (int i = 0; i < 60; ++i) {
    ASSERT_EQ(sink->pending.size(), 1u);
    sink->Fail(0, ErrorClass::kTopic);
    int64_t next = Turn();
    EXPECT_EQ(State(), "backing off");
    EXPECT_GT(Status().next_try_unix, clock.WallMicros());
    ASSERT_NE(Status().error, nullptr);
    EXPECT_EQ(Status().error->error_class, ErrorClass::kTopic);
    const int64_t from = clock.now;
    while (sink->pending.empty()) {
      ASSERT_GT(next, clock.now);
      clock.now = next;
      next = Turn();
    }
    delays.push_back(clock.now - from);
  }
  EXPECT_LE(delays[0], options.backoff_base_micros);
  EXPECT_LE(delays[1], options.backoff_base_micros * 2);
  EXPECT_LE(delays[2], options.backoff_base_micros * 4);
  const auto late_begin = delays.begin() + 12;
  EXPECT_LE(*std::max_element(late_begin, delays.end()), options.backoff_cap_micros);
  EXPECT_GT(*std::max_element(late_begin, delays.end()), options.backoff_cap_micros * 8 / 10);
  EXPECT_LT(*std::min_element(late_begin, delays.end()), options.backoff_cap_micros * 2 / 10);
  const int64_t mean = std::accumulate(late_begin, delays.end(), int64_t{0}) / (delays.end() - late_begin);
  EXPECT_GT(mean, options.backoff_cap_micros * 3 / 10);
  EXPECT_LT(mean, options.backoff_cap_micros * 7 / 10);
  EXPECT_TRUE(server.parked.empty());
  sink->DeliverAll();
  Turn();
  EXPECT_EQ(Status().error, nullptr);
  EXPECT_EQ(State(), "idle");
  // It starts over after success.
  server.EmitCommitted("k");
  Turn(true);
  sink->Fail(0, ErrorClass::kTopic);
  const int64_t next = Turn();
  EXPECT_LE(next - clock.now, options.backoff_base_micros);
}

TEST_F(EngineTest, UnknownAndInternalErrorsCountAsTheDestinations) {
  for (ErrorClass error_class : {ErrorClass::kDestination, ErrorClass::kConfig, ErrorClass::kFatalClient,
                                 ErrorClass::kInternal, static_cast<ErrorClass>(99)}) {
    server.EmitCommitted("k");
    Turn(true);
    sink->Fail(0, error_class);
    Turn();
    EXPECT_EQ(State(), "backing off");
    RunUntil(clock.now + options.backoff_cap_micros);
    ASSERT_EQ(sink->pending.size(), 1u);
    sink->Deliver();
    Turn();
  }
  EXPECT_TRUE(server.parked.empty());
  EXPECT_EQ(broker.Order(), AllRows());
}

TEST_F(EngineTest, ADestinationThatComesUpIsTriedAtOnce) {
  server.EmitCommitted("k");
  Turn();
  sink->SetUp(false);
  sink->Abort(sink->pending[0].flow, 0);
  Turn();
  EXPECT_EQ(State(), "backing off");
  ASSERT_NE(Status().error, nullptr);
  EXPECT_EQ(Status().error->code, "DOWN");
  EXPECT_TRUE(sink->pending.empty());
  sink->SetUp(true);
  Turn();
  EXPECT_EQ(sink->pending.size(), 1u);
}

// It was away first, and lets nobody in now; what is under way at the sink waits on.
TEST_F(EngineTest, ALaneSaysWhatItsDestinationSaysNow) {
  for (int i = 0; i < 3; ++i) {
    server.EmitCommitted("k");
  }
  Turn();
  sink->SetUp(false);
  Turn();
  ASSERT_NE(Status().error, nullptr);
  EXPECT_EQ(Status().error->code, "DOWN");
  const int64_t since = Status().error_since_unix;
  clock.now += 5'000'000;
  sink->SetDown({ErrorClass::kConfig, "_SSL", "the test says so"});
  Turn();
  ASSERT_NE(Status().error, nullptr);
  EXPECT_EQ(Status().error->code, "_SSL");
  sink->SetDown({ErrorClass::kConfig, "_SSL", "another word"});
  Turn();
  ASSERT_NE(Status().error, nullptr);
  EXPECT_EQ(Status().error->message, "another word");
  EXPECT_EQ(Status().error_since_unix, since);
  sink->SetUp(true);
  sink->DeliverAll();
  Turn();
  EXPECT_EQ(Status().error, nullptr);
}

TEST_F(EngineTest, AbortsWithoutProgressDoNotSpin) {
  server.EmitCommitted("k");
  Turn();
  int aborts = 0;
  sink->on_poll = [&] {
    if (!sink->pending.empty()) {
      ++aborts;
      sink->Abort(sink->pending[0].flow, 0);
    }
  };
  RunUntil(clock.now + 60'000'000);
  EXPECT_GT(aborts, 3);
  EXPECT_LT(aborts, 60);
}

TEST_F(EngineTest, ADestinationThatIsDownIsNotReadFor) {
  options.chunk_bytes = 16 * 1024;
  engine->SetOptions(options);
  for (int i = 0; i < 2'000; ++i) {
    server.EmitCommitted("k", 300);
  }
  sink->SetUp(false);
  RunUntil(clock.now + 10'000'000);
  EXPECT_GT(sink->pending.size(), 0u);  // one chunk, to find out
  EXPECT_LT(Internals().inflight_bytes, 40u * 1024);
  const int reads = server.calls["ReadChunk"];
  RunUntil(clock.now + 10'000'000);
  EXPECT_EQ(server.calls["ReadChunk"], reads);
  sink->SetUp(true);
  sink->on_poll = [&] { sink->DeliverAll(); };
  RunUntil(clock.now + 100'000);
  EXPECT_EQ(broker.Order(), AllRows());
}

TEST_F(EngineTest, OneDestinationInTroubleDoesNotTouchAnother) {
  Server other_server{&clock};
  Broker other_broker;
  auto made = std::make_unique<FakeSink>(&other_broker, &other_server);
  FakeSink* other = made.get();
  engine->SetDestination(6, fakes::Factory(std::move(made)), 0);
  ASSERT_TRUE(engine->AddLane({9, 0}, spec, fakes::Logs(&other_server, spec), 6));
  server.EmitCommitted("k");
  sink->SetUp(false);
  other->on_poll = [&] { other->DeliverAll(); };
  for (int i = 0; i < 100; ++i) {
    other_server.EmitCommitted("k");
    Turn(true);
  }
  EXPECT_EQ(other_broker.log.size(), 100u);
}

// --- refused events ----------------------------------------------------------------------------------------------

TEST_F(EngineTest, ARefusedEventIsParkedBeforeItsSuccessorsAreSent) {
  for (int i = 0; i < 4; ++i) {
    server.EmitCommitted("k");
  }
  Turn();
  sink->Deliver();
  bool park_works = false;
  server.fails = [&](const char* function) { return std::string(function) == "Park" && !park_works; };
  const int submits = sink->submits;
  sink->Fail(0, ErrorClass::kMessage, "MSG_SIZE_TOO_LARGE");
  RunUntil(clock.now + 60'000'000);
  EXPECT_EQ(State(), "parking");
  EXPECT_EQ(sink->submits, submits);
  EXPECT_GT(server.calls["Park"], 2);
  EXPECT_LT(server.calls["Park"], 60);
  EXPECT_EQ(Status().error->code, "57014");
  park_works = true;
  RunUntil(clock.now + options.backoff_cap_micros);
  EXPECT_EQ(server.parked, (std::vector<int64_t>{server.rows[1].created_at}));
  EXPECT_EQ(server.refusals[0].error.code, "MSG_SIZE_TOO_LARGE");
  EXPECT_EQ(server.refusals[0].attempts, 1);
  EXPECT_EQ(PendingOrder(), (std::vector<int64_t>{server.rows[2].created_at, server.rows[3].created_at}));
  sink->DeliverAll();
  RunUntil(clock.now + 1'000'000);
  EXPECT_EQ(server.position.base, server.Current());
  EXPECT_EQ(server.parked.size(), 1u);
  EXPECT_EQ(broker.log.size(), 3u);
}

TEST_F(EngineTest, ASuspectIsSentAloneAndDeliveredIfItWasInnocent) {
  for (int i = 0; i < 5; ++i) {
    server.EmitCommitted("k" + std::to_string(i));
  }
  Turn();
  sink->Fail(2, ErrorClass::kSolo);
  Turn();
  // What comes before it goes first, and is waited for.
  EXPECT_EQ(PendingOrder(), (std::vector<int64_t>{server.rows[0].created_at, server.rows[1].created_at}));
  sink->DeliverAll();
  Turn();
  ASSERT_EQ(PendingOrder(), (std::vector<int64_t>{server.rows[2].created_at}));
  EXPECT_EQ(sink->pending[0].batch_count, 1u);
  EXPECT_EQ(State(), "solo");
  sink->DeliverAll();
  Turn();
  EXPECT_EQ(sink->pending.size(), 2u);
  sink->DeliverAll();
  Turn();
  EXPECT_EQ(broker.Order(), AllRows());
  EXPECT_TRUE(server.parked.empty());
  EXPECT_EQ(State(), "idle");
}

TEST_F(EngineTest, ASuspectThatFailsAloneIsParked) {
  for (int i = 0; i < 3; ++i) {
    server.EmitCommitted("k");
  }
  Turn();
  sink->Fail(0, ErrorClass::kSolo);
  Turn();
  ASSERT_EQ(sink->pending.size(), 1u);
  sink->Fail(0, ErrorClass::kSolo, "INVALID_RECORD");
  Turn();
  EXPECT_EQ(server.parked, (std::vector<int64_t>{server.rows[0].created_at}));
  EXPECT_EQ(server.refusals[0].attempts, 1);
  EXPECT_EQ(PendingOrder(), (std::vector<int64_t>{server.rows[1].created_at, server.rows[2].created_at}));
}

TEST_F(EngineTest, ASuspectMeetsADestinationInTroubleAndStaysASuspect) {
  server.EmitCommitted("k");
  server.EmitCommitted("k");
  Turn();
  sink->Fail(0, ErrorClass::kSolo);
  Turn();
  sink->Fail(0, ErrorClass::kDestination);
  RunUntil(clock.now + options.backoff_cap_micros);
  ASSERT_EQ(sink->pending.size(), 1u);
  EXPECT_EQ(State(), "solo");
  EXPECT_TRUE(server.parked.empty());
  sink->Abort(sink->pending[0].flow, 0);
  RunUntil(clock.now + options.backoff_cap_micros);
  ASSERT_EQ(sink->pending.size(), 1u);
  sink->Deliver();
  Turn();
  EXPECT_EQ(PendingOrder(), (std::vector<int64_t>{server.rows[1].created_at}));
}

TEST_F(EngineTest, AnEventWithoutALegalTopicIsParkedAndItsNeighboursGoOn) {
  server.EmitCommitted("k");
  server.EmitCommitted("k", 10, "no/such topic");
  server.EmitCommitted("k", 10, "explicit");
  Turn();
  EXPECT_EQ(server.parked, (std::vector<int64_t>{server.rows[1].created_at}));
  EXPECT_EQ(server.refusals[0].error.error_class, ErrorClass::kMessage);
  EXPECT_EQ(server.refusals[0].error.code, "INVALID_TOPIC");
  ASSERT_EQ(sink->pending.size(), 2u);
  EXPECT_EQ(sink->pending[0].record.topic, "outbox.event.order");
  EXPECT_EQ(sink->pending[1].record.topic, "explicit");
  sink->DeliverAll();
  Turn();
  EXPECT_EQ(State(), "idle");
}

TEST_F(EngineTest, ManyRefusalsInOneBatchAreAllParkedInOrder) {
  for (int i = 0; i < 50; ++i) {
    server.EmitCommitted("k" + std::to_string(i));
  }
  Turn();
  int refused = 0;
  sink->on_poll = [&] {
    for (size_t i = 0; i < sink->pending.size();) {
      if (sink->pending[i].record.created_at % 2 == 0) {
        ++refused;
        sink->Fail(i, ErrorClass::kMessage);
        return;
      }
      sink->Deliver(i);
    }
  };
  RunUntil(clock.now + 1'000'000);
  EXPECT_EQ(server.parked.size(), 25u);
  EXPECT_TRUE(std::is_sorted(server.parked.begin(), server.parked.end()));
  EXPECT_EQ(broker.log.size(), 25u);
  EXPECT_EQ(refused, 25);
}

// --- the log in trouble ------------------------------------------------------------------------------------------

TEST_F(EngineTest, LogErrorsBackOffAndLoseNothing) {
  for (const char* broken : {"LoadPosition", "OpenWindow", "ReadChunk", "CheckDurable", "SaveProgress"}) {
    Restart();
    broker.log.clear();
    const int64_t emitted = server.EmitCommitted("k").created_at;
    sink->on_poll = [&] { sink->DeliverAll(); };
    server.calls.clear();
    server.fails = [&](const char* function) { return std::string(function) == broken; };
    RunUntil(clock.now + 60'000'000);
    EXPECT_GT(server.calls[broken], 3) << broken;
    EXPECT_LT(server.calls[broken], 100) << broken;
    EXPECT_EQ(Status().error->code, "57014") << broken;
    EXPECT_GT(Status().error_since_unix, 0) << broken;
    server.fails = nullptr;
    RunUntil(clock.now + options.backoff_cap_micros);
    EXPECT_EQ(broker.Order(), (std::vector<int64_t>{emitted})) << broken;
    EXPECT_EQ(Status().error, nullptr) << broken;
    EXPECT_EQ(server.position.base, server.Current()) << broken;
  }
}

// A lane that was moved, say, whose row the mover holds until it commits.
TEST_F(EngineTest, WhatIsLockedForAMomentIsNoTrouble) {
  for (const char* locked : {"LoadPosition", "OpenWindow", "ReadChunk", "SaveProgress"}) {
    Restart();
    broker.log.clear();
    const int64_t emitted = server.EmitCommitted("k").created_at;
    sink->on_poll = [&] { sink->DeliverAll(); };
    server.trouble = kLocked;
    std::optional<int64_t> since;
    server.fails = [&](const char* function) {
      const bool fails = std::string(function) == locked;
      since = fails && !since ? clock.now : since;
      return fails;
    };
    while (!since) {
      RunUntil(clock.now + 1'000);
    }
    RunUntil(*since + 900'000);
    EXPECT_EQ(Status().error, nullptr) << locked;
    EXPECT_EQ(Status().next_try_unix, 0) << locked;
    EXPECT_TRUE(Status().goes_on()) << locked << ": " << State();
    RunUntil(*since + 1'600'000);
    ASSERT_NE(Status().error, nullptr) << locked;
    EXPECT_EQ(Status().error->code, kLocked) << locked;
    EXPECT_EQ(Status().error_since_unix, FakeClock::kWallAtZero + *since) << locked;
    EXPECT_FALSE(Status().goes_on()) << locked;
    server.fails = nullptr;
    RunUntil(clock.now + options.backoff_cap_micros);
    EXPECT_EQ(Status().error, nullptr) << locked;
    EXPECT_EQ(broker.Order(), (std::vector<int64_t>{emitted})) << locked;
  }
}

// One lane asks for all of them: whether the standby has come is not asked again.
TEST_F(EngineTest, LanesThatAwaitAStandbySayNothingOfItWhenAnotherOneHasFoundItThere) {
  fakes::Server second{&clock};
  ASSERT_TRUE(engine->AddLane({1, 1}, spec, fakes::Logs(&second, spec), kDestination));
  server.synchronous = second.synchronous = false;
  const auto tell = [&] {
    engine->Lanes(&statuses);
    return std::count_if(statuses.begin(), statuses.end(), [](const LaneStatus& status) {
      return status.error != nullptr && status.error->code == "NO_STANDBY";
    });
  };
  const auto find_it_there = [&] {
    server.flushed = server.lsn;
    second.flushed = second.lsn;
    RunUntil(clock.now + 50'000);
  };
  sink->on_poll = [&] { sink->DeliverAll(); };
  server.EmitCommitted("a");
  second.EmitCommitted("b");
  RunUntil(clock.now + 10'000'000);
  ASSERT_EQ(tell(), 2);
  find_it_there();
  EXPECT_EQ(broker.log.size(), 2u);
  EXPECT_EQ(tell(), 0);
  server.EmitCommitted("a");
  second.EmitCommitted("b");
  RunUntil(clock.now + 2'000'000);
  EXPECT_EQ(tell(), 0);  // it has a moment to come
  find_it_there();
  EXPECT_EQ(broker.log.size(), 4u);
}

// --- trouble of a call that is wanted no more -----------------------------------------------------------------------

TEST_F(EngineTest, ARouteThatIsPausedWhileItsLogIsLockedIsPausedAndNoMore) {
  server.trouble = kLocked;
  server.fails = [](const char* function) { return std::string(function) == "OpenWindow"; };
  server.EmitCommitted("a");
  RunUntil(clock.now + 3'000'000);
  ASSERT_NE(Status().error, nullptr);
  EXPECT_EQ(Status().error->code, kLocked);
  format::RouteConfig config;
  config.paused = true;
  SetSpec(config);
  RunUntil(clock.now + 2'000'000);  // nobody asks whether it still is
  EXPECT_EQ(State(), "paused");
  EXPECT_EQ(Status().error, nullptr);
  SetSpec({});
  RunUntil(clock.now + 500'000);
  EXPECT_EQ(Status().error, nullptr);  // it has a moment to be over
  RunUntil(clock.now + 2'000'000);
  ASSERT_NE(Status().error, nullptr);
  EXPECT_EQ(Status().error->code, kLocked);
}

TEST_F(EngineTest, ADestinationThatGoesWhileTheLogIsLockedIsWhatIsTold) {
  options.chunk_bytes = 1024;
  engine->SetOptions(options);
  for (int i = 0; i < 2000; ++i) {
    server.EmitCommitted("a", 300);
  }
  server.trouble = kLocked;
  server.fails = [&](const char* function) {
    return std::string(function) == "ReadChunk" && server.calls["ReadChunk"] > 1;
  };
  RunUntil(clock.now + 3'000'000);
  ASSERT_NE(Status().error, nullptr);
  EXPECT_EQ(Status().error->code, kLocked);
  sink->SetUp(false);
  server.fails = nullptr;
  RunUntil(clock.now + 2'000'000);
  ASSERT_NE(Status().error, nullptr);
  EXPECT_EQ(Status().error->code, "DOWN");
}

// As the last one of a lane that has to stop somewhere, and then has not.
TEST_F(EngineTest, APositionThatNeedNotBeSavedAnyMoreIsNoTrouble) {
  sink->on_poll = [&] { sink->DeliverAll(); };
  server.EmitCommitted("a");
  RunUntil(clock.now + 1'000'000);
  server.fails = [](const char* function) { return std::string(function) == "SaveProgress"; };
  server.Commit(server.Begin());
  log->limit = server.Current();
  RunUntil(clock.now + 5'000'000);
  ASSERT_NE(Status().error, nullptr);
  log->limit.reset();
  RunUntil(clock.now + 10'000'000);
  EXPECT_EQ(Status().error, nullptr);
}

// A full disk under the progress table: what is committed is delivered all the same, and said to be so.
TEST_F(EngineTest, WhatCannotBeSavedIsDeliveredAllTheSame) {
  sink->on_poll = [&] { sink->DeliverAll(); };
  server.fails = [](const char* function) { return std::string(function) == "SaveProgress"; };
  const int64_t full_since = clock.now;
  for (int i = 0; i < 60; ++i) {
    const int64_t emitted = server.EmitCommitted("k").created_at;
    Turn(true);
    RunUntil(clock.now + 1'000'000);
    ASSERT_EQ(broker.log.size(), static_cast<size_t>(i + 1)) << "one that came at second " << i << " waits";
    EXPECT_EQ(broker.Order().back(), emitted);
  }
  EXPECT_EQ(broker.Order(), AllRows());
  EXPECT_TRUE(server.saves.empty());
  EXPECT_GT(server.calls["SaveProgress"], 10);
  EXPECT_LT(server.calls["SaveProgress"], 60);  // tried again and again, but not with each event
  ASSERT_NE(Status().error, nullptr);
  EXPECT_EQ(Status().error->code, "57014");
  EXPECT_LE(Status().error_since_unix - FakeClock::kWallAtZero - full_since, 2'000'000);
  server.fails = nullptr;
  RunUntil(clock.now + 5'000'000);
  EXPECT_EQ(Status().error, nullptr);
  EXPECT_EQ(server.position.base, server.Current());
  EXPECT_EQ(broker.log.size(), 60u);
}

TEST_F(EngineTest, ALaneOfAnotherOwnerIsLetGoAtOnce) {
  for (int i = 0; i < 3; ++i) {
    server.EmitCommitted("k");
  }
  Turn();
  sink->Deliver();
  server.owned = false;
  const int submits = sink->submits;
  Turn();
  EXPECT_EQ(engine->lane_count(), 0u);
  const auto gone = Gone();
  ASSERT_EQ(gone.size(), 1u);
  EXPECT_EQ(gone[0].id, kLane);
  EXPECT_EQ(gone[0].reason, GoneReason::kLost);
  EXPECT_TRUE(Gone().empty());
  sink->Abort(sink->pending[0].flow, 0);
  Turn(true);
  EXPECT_EQ(sink->submits, submits);
  EXPECT_TRUE(server.saves.empty());
}

TEST_F(EngineTest, OwnershipLostWhileParkingLetsGoToo) {
  server.EmitCommitted("k");
  server.EmitCommitted("k");
  Turn();
  server.owned = false;
  sink->Fail(0, ErrorClass::kMessage);
  Turn();
  EXPECT_EQ(engine->lane_count(), 0u);
  EXPECT_TRUE(sink->pending.empty());
  EXPECT_TRUE(server.parked.empty());
}

}  // namespace
}  // namespace outbox::relay
