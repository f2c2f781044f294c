// worker/trouble_board.h without a server: this file stands in for shared memory and its lock.
#include <gtest/gtest.h>

#include <algorithm>
#include <ctime>
#include <string>
#include <vector>

#include "worker/trouble_board.h"

namespace {

constexpr int kSlots = 512;  // as in the server
constexpr uint64_t kDied = 99;

outbox::pg::SharedState* NewShared() {
  auto* shared = static_cast<outbox::pg::SharedState*>(calloc(1, sizeof(outbox::pg::SharedState)));
  shared->max_troubles = kSlots;
  return shared;
}
outbox::pg::SharedState* const shared_memory = NewShared();
std::vector<outbox::pg::TroubleSlot> slots(kSlots);

}  // namespace

extern "C" {
bool LWLockAcquire(LWLock* lock, LWLockMode mode) {
  return true;
}
void LWLockRelease(LWLock* lock) {}
#if !HAVE_DECL_STRLCPY  // else the C library's
size_t strlcpy(char* to, const char* from, size_t size) {
  const size_t length = strlen(from);
  const size_t copied = std::min(length, size - 1);
  memcpy(to, from, copied);
  to[copied] = 0;
  return length;
}
#endif
}

namespace outbox::pg {

SharedState* Shared() {
  return shared_memory;
}
TroubleSlot* Troubles() {
  return slots.data();
}
bool IsAlive(uint64 incarnation) {
  return incarnation != kDied;
}

}  // namespace outbox::pg

namespace outbox::worker {
namespace {

constexpr int64_t kAgain = 60'000'000;
constexpr Oid kDatabase = 5;

const Error kRefused{ErrorClass::kTopic, "REFUSED", "no"};

class PgTroubleBoard : public testing::Test {
 protected:
  void SetUp() override { std::fill(slots.begin(), slots.end(), pg::TroubleSlot{}); }

  // So many troubles of a worker.
  void Fill(uint64_t incarnation, int first, int count) {
    const TroubleBoard board(kDatabase, incarnation);
    for (int i = first; i < first + count; ++i) {
      EXPECT_TRUE(board.MaySay(Name(i), kRefused, ++now_, kAgain));
    }
  }
  static uint64 Name(int i) { return TroubleBoard::Name(1, "topic" + std::to_string(i)); }
  static int64_t SlotsOf(int i) {
    return std::count_if(slots.begin(), slots.end(), [i](const pg::TroubleSlot& slot) {
      return slot.database == kDatabase && slot.trouble == Name(i);
    });
  }

  int64_t now_ = 1;
};

TEST_F(PgTroubleBoard, TroubleThatLastsKeepsItsSlot) {
  Fill(1, 0, kSlots);
  Fill(1, kSlots, 1);
  EXPECT_EQ(SlotsOf(kSlots), 0);
  for (int i = 0; i < kSlots; ++i) {
    EXPECT_EQ(SlotsOf(i), 1) << i;
  }
}

TEST_F(PgTroubleBoard, TroubleThatIsOverMakesRoom) {
  Fill(1, 0, kSlots);
  EXPECT_TRUE(TroubleBoard(kDatabase, 1).End(Name(7)));
  Fill(1, kSlots, 1);
  EXPECT_EQ(SlotsOf(kSlots), 1);
  EXPECT_EQ(SlotsOf(7), 0);
}

TEST_F(PgTroubleBoard, TroubleOfAWorkerThatDiedMakesRoomUnlessAnotherHasIt) {
  Fill(1, 0, 1);
  EXPECT_FALSE(TroubleBoard(kDatabase, kDied).MaySay(Name(0), kRefused, ++now_, kAgain));  // worker 1 has
  Fill(kDied, 1, 1);
  Fill(1, 2, kSlots - 3);
  Fill(1, kSlots, 1);
  EXPECT_EQ(SlotsOf(kSlots), 1);
  EXPECT_EQ(SlotsOf(0), 2);
  EXPECT_EQ(SlotsOf(1), 0);
}

double SecondsOfThisThread() {
  timespec time{};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time);
  return static_cast<double>(time.tv_sec) + static_cast<double>(time.tv_nsec) / 1e9;
}

// Thousands of topics may be in trouble at once, and the lock is that of all shared memory: where no slot is free,
// asking looks through the slots, and not through all of them for each of them.
TEST_F(PgTroubleBoard, AskingInVainIsCheap) {
  constexpr int kFew = kSlots / 8;
  constexpr int kTimes = 20;
  constexpr int kRounds = 20;
  const TroubleBoard board(kDatabase, 1);
  double few = 1e9;
  double all = 1e9;
  for (int round = 0; round < kRounds; ++round) {  // in turn: the machine may be slow for a while
    for (const int count : {kFew, kSlots}) {
      SetUp();
      shared_memory->max_troubles = count;
      Fill(1, 0, count);
      const double began = SecondsOfThisThread();
      for (int i = 0; i < kTimes; ++i) {
        static_cast<void>(board.MaySay(Name(kSlots), kRefused, ++now_, kAgain));
      }
      double& least = count == kFew ? few : all;
      least = std::min(least, SecondsOfThisThread() - began);
    }
  }
  EXPECT_EQ(SlotsOf(kSlots), 0);
  // Eight times as many slots: 8 to 12 times as long; 64 times, were each of them looked for among all.
  EXPECT_LT(all, 28 * few) << few / kTimes * 1e6 << " us, " << all / kTimes * 1e6 << " us";
  RecordProperty("ratio", std::to_string(all / few));
}

}  // namespace
}  // namespace outbox::worker
