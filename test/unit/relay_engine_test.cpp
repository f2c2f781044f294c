// The relay engine, one behaviour at a time, with a fake log, clock and sink.
#include "relay/engine.h"

#include <gtest/gtest.h>

#include <numeric>

#include "relay_fakes.h"

namespace outbox::relay {
namespace {

using fakes::Broker;
using fakes::FakeClock;
using fakes::FakeLog;
using fakes::FakeSink;
using fakes::Pending;
using fakes::Row;
using fakes::Server;

constexpr DestinationId kDestination = 5;
constexpr LaneId kLane{1, 0};

class EngineTest : public ::testing::Test {
 protected:
  EngineTest() { Restart(); }

  // A new worker: engine and sink are new, server and broker are not.
  void Restart() {
    engine = std::make_unique<Engine>(&clock, options);
    auto made = std::make_unique<FakeSink>(&broker, &server);
    sink = made.get();
    engine->SetDestination(kDestination, std::move(made), 0);
    AddLane();
  }
  void AddLane() {
    auto made = std::make_unique<FakeLog>(&server, spec);
    log = made.get();
    ASSERT_TRUE(engine->AddLane(kLane, spec, std::move(made), kDestination));
  }
  int64_t Turn(bool woken = false, uint64_t barrier = 0) { return engine->Turn({woken, barrier}); }
  LaneStatus Status() {
    engine->Lanes(&statuses);
    return statuses.empty() ? LaneStatus{} : statuses[0];
  }
  std::string State() { return Status().state; }
  std::vector<GoneLane> Gone() {
    std::vector<GoneLane> gone;
    engine->TakeGone(&gone);
    return gone;
  }
  std::vector<int64_t> PendingOrder() {
    std::vector<int64_t> order;
    for (const Pending& one : sink->pending) {
      order.push_back(one.record.created_at);
    }
    return order;
  }
  std::vector<int64_t> AllRows() {
    std::vector<int64_t> order;
    for (const Row& row : server.rows) {
      order.push_back(row.created_at);
    }
    return order;
  }
  // Turns at the times the engine asks for, until it wants nothing before `until`.
  void RunUntil(int64_t until) {
    for (int64_t next = Turn(); next < until; next = Turn()) {
      clock.now = std::max(clock.now, next);
    }
    clock.now = until;
    Turn();
  }

  FakeClock clock;
  Server server{&clock};
  Broker broker;
  EngineOptions options;
  std::shared_ptr<const format::RouteSpec> spec = fakes::Spec();
  std::unique_ptr<Engine> engine;
  FakeSink* sink = nullptr;
  FakeLog* log = nullptr;
  std::vector<LaneStatus> statuses;
};

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
  EXPECT_EQ(Status().delivered_count, 5);
  EXPECT_EQ(Status().delivered_to, server.rows.back().created_at);
  EXPECT_EQ(Status().inflight_count, 0);
  EXPECT_EQ(Status().inflight_bytes, 0);
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
    server.Abort(server.Begin());  // somebody else's transactions move the snapshot
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
    most = std::max(most, static_cast<size_t>(Status().inflight_bytes));
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
  ASSERT_TRUE(engine->AddLane({2, 0}, second, std::make_unique<FakeLog>(&second_server, spec), kDestination));
  for (int i = 0; i < 5'000; ++i) {
    server.EmitCommitted("k", 300);
  }
  Turn();
  engine->Lanes(&statuses);
  EXPECT_GT(statuses[0].inflight_bytes, 300 * 1024);
  for (int i = 0; i < 5'000; ++i) {
    second_server.EmitCommitted("k", 300);
  }
  Turn(true);
  while (Status().inflight_bytes > 250 * 1024) {
    sink->Deliver();
    Turn();
  }
  for (int i = 0; i < 2'000; ++i) {
    sink->Deliver();
    Turn();
  }
  engine->Lanes(&statuses);
  EXPECT_GT(statuses[0].inflight_bytes, 100 * 1024);
  EXPECT_GT(statuses[1].inflight_bytes, 100 * 1024);
  EXPECT_LT(statuses[0].inflight_bytes + statuses[1].inflight_bytes, 500 * 1024);
}

TEST_F(EngineTest, ALaneInTroubleThatHoldsTheWholeBudgetStarvesNoOther) {
  options.max_inflight = 400 * 1024;
  options.chunk_bytes = 20 * 1024;
  engine->SetOptions(options);
  Server second_server{&clock};
  ASSERT_TRUE(engine->AddLane({2, 0}, spec, std::make_unique<FakeLog>(&second_server, spec), kDestination));
  for (int i = 0; i < 5'000; ++i) {
    server.EmitCommitted("k", 300);
  }
  Turn();
  engine->Lanes(&statuses);
  EXPECT_GT(statuses[0].inflight_bytes, 300 * 1024);
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
  engine->Lanes(&statuses);
  EXPECT_LT(statuses[0].inflight_bytes + statuses[1].inflight_bytes, 550 * 1024);
}

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
  // Another partition's record is still under way at the sink while the first has failed already.
  std::deque<Pending> held(sink->pending.begin() + 2, sink->pending.end());
  sink->pending.erase(sink->pending.begin() + 2, sink->pending.end());
  sink->Fail(0, ErrorClass::kDestination);
  clock.now += 1;
  const int submits = sink->submits;
  RunUntil(clock.now + 60'000'000);
  EXPECT_EQ(sink->submits, submits);
  EXPECT_EQ(State(), "draining");
  sink->pending = held;
  sink->DeliverAll();
  RunUntil(clock.now + 60'000'000);
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
  EXPECT_LT(Status().inflight_bytes, 40 * 1024);
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
  engine->SetDestination(6, std::move(made), 0);
  ASSERT_TRUE(engine->AddLane({9, 0}, spec, std::make_unique<FakeLog>(&other_server, spec), 6));
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
  EXPECT_EQ(Status().parked_count, 1);
  EXPECT_EQ(Status().delivered_count, 3);
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
  EXPECT_EQ(server.refusals[0].attempts, 2);
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

TEST_F(EngineTest, ALaneThatBelongsToSomebodyElseIsLetGoAtOnce) {
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
  EXPECT_FALSE(engine->AddLane(kLane, spec, std::make_unique<FakeLog>(&server, spec), kDestination));
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
  engine->SetDestination(kDestination, std::move(made), clock.now + 1'000'000);
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
  engine->SetDestination(kDestination, std::move(made), clock.now + 1'000'000);
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
  sink->SetUp(false);
  Turn();
  sink->Fail(0, ErrorClass::kConfig);
  Turn();
  EXPECT_EQ(State(), "backing off");
  auto made = std::make_unique<FakeSink>(&broker, &server);
  FakeSink* next = made.get();
  engine->SetDestination(kDestination, std::move(made), clock.now + 1'000'000);
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
  EXPECT_EQ(sink->pending[0].record.topic, "outbox.event.order");
  EXPECT_EQ(sink->pending[1].record.topic, "new.created");
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
