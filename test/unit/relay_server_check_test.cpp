// matrix: E-5
// A destination meets another run of its server: what was acknowledged is saved first, then it is asked what it has,
// and lanes that have lost something are put back before anything is written.
#include "relay/destination/server_check.h"

#include "relay_engine_fixture.h"

namespace outbox::relay {
namespace {

class FakeServerRuns : public ServerRuns {
 public:
  bool resend() const override { return true; }
  Status Streams(const std::string& server_run, std::span<const sink::StreamEnd> ends,
                 std::vector<sink::AskedStream>* out) override {
    calls.push_back("streams " + server_run);
    out->clear();
    for (const std::string& stream : ends.empty()         ? streams
                                     : ends.size() < more ? std::vector<std::string>{std::to_string(ends.size())}
                                                          : none) {
      out->push_back({stream, "1-1"});
    }
    return Answer("streams");
  }
  Status Lost(const std::string& server_run, std::span<const sink::StreamEnd>, bool* out) override {
    calls.push_back("lost " + server_run);
    *out = lost;
    return Answer("lost");
  }
  Status Record(const std::string& server_run, std::span<const sink::StreamEnd> ends) override {
    calls.push_back("record " + server_run);
    for (const sink::StreamEnd& end : ends) {
      calls.back() += " " + end.stream + "=" + end.last;
    }
    return Answer("record");
  }

  std::vector<std::string> streams;
  const std::vector<std::string> none = {};
  size_t more = 0;  // answers without which it asks on
  bool lost = false;
  std::vector<std::string> calls;
  int failures = 0;   // so many calls fail first
  std::string fails;  // each such call does
  const char* trouble = "57014";

 private:
  Status Answer(const char* call) {
    return failures-- > 0 || fails == call ? Status(ErrorClass::kInternal, trouble, "in trouble") : Status();
  }
};

class ServerCheckTest : public EngineTest {
 protected:
  ServerCheckTest() { NewWorker(); }
  // The one before has crashed.
  void NewWorker() {
    engine = std::make_unique<Engine>(&clock, options);
    auto made_servers = std::make_unique<FakeServerRuns>();
    servers = made_servers.get();
    engine->SetDestination(kDestination, MakeSinks(), 0, std::move(made_servers));
    AddLane();
  }
  // The first run is met and has nothing to say.
  void Begin() {
    sink->Meet("a");
    RunUntil(clock.now + 10'000);
    ASSERT_EQ(sink->admitted, std::vector<std::string>{"a"});
    servers->calls.clear();
  }
  void Pass(int64_t micros) { RunUntil(clock.now + micros); }
  std::vector<int64_t> Written() {
    std::vector<int64_t> order;
    for (const fakes::Written& written : broker.log) {
      order.push_back(written.created_at);
    }
    return order;
  }
  DestinationStatus Destination() {
    engine->Destinations(&destinations);
    return destinations[0];
  }
  FakeServerRuns* servers = nullptr;
  std::vector<DestinationStatus> destinations;
};

TEST_F(ServerCheckTest, TheFirstIsAdmittedAndProgressSaysWho) {
  Begin();
  server.EmitCommitted("k");
  Turn(true);
  sink->DeliverAll();
  Pass(1'000'000);
  EXPECT_EQ(server.saved_under, "a");
  EXPECT_EQ(server.calls["Rewind"], 1) << "when it was met; the lane was loaded before";
}

// Where a route has had very many lanes, each new one takes long to find out whether anything was lost.
TEST_F(ServerCheckTest, LanesThatBeginHoldUpNoOtherLane) {
  Begin();
  constexpr int kLanes = 10;
  std::vector<std::unique_ptr<Server>> servers_of_lanes;
  int checks = 0;
  for (int i = 0; i < kLanes; ++i) {
    auto& other = servers_of_lanes.emplace_back(std::make_unique<Server>(&clock));
    other->fails = [&](const std::string& call) {
      if (call == "Rewind") {
        clock.now += 100'000;
        ++checks;
      }
      return false;
    };
    ASSERT_TRUE(engine->AddLane({2, i}, spec, fakes::Logs(other.get(), spec), kDestination));
  }
  for (int turn = 1; turn <= kLanes; ++turn) {
    server.EmitCommitted("k");
    const int64_t next = Turn(true);
    sink->DeliverAll();
    EXPECT_EQ(checks, turn);
    EXPECT_EQ(broker.log.size(), static_cast<size_t>(turn)) << "sent in the turn it was there for";
    EXPECT_TRUE(turn == kLanes || next <= clock.now) << "the next lane is not waited for";
  }
}

// What waits for another run to be admitted would be written as soon as it is.
// A page of its next events is damaged, say: it tries again ever more seldom, and the others of the destination go on.
TEST_F(ServerCheckTest, ALaneThatCannotReadHoldsUpNoAdmission) {
  Begin();
  server.fails = [](const char* function) { return std::string_view(function) == "OpenWindow"; };
  server.EmitCommitted("k");
  Turn(true);
  Pass(60'000'000);
  sink->Meet("b");
  Pass(50'000);
  EXPECT_EQ(sink->admitted, (std::vector<std::string>{"a", "b"}));
}

TEST_F(ServerCheckTest, APauseTakesBackWhatWaitsToBeAdmitted) {
  Begin();
  server.EmitCommitted("k");
  Turn(true);
  ASSERT_EQ(sink->pending.size(), 1u);
  servers->streams = {"stream"};  // it is asked about, and does not answer yet
  sink->Meet("b");
  Pass(100'000);
  ASSERT_TRUE(sink->awaits_admission());
  format::RouteConfig config;
  config.paused = true;
  SetSpec(config);
  Turn();
  EXPECT_EQ(sinks, 2);
  sink->Meet("b");
  Pass(10'000'000);
  EXPECT_TRUE(sink->pending.empty());
  EXPECT_EQ(sinks, 2);
}

TEST_F(ServerCheckTest, TheSameRunOnAnotherConnectionIsNoNews) {
  Begin();
  sink->Meet("a");
  Pass(10'000);
  EXPECT_EQ(sink->admitted, (std::vector<std::string>{"a", "a"}));
  EXPECT_TRUE(servers->calls.empty());
  EXPECT_EQ(server.calls["Rewind"], 1);
}

TEST_F(ServerCheckTest, WhatWasAcknowledgedIsSavedUnderTheRunBefore) {
  Begin();
  server.EmitCommitted("k");
  Turn(true);
  sink->DeliverAll();
  Turn();
  server.EmitCommitted("k");
  Turn(true);
  sink->DeliverAll();
  Turn();  // acknowledged, and not saved: a row was written just now
  const size_t saves = server.saves.size();
  sink->Meet("b");
  servers->streams = {"s"};
  Turn();
  EXPECT_GT(server.saves.size(), saves);
  EXPECT_EQ(server.saved_under, "a");
  EXPECT_EQ(sink->asked, std::vector<std::string>{"s"});
  EXPECT_EQ(sink->admitted.size(), 1u) << "not before it has answered";
  sink->AnswerEnds({{"s", "5-0"}});
  Turn();
  EXPECT_EQ(servers->calls, (std::vector<std::string>{"streams b", "streams b", "lost b", "record b s=5-0"}));
  EXPECT_EQ(sink->admitted.back(), "b");
  EXPECT_EQ(engine->lane_count(), 1u) << "nothing was lost";
  server.EmitCommitted("k");
  Turn(true);
  sink->DeliverAll();
  Pass(1'000'000);
  EXPECT_EQ(server.saved_under, "b");
}

// A position that moved past nothing of the lane is nothing that the server could lack. A worker that starts while the
// disk is full has one nearly always: transactions that emit nothing finish all the time.
// What it had in flight is written and acknowledged by the new run: under the old one's name, that would be found lost.
TEST_F(ServerCheckTest, ALaneOnItsWayOutIsLookedAtToo) {
  Begin();
  server.EmitCommitted("k");
  Turn(true);
  sink->DeliverAll();
  Turn();
  server.EmitCommitted("k");
  Turn(true);
  sink->DeliverAll();
  Turn();  // acknowledged, and not saved: a row was written just now
  server.EmitCommitted("k");
  Turn(true);  // sent
  engine->ReleaseLane(kLane, clock.now + 5'000'000);
  const size_t saves = server.saves.size();
  sink->Meet("b");
  Turn();
  ASSERT_EQ(sink->admitted.back(), "b");
  EXPECT_EQ(server.saves.size(), saves + 1) << "what was acknowledged before, before it is admitted";
  EXPECT_EQ(server.saved_under, "a");
  EXPECT_EQ(server.calls["Rewind"], 2);
  sink->DeliverAll();
  Pass(1'000'000);
  EXPECT_EQ(server.saved_under, "b");
  const std::vector<GoneLane> gone = Gone();
  ASSERT_EQ(gone.size(), 1u);
  EXPECT_EQ(gone[0].reason, GoneReason::kReleased);
}

TEST_F(ServerCheckTest, WhatWasNotAcknowledgedNeedNotBeSavedFirst) {
  server.fails = [](const std::string& call) { return call == "SaveProgress"; };
  server.Commit(server.Begin());
  Turn(true);
  sink->Meet("a");
  Pass(10'000);
  EXPECT_EQ(sink->admitted, std::vector<std::string>{"a"});
  server.EmitCommitted("k");
  Turn(true);
  sink->DeliverAll();
  Turn();
  EXPECT_EQ(Written().size(), 1u);

  // What was acknowledged is another matter.
  sink->Meet("b");
  Pass(10'000'000);
  EXPECT_EQ(sink->admitted.size(), 1u);
  server.fails = nullptr;
  Pass(10'000'000);
  EXPECT_EQ(server.saved_under, "a");
  EXPECT_EQ(sink->admitted.back(), "b");
}

TEST_F(ServerCheckTest, ALaneThatHasLostSomethingLeavesAndBeginsWhereItWasPut) {
  Begin();
  server.there = server.position;
  for (int i = 0; i < 10; ++i) {
    server.EmitCommitted("k");
  }
  Turn(true);
  sink->DeliverAll();
  Pass(1'000'000);
  ASSERT_EQ(Written(), AllRows());
  broker.log.clear();
  server.EmitCommitted("k");
  Turn(true);
  ASSERT_EQ(sink->pending.size(), 1u);  // waits in the sink
  sink->Meet("b");
  Turn();
  EXPECT_EQ(sink->admitted.back(), "b");
  EXPECT_TRUE(sink->pending.empty()) << "what waited must not come before what is sent again";
  std::vector<DestinationStatus> destinations;
  engine->Destinations(&destinations);
  ASSERT_NE(destinations[0].warning, nullptr);
  EXPECT_EQ(destinations[0].warning->code, "LOST_WRITES");
  for (int i = 0; i < 5 && engine->lane_count() > 0; ++i) {
    Pass(10'000);
  }
  std::vector<GoneLane> gone = Gone();
  ASSERT_EQ(gone.size(), 1u);
  EXPECT_NE(gone[0].reason, GoneReason::kLost);
  EXPECT_EQ(server.position, *server.there) << "on its way out it saved nothing over it";
  AddLane();
  Turn(true);
  sink->DeliverAll();
  Pass(1'000'000);
  EXPECT_EQ(Written(), AllRows()) << "all of them again, in order";
  EXPECT_EQ(server.calls["Rewind"], 3) << "a, b, and once more when it was loaded under b";
}

// A position that only moved is saved by nobody before the question, and must not be saved after the answer.
TEST_F(ServerCheckTest, ALaneThatIsPutBackSavesNoPositionThatOnlyMoved) {
  Begin();
  server.there = server.position;
  server.EmitCommitted("k");
  Turn(true);
  sink->DeliverAll();
  Pass(1'000'000);
  ASSERT_EQ(Written(), AllRows());
  broker.log.clear();
  const size_t saves = server.saves.size();
  server.Commit(server.Begin());
  Turn(true);
  ASSERT_EQ(server.saves.size(), saves) << "it moved, and that is not saved yet";
  sink->Meet("b");
  for (int i = 0; i < 5 && engine->lane_count() > 0; ++i) {
    Pass(10'000);
  }
  ASSERT_EQ(Gone().size(), 1u);
  EXPECT_EQ(server.saves.size(), saves);
  EXPECT_EQ(server.position, *server.there);
  AddLane();
  Turn(true);
  sink->DeliverAll();
  Pass(1'000'000);
  EXPECT_EQ(Written(), AllRows()) << "what was lost, again";
}

// Lanes go on reading while the server is asked, also before their worker has met any. A position that moves then, past
// rows of others, may be saved before the lane is put back, and not after.
TEST_F(ServerCheckTest, APositionThatMovesBetweenQuestionAndAnswerIsNotSavedOverTheLanes) {
  format::RouteConfig config;
  config.aggregate_types = {"order"};
  spec = fakes::Spec(config);
  for (const bool saved : {false, true}) {
    NewWorker();
    sink->Meet(saved ? "c" : "a");
    Pass(10'000);
    ASSERT_EQ(sink->admitted.size(), 1u);
    const Position start = server.position;
    broker.log.clear();
    server.EmitCommitted("k");
    server.EmitCommitted("k");
    const int64_t first = server.rows[server.rows.size() - 2].created_at;
    const int64_t last = server.rows.back().created_at;
    Turn(true);
    sink->DeliverAll();
    Pass(1'000'000);
    ASSERT_EQ(Written(), (std::vector<int64_t>{first, last}));
    broker.log.clear();

    NewWorker();
    Turn();
    servers->streams = {"s"};
    sink->Meet(saved ? "d" : "b");
    Turn();
    ASSERT_EQ(sink->asked.size(), 1u);
    const size_t saves = server.saves.size();
    const auto others = [&] {
      server.EmitCommitted("k");
      server.rows.back().type = "other";
      Turn(true);
    };
    others();
    if (saved) {
      Pass(2 * options.save_moved_micros);
      EXPECT_GT(server.saves.size(), saves);
      others();
    } else {
      EXPECT_EQ(server.saves.size(), saves);
    }
    server.there = start;
    size_t saves_before = 0;
    server.on_call = [&](const char* call) {
      if (std::string_view(call) == "Rewind") {
        saves_before = server.saves.size();
      }
    };
    sink->AnswerEnds({{"s", ""}});
    for (int i = 0; i < 5 && engine->lane_count() > 0; ++i) {
      Pass(10'000);
    }
    ASSERT_EQ(Gone().size(), 1u);
    EXPECT_EQ(server.saves.size(), saves_before);
    EXPECT_EQ(server.position, start);
    server.on_call = nullptr;
    server.there.reset();
    AddLane();
    Turn(true);
    sink->DeliverAll();
    Pass(1'000'000);
    EXPECT_EQ(Written(), (std::vector<int64_t>{first, last})) << "what was lost, again";
  }
}

// A lane that comes when the run is known looks before it reads.
TEST_F(ServerCheckTest, ALaneThatComesLaterLooksWhenItIsLoaded) {
  Begin();
  const Position start = server.position;
  server.EmitCommitted("k");
  Turn(true);
  sink->DeliverAll();
  Pass(1'000'000);
  engine->ReleaseLane(kLane, clock.now);
  Pass(10'000);
  ASSERT_EQ(engine->lane_count(), 0u);
  (void)Gone();
  sink->Meet("b");
  Pass(10'000);
  ASSERT_EQ(sink->admitted.back(), "b");
  server.there = start;
  broker.log.clear();
  AddLane();
  Turn(true);
  sink->DeliverAll();
  Pass(1'000'000);
  EXPECT_EQ(Written(), AllRows());
  EXPECT_TRUE(Gone().empty());
}

// One that was put back under the new run comes back while others are still looked at.
TEST_F(ServerCheckTest, ALaneThatComesDuringTheCheckIsLookedAtUnderTheNewRunOnly) {
  Begin();
  servers->streams = {"s"};
  sink->Meet("b");
  Turn();
  ASSERT_EQ(sink->asked.size(), 1u);  // and not answered
  Server other(&clock);
  ASSERT_TRUE(engine->AddLane({2, 0}, spec, fakes::Logs(&other, spec), kDestination));
  Pass(100'000);
  EXPECT_EQ(other.calls["Rewind"], 0) << "under the run before";
  sink->AnswerEnds({{"s", ""}});
  Pass(100'000);
  ASSERT_EQ(sink->admitted.back(), "b");
  EXPECT_EQ(other.calls["Rewind"], 1);
  other.EmitCommitted("k");
  Turn(true);
  sink->DeliverAll();
  Pass(1'000'000);
  EXPECT_EQ(other.saved_under, "b");
}

TEST_F(ServerCheckTest, WhileTheTablesAreInTroubleNothingIsWritten) {
  Begin();
  servers->streams = {"s"};
  servers->failures = 1;
  sink->Meet("b");
  Turn();
  EXPECT_TRUE(sink->asked.empty());
  Pass(10'000'000);
  EXPECT_EQ(sink->asked.size(), 1u);
  servers->failures = 3;
  sink->AnswerEnds({{"s", ""}});
  Turn();
  EXPECT_EQ(sink->admitted.size(), 1u);
  Pass(20'000'000);
  ASSERT_EQ(sink->admitted.back(), "b");
  EXPECT_EQ(servers->calls.back(), "record b s=");

  bool bad = true;
  server.fails = [&](const std::string& call) { return bad && call == "Rewind"; };
  sink->Meet("c");
  Turn();
  sink->AnswerEnds({});
  Pass(100'000);
  EXPECT_EQ(sink->admitted.back(), "b");
  bad = false;
  Pass(60'000'000);
  EXPECT_EQ(sink->admitted.back(), "c");
}

// Nothing is sent, by no lane, and nobody else knows why.
TEST_F(ServerCheckTest, WhatCannotBeFoundOutIsTroubleOfTheDestination) {
  Begin();
  servers->streams = {"s"};
  for (const char* call : {"streams", "lost", "record"}) {
    const std::string server_run = std::string("run ") + call;
    servers->fails = call;
    sink->Meet(server_run);
    server.EmitCommitted("k");
    Turn(true);
    sink->AnswerEnds({{"s", "5-0"}});
    Pass(1'000'000);
    ASSERT_NE(sink->admitted.back(), server_run);
    EXPECT_NE(Destination().state, BreakerState::kClosed);
    EXPECT_EQ(Destination().reason.code, "57014") << call;
    EXPECT_EQ(Destination().reason.message,
              "nothing is sent before it is known what its server may have lost, and that cannot be found out: in "
              "trouble");
    ASSERT_NE(Status().error, nullptr);
    EXPECT_EQ(Status().error->code, "57014");
    EXPECT_TRUE(Status().of_destination);
    servers->calls.clear();
    Pass(60'000'000);
    EXPECT_LT(servers->calls.size(), 60u) << "it is tried again ever more seldom";
    EXPECT_EQ(Destination().trips, 1);

    servers->fails.clear();
    for (int i = 0; i < 600 && sink->admitted.back() != server_run; ++i) {
      Pass(10'000);
    }
    ASSERT_EQ(sink->admitted.back(), server_run);
    sink->DeliverAll();
    Pass(1'000'000);
    sink->DeliverAll();
    Pass(5'000'000);
    EXPECT_EQ(Written(), AllRows());
    EXPECT_EQ(Destination().state, BreakerState::kClosed);
    EXPECT_EQ(Status().error, nullptr);
    NewWorker();
    Begin();
    servers->streams = {"s"};
  }
}

TEST_F(ServerCheckTest, ALockForAMomentIsNoTroubleOfTheDestination) {
  Begin();
  servers->fails = "streams";
  servers->trouble = kLocked;
  sink->Meet("b");
  Turn();
  Pass(900'000);
  EXPECT_EQ(Destination().state, BreakerState::kClosed);
  Pass(1'000'000);
  EXPECT_EQ(Destination().reason.code, kLocked);
  servers->fails.clear();
  Pass(10'000'000);
  EXPECT_EQ(sink->admitted.back(), "b");
  EXPECT_EQ(Destination().state, BreakerState::kClosed) << "it has said that it is there, and there is nothing to send";
}

// The others of the destination wait for it.
TEST_F(ServerCheckTest, ALaneThatCannotLookIsTroubleOfTheDestination) {
  for (const char* call : {"SaveProgress", "Rewind"}) {
    NewWorker();
    Begin();
    server.EmitCommitted("k");
    Turn(true);
    sink->DeliverAll();
    Turn();
    server.EmitCommitted("k");
    Turn(true);
    sink->DeliverAll();
    Turn();  // acknowledged, and not saved: a row was written just now
    server.fails = [call](const std::string& of) { return of == call; };
    sink->Meet("b");
    Pass(1'000'000);
    EXPECT_EQ(Destination().reason.code, "57014") << call;
    ASSERT_NE(Status().error, nullptr);
    EXPECT_FALSE(Status().of_destination) << "it is the lane's own";
    server.fails = nullptr;
    Pass(20'000'000);
    EXPECT_EQ(sink->admitted.back(), "b");
    EXPECT_EQ(Destination().state, BreakerState::kClosed);
  }
}

TEST_F(ServerCheckTest, ARunThatHasGoneIsInNobodysWay) {
  Begin();
  servers->fails = "streams";
  sink->Meet("b");
  Pass(1'000'000);
  ASSERT_EQ(Destination().reason.code, "57014");
  sink->Meet("a");  // the one before is back
  server.EmitCommitted("k");
  Turn(true);
  Turn();
  sink->DeliverAll();
  Turn();
  EXPECT_EQ(Destination().state, BreakerState::kClosed);
  EXPECT_EQ(Written(), AllRows());
}

// What the sink met before it came to that server is over.
TEST_F(ServerCheckTest, WhatKeepsARunWaitingIsNewerThanWhatTheSinkMet) {
  Begin();
  servers->fails = "streams";
  sink->SetUp(false);
  Turn();
  ASSERT_EQ(Destination().reason.code, "DOWN");
  sink->Meet("b");
  Pass(100'000);
  EXPECT_EQ(Destination().reason.code, "57014");
  sink->Meet("");
  sink->SetDown({ErrorClass::kDestination, "GONE", "again"});
  Turn();
  EXPECT_EQ(Destination().reason.code, "GONE");
}

TEST_F(ServerCheckTest, AServerThatHasGoneInTheMiddleIsNotWaitedFor) {
  Begin();
  servers->failures = 1;
  sink->Meet("b");
  Turn();
  sink->Meet("");
  clock.now += 10'000'000;
  Turn();
  EXPECT_GT(Turn(), clock.now) << "the next turn is not due at once, for ever";
  sink->Meet("c");
  Turn();
  sink->AnswerEnds({});
  Turn();
  EXPECT_EQ(sink->admitted.back(), "c");
}

TEST_F(ServerCheckTest, ItIsAskedUntilEnoughIsKnownAndNotForEver) {
  Begin();
  servers->streams = {"s"};
  servers->more = 3;
  sink->Meet("b");
  Turn();
  for (int i = 0; i < 3; ++i) {
    ASSERT_EQ(sink->asked.size(), 1u) << i;
    sink->asked.clear();
    sink->AnswerEnds({{"s" + std::to_string(i), "5-" + std::to_string(i)}});
    Turn();
  }
  EXPECT_EQ(servers->calls.back(), "record b s0=5-0 s1=5-1 s2=5-2");
  EXPECT_EQ(sink->admitted.back(), "b");
  // Nor is one asked again that does not tell.
  sink->Meet("c");
  Turn();
  ASSERT_EQ(sink->asked.size(), 1u);
  sink->AnswerEnds({});
  Turn();
  EXPECT_EQ(servers->calls.back(), "record c") << "it was met, and would not tell";
  EXPECT_EQ(sink->admitted.back(), "c");
  servers->more = 1000;
  sink->Meet("d");
  for (int i = 0; i < 20 && sink->admitted.back() != "d"; ++i) {
    Turn();
    sink->AnswerEnds({{"s", "5-0"}});
  }
  EXPECT_EQ(sink->admitted.back(), "d");
}

// While an address moves an empty server may answer for a moment: a loss is believed at the second look.
TEST_F(ServerCheckTest, WhoLacksSomethingIsMetTwice) {
  Begin();
  server.there = server.position;
  server.EmitCommitted("k");
  Turn(true);
  sink->DeliverAll();
  Pass(1'000'000);
  servers->streams = {"s"};
  servers->lost = true;
  sink->Meet("b");
  Turn();
  sink->AnswerEnds({{"s", ""}});
  Turn();
  EXPECT_EQ(sink->met_again, 1);
  EXPECT_EQ(sink->admitted.size(), 1u);
  EXPECT_EQ(server.calls["Rewind"], 1) << "the first run's";
  sink->Meet("a");  // the one before is back
  Turn();
  EXPECT_EQ(sink->admitted.back(), "a");
  EXPECT_EQ(server.calls["Rewind"], 1);
  // Again, and another time empty, on another day: it is no surer than the first time.
  for (const char* server_run : {"b", "b", "c", "c"}) {
    sink->Meet(server_run);
    Turn();
    sink->AnswerEnds({{"s", ""}});
    Turn();
  }
  EXPECT_EQ(sink->met_again, 3);
  EXPECT_EQ(sink->admitted, (std::vector<std::string>{"a", "a", "b", "c"}));
  EXPECT_GT(server.calls["Rewind"], 1);
}

// Between the two looks another client writes to the stream, and deletes: it looks whole then.
TEST_F(ServerCheckTest, WhatTheFirstLookHasShownNoSecondOneTakesBack) {
  Begin();
  servers->streams = {"s"};
  servers->more = 2;
  servers->lost = true;
  sink->Meet("b");
  Turn();
  sink->AnswerEnds({{"s", ""}});
  Turn();
  sink->AnswerEnds({{"1", "2-0"}});
  Turn();
  ASSERT_EQ(sink->met_again, 1);
  servers->lost = false;  // for all that it answers now
  sink->Meet("b");
  Turn();
  sink->AnswerEnds({{"s", "5-0"}});
  Turn();
  EXPECT_EQ(servers->calls.back(), "record b s= 1=2-0");
  EXPECT_EQ(sink->admitted.back(), "b");
}

// Another run is asked itself, and so is the first one when it comes back after that.
TEST_F(ServerCheckTest, WhatARunHasAnsweredHoldsForNoOther) {
  Begin();
  servers->streams = {"s"};
  servers->lost = true;
  sink->Meet("b");
  Turn();
  sink->AnswerEnds({{"s", ""}});
  Turn();
  servers->lost = false;
  for (const char* server_run : {"c", "b"}) {
    sink->Meet(server_run);
    sink->asked.clear();
    Turn();
    ASSERT_EQ(sink->asked, std::vector<std::string>{"s"}) << server_run;
    sink->AnswerEnds({{"s", "5-0"}});
    Turn();
    EXPECT_EQ(servers->calls.back(), std::string("record ") + server_run + " s=5-0");
    EXPECT_EQ(sink->admitted.back(), server_run);
  }
}

// The connection is lost in the middle.
TEST_F(ServerCheckTest, WhatARunHasAnsweredHoldsOverItsConnections) {
  Begin();
  servers->streams = {"s"};
  servers->more = 2;
  sink->Meet("b");
  Turn();
  sink->AnswerEnds({{"s", "3-0"}});
  Turn();
  sink->Meet("");
  Turn();
  sink->Meet("b");
  sink->asked.clear();
  Turn();
  EXPECT_EQ(sink->asked, std::vector<std::string>{"1"}) << "it goes on";
  sink->AnswerEnds({{"1", "2-0"}});
  Turn();
  EXPECT_EQ(servers->calls.back(), "record b s=3-0 1=2-0");
  EXPECT_EQ(sink->admitted.back(), "b");
}

TEST_F(ServerCheckTest, AServerThatGoesWhileItIsAskedIsAskedAgain) {
  Begin();
  servers->streams = {"s"};
  sink->Meet("b");
  Turn();
  ASSERT_EQ(sink->asked.size(), 1u);
  sink->Meet("");
  Turn();
  sink->asked.clear();
  sink->Meet("b");
  Turn();
  EXPECT_EQ(sink->asked.size(), 1u);
  sink->Meet("c");
  sink->asked.clear();
  Turn();
  EXPECT_EQ(sink->asked.size(), 1u);
  sink->AnswerEnds({{"s", "1-1"}});
  Turn();
  EXPECT_EQ(servers->calls.back(), "record c s=1-1");
  EXPECT_EQ(sink->admitted.back(), "c");
}

TEST_F(ServerCheckTest, ALaneTakenAwayMeanwhileIsLeft) {
  Begin();
  server.owned = false;
  sink->Meet("b");
  Pass(10'000);
  EXPECT_EQ(sink->admitted.back(), "b");
  std::vector<GoneLane> gone = Gone();
  ASSERT_EQ(gone.size(), 1u);
  EXPECT_EQ(gone[0].reason, GoneReason::kLost);
}

TEST_F(ServerCheckTest, ARunThatWasLookedAtInVainAndWentIsNoTrouble) {
  Begin();
  server.EmitCommitted("k");
  Turn(true);
  sink->DeliverAll();
  Pass(1'000'000);
  server.trouble = kLocked;
  server.fails = [](const char* function) { return std::string(function) == "Rewind"; };
  sink->Meet("b");
  Pass(3'000'000);
  ASSERT_NE(Status().error, nullptr);
  EXPECT_EQ(Status().error->code, kLocked);
  sink->Meet("a");  // its name is the first server's again
  Pass(2'000'000);
  EXPECT_EQ(Status().error, nullptr);
}

}  // namespace
}  // namespace outbox::relay
