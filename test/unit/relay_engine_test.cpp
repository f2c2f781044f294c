// The relay engine, one behaviour at a time: the good path and the budget.
#include "relay_engine_fixture.h"

namespace outbox::relay {
namespace {

// --- the good path -----------------------------------------------------------------------------------------------

TEST_F(EngineTest, PublishesWhatIsCommittedInOrderAndSavesProgress) {
  for (int i = 0; i < 5; ++i) {
    server.EmitCommitted("k" + std::to_string(i % 2));
  }
  Turn();
  EXPECT_EQ(PendingOrder(), AllRows());
  EXPECT_EQ(State(), "running");
  EXPECT_EQ(Status().inflight_count, 5);
  sink->DeliverAll();
  Turn();
  EXPECT_EQ(broker.Order(), AllRows());
  EXPECT_EQ(State(), "idle");
  ASSERT_EQ(server.saves.size(), 1u);
  EXPECT_EQ(server.saves[0], (Position{server.Current(), std::nullopt, kBeforeAllTime}));
  EXPECT_EQ(Status().delivered_to, server.rows.back().created_at);
  EXPECT_EQ(Status().inflight_count, 0);
  EXPECT_EQ(Internals().inflight_bytes, 0u);
  EXPECT_FALSE(sink->malformed);
}

TEST_F(EngineTest, IdleLaneLooksOnlyWhenWokenOrAtThePollInterval) {
  Turn();
  const int opened = server.calls["OpenWindow"];
  const int64_t next = Turn();
  EXPECT_EQ(server.calls["OpenWindow"], opened);
  EXPECT_EQ(next, clock.now + options.poll_micros);
  server.EmitCommitted("k");
  Turn();
  EXPECT_TRUE(sink->pending.empty());
  Turn(true);
  EXPECT_EQ(sink->pending.size(), 1u);
  server.EmitCommitted("k");
  clock.now += options.poll_micros;
  Turn();
  EXPECT_EQ(sink->pending.size(), 2u);
}

// What is shown goes through all lanes, so it waits a little where lanes have only read on; never where there is news.
TEST_F(EngineTest, TellsWhetherMoreHasHappenedThanThatLanesHaveReadOn) {
  EXPECT_TRUE(engine->TakeChanged()) << "a lane has come";
  Turn();
  EXPECT_TRUE(engine->TakeChanged()) << "it has begun";
  const auto turn = [&](bool woken = false, uint64_t barrier = 0) {
    Turn(woken, barrier);
    return engine->TakeChanged();
  };
  EXPECT_FALSE(turn());
  const int opened = server.calls["OpenWindow"];
  server.Abort(server.Begin());
  EXPECT_FALSE(turn(true)) << "nothing for it was committed";
  EXPECT_GT(server.calls["OpenWindow"], opened);
  server.EmitCommitted("k");
  EXPECT_TRUE(turn(true)) << "something is in flight";
  EXPECT_TRUE(turn()) << "... and still is";
  sink->DeliverAll();
  EXPECT_TRUE(turn()) << "it is delivered";
  RunUntil(clock.now + options.save_micros);
  engine->TakeChanged();
  EXPECT_FALSE(turn());
  sink->SetUp(false);
  EXPECT_TRUE(turn()) << "the destination is away";
  sink->SetUp(true);
  EXPECT_TRUE(turn()) << "and back";
  RunUntil(clock.now + options.backoff_cap_micros);
  engine->TakeChanged();
  server.fails = [](const char* function) { return std::string_view(function) == "OpenWindow"; };
  clock.now += options.poll_micros;
  EXPECT_TRUE(turn(true)) << "the log cannot be read";
  server.fails = nullptr;
  RunUntil(clock.now + options.backoff_cap_micros);
  EXPECT_TRUE(engine->TakeChanged()) << "it can";
  EXPECT_FALSE(turn());
  engine->UpdateLane(kLane, spec);
  EXPECT_TRUE(turn()) << "its route may be another one now";
  engine->ReleaseLane(kLane, clock.now + 1'000'000);
  EXPECT_TRUE(turn()) << "it leaves";
  EXPECT_EQ(Gone().size(), 1u);
  EXPECT_FALSE(turn());
}

// Others have looked through the log for it: what it was woken for is nothing for it.
TEST_F(EngineTest, LaneForWhichOthersHaveLookedLooksNowAndThenAndForABarrierOnly) {
  server.tells_rest = true;
  Turn();
  const int opened = server.calls["OpenWindow"];
  for (int i = 0; i < 10; ++i) {
    Turn(true);
  }
  EXPECT_EQ(server.calls["OpenWindow"], opened);
  EXPECT_EQ(server.rested, 10u);
  server.EmitCommitted("k");
  Turn(true);
  EXPECT_EQ(server.calls["OpenWindow"], opened + 1);
  EXPECT_EQ(sink->pending.size(), 1u);
  Turn(true);  // with something in flight it looks
  sink->DeliverAll();
  RunUntil(clock.now + options.save_micros);
  const int after = server.calls["OpenWindow"];
  Turn(true);
  EXPECT_EQ(server.calls["OpenWindow"], after);
  Turn(true, 7);
  EXPECT_EQ(server.calls["OpenWindow"], after + 1);
  EXPECT_EQ(Status().barrier_done, 7u);
  clock.now += options.poll_micros;
  Turn();
  EXPECT_EQ(server.calls["OpenWindow"], after + 1) << "others look at the poll interval";
  clock.now += options.poll_micros;
  Turn();
  EXPECT_EQ(server.calls["OpenWindow"], after + 2) << "its position has to come along";
  server.tells_rest = false;
  clock.now += options.poll_micros;
  Turn();
  EXPECT_EQ(server.calls["OpenWindow"], after + 3) << "nobody looks";
  engine->ReleaseLane(kLane, clock.now);
  Turn(true);
  EXPECT_EQ(Gone().size(), 1u);
}

// An event that is read may have been committed after a pause, of which the next turn knows.
TEST_F(EngineTest, NothingIsSentInATurnAfterTheRoutesHaveChanged) {
  bool changed = false;
  const auto turn = [&] { engine->Turn({.woken = true, .config_changed = [&] { return changed; }}); };
  turn();
  server.EmitCommitted("k");
  changed = true;
  turn();
  turn();
  EXPECT_TRUE(sink->pending.empty());
  changed = false;
  turn();
  EXPECT_EQ(sink->pending.size(), 1u);
}

// One of the two gains from records that come together, the other would wait for nothing.
TEST_F(EngineTest, TurnsAreApartAsTheMostHurriedDestinationWants) {
  constexpr DestinationId kGathers = 6;
  Broker other_broker;
  Server other_server{&clock};
  auto made = std::make_unique<FakeSink>(&other_broker, &other_server);
  FakeSink* other_sink = made.get();
  engine->SetDestination(kGathers, fakes::Factory(std::move(made)), 0, nullptr, 2000);
  ASSERT_TRUE(engine->AddLane({2, 0}, spec, fakes::Logs(&other_server, spec), kGathers));
  auto second_of = [&](Server* one, Server* two) {
    for (int i = 0; i < 1000; ++i) {
      for (Server* each : {one, two}) {
        for (int e = 0; each != nullptr && e < 6; ++e) {
          each->EmitCommitted("k");
        }
      }
      clock.now += 1000;
      Turn(true);
      sink->DeliverAll();
      other_sink->DeliverAll();
      engine->TurnsApart();
    }
    return engine->TurnsApart();
  };
  EXPECT_EQ(engine->TurnsApart(), 0);
  EXPECT_NEAR(second_of(&other_server, nullptr), 1187, 20);  // 6,000 a second
  EXPECT_EQ(second_of(&other_server, &server), 0);           // the fixture's: 0
  EXPECT_EQ(second_of(&server, nullptr), 0);
}

TEST_F(EngineTest, SeveralWindowsAreInFlightAndOnlyTheirFinishedPrefixIsSaved) {
  std::vector<Snapshot> ends;
  for (int i = 0; i < 4; ++i) {
    server.EmitCommitted("a");
    server.EmitCommitted("b");
    Turn(true);
    ends.push_back(server.Current());
  }
  EXPECT_EQ(PendingOrder(), AllRows());
  // The second window first, then the first event of the first.
  sink->Deliver(2);
  sink->Deliver(2);
  Turn();
  EXPECT_TRUE(server.saves.empty());
  sink->Deliver(0);
  Turn();
  ASSERT_EQ(server.saves.size(), 1u);
  EXPECT_EQ(server.saves[0], (Position{*Snapshot::FromText("3:3:"), ends[0], server.rows[0].created_at}));
  sink->Deliver(0);
  clock.now += options.save_micros;
  Turn();
  ASSERT_EQ(server.saves.size(), 2u);
  EXPECT_EQ(server.saves[1], (Position{ends[1], std::nullopt, kBeforeAllTime}));
}

TEST_F(EngineTest, RecordedSnapshotsAreReadOneAfterTheOtherWithoutAWake) {
  for (int i = 0; i < 5; ++i) {
    server.EmitCommitted("k");
    server.ticks.push_back(server.Current());
  }
  server.EmitCommitted("k");
  Turn();
  EXPECT_EQ(PendingOrder(), AllRows());
  EXPECT_EQ(server.calls["ReadChunk"], 6);
}

TEST_F(EngineTest, LateFinisherFollowsInALaterWindow) {
  const uint64_t slow = server.Begin();
  const int64_t late = server.Emit(slow, "slow").created_at;
  const int64_t quick = server.EmitCommitted("quick").created_at;
  Turn();
  sink->DeliverAll();
  EXPECT_EQ(broker.Order(), (std::vector<int64_t>{quick}));
  server.Commit(slow);
  Turn(true);
  sink->DeliverAll();
  EXPECT_EQ(broker.Order(), (std::vector<int64_t>{quick, late}));
}

TEST_F(EngineTest, NothingIsPublishedBeforeItIsDurable) {
  server.synchronous = false;
  server.EmitCommitted("k");
  int64_t next = Turn();
  EXPECT_TRUE(sink->pending.empty());
  EXPECT_EQ(next, clock.now + options.durable_retry_micros);
  clock.now = next - 1;
  const int checks = server.calls["CheckDurable"];
  Turn();
  EXPECT_EQ(server.calls["CheckDurable"], checks);
  server.flushed = server.lsn;
  clock.now = next;
  Turn();
  EXPECT_EQ(sink->pending.size(), 1u);
}

TEST_F(EngineTest, ALargeWindowThatIsStillBeingSortedKeepsTheEngineTurning) {
  log->slow_sort = true;
  server.EmitCommitted("k");
  Turn();
  EXPECT_EQ(sink->pending.size(), 1u);
  EXPECT_EQ(server.calls["ReadChunk"], 3);
}

TEST_F(EngineTest, ALongTurnComesBack) {
  for (int i = 0; i < 200; ++i) {
    server.EmitCommitted("k", 100);
    server.ticks.push_back(server.Current());
  }
  server.on_call = [&](const char*) { clock.now += 1'000; };  // every call takes a millisecond
  const int64_t start = clock.now;
  EXPECT_LE(Turn(), clock.now);
  EXPECT_LT(clock.now - start, options.turn_micros + 10'000);
  EXPECT_LT(sink->pending.size(), 200u);
  EXPECT_GT(sink->pending.size(), 0u);
}

TEST_F(EngineTest, ProgressIsSavedAFewTimesASecondUnderLoadAndAtOnceAfterQuiet) {
  sink->on_poll = [&] { sink->DeliverAll(); };
  for (int i = 0; i < 2'000; ++i) {  // 2 s at 1,000 events a second
    clock.now += 1'000;
    server.EmitCommitted("k");
    Turn(true);
  }
  EXPECT_GE(server.saves.size(), 7u);
  EXPECT_LE(server.saves.size(), 9u);
  RunUntil(clock.now + options.save_micros);
  EXPECT_EQ(server.position.base, server.Current());
  clock.now += 10'000'000;
  server.EmitCommitted("k");
  Turn(true);
  EXPECT_EQ(server.position.base, server.Current());
}

TEST_F(EngineTest, PositionsThatMoveWithoutEventsAreSavedRarely) {
  Turn();
  for (int i = 0; i < 50; ++i) {
    server.Abort(server.Begin());  // other sessions' transactions move the snapshot
    RunUntil(clock.now + 1'000'000);
  }
  EXPECT_GE(server.saves.size(), 1u);
  EXPECT_LE(server.saves.size(), 2u);
}

TEST_F(EngineTest, AHeldLaneComesToRestAtItsLimitSavesAtOnceAndPassesNoBarrier) {
  server.EmitCommitted("k");
  log->limit = server.Current();
  const Snapshot limit = *log->limit;
  server.EmitCommitted("k");
  Turn(true, 1);
  ASSERT_EQ(sink->pending.size(), 1u);
  sink->Deliver();
  RunUntil(clock.now + options.save_micros);
  EXPECT_EQ(server.position, (Position{limit, std::nullopt, kBeforeAllTime}));
  RunUntil(clock.now + 2 * options.save_moved_micros);
  EXPECT_TRUE(sink->pending.empty());
  EXPECT_EQ(server.position.base, limit);
  EXPECT_EQ(Status().barrier_done, 0u);
}

TEST_F(EngineTest, AHeldLaneSavesItsLimitWithoutDelayEvenIfNothingWasForIt) {
  Turn();
  RunUntil(clock.now + 1'000'000);
  const size_t saves = server.saves.size();
  server.Abort(server.Begin());
  log->limit = server.Current();
  RunUntil(clock.now + options.poll_micros + options.save_micros);
  EXPECT_EQ(server.saves.size(), saves + 1);
  EXPECT_EQ(server.position.base, *log->limit);
}

// --- the budget --------------------------------------------------------------------------------------------------

TEST_F(EngineTest, BudgetBoundsWhatIsReadAndIsNeverExceededForLong) {
  options.max_inflight = 256 * 1024;
  options.chunk_bytes = 64 * 1024;
  engine->SetOptions(options);
  for (int i = 0; i < 3'000; ++i) {
    server.EmitCommitted("k" + std::to_string(i % 7), 300);
  }
  Turn();
  size_t most = 0;
  while (!sink->pending.empty()) {
    most = std::max(most, Internals().inflight_bytes);
    for (int i = 0; i < 100 && !sink->pending.empty(); ++i) {
      sink->Deliver();
    }
    Turn();
  }
  EXPECT_EQ(broker.Order(), AllRows());
  EXPECT_GT(most, options.max_inflight / 2);
  EXPECT_LT(most, options.max_inflight + 2 * options.chunk_bytes);
}

TEST_F(EngineTest, AnEventLargerThanTheBudgetGoesAlone) {
  options.max_inflight = 64 * 1024;
  engine->SetOptions(options);
  for (int i = 0; i < 3; ++i) {
    server.EmitCommitted("k", 500'000);
  }
  for (int i = 0; i < 3; ++i) {
    Turn();
    ASSERT_EQ(sink->pending.size(), 1u);
    sink->Deliver();
  }
  EXPECT_EQ(broker.Order(), AllRows());
}

TEST_F(EngineTest, LanesShareTheBudget) {
  options.max_inflight = 400 * 1024;
  engine->SetOptions(options);
  format::RouteConfig config;
  config.lanes = 2;
  Server second_server{&clock};
  auto second = fakes::Spec(config);
  ASSERT_TRUE(engine->AddLane({2, 0}, second, fakes::Logs(&second_server, spec), kDestination));
  for (int i = 0; i < 5'000; ++i) {
    server.EmitCommitted("k", 300);
  }
  Turn();
  engine->Internals(&internals);
  EXPECT_GT(internals[0].inflight_bytes, 300u * 1024);
  for (int i = 0; i < 5'000; ++i) {
    second_server.EmitCommitted("k", 300);
  }
  Turn(true);
  while (Internals().inflight_bytes > 250u * 1024) {
    sink->Deliver();
    Turn();
  }
  for (int i = 0; i < 2'000; ++i) {
    sink->Deliver();
    Turn();
  }
  engine->Internals(&internals);
  EXPECT_GT(internals[0].inflight_bytes, 100u * 1024);
  EXPECT_GT(internals[1].inflight_bytes, 100u * 1024);
  EXPECT_LT(internals[0].inflight_bytes + internals[1].inflight_bytes, 500u * 1024);
}

TEST_F(EngineTest, ALaneInTroubleThatHoldsTheWholeBudgetStarvesNoOther) {
  options.max_inflight = 400 * 1024;
  options.chunk_bytes = 20 * 1024;
  engine->SetOptions(options);
  Server second_server{&clock};
  ASSERT_TRUE(engine->AddLane({2, 0}, spec, fakes::Logs(&second_server, spec), kDestination));
  for (int i = 0; i < 5'000; ++i) {
    server.EmitCommitted("k", 300);
  }
  Turn();
  engine->Internals(&internals);
  EXPECT_GT(internals[0].inflight_bytes, 300u * 1024);
  const uint32_t troubled = sink->pending[0].flow;
  sink->on_poll = [&] {
    if (!sink->pending.empty() && sink->pending[0].flow == troubled) {
      sink->Fail(0, ErrorClass::kTopic);
    }
  };
  for (int i = 0; i < 2'000; ++i) {
    second_server.EmitCommitted("k", 300);
  }
  for (int turn = 0; turn < 5'000 && broker.log.size() < 2'000; ++turn) {
    clock.now += 1'000;
    Turn(true);
    while (!sink->pending.empty() && sink->pending[0].flow != troubled) {
      sink->Deliver();
    }
  }
  EXPECT_EQ(broker.log.size(), 2'000u);
  engine->Internals(&internals);
  EXPECT_LT(internals[0].inflight_bytes + internals[1].inflight_bytes, 550u * 1024);
}

}  // namespace
}  // namespace outbox::relay
