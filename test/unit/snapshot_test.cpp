// Snapshots and windows against a model of transactions that start, finish and are seen.
#include "base/snapshot.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <random>
#include <set>

namespace outbox {
namespace {

TEST(Snapshot, TextIsThatOfPostgres) {
  const auto snapshot = Snapshot::FromText("10:20:10,14,19");
  ASSERT_TRUE(snapshot);
  EXPECT_EQ(snapshot->xmin, 10u);
  EXPECT_EQ(snapshot->xmax, 20u);
  EXPECT_EQ(snapshot->xip, (std::vector<uint64_t>{10, 14, 19}));
  EXPECT_EQ(snapshot->ToText(), "10:20:10,14,19");
  EXPECT_EQ(Snapshot::FromText("3:3:")->ToText(), "3:3:");
  EXPECT_EQ(Snapshot::FromText("18446744073709551614:18446744073709551615:")->ToText(),
            "18446744073709551614:18446744073709551615:");
}

TEST(Snapshot, RefusesOtherText) {
  for (const char* text : {"", "3", "3:3", "3:3:,", "0:3:", "4:3:", "3:9:2", "3:9:9", "3:9:5,4", "3:9:5,5", "3:9:5,",
                           "3:9:5 ", "-3:9:", "3:9:x", " 3:9:", "18446744073709551616:18446744073709551617:"}) {
    EXPECT_FALSE(Snapshot::FromText(text)) << text;
  }
}

TEST(Snapshot, NothingIsVisibleInTheEarliest) {
  const Snapshot earliest = *Snapshot::FromText("3:3:");
  EXPECT_TRUE(earliest.Visible(2));
  EXPECT_FALSE(earliest.Visible(3));
  EXPECT_FALSE(earliest.Visible(1000));
}

// A server whose transactions start and finish at random.
class Model {
 public:
  explicit Model(uint64_t seed) : random_(seed) {}

  void Step() {
    if (running_.empty() || random_() % 3 == 0) {
      running_.insert(next_++);
    } else if (random_() % 8 != 0 || running_.size() > 12) {
      auto it = running_.begin();
      std::advance(it, static_cast<long>(random_() % running_.size()));
      running_.erase(it);
    }
  }
  Snapshot Take() const {
    Snapshot snapshot;
    snapshot.xmax = next_;
    snapshot.xmin = running_.empty() ? next_ : *running_.begin();
    snapshot.xip.assign(running_.begin(), running_.end());
    return snapshot;
  }
  bool Finished(uint64_t xid) const { return xid < next_ && running_.count(xid) == 0; }
  uint64_t next() const { return next_; }
  uint64_t Random() { return random_(); }

 private:
  std::mt19937_64 random_;
  uint64_t next_ = 3;
  std::set<uint64_t> running_;
};

TEST(Snapshot, SeesExactlyWhatHadFinished) {
  for (uint64_t seed = 0; seed < 200; ++seed) {
    Model model(seed);
    for (int step = 0; step < 60; ++step) {
      model.Step();
      const Snapshot snapshot = model.Take();
      ASSERT_EQ(Snapshot::FromText(snapshot.ToText()), snapshot);
      for (uint64_t xid = 3; xid < model.next() + 3; ++xid) {
        ASSERT_EQ(snapshot.Visible(xid), model.Finished(xid)) << seed << " " << snapshot.ToText() << " " << xid;
      }
    }
  }
}

// Windows between successive snapshots hold every xid exactly once, when it has finished.
TEST(WindowXids, PartitionAllFinishedTransactions) {
  for (uint64_t seed = 0; seed < 500; ++seed) {
    Model model(seed);
    Snapshot last = *Snapshot::FromText("3:3:");
    std::map<uint64_t, int> seen;
    for (int window = 0; window < 12; ++window) {
      for (uint64_t steps = model.Random() % 20; steps > 0; --steps) {
        model.Step();
      }
      const Snapshot next = model.Take();
      const XidRange range = WindowXids(last, next);
      for (uint64_t xid = range.begin; xid < range.end; ++xid) {
        if (next.Visible(xid)) {
          ++seen[xid];
        }
      }
      ASSERT_TRUE(std::is_sorted(range.late.begin(), range.late.end()));
      for (uint64_t xid : range.late) {
        ASSERT_LT(xid, range.begin);
        ++seen[xid];
      }
      for (uint64_t xid = 3; xid < model.next(); ++xid) {
        ASSERT_EQ(seen[xid], model.Finished(xid) ? 1 : 0) << seed << " xid " << xid;
      }
      ASSERT_EQ(range.empty(), last.xmax == next.xmax && range.late.empty());
      last = next;
    }
  }
}

TEST(WindowXids, OfEqualSnapshotsIsEmpty) {
  const Snapshot snapshot = *Snapshot::FromText("10:20:10,14");
  EXPECT_TRUE(WindowXids(snapshot, snapshot).empty());
}

TEST(SnapshotCovers, MeansThatNothingVisibleIsMissing) {
  for (uint64_t seed = 0; seed < 400; ++seed) {
    Model model(seed);
    std::mt19937_64 random(seed);
    std::vector<Snapshot> snapshots;
    for (int i = 0; i < 10; ++i) {
      for (uint64_t steps = model.Random() % 10; steps > 0; --steps) {
        model.Step();
      }
      snapshots.push_back(model.Take());
    }
    // Later ones cover earlier ones, and Covers agrees with brute force on any pair, also of unrelated servers.
    Model other(seed + 1000);
    for (uint64_t steps = random() % 40; steps > 0; --steps) {
      other.Step();
    }
    snapshots.push_back(other.Take());
    for (size_t i = 0; i < snapshots.size(); ++i) {
      for (size_t j = 0; j < snapshots.size(); ++j) {
        bool covers = true;
        const uint64_t end = std::max(snapshots[i].xmax, snapshots[j].xmax) + 2;
        for (uint64_t xid = 1; xid < end; ++xid) {
          covers = covers && (!snapshots[j].Visible(xid) || snapshots[i].Visible(xid));
        }
        ASSERT_EQ(snapshots[i].Covers(snapshots[j]), covers)
            << snapshots[i].ToText() << " covers " << snapshots[j].ToText();
        if (i + 1 < snapshots.size() && j <= i) {
          ASSERT_TRUE(covers);
        }
      }
    }
  }
}

}  // namespace
}  // namespace outbox
