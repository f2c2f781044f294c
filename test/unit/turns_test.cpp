// Taking turns in too few slots: no process starves, none is disturbed for nothing.
#include "base/turns.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <functional>

#include "base/monotonic.h"

namespace outbox {
namespace {

using State = TurnTaker::State;
using Answer = TurnTaker::Answer;

constexpr int64_t kTick = 100'000;

// A server: every database has a keeper and a relay worker; a process needs `leave` ticks to leave.
struct Server {
  struct Process {
    TurnTaker taker;
    int64_t leaves_at = 0;
    int64_t worst = 0;  // longest time without a place while it was due
    int64_t turns = 0;
  };

  Server(int databases, int slots) : slots(slots) {
    for (int i = 0; i < databases * 2; i++) {
      Process process;
      process.taker.keeper = i % 2 == 1;
      process.taker.state = State::kDue;
      all.push_back(process);
    }
  }

  // `busy`: has this relay worker work at this time; keepers are quiet after their first half second.
  void Run(int64_t until, int64_t leave, const std::function<bool(int database, int64_t now)>& busy) {
    for (; now < until; now += kTick) {
      std::vector<TurnTaker> takers;
      for (size_t i = 0; i < all.size(); i++) {
        TurnTaker& taker = all[i].taker;
        if (taker.state == State::kLeaving && now >= all[i].leaves_at) {
          taker = TurnTaker{.keeper = taker.keeper, .state = State::kDue, .since = now};
        } else if (taker.state == State::kBusy || taker.state == State::kQuiet) {
          const bool quiet = taker.keeper ? now - taker.since > kSecond / 2 : !busy(static_cast<int>(i / 2), now);
          taker.state = quiet ? State::kQuiet : State::kBusy;
        }
        takers.push_back(taker);
      }
      ShareOutSlots(slots, now, &takers);
      int used = 0;
      for (size_t i = 0; i < all.size(); i++) {
        Process& process = all[i];
        if (takers[i].answer == Answer::kStart) {
          process.worst = std::max(process.worst, now - process.taker.since);
          process.turns++;
          process.taker = TurnTaker{.keeper = process.taker.keeper, .state = State::kBusy, .since = now};
        } else if (takers[i].answer == Answer::kStop) {
          ASSERT_TRUE(process.taker.running());
          process.taker.state = State::kLeaving;
          process.leaves_at = now + leave;
        } else if (process.taker.state == State::kDue) {
          process.worst = std::max(process.worst, now - process.taker.since);
        }
        used += process.taker.running();
      }
      ASSERT_LE(used, std::max(slots, 1));
    }
  }

  int64_t Worst() const {
    return std::max_element(all.begin(), all.end(),
                            [](const Process& a, const Process& b) { return a.worst < b.worst; })
        ->worst;
  }

  int slots;
  int64_t now = 0;
  std::vector<Process> all;
};

TEST(Turns, NoProcessStarvesWhateverTheNumbers) {
  for (int slots : {1, 2, 3, 4, 8}) {
    for (int databases : {1, 2, 4, 8, 50}) {
      Server server(databases, slots);
      server.Run(300 * kSecond, 2 * kTick, [](int, int64_t) { return true; });
      for (const Server::Process& process : server.all) {
        EXPECT_GT(process.turns, 0) << slots << " places, " << databases << " databases";
      }
    }
  }
}

TEST(Turns, FiftyBusyDatabasesOnFourPlacesWaitLessThanAMinute) {
  Server server(50, 4);
  server.Run(300 * kSecond, 3 * kTick, [](int, int64_t) { return true; });
  EXPECT_LT(server.Worst(), 60 * kSecond);
}

TEST(Turns, OneThatIsStuckAndSlowToLeaveDoesNotHoldTheRest) {
  Server server(8, 4);
  server.Run(200 * kSecond, 23 * kTick, [](int database, int64_t) { return database == 0; });
  EXPECT_LT(server.Worst(), 30 * kSecond);
}

TEST(Turns, IdleOnesGiveTheirPlaceUpAtOnce) {
  Server server(50, 4);
  server.Run(100 * kSecond, kTick, [](int, int64_t) { return false; });
  EXPECT_LT(server.Worst(), 50 * kSecond);  // the one place of fifty keepers
  for (size_t i = 0; i < server.all.size(); i += 2) {
    EXPECT_LT(server.all[i].worst, 12 * kSecond);  // three places of fifty relay workers
  }
}

TEST(Turns, WhereNoneWaitsNoneLeaves) {
  std::vector<TurnTaker> takers(4);
  for (TurnTaker& taker : takers) {
    taker.state = State::kQuiet;
  }
  takers[3].state = State::kIdle;
  ShareOutSlots(3, 1000 * kSecond, &takers);
  for (const TurnTaker& taker : takers) {
    EXPECT_EQ(taker.answer, Answer::kAsItIs);
  }
}

TEST(Turns, OneLeavesForEachThatWaits) {
  std::vector<TurnTaker> takers(6);
  for (int i = 0; i < 4; i++) {
    takers[static_cast<size_t>(i)].state = State::kBusy;
    takers[static_cast<size_t>(i)].since = i * kSecond;
  }
  takers[1].state = State::kQuiet;
  takers[4].state = takers[5].state = State::kDue;
  takers[4].since = takers[5].since = 90 * kSecond;
  ShareOutSlots(5, 100 * kSecond, &takers);
  EXPECT_EQ(takers[1].answer, Answer::kStop) << "the quiet one first";
  EXPECT_EQ(takers[0].answer, Answer::kStop) << "then the one that has had its place longest";
  EXPECT_TRUE(takers[2].answer == Answer::kAsItIs && takers[3].answer == Answer::kAsItIs);
  takers[0].state = takers[1].state = State::kLeaving;
  ShareOutSlots(5, 100 * kSecond, &takers);
  EXPECT_TRUE(takers[2].answer == Answer::kAsItIs && takers[3].answer == Answer::kAsItIs) << "two are about to leave";
}

}  // namespace
}  // namespace outbox
