// Lanes that read windows together, against the model of one lane each: whatever the others do, a lane gets from each
// window what is its own, in order, and its windows follow each other without a gap.
#include "log/window/shared_window.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include "log_sim_lanes.h"

namespace outbox::log {
namespace {

class SharedWindow : public ::testing::Test {
 protected:
  SimLane* Lane(std::shared_ptr<relay::LaneFilter> filter, const Snapshot& base) {
    return Lane(std::move(filter), Position{.base = base});
  }
  SimLane* Lane(std::shared_ptr<relay::LaneFilter> filter, const Position& at) {
    lanes.push_back(std::make_unique<SimLane>(&world, &windows, std::move(filter), at, &figures));
    return lanes.back().get();
  }
  void Read(SimLane* lane) {
    if (lane->Open()) {
      lane->Finish();
    }
  }
  void ReadAll() {
    windows.BeginTurn();
    for (const auto& lane : lanes) {
      Read(lane.get());
    }
  }
  void Emit(int count) {
    for (int i = 0; i < count; ++i) {
      world.Commit("a" + std::to_string(i % 5), "k" + std::to_string(i));
    }
  }

  World world;
  Figures figures;
  SharedWindows windows;
  std::vector<std::unique_ptr<SimLane>> lanes;
};

// --- tests ---------------------------------------------------------------------------------------------------------

TEST_F(SharedWindow, LanesAtOnePlaceLookOnce) {
  const Snapshot start = world.Now();
  for (uint32_t lane = 0; lane < 64; ++lane) {
    Lane(Filter({"a*"}, lane, 64), start);
  }
  for (int i = 0; i < 20; ++i) {
    Lane(Filter({"a" + std::to_string(i)}), start);
  }
  size_t read = 0;
  for (int window = 1; window <= 3; ++window) {
    Emit(1000);
    ReadAll();
    EXPECT_EQ(figures.passes, static_cast<size_t>(window));
    read += 2000;
  }
  size_t all = 0;
  for (const auto& lane : lanes) {
    EXPECT_TRUE(lane->current());
    all += lane->read;
  }
  EXPECT_EQ(all, read);  // by the lanes of one route, and by five of the others
}

TEST_F(SharedWindow, WhoHasNothingToReadRests) {
  const Snapshot start = world.Now();
  SimLane* first = Lane(Filter({"a1"}), start);
  SimLane* idle = Lane(Filter({"other"}), start);
  SimLane* busy = Lane(Filter({"a2"}), start);
  EXPECT_FALSE(idle->Rests(start)) << "nobody has looked";
  for (int i = 0; i < 100; ++i) {
    Emit(5);
    windows.BeginTurn();
    EXPECT_FALSE(idle->Rests(world.Now())) << "nobody has looked in this turn";
    Read(first);
    EXPECT_TRUE(idle->Rests(world.Now()));
    EXPECT_FALSE(busy->Rests(world.Now()));
    Read(busy);
    windows.BeginTurn();
    Read(first);
    EXPECT_TRUE(idle->Rests(world.Now())) << "nothing is new";
  }
  EXPECT_EQ(figures.passes, 100u);
  EXPECT_TRUE(idle->base() == start);
  // What it has passed over is one window, without another look; and so is that with what comes then.
  windows.BeginTurn();
  ASSERT_TRUE(idle->Open());
  idle->Finish();
  EXPECT_TRUE(idle->base() == world.Now());
  EXPECT_EQ(figures.passes, 100u);
  Emit(5);
  windows.BeginTurn();
  Read(first);
  EXPECT_TRUE(idle->Rests(world.Now()));
  world.Commit("other", "k");
  windows.BeginTurn();
  Read(first);
  EXPECT_FALSE(idle->Rests(world.Now()));
  Read(idle);
  EXPECT_EQ(idle->read, 1u);
  EXPECT_EQ(figures.passes, 102u);
}

// The one that is woken looks from where the others have come to, and takes them along.
TEST_F(SharedWindow, WhoHasRestedLooksForTheOthers) {
  const Snapshot start = world.Now();
  SimLane* one = Lane(Filter({"other"}), start);
  SimLane* two = Lane(Filter({"other"}), start);
  SimLane* last = Lane(Filter({"a1"}), start);
  for (SimLane* opener : {one, two, one, two}) {
    Emit(5);
    windows.BeginTurn();
    Read(opener);
    EXPECT_TRUE((opener == one ? two : one)->Rests(world.Now()));
    Read(last);
    EXPECT_TRUE(opener->base() == world.Now());
  }
  EXPECT_EQ(figures.passes, 4u);
  EXPECT_EQ(figures.looked, world.rows.size() + 15 + 10 + 5) << "each look is at all rows of the model";
  EXPECT_EQ(last->read, 4u);
}

TEST_F(SharedWindow, WhoseFilterChangesRestsNoMore) {
  const Snapshot start = world.Now();
  SimLane* first = Lane(Filter({"*"}), start);
  SimLane* away = Lane(Filter({"*"}), start);
  away->filter()->Leave("t", "t");
  Emit(5);
  windows.BeginTurn();
  Read(first);
  EXPECT_TRUE(away->Rests(world.Now()));
  away->filter()->Return("t");
  // It left in between: what was judged by the older filter is judged again.
  EXPECT_FALSE(away->place().Rests());
  Emit(5);
  windows.BeginTurn();
  Read(first);
  Read(away);
  EXPECT_EQ(away->read, 10u);
}

TEST_F(SharedWindow, LanesThatStandNearlyAtOnePlaceLookOnce) {
  std::vector<Snapshot> places;
  for (int i = 0; i < 50; ++i) {
    places.push_back(world.Now());
    Emit(3);
  }
  std::shuffle(places.begin(), places.end(), std::mt19937(7));
  for (const Snapshot& place : places) {
    Lane(Filter({"a*"}), place);
  }
  Emit(2000);
  ReadAll();
  EXPECT_EQ(figures.passes, 1u);
  Emit(10);
  ReadAll();
  EXPECT_EQ(figures.passes, 2u);
}

TEST_F(SharedWindow, WhoIsFarAwayReadsAlone) {
  SimLane* behind = Lane(Filter({"*"}), world.Now());
  Emit(static_cast<int>(SharedLane::kNear) + 1);
  SimLane* ahead = Lane(Filter({"*"}), world.Now());
  Emit(5);
  windows.BeginTurn();
  Read(ahead);
  EXPECT_EQ(figures.passes, 1u);
  EXPECT_EQ(ahead->read, 5u);
  Read(behind);
  EXPECT_EQ(figures.passes, 2u);
  Emit(5);
  ReadAll();
  EXPECT_EQ(figures.passes, 3u);  // together again
}

// After seek(), and of a worker that ended while it sent one large transaction.
TEST_F(SharedWindow, LanesInTheMiddleOfOneWindowReadItsRestOnce) {
  const Snapshot start = world.Now();
  Emit(1000);
  const Snapshot end = world.Now();
  Emit(10);
  std::vector<int64_t> done;
  for (uint32_t lane = 0; lane < 64; ++lane) {
    done.push_back(lane % 2 == 0 ? 300 : 300 + 10 * lane);
    Lane(Filter({"a*"}, lane, 64), Position{start, end, done.back()});
  }
  SimLane* nothing = Lane(Filter({"other"}), Position{start, end, 500});
  SimLane* end_of_it = Lane(Filter({"a1"}), end);
  SimLane* beginning = Lane(Filter({"a1"}), start);
  SimLane* elsewhere = Lane(Filter({"a1"}), Position{start, world.Now(), 300});
  windows.BeginTurn();
  for (uint32_t lane = 0; lane < 64; ++lane) {
    Read(lanes[lane].get());
    EXPECT_TRUE(lanes[lane]->base() == end);
  }
  EXPECT_EQ(figures.passes, 1u);
  EXPECT_FALSE(nothing->Rests(world.Now()));
  Read(nothing);
  EXPECT_TRUE(nothing->base() == end);
  EXPECT_EQ(figures.passes, 1u);
  ReadAll();
  EXPECT_EQ(figures.passes, 3u)
      << "what follows, together with the whole for the one that is near, and the other window";
  EXPECT_EQ(end_of_it->read, 2u);
  EXPECT_EQ(beginning->read, 202u);
  EXPECT_EQ(elsewhere->read, 142u);
  EXPECT_EQ(nothing->read, 0u);
}

TEST_F(SharedWindow, WhoReadsNothingIsLeftBehind) {
  const Snapshot start = world.Now();
  SimLane* paused = Lane(Filter({"*"}), start);
  SimLane* other = Lane(Filter({"*"}), start);
  for (size_t i = 0; i < 3 * SharedLane::kMostAhead; ++i) {
    Emit(10);
    windows.BeginTurn();
    Read(other);
  }
  EXPECT_EQ(paused->read, 0u);
  windows.BeginTurn();
  size_t opened = 0;
  for (; paused->read < other->read; ++opened) {
    ASSERT_TRUE(paused->Open());
    EXPECT_EQ(paused->current(), opened == SharedLane::kMostAhead) << "what ended in an earlier turn does not end now";
    paused->Finish();
  }
  EXPECT_EQ(opened, SharedLane::kMostAhead + 1);
  EXPECT_EQ(figures.passes, 3 * SharedLane::kMostAhead + 1);
}

// Lane 0 reads in each turn, lane n in each n-th, as the shares of keys are in a backlog.
class UnevenLanes : public ::testing::Test {
 protected:
  void Run(size_t memory, int windows_read) {
    SharedWindows windows(memory);
    std::vector<std::unique_ptr<SimLane>> lanes;
    for (uint32_t lane = 0; lane < kLanes; ++lane) {
      lanes.push_back(std::make_unique<SimLane>(&world, &windows, Filter({"*"}, lane, kLanes),
                                                Position{.base = world.Now()}, &figures, 1000));
    }
    for (int turn = 0; turn < windows_read; ++turn) {
      for (int i = 0; i < 100; ++i) {
        world.Commit("a", "k" + std::to_string(i));
      }
      windows.BeginTurn();
      for (int lane = 0; lane < kLanes; ++lane) {
        if (turn % (lane + 1) == 0 && lanes[static_cast<size_t>(lane)]->Open()) {
          lanes[static_cast<size_t>(lane)]->Finish();
        }
      }
      most_held = std::max(most_held, windows.held());
    }
    for (bool more = true; more;) {
      more = false;
      windows.BeginTurn();
      for (const auto& lane : lanes) {
        if (lane->Open()) {
          lane->Finish();
          more = true;
        }
      }
    }
    size_t read = 0;
    for (const auto& lane : lanes) {
      read += lane->read;
    }
    EXPECT_EQ(read, static_cast<size_t>(windows_read) * 100);
  }

  static constexpr int kLanes = 8;
  World world;
  Figures figures;
  size_t most_held = 0;
};

TEST_F(UnevenLanes, AllLookOnceWhileThereIsRoom) {
  Run(size_t{64} << 20, 60);
  EXPECT_EQ(figures.passes, 60u);
}

TEST_F(UnevenLanes, WhoIsBehindKeepsOnlyWhereItsEventsAre) {
  // As events they would take 60 * 100 * 1000 bytes; where they are takes a sixtieth of that.
  Run(size_t{2} << 20, 60);
  EXPECT_EQ(figures.passes, 60u);
  EXPECT_LT(most_held, size_t{1} << 20);
}

TEST_F(UnevenLanes, WhoIsLeftBehindReadsOnWithTheOthersThatAre) {
  Run(size_t{128} << 10, 60);
  EXPECT_GT(figures.passes, 60u);
  EXPECT_LE(figures.passes, 120u);
}

TEST_F(SharedWindow, WhatFailsForAllIsReadByEach) {
  const Snapshot start = world.Now();
  for (int i = 0; i < 4; ++i) {
    Lane(Filter({"*"}), start);
  }
  Emit(100);
  windows.BeginTurn();
  ASSERT_TRUE(lanes[0]->Open());
  ASSERT_TRUE(lanes[1]->Open());
  lanes[0]->Look(40, false);
  lanes[1]->Look(40, false);
  lanes[0]->Look(10, true);
  lanes[1]->Finish();
  lanes[0]->Finish();
  ReadAll();
  EXPECT_EQ(figures.passes, 1u + 2u + 2u);
  Emit(10);
  ReadAll();
  EXPECT_EQ(figures.passes, 6u);  // together again
}

TEST_F(SharedWindow, WhatWasReadByAnotherFilterIsReadAgain) {
  const Snapshot start = world.Now();
  SimLane* first = Lane(Filter({"*"}), start);
  SimLane* second = Lane(Filter({"*"}), start);
  Emit(10);
  windows.BeginTurn();
  Read(first);
  second->filter()->Leave("t", "t");
  Read(second);
  EXPECT_EQ(second->read, 0u);
  EXPECT_EQ(figures.passes, 2u);
  Emit(10);
  windows.BeginTurn();
  Read(first);
  second->filter()->Return("t");
  Read(second);
  EXPECT_EQ(second->read, 10u);
}

// A route with many lanes is altered.
TEST_F(SharedWindow, WhatWasReadByOtherFiltersIsReadAgainOnce) {
  const Snapshot start = world.Now();
  for (uint32_t lane = 0; lane < 64; ++lane) {
    Lane(Filter({"*"}, lane, 64), start);
  }
  Emit(500);
  windows.BeginTurn();
  Read(lanes[0].get());
  for (const auto& lane : lanes) {
    lane->filter()->Leave("t", "t");
    lane->filter()->Return("t");
  }
  ReadAll();
  EXPECT_EQ(figures.passes, 2u);
  size_t read = 0;
  for (const auto& lane : lanes) {
    read += lane->read;
  }
  EXPECT_EQ(read, 500u);
}

TEST_F(SharedWindow, LanesComeAndGo) {
  const Snapshot start = world.Now();
  for (int i = 0; i < 5; ++i) {
    Lane(Filter({"*"}), start);
  }
  Emit(100);
  windows.BeginTurn();
  ASSERT_TRUE(lanes[0]->Open());
  lanes[0]->Look(50, false);
  ASSERT_TRUE(lanes[3]->Open());
  lanes.erase(lanes.begin());  // the one that began
  Lane(Filter({"a1"}), start);
  for (const auto& lane : lanes) {
    if (lane->open() || lane->Open()) {
      lane->Finish();
    }
  }
  EXPECT_EQ(figures.passes, 2u);
  EXPECT_EQ(lanes.back()->read, 20u);
  lanes.clear();
  EXPECT_EQ(windows.held(), 0u);
}

TEST_F(SharedWindow, TypesAreForgottenWhenThereAreTooMany) {
  const Snapshot start = world.Now();
  Lane(Filter({"type 1*"}), start);
  Lane(Filter({"type 2*"}), start);
  for (int i = 0; i < 10'000; ++i) {
    world.Commit("type " + std::to_string(i), "k");
  }
  ReadAll();
  EXPECT_EQ(lanes[0]->read, 1111u);
  EXPECT_EQ(lanes[1]->read, 1111u);
  EXPECT_EQ(figures.passes, 1u);
}

}  // namespace
}  // namespace outbox::log
