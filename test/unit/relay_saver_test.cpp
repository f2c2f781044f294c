// The progress of many lanes of one worker: saved together, and what is in the way of one is not for long in the way of
// the others.
#include "relay/lane/saver.h"

#include <memory>
#include <set>
#include <vector>

#include "relay_engine_fixture.h"

namespace outbox::relay {
namespace {

constexpr int kLanes = 64;

// What the transactions of all lanes have in common.
struct Saves {
  int transactions = 0;
  std::set<const LaneLog*> locked;
  std::vector<size_t> lanes;  // of each that worked
  int not_durable = 0;
};

class CountedLog final : public FakeLog {
 public:
  CountedLog(Server* server, std::shared_ptr<const EventFilter> filter, Saves* saves)
      : FakeLog(server, std::move(filter)), saves_(saves) {}

  outbox::Status SaveProgress(std::span<ProgressSave> saves) override {
    ++saves_->transactions;
    for (const ProgressSave& save : saves) {
      if (saves_->locked.contains(save.log)) {
        return {ErrorClass::kInternal, kLocked, "a row is locked"};
      }
    }
    saves_->lanes.push_back(saves.size());
    saves_->not_durable += saves.front().durable ? 0 : 1;
    return FakeLog::SaveProgress(saves);
  }

 private:
  Saves* const saves_;
};

class SaverTest : public EngineTest {
 protected:
  SaverTest() {
    sink->on_poll = [this] { sink->DeliverAll(); };
    for (int i = 0; i < kLanes; ++i) {
      servers.push_back(std::make_unique<Server>(&clock));
      LaneLogs made = fakes::Logs(servers.back().get(), spec);
      auto log = std::make_unique<CountedLog>(servers.back().get(), spec, &saves);
      logs.push_back(log.get());
      made.log = std::move(log);
      EXPECT_TRUE(engine->AddLane({2, i}, spec, std::move(made), kDestination));
    }
    RunUntil(clock.now + 60'000'000);
    saves.transactions = 0;
    saves.lanes.clear();
    saves.not_durable = 0;
  }
  void Emit() {
    for (const auto& server : servers) {
      server->EmitCommitted("k");
      server->saves.clear();
    }
  }
  int Saved() const {
    int saved = 0;
    for (const auto& server : servers) {
      saved += !server->saves.empty() && server->saves.back().base == server->Current() ? 1 : 0;
    }
    return saved;
  }

  Saves saves;
  std::vector<std::unique_ptr<Server>> servers;
  std::vector<const LaneLog*> logs;
};

TEST_F(SaverTest, AllLanesInOneTransaction) {
  Emit();
  Turn(true);
  RunUntil(clock.now + 1'000'000);
  EXPECT_EQ(Saved(), kLanes);
  EXPECT_LE(saves.transactions, 2);
  EXPECT_EQ(saves.not_durable, 0);
}

// Ten seconds of events, each for one lane: the worker saves at its pace, not each lane at its own.
TEST_F(SaverTest, AtThePaceOfOneLane) {
  const int64_t began = clock.now;
  for (int i = 0; i < 1000; ++i) {
    servers[static_cast<size_t>(i * 7 % kLanes)]->EmitCommitted("k");
    Turn(true);
    RunUntil(began + (i + 1) * int64_t{10'000});
  }
  EXPECT_LE(saves.transactions, 10'000'000 / options.save_micros + 2);
  RunUntil(clock.now + 1'000'000);
  EXPECT_EQ(broker.log.size(), 1000u);
  for (const auto& server : servers) {
    EXPECT_EQ(server->position.base, server->Current());
  }
}

// One of them, the first or one in the middle, and eight at once.
TEST_F(SaverTest, WhatIsLockedOfSomeKeepsTheOthersForAMomentOnly) {
  for (const std::set<const LaneLog*>& locked :
       {std::set{logs[0]}, std::set{logs[31]}, std::set(logs.begin() + 20, logs.begin() + 28)}) {
    saves.locked = locked;
    saves.transactions = 0;
    Emit();
    Turn(true);
    RunUntil(clock.now + 3'000'000);
    const int free = kLanes - static_cast<int>(locked.size());
    EXPECT_EQ(Saved(), free);
    // Those that are locked try again, with a back-off each.
    EXPECT_LE(saves.transactions, 60 + 40 * static_cast<int>(locked.size()));
    // From then on they are in nobody's way.
    Emit();
    Turn(true);
    RunUntil(clock.now + 600'000);
    EXPECT_EQ(Saved(), free);
    saves.locked.clear();
    RunUntil(clock.now + 2'000'000);
    EXPECT_EQ(Saved(), kLanes);
  }
}

// Nobody gets through, for ten seconds: as many tries as there are lanes, with their back-off, and no more.
TEST_F(SaverTest, NothingCanBeSaved) {
  saves.locked.insert(logs.begin(), logs.end());
  Emit();
  Turn(true);
  RunUntil(clock.now + 10'000'000);
  EXPECT_EQ(Saved(), 0);
  EXPECT_EQ(broker.log.size(), static_cast<size_t>(kLanes));
  EXPECT_LE(saves.transactions, kLanes * 80);
  saves.locked.clear();
  RunUntil(clock.now + 2'000'000);
  EXPECT_EQ(Saved(), kLanes);
}

// One of them has another owner by now: it goes, and the others are saved.
TEST_F(SaverTest, OneIsLost) {
  servers[5]->owned = false;
  Emit();
  Turn(true);
  RunUntil(clock.now + 1'000'000);
  EXPECT_EQ(Saved(), kLanes - 1);
  EXPECT_FALSE(engine->HasLane({2, 5}));
  EXPECT_TRUE(engine->HasLane({2, 6}));
}

// All leave: together as well.
TEST_F(SaverTest, StopsWithOneSave) {
  Emit();
  Turn(true);
  saves.transactions = 0;
  engine->Stop(clock.now + 1'800'000);
  RunUntil(clock.now + 300'000);
  EXPECT_TRUE(engine->stopped());
  EXPECT_LE(saves.transactions, 2);
  EXPECT_EQ(Saved(), kLanes);
  for (const GoneLane& gone : Gone()) {
    EXPECT_EQ(gone.reason, GoneReason::kReleased);
  }
}

}  // namespace
}  // namespace outbox::relay
