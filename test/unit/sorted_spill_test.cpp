// matrix: B14 B15
// base/sorted_spill: order, nothing lost, bounded memory, nothing left behind.
#include <dirent.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <random>
#include <string>
#include <vector>

#include "base/sorted_spill.h"

namespace outbox {
namespace {

constexpr size_t kMemory = 64 * 1024;  // the least: 4096 rows

class SortedSpillTest : public testing::Test {
 protected:
  void SetUp() override {
    char path[] = "/tmp/outbox-spill.XXXXXX";
    ASSERT_NE(mkdtemp(path), nullptr);
    parent_ = path;
    directory_ = parent_ + "/made";
  }
  void TearDown() override {
    rmdir(directory_.c_str());
    rmdir(parent_.c_str());
  }
  int Files() const {
    DIR* dir = opendir(directory_.c_str());
    if (dir == nullptr) {
      return 0;
    }
    int files = 0;
    while (const dirent* entry = readdir(dir)) {
      files += entry->d_name[0] != '.';
    }
    closedir(dir);
    return files;
  }
  std::string parent_;
  std::string directory_;
};

// Of the file that this process has open there, which has no name any more; 0: there is none.
size_t FileSize(const std::string& directory) {
  for (int fd = 3; fd < 64; ++fd) {
    char name[256] = {};
    struct stat file {};
    if (readlink(("/proc/self/fd/" + std::to_string(fd)).c_str(), name, sizeof(name) - 1) > 0 &&
        std::string(name).starts_with(directory) && fstat(fd, &file) == 0) {
      return static_cast<size_t>(file.st_size);
    }
  }
  return 0;
}

// Adds `created_at` values with their index as place, and checks what comes out.
void Check(const std::string& directory, const std::vector<int64_t>& values, size_t runs) {
  SortedSpill spill(directory, kMemory);
  size_t most = 0;
  for (size_t i = 0; i < values.size(); ++i) {
    spill.Add({values[i], i});
    most = std::max(most, spill.memory_used());
  }
  spill.Finish();
  EXPECT_EQ(FileSize(directory), runs == 0 ? 0 : values.size() * sizeof(RowLocation));
  EXPECT_EQ(spill.count(), values.size());
  most = std::max(most, spill.memory_used());
  EXPECT_LE(most, std::max(kMemory, runs * 64 * sizeof(RowLocation)));
  std::vector<bool> seen(values.size());
  int64_t before = std::numeric_limits<int64_t>::min();
  size_t count = 0;
  RowLocation row;
  while (spill.Next(&row)) {
    ASSERT_LT(row.location, values.size());
    ASSERT_EQ(values[row.location], row.created_at);
    ASSERT_FALSE(seen[row.location]);
    seen[row.location] = true;
    ASSERT_LE(before, row.created_at);
    before = row.created_at;
    ++count;
  }
  EXPECT_EQ(count, values.size());
  EXPECT_FALSE(spill.Next(&row)) << "the end stays the end";
}

TEST_F(SortedSpillTest, InMemoryWritesNothing) {
  Check(directory_, {}, 0);
  Check(directory_, {5}, 0);
  std::vector<int64_t> values(4096);
  std::mt19937_64 random(1);
  std::generate(values.begin(), values.end(), [&] { return static_cast<int64_t>(random()); });
  Check(directory_, values, 0);
  EXPECT_NE(access(directory_.c_str(), F_OK), 0);
}

TEST_F(SortedSpillTest, SortsAnyOrderOnDisk) {
  std::mt19937_64 random(2);
  for (size_t size : {4097, 8192, 8193, 100'000, 300'000}) {
    const size_t runs = (size + 4095) / 4096;
    std::vector<int64_t> values(size);
    std::generate(values.begin(), values.end(), [&] { return static_cast<int64_t>(random() >> 1); });
    Check(directory_, values, runs);
    std::sort(values.begin(), values.end());
    Check(directory_, values, runs);
    std::reverse(values.begin(), values.end());
    Check(directory_, values, runs);
    std::fill(values.begin(), values.end(), -7);
    Check(directory_, values, runs);
  }
  EXPECT_EQ(Files(), 0);
}

TEST_F(SortedSpillTest, NearlySortedAsManySessionsWriteIt) {
  std::mt19937_64 random(3);
  std::vector<int64_t> values(200'000);
  for (size_t i = 0; i < values.size(); ++i) {
    values[i] = static_cast<int64_t>(i * 10 + random() % 2000);
  }
  Check(directory_, values, 49);
}

TEST_F(SortedSpillTest, NothingIsLeftWhenItIsDroppedHalfWay) {
  {
    SortedSpill spill(directory_, kMemory);
    for (int64_t i = 0; i < 10'000; ++i) {
      spill.Add({-i, static_cast<uint64_t>(i)});
    }
    EXPECT_EQ(Files(), 0) << "unlinked as soon as it is open";
  }
  EXPECT_EQ(Files(), 0);
}

TEST_F(SortedSpillTest, SaysWhyItCannotWrite) {
  SortedSpill spill(parent_ + "/no/such/place", kMemory);
  for (int64_t i = 0; i < 4096; ++i) {
    spill.Add({i, 0});
  }
  try {
    spill.Add({0, 0});
    FAIL() << "it should have thrown";
  } catch (const SpillError& error) {
    EXPECT_NE(std::string(error.what()).find("No such file or directory"), std::string::npos) << error.what();
  }
}

// A disk without room, an error of the disk: said, and the object knows that it is of no use any more.
TEST_F(SortedSpillTest, AFileThatCannotBeWrittenOrReadIsAnError) {
  rlimit before{};
  ASSERT_EQ(getrlimit(RLIMIT_FSIZE, &before), 0);
  signal(SIGXFSZ, SIG_IGN);
  rlimit small = before;
  small.rlim_cur = 100 * 1000;  // in the middle of the second run
  ASSERT_EQ(setrlimit(RLIMIT_FSIZE, &small), 0);
  {
    SortedSpill spill(directory_, kMemory);
    EXPECT_THROW(
        {
          for (int64_t i = 0; i < 100'000; ++i) {
            spill.Add({i, 0});
          }
        },
        SpillError);
  }
  ASSERT_EQ(setrlimit(RLIMIT_FSIZE, &before), 0);
  SortedSpill spill(directory_, kMemory);
  for (int64_t i = 0; i < 100'000; ++i) {
    spill.Add({i % 1000, static_cast<uint64_t>(i)});
  }
  spill.Finish();
  RowLocation row;
  ASSERT_TRUE(spill.Next(&row));
  EXPECT_TRUE(spill.whole());
  int cut = 0;
  for (int fd = 3; fd < 64; ++fd) {
    char name[256] = {};
    if (readlink(("/proc/self/fd/" + std::to_string(fd)).c_str(), name, sizeof(name) - 1) > 0 &&
        std::string(name).starts_with(directory_)) {
      cut += ftruncate(fd, 0) == 0;
    }
  }
  ASSERT_EQ(cut, 1);
  EXPECT_THROW(
      {
        while (spill.Next(&row)) {
        }
      },
      SpillError);
  EXPECT_FALSE(spill.whole());
}

}  // namespace
}  // namespace outbox
