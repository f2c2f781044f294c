// Keys whose parked events are being delivered while the lane reads more of them.
#include "relay_parked_fixture.h"

namespace outbox::relay {
namespace {

constexpr int64_t kStep = 10'000;

class MovingKeysTest : public ParkedTest {
 protected:
  static std::string Key(int i) { return "k" + std::to_string(i % 8); }
  // So many events of each of eight keys are parked, the first of them due.
  void ParkEight(format::OnFailure on_failure = format::OnFailure::kSkip, int each = 1) {
    for (int i = 0; i < 8 * each; ++i) {
      ParkedRow& row = table.rows.at(Park(Key(i), 0));
      row.state = i < 8 ? ParkedState::kRetrying : ParkedState::kBlocked;
    }
    Restart(on_failure);
  }
  // The lanes' sink answers at once, and the other one once in a step: that is a claim, with four events of each key.
  void Step(int emitted, const std::function<std::string(int)>& key) {
    for (int i = 0; i < emitted; ++i) {
      emitted_at[Emit(key(i))] = clock.now;
    }
    Turn();
    sink->DeliverAll();
    Turn();
    if (retry != nullptr && retry_takes && ++steps % retry_steps == 0) {
      retry->DeliverAll();
    }
    clock.now += kStep;
    most_parked = std::max(most_parked, table.rows.size());
    for (; told < broker.log.size(); ++told) {
      const fakes::Written& written = broker.log[told];
      EXPECT_GT(written.created_at, std::exchange(last[written.key], written.created_at)) << written.key;
      if (written.key[0] == 'o') {
        worst_other = std::max(worst_other, clock.now - emitted_at.at(written.created_at));
      }
    }
  }

  bool retry_takes = true;
  int steps = 0;
  int retry_steps = 1;
  size_t most_parked = 0;
  size_t told = 0;
  std::map<int64_t, int64_t> emitted_at;  // by created_at
  std::map<std::string, int64_t> last;    // delivered, of each key
  int64_t worst_other = 0;                // delay of what has keys that nothing of is parked
};

TEST_F(MovingKeysTest, UnderLoadAllKeysComeFreeAndNothingPilesUp) {
  ParkEight();
  for (int step = 0; step < 600; ++step) {
    Step(60, Key);
  }
  EXPECT_LT(most_parked, 1'300u);
  EXPECT_TRUE(table.rows.empty());
  EXPECT_EQ(Internals().held_keys, 0u);
  EXPECT_GE(broker.log.size() + 120, server.rows.size()) << "the lane has caught up, with the load on";
  Step(0, Key);
  EXPECT_EQ(broker.log.size(), server.rows.size());
  EXPECT_EQ(table.wrong, "");
}

TEST_F(MovingKeysTest, SoDoTheyWhereAClaimTakesSeconds) {
  retry_steps = 110;
  ParkEight();
  for (int step = 0; step < 15'000; ++step) {
    Step(step < 1'500 ? 10 : 0, Key);
  }
  EXPECT_LT(most_parked, 1'300u);
  EXPECT_TRUE(table.rows.empty());
  EXPECT_EQ(broker.log.size(), server.rows.size());
  EXPECT_EQ(table.wrong, "");
}

TEST_F(MovingKeysTest, OtherKeysHardlyNoticeIt) {
  ParkEight();
  for (int step = 0; step < 300; ++step) {
    Step(160, [](int i) { return i % 3 == 0 ? Key(i) : "o" + std::to_string(i); });
  }
  EXPECT_TRUE(table.rows.empty());
  EXPECT_LT(worst_other, 500'000);
}

TEST_F(MovingKeysTest, WhereMuchIsParkedOtherKeysWaitForTwoSecondsAtMost) {
  ParkEight(format::OnFailure::kSkip, 500);
  for (int step = 0; step < 300; ++step) {
    Step(100, [](int i) { return i % 5 < 2 ? Key(i) : "o" + std::to_string(i); });
  }
  EXPECT_GT(table.rows.size(), 2'000u) << "no more could be helped";
  EXPECT_LT(worst_other, 2'200'000);
  EXPECT_GT(worst_other, 500'000);
}

TEST_F(MovingKeysTest, WhatADeadLetterHoldsIsParkedAtOnce) {
  ParkEight(format::OnFailure::kBlock);
  for (auto& [created_at, row] : table.rows) {
    if (row.key == Key(1)) {
      row.state = ParkedState::kDead;
    }
  }
  Restart(format::OnFailure::kBlock);
  size_t dead = 1;
  for (int step = 0; step < 200; ++step) {
    Step(20, [](int i) { return i == 0 ? Key(0) : i % 2 == 0 ? Key(1) : "o" + std::to_string(i); });
    dead += 9;
  }
  const auto of_dead = [&] {
    return static_cast<size_t>(std::count_if(table.rows.begin(), table.rows.end(),
                                             [](const auto& entry) { return entry.second.key == Key(1); }));
  };
  EXPECT_EQ(of_dead(), dead);
  EXPECT_LT(worst_other, 3 * kStep);
}

TEST_F(MovingKeysTest, WhereNothingMovesAnyMoreTheLaneGoesOn) {
  ParkEight();
  int step = 0;
  for (; step < 60; ++step) {
    Step(60, Key);
  }
  const size_t stood = table.rows.size();
  EXPECT_LT(stood, 1'300u);
  retry_takes = false;
  for (; step < 360; ++step) {
    Step(60, [](int i) { return i % 2 == 0 ? Key(i) : "o" + std::to_string(i); });
  }
  EXPECT_GT(table.rows.size(), stood + 3'000);
  EXPECT_LT(worst_other, 2'200'000);
  EXPECT_GT(worst_other, 500'000);
  RunUntil(clock.now + 100'000);
  engine->ReleaseLane(kLane, clock.now + 1'000'000);
  retry->DeliverAll();
  RunUntil(clock.now + 10'000);
  EXPECT_EQ(Gone(), GoneReason::kReleased);
}

TEST_F(MovingKeysTest, ALaneThatStandsIsReleasedInGoodOrder) {
  ParkEight();
  for (int step = 0; step < 60; ++step) {
    Step(60, Key);
  }
  const size_t stood = table.rows.size();
  engine->ReleaseLane(kLane, clock.now + 1'000'000);
  Turn();
  if (retry != nullptr) {
    retry->DeliverAll();
  }
  Turn();
  EXPECT_EQ(Gone(), GoneReason::kReleased);
  EXPECT_LE(table.rows.size(), stood);
  Restart();
  for (int step = 0; step < 200; ++step) {
    Step(0, Key);
  }
  EXPECT_EQ(broker.log.size(), server.rows.size());
  EXPECT_EQ(table.wrong, "");
}

}  // namespace
}  // namespace outbox::relay
