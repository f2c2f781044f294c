// Parked events of a topic that has left its lane.
#include "relay/destination/breaker.h"
#include "relay_fake_sides.h"
#include "relay_parked_fixture.h"

namespace outbox::relay {
namespace {

class ParkedSidesTest : public ParkedTest {
 protected:
  ParkedSidesTest() {
    engine.reset();
    Restart();
  }
  void AddLane() override {
    auto spec = fakes::Spec(config);
    LaneLogs logs;
    logs.filter = std::make_shared<LaneFilter>(spec);
    logs.log = std::make_unique<FakeLog>(&server, logs.filter);
    logs.parked = std::make_unique<FakeParkedLog>(&table, ++incarnation);
    auto sides = std::make_unique<fakes::FakeSideLog>(&server);
    sides->on_parked = [this](std::span<const Parking> events) {
      for (const Parking& parking : events) {
        table.Insert(parking);
      }
    };
    logs.sides = std::move(sides);
    ASSERT_TRUE(engine->AddLane(kLane, spec, std::move(logs), kDestination));
  }
  std::unique_ptr<FakeSink> MakeRetrySink() override {
    auto made = ParkedTest::MakeRetrySink();
    made->on_poll = [this, raw = made.get()] { Answer(raw); };
    return made;
  }
  // The broker: the topic is there, or not; a partition of it may take nothing, which is known 15 s later, or said at
  // once.
  void Answer(FakeSink* of) {
    if (says_so) {
      for (size_t i = 0; i < of->pending.size();) {
        if (dead.contains(of->pending[i].record.key)) {
          of->Fail(i, ErrorClass::kTopic, kPartOfTopic);
          i = 0;
        } else {
          of->Deliver(i);
        }
      }
      return;
    }
    if (!dead.empty()) {
      AnswerInPart(of);
      return;
    }
    while (!of->pending.empty()) {
      if (away && of->pending[0].record.topic == "t") {
        ++tries;
        of->Fail(0, ErrorClass::kTopic, "UNKNOWN_TOPIC_OR_PART");
      } else {
        of->Deliver();
      }
    }
  }
  void AnswerInPart(FakeSink* of) {
    for (size_t i = 0; i < of->pending.size();) {
      const Pending& one = of->pending[i];
      if (!dead.contains(one.record.key)) {
        of->Deliver(i);
      } else if (clock.now - held.try_emplace({of, one.seq}, clock.now).first->second < 15'000'000) {
        ++i;
      } else {
        of->Fail(i, ErrorClass::kTopic, "STALLED");
        while (!of->pending.empty()) {  // Kafka's producer is made anew
          of->Abort(of->pending[0].flow, 0);
        }
      }
    }
  }
  // A tenth of a second at a time. `look` is called after each turn.
  void Go(int64_t micros, const std::function<void()>& look) {
    for (const int64_t until = clock.now + micros; clock.now < until; clock.now += 100'000) {
      Turn();
      look();
    }
  }
  // Whether somebody is told that the topic is in trouble.
  bool TopicIsInTrouble() {
    engine->Lanes(&statuses);
    const std::string topic = "t";
    return std::any_of(statuses.begin(), statuses.end(), [&](const LaneStatus& status) {
      const auto parked = std::find_if(status.parked_topics.begin(), status.parked_topics.end(),
                                       [&](const TroubledTopic& of) { return *of.topic == topic; });
      return parked != status.parked_topics.end() ||
             (status.error != nullptr && status.error_topic != nullptr && *status.error_topic == topic &&
              (status.error->code == "STALLED" || status.error->code == kPartOfTopic));
    });
  }
  // Or the route, for want of a topic's name.
  bool RouteIsInTrouble() {
    engine->Lanes(&statuses);
    return std::any_of(statuses.begin(), statuses.end(), [](const LaneStatus& status) {
      return status.error != nullptr && status.error->error_class == ErrorClass::kTopic &&
             status.error_topic == nullptr;
    });
  }
  void EmitT(const std::string& key) { server.EmitCommitted(key, 10, "t"); }

  // An event of key "a" is parked, one of key "b" behind it was delivered, and then the topic goes.
  void LoseTopic() {
    EmitT("a");
    EmitT("b");
    EmitT("a");
    Turn();
    sink->Deliver(1);
    sink->Fail(0, ErrorClass::kTopic, "UNKNOWN_TOPIC_OR_PART");
    Turn();
    sink->on_poll = [this] { Answer(sink); };
    ASSERT_EQ(table.rows.size(), 1u);
    ASSERT_EQ(server.sides.size(), 1u);
  }

  bool away = true;
  std::set<std::string> dead;  // keys whose partition takes nothing
  bool says_so = false;
  std::map<std::pair<const FakeSink*, uint64_t>, int64_t> held;
  int tries = 0;
};

TEST_F(ParkedSidesTest, WhatComesBehindAParkedEventDoesNotPileUpWhileTheTopicIsAway) {
  LoseTopic();
  for (int i = 0; i < 1000; ++i) {
    EmitT("a");
    EmitT("c");
  }
  RunUntil(clock.now + 3'600'000'000);
  EXPECT_LE(table.rows.size(), 2u);  // the third event too: there was no other key then
  EXPECT_GT(tries, 60);
  EXPECT_LT(tries, 2000);
  away = false;
  RunUntil(clock.now + 120'000'000);
  EXPECT_TRUE(table.rows.empty());
  EXPECT_TRUE(server.sides.empty());
  EXPECT_EQ(broker.log.size(), server.rows.size());
}

TEST_F(ParkedSidesTest, AParkedEventIsTriedWhereThereIsNothingElseToTryTheTopicWith) {
  LoseTopic();
  for (int i = 0; i < 1000; ++i) {
    EmitT("a");
  }
  RunUntil(clock.now + 10'000'000);
  EXPECT_LE(table.rows.size(), 1u + 11 * Breaker::kProbe);
  EXPECT_GT(tries, 2);
  away = false;
  RunUntil(clock.now + 120'000'000);
  EXPECT_TRUE(table.rows.empty());
  EXPECT_TRUE(server.sides.empty());
  std::vector<int64_t> of_a;
  for (const fakes::Written& written : broker.log) {
    if (written.key == "a") {
      of_a.push_back(written.created_at);
    }
  }
  EXPECT_EQ(of_a.size(), 1002u);
  EXPECT_TRUE(std::is_sorted(of_a.begin(), of_a.end()));
}

// Also where each event has a key of its own, so that nothing waits behind a parked one.
TEST_F(ParkedSidesTest, ATopicOfWhichAPartIsSaidToTakeNothingDoesNotLeaveItsLane) {
  says_so = true;
  sink->on_poll = [this] { Answer(sink); };
  for (int i = 0; i < 600; i += 3) {
    dead.insert("k" + std::to_string(i));
  }
  int emitted = 0;
  size_t late = 0;
  const auto emit = [&] {
    for (int i = 0; i < 2 && emitted < 900; ++i, ++emitted) {
      EmitT("k" + std::to_string(emitted % 600));
    }
  };
  Go(60'000'000, [&] {
    emit();
    EXPECT_TRUE(server.sides.empty());
    late = std::max(late, server.rows.size() - table.rows.size() - broker.log.size());
  });
  EXPECT_EQ(table.rows.size(), 300u);
  EXPECT_LE(late, 40u) << "the others wait for nothing";
  EXPECT_TRUE(TopicIsInTrouble());
  for (const auto& [id, row] : table.rows) {
    EXPECT_EQ(row.attempts, 0);
  }
  dead.clear();
  Go(120'000'000, [] {});
  EXPECT_TRUE(table.rows.empty());
  EXPECT_EQ(broker.log.size(), server.rows.size());
  std::map<std::string, int64_t> last;
  for (const fakes::Written& written : broker.log) {
    EXPECT_GT(written.created_at, std::exchange(last[written.key], written.created_at));
  }
  EXPECT_FALSE(TopicIsInTrouble());
}

// Its events are parked, and the side lane, which has none of them left, comes back: the topic is not well for that.
TEST_F(ParkedSidesTest, ATopicOfWhichAPartTakesNothingIsInTroubleUntilThatPartTakesThem) {
  dead = {"a", "d"};
  sink->on_poll = [this] { Answer(sink); };
  int emitted = 0;
  const auto emit = [&] { EmitT(std::string(1, static_cast<char>('a' + emitted++ % 6))); };
  Go(20'000'000, emit);
  ASSERT_TRUE(TopicIsInTrouble());
  int well = 0;
  int route = 0;
  bool rejoined = false;
  Go(300'000'000, [&] {
    emit();
    well += TopicIsInTrouble() ? 0 : 1;
    route += RouteIsInTrouble() ? 1 : 0;
    rejoined = rejoined || server.sides.empty();
  });
  EXPECT_EQ(well, 0);
  EXPECT_EQ(route, 0);
  EXPECT_TRUE(rejoined);
  EXPECT_GT(table.rows.size(), 500u);
  dead.clear();
  away = false;
  Go(120'000'000, emit);
  Go(1'000'000, [] {});
  EXPECT_FALSE(TopicIsInTrouble());
  EXPECT_TRUE(table.rows.empty());
  EXPECT_TRUE(server.sides.empty());
  EXPECT_EQ(broker.log.size(), server.rows.size());
  EXPECT_TRUE(table.wrong.empty()) << table.wrong;
}

// While the topic is paused nothing more is parked, whatever its keys: it stays in the log.
TEST_F(ParkedSidesTest, APauseKeepsTheEventsOfATopicOfWhichAPartTakesNothingInTheLog) {
  dead = {"a", "d"};
  sink->on_poll = [this] { Answer(sink); };
  int emitted = 0;
  const auto emit = [&] { EmitT(std::string(1, static_cast<char>('a' + emitted++ % 6))); };
  Go(60'000'000, emit);
  format::RouteConfig paused = config;
  paused.paused_topics = {"t"};
  engine->UpdateLane(kLane, fakes::Spec(paused));
  Go(30'000'000, emit);
  const size_t parked = table.rows.size();
  const size_t delivered = broker.log.size();
  Go(300'000'000, emit);
  EXPECT_EQ(table.rows.size(), parked);
  EXPECT_EQ(broker.log.size(), delivered);
  EXPECT_FALSE(TopicIsInTrouble());
  dead.clear();
  away = false;
  engine->UpdateLane(kLane, fakes::Spec(config));
  Go(120'000'000, [] {});
  EXPECT_TRUE(table.rows.empty());
  EXPECT_TRUE(server.sides.empty());
  EXPECT_EQ(broker.log.size(), server.rows.size());
}

// An operator takes away what was parked: nothing of the topic is in trouble any more.
TEST_F(ParkedSidesTest, WhatIsNoLongerParkedIsNoTrouble) {
  dead = {"a"};
  sink->on_poll = [this] { Answer(sink); };
  int emitted = 0;
  Go(60'000'000, [&] { EmitT(std::string(1, static_cast<char>('a' + emitted++ % 3))); });
  ASSERT_TRUE(TopicIsInTrouble());
  Go(60'000'000, [&] {
    while (!table.rows.empty() && table.Remove(table.rows.begin()->first)) {
    }
  });
  EXPECT_TRUE(table.rows.empty());
  EXPECT_FALSE(TopicIsInTrouble());
}

// The same, tried at the second sink: aborted each time because another lane's event of the topic is refused.
TEST_F(ParkedSidesTest, AParkedEventThatIsAbortedForTheSakeOfOthersKeepsTheErrorOfItsTopic) {
  EmitT("a");
  EmitT("b");
  Turn();
  sink->Deliver(1);
  sink->Fail(0, ErrorClass::kTopic, "STALLED");
  Turn();
  dead = {"a"};  // of the second sink, which is made now
  int aborts = 0;
  for (int i = 0; i < 600; ++i) {
    if (retry != nullptr) {
      retry->on_poll = [&] {
        while (!retry->pending.empty()) {
          ++aborts;
          retry->Abort(retry->pending[0].flow, 0);
        }
      };
    }
    Turn();
    clock.now += 100'000;
    engine->Lanes(&statuses);
    for (const LaneStatus& status : statuses) {
      ASSERT_TRUE(status.error == nullptr || status.error->code == "STALLED") << status.error->code;
    }
  }
  EXPECT_GT(aborts, 3);
}

TEST_F(ParkedSidesTest, ADeadLetterUnderBlockDoesNotKeepItsTopicAway) {
  Restart(format::OnFailure::kBlock);
  LoseTopic();
  table.rows.begin()->second.state = ParkedState::kDead;
  for (int i = 0; i < 40; ++i) {
    EmitT("a");
  }
  EmitT("c");
  away = false;
  RunUntil(clock.now + 120'000'000);
  EXPECT_TRUE(server.sides.empty());
  EXPECT_EQ(broker.log.size(), 2u);  // of keys b and c
  EXPECT_EQ(table.rows.size(), 42u);
}

}  // namespace
}  // namespace outbox::relay
