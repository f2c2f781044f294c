// matrix: A1k A2p
// Events that kill the sink's process: found, recorded as dead, and no other lane is delayed for long.
#include "relay_engine_fixture.h"
#include "relay_parked_fixture.h"

namespace outbox::relay {
namespace {

class PoisonSearchTest : public EngineTest {
 protected:
  void Destination(DestinationStatus* status) {
    std::vector<DestinationStatus> destinations;
    engine->Destinations(&destinations);
    *status = destinations.at(0);
  }
  // The process dies when it meets one of these, before it has answered for anything that came with it.
  void KillOn(std::set<int64_t> events) {
    killers = std::move(events);
    sink->on_poll = [this] {
      for (const Pending& one : sink->pending) {
        if (killers.count(one.record.created_at) != 0) {
          ++deaths;
          sink->Die();
          return;
        }
      }
      sink->DeliverAll();
    };
  }
  std::set<int64_t> killers;
  int deaths = 0;
};

TEST_F(PoisonSearchTest, OneDeathIsNoEventsFault) {
  for (int i = 0; i < 100; ++i) {
    server.EmitCommitted("k");
  }
  Turn();
  sink->Die();
  sink->on_poll = [&] { sink->DeliverAll(); };
  RunUntil(clock.now + 1'000'000);
  EXPECT_EQ(broker.Order(), AllRows());
  EXPECT_TRUE(server.parked.empty());
}

TEST_F(PoisonSearchTest, TheEventThatKillsIsFoundByHalvingAndIsDead) {
  for (int i = 0; i < 1'000; ++i) {
    server.EmitCommitted("k" + std::to_string(i % 5));
  }
  KillOn({server.rows[700].created_at});
  RunUntil(clock.now + 60'000'000);
  ASSERT_EQ(server.parked, (std::vector<int64_t>{server.rows[700].created_at}));
  EXPECT_EQ(server.refusals[0].error.error_class, ErrorClass::kMessage);
  EXPECT_EQ(server.refusals[0].error.code, "SINK_DIED");
  std::vector<int64_t> others = AllRows();
  others.erase(others.begin() + 700);
  EXPECT_EQ(broker.Order(), others);
  EXPECT_LT(deaths, 20);  // log2(1000) halves, three alone, and two before anybody was suspected
  EXPECT_EQ(State(), "idle");
}

TEST_F(PoisonSearchTest, SeveralAreFound) {
  std::set<int64_t> events;
  for (int i = 0; i < 200; ++i) {
    const Row& row = server.EmitCommitted("k" + std::to_string(i % 5));
    if (i % 50 == 20) {
      events.insert(row.created_at);
    }
  }
  KillOn(events);
  RunUntil(clock.now + 300'000'000);
  EXPECT_EQ(std::set<int64_t>(server.parked.begin(), server.parked.end()), events);
  EXPECT_EQ(broker.log.size(), 196u);
}

TEST_F(PoisonSearchTest, OtherLanesGoOnMeanwhileAndAreNotBlamed) {
  Server second{&clock};
  ASSERT_TRUE(engine->AddLane({2, 0}, spec, fakes::Logs(&second, spec), kDestination));
  for (int i = 0; i < 500; ++i) {
    server.EmitCommitted("k");
  }
  const std::set<int64_t> poison = {server.rows[100].created_at + 1'000'000'000};
  server.rows[100].created_at += 1'000'000'000;  // both servers number their events alike
  KillOn(poison);
  int64_t longest = 0;
  for (int ms = 0; ms < 30'000; ms += 10) {
    clock.now = int64_t{ms} * 1'000;
    second.EmitCommitted("k");
    Turn(true);
    engine->Lanes(&statuses);
    for (const LaneStatus& status : statuses) {
      if (status.id.route_id == 2 && status.delivered_to != 0) {
        longest = std::max(longest, second.rows.back().created_at - status.delivered_to);
      }
    }
  }
  EXPECT_TRUE(second.parked.empty());
  EXPECT_EQ(server.parked.size(), 1u);
  EXPECT_LT(longest, 100);  // events of 10 ms each: never a second behind
  RunUntil(clock.now + 1'000'000);
  EXPECT_EQ(second.position.base, second.Current());
}

TEST_F(PoisonSearchTest, AProcessThatDiesWithNothingToDoIsTroubleOfTheDestination) {
  Turn();
  sink->Die();
  sink->SetUp(false);
  Turn();
  DestinationStatus status;
  Destination(&status);
  EXPECT_EQ(status.state, BreakerState::kOpen);
  EXPECT_EQ(status.reason.error_class, ErrorClass::kDestination) << "nobody has to correct an option";
  EXPECT_EQ(status.reason.code, "SINK_DIED");
  EXPECT_EQ(status.deaths, 1u);
  sink->SetUp(true);
  server.EmitCommitted("k");
  sink->on_poll = [&] { sink->DeliverAll(); };
  RunUntil(clock.now + 60'000'000);
  EXPECT_EQ(broker.log.size(), 1u);
  Destination(&status);
  EXPECT_EQ(status.state, BreakerState::kClosed);
}

TEST_F(PoisonSearchTest, AProcessThatDiesBeforeItHasStartedIsTroubleOfTheConfiguration) {
  Turn();
  sink->Die(false, true);
  Turn();
  DestinationStatus status;
  Destination(&status);
  EXPECT_EQ(status.reason.error_class, ErrorClass::kConfig);
  EXPECT_EQ(status.reason.code, "SINK_DIED");
}

TEST_F(PoisonSearchTest, AProcessThatIsKilledBeforeItHasStartedIsNot) {
  Turn();
  sink->Die(false, true, true);
  Turn();
  DestinationStatus status;
  Destination(&status);
  EXPECT_EQ(status.reason.error_class, ErrorClass::kDestination);
  EXPECT_EQ(status.reason.code, "SINK_DIED");
}

TEST_F(PoisonSearchTest, ThatItDiesWhateverIsSentCostsOneEventAtMost) {
  for (int i = 0; i < 100; ++i) {
    server.EmitCommitted("k" + std::to_string(i));
  }
  sink->on_poll = [this] {
    if (!sink->pending.empty()) {
      ++deaths;
      sink->Die();
    }
  };
  RunUntil(clock.now + 600'000'000);
  EXPECT_LE(server.parked.size(), 11u + 600 / 30) << "the others are tried again";
  EXPECT_LE(std::count_if(server.refusals.begin(), server.refusals.end(),
                          [](const Parking& one) { return one.state == ParkedState::kDead; }),
            1);
  DestinationStatus status;
  Destination(&status);
  EXPECT_EQ(status.reason.code, "SINK_DIED");
  EXPECT_LT(deaths, 300);  // and it backs off
  sink->on_poll = [&] { sink->DeliverAll(); };
  RunUntil(clock.now + 120'000'000);
  EXPECT_EQ(broker.log.size() + server.parked.size(), 100u);
}

// It is killed again and again, also with the probe in flight; it is back 50 ms later each time. In the end a process
// that lives aborts the probe: no health comes up after that.
TEST_F(PoisonSearchTest, KilledAgainAndAgainTheLaneIsBackAtOnce) {
  const auto deliver_all = [this] { sink->DeliverAll(); };
  const auto kill_and_start = [this] {
    ASSERT_FALSE(sink->pending.empty());
    sink->Die(false);
    Turn();
    clock.now += 50'000;
    sink->SetUp(true);
    Turn(true);
    RunUntil(clock.now + 400'000);  // after a test that killed, the next has to wait
  };
  const auto until_delivered = [&] {
    const int64_t start = clock.now;
    sink->on_poll = deliver_all;
    for (int64_t next = Turn(); broker.log.size() < server.rows.size() && next < start + 60'000'000; next = Turn()) {
      clock.now = std::max(clock.now, next);
    }
    sink->on_poll = nullptr;
    EXPECT_EQ(broker.log.size(), server.rows.size());
    return clock.now - start;
  };
  for (int i = 0; i < 20; ++i) {
    server.EmitCommitted("k" + std::to_string(i % 3));
    Turn(true);
    for (int kills = 0; kills < 4; ++kills) {
      kill_and_start();
    }
    ASSERT_LT(until_delivered(), 1'000'000);
    clock.now += 100'000;
  }
  server.EmitCommitted("k");
  Turn(true);
  kill_and_start();
  ASSERT_EQ(sink->pending.size(), 1u);
  sink->Abort(sink->pending[0].flow, 0);
  EXPECT_LT(until_delivered(), 1'000'000);
  EXPECT_TRUE(server.parked.empty());
}

// It dies as it starts, whatever is asked of it: what waited for it is not to blame.
TEST_F(PoisonSearchTest, WhoDiesBeforeItIsReadyHasDiedOfNoEvent) {
  for (int i = 0; i < 20; ++i) {
    server.EmitCommitted("k" + std::to_string(i));
  }
  sink->on_poll = [this] {
    if (!sink->pending.empty()) {
      ++deaths;
      sink->Die(true, true);
    }
  };
  RunUntil(clock.now + 600'000'000);
  EXPECT_GT(deaths, 10);
  EXPECT_LT(deaths, 300);
  EXPECT_TRUE(server.parked.empty());
  DestinationStatus status;
  Destination(&status);
  EXPECT_EQ(status.deaths, static_cast<uint64_t>(deaths));
  sink->on_poll = [this] { sink->DeliverAll(); };
  RunUntil(clock.now + 60'000'000);
  EXPECT_EQ(broker.log.size(), 20u);
}

// What a topic in trouble keeps in flight is no reason for everybody to wait.
TEST_F(PoisonSearchTest, EventsThatAnotherLaneHasUnderWayForLongHoldUpNoTest) {
  Server second{&clock};
  Server third{&clock};
  ASSERT_TRUE(engine->AddLane({2, 0}, spec, fakes::Logs(&second, spec), kDestination));
  ASSERT_TRUE(engine->AddLane({3, 0}, spec, fakes::Logs(&third, spec), kDestination));
  for (int i = 0; i < 30; ++i) {
    server.EmitCommitted("k");
  }
  Turn();
  for (int i = 0; i < 3; ++i) {  // twice before it is suspected, once in a test: the next one has to wait a little
    ASSERT_FALSE(sink->pending.empty());
    sink->Die();
    Turn();
  }
  EXPECT_TRUE(sink->pending.empty());
  second.EmitCommitted("stuck");
  Turn(true);
  ASSERT_EQ(sink->pending.size(), 1u);
  clock.now += 400'000;
  Turn();
  third.EmitCommitted("k");
  const int64_t start = clock.now;
  sink->on_poll = [this] {
    for (size_t i = 0; i < sink->pending.size();) {
      if (sink->pending[i].record.key == "stuck") {
        ++i;
      } else {
        sink->Deliver(i);
      }
    }
  };
  while (broker.log.size() < 31 && clock.now < start + 20'000'000) {
    clock.now += 10'000;
    Turn(true);
  }
  EXPECT_EQ(broker.log.size(), 31u);
  EXPECT_LT(clock.now - start, 3'000'000);
}

// What is tested may be of a topic in trouble itself.
TEST_F(PoisonSearchTest, ATestWithoutAnAnswerHoldsUpTheOthersForAWhileOnly) {
  Server second{&clock};
  ASSERT_TRUE(engine->AddLane({2, 0}, spec, fakes::Logs(&second, spec), kDestination));
  server.EmitCommitted("stuck");
  Turn();
  for (int i = 0; i < 2; ++i) {
    sink->Die();
    Turn();
  }
  ASSERT_EQ(sink->pending.size(), 1u);
  second.EmitCommitted("k");
  sink->on_poll = [this] {
    if (sink->pending.size() > 1) {
      sink->Deliver(1);
    }
  };
  const int64_t start = clock.now;
  for (int64_t next = Turn(true); broker.log.empty() && next < start + 60'000'000; next = Turn()) {
    clock.now = std::max(clock.now, next);
  }
  ASSERT_EQ(broker.log.size(), 1u);
  EXPECT_LT(clock.now - start, 13'000'000);
  // That the process dies later on says nothing of the others.
  sink->on_poll = nullptr;
  sink->Die();
  sink->on_poll = [this] { sink->DeliverAll(); };
  RunUntil(clock.now + 30'000'000);
  EXPECT_EQ(broker.log.size(), 2u);
  EXPECT_TRUE(server.parked.empty());
}

// --- killed from outside -------------------------------------------------------------------------------------------

class KilledTest : public ParkedTest {
 protected:
  // Both sinks are killed at each step, until there were so many deaths.
  void KillUntil(int most) {
    const auto look = [this, most](FakeSink* of) {
      if (of->pending.empty()) {
        return;
      }
      if (deaths < most) {
        ++deaths;
        of->Die(true, false, true);
      } else {
        of->DeliverAll();
      }
    };
    sink->on_poll = [this, look] { look(sink); };
    on_retry_poll = look;
  }
  std::unique_ptr<FakeSink> MakeRetrySink() override {
    auto made = ParkedTest::MakeRetrySink();
    FakeSink* raw = made.get();
    raw->on_poll = [this, raw] {
      if (on_retry_poll) {
        on_retry_poll(raw);
      }
    };
    return made;
  }
  std::function<void(FakeSink*)> on_retry_poll;
  int deaths = 0;
};

TEST_F(KilledTest, NoInnocentEventIsDeadHoweverOften) {
  for (int i = 0; i < 200; ++i) {
    Emit("k" + std::to_string(i % 20));
  }
  KillUntil(95);
  RunUntil(clock.now + 3'600'000'000);
  EXPECT_EQ(deaths, 95);
  EXPECT_TRUE(table.ever_dead.empty());
  EXPECT_TRUE(table.rows.empty());
  EXPECT_EQ(std::set<int64_t>([&] {
              const auto order = broker.Order();
              return std::set<int64_t>(order.begin(), order.end());
            }())
                .size(),
            200u);
}

// The kernel comes for what one event takes, each time it is sent: the others get past it, it waits, is tried again at
// a pace that delays no other lane, and is never dead.
TEST_F(KilledTest, AnEventThatTakesTooMuchMemoryWaits) {
  for (int i = 0; i < 50; ++i) {
    Emit("k" + std::to_string(i % 20));
  }
  const int64_t large = server.rows[30].created_at;
  const auto look = [&](FakeSink* of) {
    const auto found = std::find_if(of->pending.begin(), of->pending.end(),
                                    [&](const Pending& one) { return one.record.created_at == large; });
    if (found != of->pending.end()) {
      ++deaths;
      of->Die(true, false, true);
    } else {
      of->DeliverAll();
    }
  };
  sink->on_poll = [&] { look(sink); };
  on_retry_poll = look;
  RunUntil(clock.now + 60'000'000);
  ASSERT_EQ(table.rows.count(large), 1u);
  EXPECT_EQ(RowOf(large).attempts, 0);
  EXPECT_EQ(RowOf(large).error.code, "SINK_KILLED");
  EXPECT_GE(broker.log.size(), 47u);  // all but those of its key
  const int before = deaths;
  RunUntil(clock.now + 600'000'000);
  EXPECT_GT(deaths, before);
  EXPECT_LE(deaths - before, 800);  // about four in 4 s: the longest back-off is 8 s here
  EXPECT_TRUE(table.ever_dead.empty());
  for (int i = 0; i < 50; ++i) {
    Emit("new" + std::to_string(i));
  }
  const size_t delivered = broker.log.size();
  RunUntil(clock.now + 1'000'000);
  EXPECT_EQ(broker.log.size(), delivered + 50);
  on_retry_poll = [](FakeSink* of) { of->DeliverAll(); };  // there is more memory
  RunUntil(clock.now + 120'000'000);
  EXPECT_TRUE(table.rows.empty());
}

class KilledInARowTest : public KilledTest {
 protected:
  // Both sinks die of what this says.
  void DieOf(std::function<bool(int64_t)> kills) {
    const auto look = [this, kills = std::move(kills)](FakeSink* of) {
      const bool dies = std::any_of(of->pending.begin(), of->pending.end(),
                                    [&](const Pending& one) { return kills(one.record.created_at); });
      deaths += dies ? 1 : 0;
      dies ? of->Die() : of->DeliverAll();
    };
    sink->on_poll = [this, look] { look(sink); };
    on_retry_poll = look;
  }
};

// One behind the other, with nothing between them that would show that the process lives: what is behind all of them
// does.
TEST_F(KilledInARowTest, EachIsFound) {
  Emit("before");
  std::set<int64_t> killers;
  for (int i = 0; i < 8; ++i) {
    killers.insert(Emit("p" + std::to_string(i)));
  }
  Emit("after");
  DieOf([&](int64_t event) { return killers.contains(event); });
  RunUntil(clock.now + 120'000'000);
  EXPECT_EQ(broker.log.size(), 2u);
  for (const int64_t killer : killers) {
    EXPECT_EQ(RowOf(killer).state, ParkedState::kDead);
    EXPECT_EQ(RowOf(killer).error.error_class, ErrorClass::kMessage);
    EXPECT_EQ(RowOf(killer).error.code, "SINK_DIED");
  }
  EXPECT_LT(deaths, 120);  // each alone three times in both, and what was suspected together
}

// Nor is a lane stuck for ever behind more of them than are put aside at once.
TEST_F(KilledInARowTest, ALongRowIsPassedByAndBy) {
  std::set<int64_t> killers;
  for (int i = 0; i < 130; ++i) {
    killers.insert(Emit("p" + std::to_string(i)));
  }
  Emit("after");
  DieOf([&](int64_t event) { return killers.contains(event); });
  RunUntil(clock.now + 14'400'000'000);
  EXPECT_EQ(broker.log.size(), 1u);
  EXPECT_EQ(table.ever_dead, killers);
  std::vector<DestinationStatus> destinations;
  engine->Destinations(&destinations);
  EXPECT_EQ(destinations.at(0).state, BreakerState::kClosed);
}

// Where nothing shows that, at either sink, one event is dead at most, and few wait, however long it takes.
TEST_F(KilledInARowTest, WhereItDiesWhateverIsSentOneIsDeadAtMost) {
  for (int i = 0; i < 200; ++i) {
    Emit("k" + std::to_string(i));
  }
  DieOf([](int64_t) { return true; });
  RunUntil(clock.now + 1'200'000'000);
  EXPECT_LE(table.ever_dead.size(), 1u);
  EXPECT_LE(table.rows.size(), 11u + 1200 / 30);
  DieOf([](int64_t) { return false; });
  RunUntil(clock.now + 300'000'000);
  EXPECT_LE(table.ever_dead.size(), 1u);
  EXPECT_EQ(broker.log.size() + table.ever_dead.size(), 200u);
}

// The process that is started anew for parked events is another one by now (its libraries were replaced), and dies
// whatever is sent, while that of the lanes goes on: it speaks for what it has died of itself, and for nothing else.
TEST_F(KilledInARowTest, OneSinkThatGoesOnAccusesNothingOfTheOther) {
  for (int i = 0; i < 5; ++i) {
    Emit("k" + std::to_string(i), clock.WallMicros() + 1'000'000);
  }
  sink->on_poll = [this] { sink->DeliverAll(); };
  on_retry_poll = [](FakeSink* of) {
    if (!of->pending.empty()) {
      of->Die();
    }
  };
  for (int i = 0; i < 600; ++i) {
    Emit("more" + std::to_string(i));
    RunUntil(clock.now + 1'000'000);
  }
  EXPECT_EQ(broker.log.size(), 600u);
  EXPECT_LE(table.ever_dead.size(), 1u);
}

// One that makes it crash is found all the same, with others killing it now and then.
TEST_F(KilledTest, AnEventThatCrashesItIsDeadAmongKills) {
  for (int i = 0; i < 50; ++i) {
    Emit("k" + std::to_string(i % 20));
  }
  const int64_t bad = server.rows[30].created_at;
  const auto look = [&](FakeSink* of) {
    const auto found = std::find_if(of->pending.begin(), of->pending.end(),
                                    [&](const Pending& one) { return one.record.created_at == bad; });
    if (found != of->pending.end()) {
      of->Die(true, false, ++deaths % 7 == 0);
    } else {
      of->DeliverAll();
    }
  };
  sink->on_poll = [&] { look(sink); };
  on_retry_poll = look;
  RunUntil(clock.now + 600'000'000);
  EXPECT_EQ(RowOf(bad).state, ParkedState::kDead);
  EXPECT_EQ(broker.log.size(), 49u);
}

}  // namespace
}  // namespace outbox::relay
