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
  // The broker: the topic is there, or not.
  void Answer(FakeSink* of) {
    while (!of->pending.empty()) {
      if (away && of->pending[0].record.topic == "t") {
        ++tries;
        of->Fail(0, ErrorClass::kTopic, "UNKNOWN_TOPIC_OR_PART");
      } else {
        of->Deliver();
      }
    }
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
