// matrix: D6
// Side lanes: topics in trouble, or paused, leave their lane and come back.
#include "relay_sides_fixture.h"

namespace outbox::relay {
namespace {

// --- leaving -----------------------------------------------------------------------------------------------------

TEST_F(SidesTest, ATopicInTroubleLeavesAndTheOthersFlow) {
  AnswerByItself();
  bad = {"b"};
  for (int i = 0; i < 10; ++i) {
    Emit("a");
    Emit("b");
    Emit("c");
  }
  RunUntil(1'000);
  EXPECT_EQ(Written("a"), Rows("a"));
  EXPECT_EQ(Written("c"), Rows("c"));
  EXPECT_TRUE(Written("b").empty());
  EXPECT_TRUE(forked.empty());  // the log keeps them
  ASSERT_EQ(server.sides.size(), 1u);
  EXPECT_EQ(server.sides.at(1).record.topics.at(0).topic, "b");
  EXPECT_EQ(server.sides.at(1).record.topics.at(0).error.code, "UNKNOWN_TOPIC_OR_PART");
  ASSERT_NE(Side(1), nullptr);
  EXPECT_STREQ(LaneStateName(Side(1)->state), "backing off");
  EXPECT_EQ(*Side(1)->topic, "b");
  EXPECT_EQ(Side(1)->error->code, "UNKNOWN_TOPIC_OR_PART");
  EXPECT_EQ(Side(0)->topics, 1);
  EXPECT_EQ(Side(0)->error, nullptr);
  // The healthy ones go on without delay, and their progress is saved.
  const int64_t later = Emit("a").created_at;
  Turn(true);
  EXPECT_EQ(Written("a").back(), later);
  RunUntil(clock.now + options.save_micros);
  EXPECT_EQ(server.position.base, server.Current());
}

TEST_F(SidesTest, ItHealsAndRejoinsByItselfInOrder) {
  AnswerByItself();
  bad = {"b"};
  for (int i = 0; i < 100; ++i) {
    Emit("a");
    Emit("b");
  }
  RunUntil(60'000'000);
  EXPECT_TRUE(Written("b").empty());
  EXPECT_GT(refusals.size(), 3u);   // it was tried again
  EXPECT_LT(refusals.size(), 60u);  // and not too often
  bad.clear();
  Emit("b");
  RunUntil(clock.now + 2 * options.backoff_cap_micros);
  EXPECT_EQ(Written("b"), Rows("b"));
  EXPECT_EQ(Written("a"), Rows("a"));
  EXPECT_TRUE(server.sides.empty());
  EXPECT_EQ(Side(1), nullptr);
  EXPECT_EQ(Side(0)->topics, 0);
  EXPECT_TRUE(server.parked.empty());
  // Everything is the lane's again.
  const int64_t later = Emit("b").created_at;
  Turn(true);
  EXPECT_EQ(Written("b").back(), later);
}

TEST_F(SidesTest, ProbesAreOneEventThenASmallBatchThenAll) {
  bad = {"b"};
  for (int i = 0; i < 100; ++i) {
    Emit("b");
  }
  Turn();
  ASSERT_EQ(sink->pending.size(), 100u);
  sink->Fail(0, ErrorClass::kTopic, "UNKNOWN_TOPIC_OR_PART");
  Turn();
  EXPECT_TRUE(sink->pending.empty());
  EXPECT_EQ(probe, nullptr);
  RunUntil(clock.now + options.backoff_base_micros);
  ASSERT_NE(probe, nullptr);
  EXPECT_EQ(probe->pending.size(), 1u);  // at the second sink, so that a refusal disturbs no lane
  probe->Fail(0, ErrorClass::kTopic);
  RunUntil(clock.now + 2 * options.backoff_base_micros);
  ASSERT_EQ(probe->pending.size(), 1u);
  EXPECT_EQ(probe->pending[0].record.created_at, server.rows[0].created_at);
  probe->Deliver();
  Turn();
  EXPECT_EQ(probe->pending.size(), 16u);
  probe->DeliverAll();
  Turn();
  EXPECT_TRUE(probe->pending.empty());
  EXPECT_EQ(sink->pending.size(), 83u);
  sink->DeliverAll();
  RunUntil(clock.now + 1'000'000);
  EXPECT_EQ(broker.Order(), AllRows());
  EXPECT_TRUE(server.sides.empty());
}

TEST_F(SidesTest, EventsBeforeADeliveredOneOfTheTopicAreParkedAndNoneIsRepeated) {
  Emit("b", "x");  // 0: refused
  Emit("b", "y");  // 1: delivered
  Emit("b", "x");  // 2
  Emit("b", "z");  // 3: delivered
  Emit("b", "w");  // 4: the side lane's from here
  Emit("b", "w");  // 5
  Turn();
  sink->Deliver(3);
  sink->Deliver(1);
  sink->Fail(0, ErrorClass::kTopic);
  Turn();
  ASSERT_EQ(server.sides.size(), 1u);
  ASSERT_EQ(forked.size(), 2u);
  EXPECT_EQ(forked[0].created_at, server.rows[0].created_at);
  EXPECT_EQ(forked[0].state, ParkedState::kRetrying);
  EXPECT_EQ(forked[1].created_at, server.rows[2].created_at);
  EXPECT_EQ(forked[1].state, ParkedState::kBlocked);  // behind the first of its key
  AnswerByItself();
  RunUntil(clock.now + 1'000'000);
  EXPECT_EQ(broker.Order(), (std::vector<int64_t>{server.rows[3].created_at, server.rows[1].created_at,
                                                  server.rows[4].created_at, server.rows[5].created_at}));
  EXPECT_TRUE(server.sides.empty());
}

TEST_F(SidesTest, AChunkThatIsDoneIsRememberedByItsTopics) {
  options.chunk_bytes = 16 * 1024;
  engine->SetOptions(options);
  Emit("b", "x");
  for (int i = 0; i < 300; ++i) {
    server.EmitCommitted("k" + std::to_string(i), 200, "a");  // chunks of its own
  }
  Emit("b", "x");
  RunUntil(1'000);
  ASSERT_GT(sink->pending.size(), 250u);
  for (size_t i = sink->pending.size(); i > 0; --i) {
    if (sink->pending[i - 1].record.topic == "a") {
      sink->Deliver(i - 1);
    }
  }
  Turn();
  sink->Fail(0, ErrorClass::kTopic);
  Turn();
  EXPECT_EQ(server.sides.size(), 1u);
  EXPECT_TRUE(forked.empty());  // nothing of b was in them
  AnswerByItself();
  RunUntil(clock.now + 1'000'000);
  EXPECT_EQ(Written("b"), Rows("b"));
}

TEST_F(SidesTest, AForkThatTheLogRefusesIsTriedAgainAndNothingGoesBefore) {
  AnswerByItself();
  bad = {"b"};
  server.fails = [](const char* function) { return std::string(function) == "Fork"; };
  Emit("b");
  Emit("a");
  RunUntil(60'000'000);
  EXPECT_EQ(State(), "forking");
  EXPECT_EQ(Status().error->code, "57014");
  EXPECT_TRUE(broker.log.empty());
  EXPECT_GT(server.calls["Fork"], 3);
  EXPECT_LT(server.calls["Fork"], 60);
  server.fails = nullptr;
  RunUntil(clock.now + options.backoff_cap_micros);
  EXPECT_EQ(Written("a"), Rows("a"));
}

TEST_F(SidesTest, ATopicsTroubleWithoutSideLanesBacksTheLaneOff) {
  engine = std::make_unique<Engine>(&clock, options);
  engine->SetDestination(kDestination, MakeSinks(), 0);
  ASSERT_TRUE(engine->AddLane(kLane, spec, fakes::Logs(&server, spec), kDestination));
  Emit("b");
  Turn();
  sink->Fail(0, ErrorClass::kTopic);
  Turn();
  EXPECT_EQ(State(), "backing off");
}

// --- what is said of it -------------------------------------------------------------------------------------------

// Whatever is tried at the second sink is aborted there, because another lane's event of the topic is refused.
TEST_F(SidesTest, WhatIsAbortedForTheSakeOfOthersKeepsTheErrorOfItsTopic) {
  AnswerByItself();
  bad = {"b"};
  Emit("b");
  RunUntil(1'000);
  ASSERT_NE(Side(1), nullptr);
  answers = false;  // of the second sink, which is made now
  int aborts = 0;
  for (const int64_t until = 60'000'000; clock.now < until;) {
    if (probe != nullptr) {
      probe->on_poll = [&] {
        while (!probe->pending.empty()) {
          ++aborts;
          probe->Abort(probe->pending[0].flow, 0);
        }
      };
    }
    clock.now = std::min(std::max(clock.now, Turn()), until);
    ASSERT_NE(Side(1), nullptr);
    ASSERT_NE(Side(1)->error, nullptr);
    ASSERT_EQ(Side(1)->error->code, "UNKNOWN_TOPIC_OR_PART");
  }
  EXPECT_GT(aborts, 3);
}

// The second sink delivers it again, and the lanes' sink refuses it for a while without asking.
TEST_F(SidesTest, ItsTroubleIsOverWhenTheLanesSinkDeliversToo) {
  AnswerByItself();
  bad = {"b"};
  for (int i = 0; i < 5'000; ++i) {
    Emit("b");
  }
  RunUntil(1'000);
  ASSERT_NE(Side(1), nullptr);
  answers = false;  // of the second sink, which is made now
  const int64_t since = Side(1)->error_since_unix;
  const auto run = [this](int64_t until, const std::function<void()>& look) {
    while (clock.now < until) {
      if (probe != nullptr) {
        probe->on_poll = [this] { probe->DeliverAll(); };
      }
      clock.now = std::min(std::max(clock.now, Turn()), until);
      look();
    }
  };
  run(10'000'000, [&] {
    ASSERT_NE(Side(1), nullptr);
    ASSERT_NE(Side(1)->error, nullptr);
    ASSERT_EQ(Side(1)->error_since_unix, since);
  });
  EXPECT_GT(refusals.size(), 5u);
  EXPECT_FALSE(Written("b").empty());
  EXPECT_LT(Written("b").size(), 4'900u);
  bad.clear();
  run(70'000'000, [] {});
  EXPECT_TRUE(server.sides.empty());
  EXPECT_EQ(Written("b"), Rows("b"));
}

// --- crashes and lost lanes --------------------------------------------------------------------------------------

TEST_F(SidesTest, ACrashKeepsPositionsApartAndNothingIsLost) {
  AnswerByItself();
  bad = {"b"};
  for (int i = 0; i < 20; ++i) {
    Emit("a");
    Emit("b");
  }
  RunUntil(10'000'000);
  Restart();
  AnswerByItself();
  Emit("a");
  Emit("b");
  RunUntil(clock.now + 10'000'000);
  EXPECT_EQ(Written("a"), Rows("a"));
  EXPECT_TRUE(Written("b").empty());
  ASSERT_NE(Side(1), nullptr);
  EXPECT_EQ(Side(1)->error->code, "UNKNOWN_TOPIC_OR_PART");
  bad.clear();
  RunUntil(clock.now + 2 * options.backoff_cap_micros);
  EXPECT_EQ(Written("b"), Rows("b"));
  EXPECT_TRUE(server.sides.empty());
  EXPECT_EQ(broker.log.size(), server.rows.size());
}

TEST_F(SidesTest, ALaneThatIsLostTakesItsSideLanesWithIt) {
  AnswerByItself();
  bad = {"b"};
  Emit("b");
  Emit("a");
  RunUntil(10'000'000);
  ASSERT_NE(Side(1), nullptr);
  server.owned = false;
  Emit("a");
  RunUntil(clock.now + 10'000'000);
  EXPECT_EQ(engine->lane_count(), 0u);
  const auto gone = Gone();
  ASSERT_EQ(gone.size(), 1u);
  EXPECT_EQ(gone[0].id, kLane);
  EXPECT_EQ(gone[0].reason, GoneReason::kLost);
}

TEST_F(SidesTest, ASideLaneThatFindsTheLaneLostTakesTheLaneWithIt) {
  AnswerByItself();
  bad = {"b"};
  Emit("b");
  Emit("a");
  RunUntil(10'000'000);
  server.owned = false;
  bad.clear();
  RunUntil(clock.now + 2 * options.backoff_cap_micros);
  EXPECT_EQ(engine->lane_count(), 0u);
  EXPECT_EQ(Gone().size(), 1u);
}

TEST_F(SidesTest, AReleaseWaitsForSideLanesAndIsInGoodOrder) {
  AnswerByItself();
  bad = {"b"};
  Emit("b");
  Emit("a");
  RunUntil(10'000'000);
  engine->ReleaseLane(kLane, clock.now + 5'000'000);
  RunUntil(clock.now + 1);
  EXPECT_EQ(engine->lane_count(), 0u);
  const auto gone = Gone();
  ASSERT_EQ(gone.size(), 1u);
  EXPECT_EQ(gone[0].reason, GoneReason::kReleased);
  AddLane();
  bad.clear();
  RunUntil(clock.now + 10'000'000);
  EXPECT_TRUE(server.sides.empty());
  EXPECT_EQ(broker.log.size(), 2u);
}

// --- coming back -------------------------------------------------------------------------------------------------

TEST_F(SidesTest, ARejoinThatTheLogRefusesHoldsUpNothing) {
  AnswerByItself();
  bad = {"b"};
  Emit("b");
  RunUntil(1'000'000);
  server.fails = [](const char* function) { return std::string(function) == "Rejoin"; };
  bad.clear();
  RunUntil(clock.now + 60'000'000);
  EXPECT_GT(server.calls["Rejoin"], 3);
  EXPECT_LT(server.calls["Rejoin"], 100);
  EXPECT_EQ(server.sides.size(), 1u);
  ASSERT_NE(Status().error, nullptr);
  EXPECT_EQ(Status().error->code, "57014");
  Emit("a");
  Emit("b");
  RunUntil(clock.now + 2'000'000);
  EXPECT_EQ(broker.Order(), AllRows());
  server.fails = nullptr;
  RunUntil(clock.now + 60'000'000);
  EXPECT_TRUE(server.sides.empty());
  EXPECT_EQ(Status().error, nullptr);
}

// A record of the lane has no answer for long, so the lane cannot rest: events of its other topics, and of the one that
// is mended, do not wait for that.
TEST_F(SidesTest, WhereTheLaneCannotRestNothingWaitsLongForARejoin) {
  bad = {"b"};
  std::map<int64_t, int64_t> emitted;
  size_t written = 0;
  int64_t longest = 0;
  int64_t waited = 0;  // of all events
  bool answered = false;
  for (int ms = 0; ms < 20'000; ms += 10) {
    clock.now = int64_t{ms} * 1'000;
    if (ms == 1'000) {
      bad.clear();
    }
    emitted[Emit(ms == 0 ? "b" : ms == 500 ? "slow" : ms % 20 == 0 ? "a" : "b").created_at] = clock.now;
    for (FakeSink* of : {sink, probe}) {
      for (size_t i = 0; of != nullptr && i < of->pending.size();) {
        const std::string& topic = of->pending[i].record.topic;
        if (topic == "slow" && ms < 18'000) {
          ++i;
        } else if (bad.count(topic) != 0) {
          of->Fail(i, ErrorClass::kTopic);
          i = 0;
        } else {
          answered |= topic == "slow";
          of->Deliver(i);
        }
      }
    }
    Turn(true);
    for (; written < broker.log.size(); ++written) {
      const int64_t event = broker.log[written].created_at;
      if (ms > 3'000 && ms < 18'000) {
        longest = std::max(longest, clock.now - emitted.at(event));
        waited += clock.now - emitted.at(event);
      }
    }
  }
  EXPECT_TRUE(answered);
  printf("longest %lld ms, on average %lld ms\n", static_cast<long long>(longest / 1000),
         static_cast<long long>(waited / 1'500 / 1000));
  EXPECT_LE(longest, 2'100'000);
  EXPECT_LT(waited / 1'500, 200'000);
  AnswerByItself();
  RunUntil(clock.now + 60'000'000);
  EXPECT_TRUE(server.sides.empty());
  EXPECT_EQ(broker.log.size(), server.rows.size());
}

TEST_F(SidesTest, UnderLoadItRejoinsAndNothingIsRepeatedOrOutOfOrder) {
  bad = {"b"};
  for (int ms = 0; ms < 8'000; ++ms) {
    clock.now = int64_t{ms} * 1'000;
    Emit(ms % 2 == 0 ? "a" : "b", "k" + std::to_string(ms % 7));
    if (ms == 1'000) {
      bad.clear();
    }
    AnswerSlowly();
    Turn(true);
  }
  EXPECT_TRUE(server.sides.empty());  // while events come all the time
  AnswerByItself();
  RunUntil(clock.now + 1'000'000);
  EXPECT_EQ(broker.log.size(), server.rows.size());
  EXPECT_EQ(Written("a"), Rows("a"));
  EXPECT_EQ(Written("b"), Rows("b"));
}

TEST_F(SidesTest, ABarrierWaitsForSideLanes) {
  AnswerByItself();
  bad = {"b"};
  Emit("a");
  Emit("b");
  RunUntil(1'000'000);
  Turn(false, 7);
  RunUntil(clock.now + 1'000'000);
  EXPECT_LT(Status().barrier_done, 7u);
  bad.clear();
  RunUntil(clock.now + 60'000'000);
  EXPECT_EQ(Status().barrier_done, 7u);
}

// While a rejoin is prepared the side lane reads to where the lane stands, no further: it has not read all, and says
// so.
TEST_F(SidesTest, NoBarrierIsReachedBeforeItsEventsAreWhereARejoinIsRefused) {
  bad = {"b"};
  server.fails = [](const char* function) { return std::string(function) == "Rejoin"; };
  std::map<uint64_t, size_t> barriers;  // how many events were committed before it
  uint64_t barrier = 0;
  int early = 0;
  for (int ms = 0; ms < 20'000; ++ms) {
    clock.now = int64_t{ms} * 1'000;
    if (ms % 3 == 0) {
      Emit("b", "k" + std::to_string(ms % 7));
    }
    if (ms == 1'000) {
      bad.clear();
    }
    AnswerSlowly();
    barriers[++barrier] = server.rows.size();
    Turn(true, barrier);
    const uint64_t done = Status().barrier_done;
    early += done != 0 && broker.log.size() < barriers[done] ? 1 : 0;
  }
  EXPECT_GT(server.calls["Rejoin"], 0);
  EXPECT_EQ(early, 0);
}

// The second sink's process dies of an event, each time that the topic is tried there: the search at the lanes' sink
// finds it.
TEST_F(SidesTest, AnEventThatKillsTheSecondSinkIsFound) {
  AnswerByItself();
  bad = {"b"};
  Emit("a");
  Emit("b");
  const int64_t poison = server.rows.back().created_at;
  RunUntil(1'000'000);
  ASSERT_EQ(server.sides.size(), 1u);
  bad.clear();
  int deaths = 0;
  const auto look = [&](FakeSink* of) {
    for (const Pending& one : of->pending) {
      if (one.record.created_at == poison) {
        ++deaths;
        of->Die();
        return;
      }
    }
    of->DeliverAll();
  };
  sink->on_poll = [&] { look(sink); };
  constexpr int64_t kHour = 3'600'000'000;
  for (int64_t next = Turn(); next < kHour && clock.now < kHour; next = Turn()) {
    if (probe != nullptr) {
      probe->on_poll = [&] { look(probe); };
    }
    clock.now = std::max(clock.now, next);
  }
  EXPECT_LT(deaths, 20);
  EXPECT_EQ(server.parked.size(), 1u);
  EXPECT_TRUE(server.sides.empty());
}

// What a lane and its side lane had in flight is given back to the destination once, also where both are lost in one
// save.
TEST_F(SidesTest, ALostLaneAndItsSideLaneLeaveTheDestinationItsRoom) {
  options.chunk_bytes = 16 * 1024;
  engine->SetOptions(options);
  Server second{&clock};
  ASSERT_TRUE(engine->AddLane({2, 0}, spec, fakes::Logs(&second, spec), kDestination));
  AnswerByItself();
  server.fails = [](const char* function) { return std::string(function) == "Rejoin"; };
  bad = {"b"};
  Emit("a");
  Emit("b");
  RunUntil(1'000'000);
  bad.clear();
  RunUntil(clock.now + 60'000'000);
  ASSERT_EQ(server.sides.size(), 1u);
  int left = 100;  // each has something to save, and the side lane much more in its hands
  sink->on_poll = [&, this] {
    while (left > 0 && !sink->pending.empty()) {
      sink->Deliver();
      --left;
    }
  };
  const auto emit = [](Server* of, int count, const char* topic) {
    for (int i = 0; i < count; ++i) {
      of->EmitCommitted("k", 200, topic);
    }
  };
  emit(&server, 50, "a");
  emit(&server, 1000, "b");
  emit(&server, 50, "a");
  server.owned = false;
  RunUntil(clock.now + 2'000'000);
  ASSERT_FALSE(engine->HasLane(kLane));
  sink->on_poll = nullptr;
  emit(&second, 2000, "a");
  RunUntil(clock.now + 5'000'000);
  engine->Lanes(&statuses);
  engine->Internals(&internals);
  ASSERT_EQ(statuses.size(), 1u);
  EXPECT_GT(internals[0].inflight_bytes, 100'000u);
  engine.reset();
}

}  // namespace
}  // namespace outbox::relay
