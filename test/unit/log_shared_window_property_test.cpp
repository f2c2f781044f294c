// Lanes that read windows together, at random: each gets what it would get alone.
#include <gtest/gtest.h>

#include <memory>
#include <random>
#include <set>
#include <string>
#include <vector>

#include "log_sim_lanes.h"

namespace outbox::log {
namespace {

class Case {
 public:
  explicit Case(uint32_t seed)
      : random_(seed), windows_(Below(3) == 0 ? (size_t{1} << 14) << Below(8) : size_t{64} << 20) {
    const int routes = 1 + Below(6);
    for (int route = 0; route < routes; ++route) {
      const uint32_t lanes = Below(2) == 0 ? 1 : static_cast<uint32_t>(1 + Below(8));
      const std::string type = Below(3) == 0 ? "*" : "a" + std::to_string(Below(4));
      for (uint32_t lane = 0; lane < lanes; ++lane) {
        makers_.push_back([=] { return Filter({type}, lane, lanes); });
      }
    }
    places_.push_back(world_.Now());
    for (size_t i = 0; i < makers_.size(); ++i) {
      lanes_.push_back(New(i, {.base = places_.front()}));
    }
  }

  size_t rested() const { return rested_; }
  size_t resuming() const { return resuming_; }

  void Run() {
    for (int step = 0; step < 600; ++step) {
      Step();
      // Somebody's own window and one row beyond the limit of all are not counted as too much.
      ASSERT_LE(windows_.held(), (size_t{64} << 20) + (size_t{2} << 20) * lanes_.size());
    }
    for (uint64_t xid : std::set<uint64_t>(world_.running())) {
      world_.End(xid, true);
    }
    for (int round = 0; round < 40; ++round) {
      windows_.BeginTurn();
      for (const auto& lane : lanes_) {
        if (lane->open() || lane->Open()) {
          lane->Finish();
        }
      }
    }
    for (const auto& lane : lanes_) {
      EXPECT_EQ(lane->base().xmax, world_.Now().xmax) << "all is read in the end";
    }
    lanes_.clear();
    EXPECT_EQ(windows_.held(), 0u);
  }

 private:
  int Below(int n) { return static_cast<int>(random_() % static_cast<uint32_t>(n)); }

  std::unique_ptr<SimLane> New(size_t i, Position at) {
    return std::make_unique<SimLane>(&world_, &windows_, makers_[i](), std::move(at), &figures_,
                                     size_t{1} << Below(18));
  }

  // Some lanes are put into the middle of one window, as by seek(), or by a crash: then each has come as far as it has.
  void Seek() {
    const Snapshot from = places_[static_cast<size_t>(Below(static_cast<int>(places_.size())))];
    const Snapshot to = world_.Now();
    if (from == to || !to.Covers(from)) {
      return;
    }
    const bool crash = Below(2) == 0;
    const auto time = [this] { return static_cast<int64_t>(Below(static_cast<int>(world_.rows.size()) + 2)); };
    const int64_t done = time();
    for (size_t i = 0; i < lanes_.size(); ++i) {
      if (Below(3) != 0) {
        lanes_[i].reset();
        lanes_[i] = New(i, {from, to, crash ? time() : done});
        ++resuming_;
      }
    }
  }

  void Step() {
    switch (Below(13)) {
      case 0:
      case 1: {  // transactions
        for (int i = Below(20); i > 0; --i) {
          const uint64_t xid = world_.Begin();
          for (int events = Below(4); events > 0; --events) {
            world_.Emit(xid, "a" + std::to_string(Below(5)), "k" + std::to_string(Below(30)));
          }
          if (Below(8) != 0) {
            world_.End(xid, Below(6) != 0);
          }
        }
        return;
      }
      case 2: {  // one that was unfinished for long
        if (!world_.running().empty()) {
          auto xid = world_.running().begin();
          std::advance(xid, Below(static_cast<int>(world_.running().size())));
          world_.End(*xid, Below(4) != 0);
        }
        return;
      }
      case 3:
        windows_.BeginTurn();
        turn_began_ = world_.Now();
        return;
      case 4:
        places_.push_back(world_.Now());  // a tick
        return;
      case 5: {  // a crash of one, a seek back, a new owner
        const size_t i = Pick();
        if (Below(4) == 0) {
          const Snapshot base =
              Below(3) == 0 ? places_[static_cast<size_t>(Below(static_cast<int>(places_.size())))] : lanes_[i]->base();
          lanes_[i].reset();
          lanes_[i] = New(i, {.base = base});
        }
        return;
      }
      case 12:
        if (Below(10) == 0) {
          Seek();
        }
        return;
      case 6: {  // a topic leaves or comes back, between two windows
        SimLane* lane = lanes_[Pick()].get();
        if (!lane->open() && Below(3) == 0) {
          if (lane->filter()->topics() > 0) {
            lane->filter()->Return("t");
          } else {
            lane->filter()->Leave("t", "t");
          }
        }
        return;
      }
      default: {
        SimLane* lane = lanes_[Pick()].get();
        if (lane->Rests(turn_began_) && Below(5) != 0) {
          ++rested_;
        } else if (!lane->open()) {
          const Snapshot* tick = nullptr;
          for (const Snapshot& place : places_) {
            const Snapshot& from = lane->looks_from();
            if (tick == nullptr && Below(2) == 0 && place.xmax > from.xmax && place.Covers(from)) {
              tick = &place;
            }
          }
          lane->Open(tick);
        } else if (!lane->collected() && Below(2) == 0) {
          lane->Look(static_cast<size_t>(1 + Below(40)), Below(10) == 0);
        } else if (Below(3) != 0) {
          lane->Finish();
        }
        return;
      }
    }
  }

  // Some lanes are slow.
  size_t Pick() {
    const size_t i = static_cast<size_t>(Below(static_cast<int>(lanes_.size())));
    return i % 3 == 0 && Below(5) != 0 ? static_cast<size_t>(Below(static_cast<int>(lanes_.size()))) : i;
  }

  std::mt19937 random_;
  size_t rested_ = 0;
  size_t resuming_ = 0;
  World world_;
  Figures figures_;
  SharedWindows windows_;
  std::vector<std::function<std::shared_ptr<relay::LaneFilter>()>> makers_;
  std::vector<Snapshot> places_;
  Snapshot turn_began_ = world_.Now();
  std::vector<std::unique_ptr<SimLane>> lanes_;
};

TEST(SharedWindowProperty, EachLaneGetsWhatItWouldGetAlone) {
  size_t rested = 0;
  size_t resuming = 0;
  for (uint32_t seed = 1; seed <= 400; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    Case one(seed);
    one.Run();
    rested += one.rested();
    resuming += one.resuming();
    if (::testing::Test::HasFailure()) {
      return;
    }
  }
  EXPECT_GT(rested, 1000u);
  EXPECT_GT(resuming, 1000u);
}

}  // namespace
}  // namespace outbox::log
