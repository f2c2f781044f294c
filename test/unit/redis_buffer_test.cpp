// What waits to be sent to Redis: where the way there is slow, it takes as much memory as what waits.
#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <string_view>

#include "sink/redis/resp.h"

namespace outbox::sink::resp {
namespace {

constexpr size_t kMegabyte = size_t{1} << 20;

// A buffer that is never empty, and what has to come out of it.
class BufferTest : public ::testing::Test {
 protected:
  void Append(size_t size) {
    std::string bytes(size, '\0');
    for (char& byte : bytes) {
      byte = static_cast<char>(appended_++ * 7919 >> 8);
    }
    buffer_.Append(bytes);
    most_ = std::max(most_, buffer_.held());
  }
  void Take(size_t size) {
    const std::string_view bytes = buffer_.bytes().substr(0, size);
    for (char byte : bytes) {
      wrong_ += byte != static_cast<char>(taken_++ * 7919 >> 8);
    }
    buffer_.Take(bytes.size());
  }
  Buffer buffer_;
  uint64_t appended_ = 0;
  uint64_t taken_ = 0;
  uint64_t wrong_ = 0;  // bytes that came out changed
  size_t most_ = 0;
};

TEST_F(BufferTest, WhatWasSentTakesNoMemory) {
  Append(kMegabyte);
  for (int i = 0; i < 60'000; ++i) {
    Append(1000);
    Take(1000);
  }
  EXPECT_EQ(buffer_.bytes().size(), kMegabyte);
  EXPECT_LE(most_, 4 * kMegabyte + 4000) << "after " << taken_ << " bytes";
  EXPECT_EQ(wrong_, 0u);
}

// Records of all sizes, of which the socket takes what it likes.
TEST_F(BufferTest, NothingIsLostWhereItIsMoved) {
  uint64_t random = 1;
  const auto below = [&random](uint64_t limit) {
    random = random * 6364136223846793005u + 1442695040888963407u;
    return static_cast<size_t>((random >> 33) % limit);
  };
  for (int i = 0; i < 20'000; ++i) {
    Append(below(100) == 0 ? below(100'000) : below(500));
    Take(buffer_.bytes().size() < 200'000 ? below(500) : below(5000));
    ASSERT_EQ(wrong_, 0u) << i;
    ASSERT_EQ(buffer_.bytes().size(), appended_ - taken_) << i;
  }
  Take(buffer_.bytes().size());
  EXPECT_EQ(taken_, appended_);
  EXPECT_EQ(wrong_, 0u);
  EXPECT_TRUE(buffer_.empty());
  EXPECT_LE(most_, 4 * kMegabyte);
}

// A command of many megabytes, and EXEC behind it.
TEST_F(BufferTest, ALargeCommandTakesItsSize) {
  Append(64 * kMegabyte);
  Append(14);
  EXPECT_LE(most_, 65 * kMegabyte);
  Append(kMegabyte);
  EXPECT_LE(most_, 75 * kMegabyte);
  Take(70 * kMegabyte);
  EXPECT_EQ(taken_, appended_);
  EXPECT_EQ(wrong_, 0u);
}

// What many megabytes needed is given back also where the buffer is never empty.
TEST_F(BufferTest, ABurstLeavesNoMemory) {
  for (int i = 0; i < 64; ++i) {
    Append(kMegabyte);
  }
  EXPECT_LE(buffer_.held(), 128 * kMegabyte);
  while (buffer_.bytes().size() > kMegabyte) {
    Take(100'000);
  }
  for (int i = 0; i < 200'000; ++i) {
    Append(1000);
    Take(1000);
  }
  EXPECT_FALSE(buffer_.empty());
  EXPECT_LE(buffer_.held(), 5 * kMegabyte);
  EXPECT_EQ(wrong_, 0u);
}

// A single large record lies here once.
TEST_F(BufferTest, TakesNoMoreThanTheFirstNeeds) {
  Append(50 * kMegabyte);
  EXPECT_LE(buffer_.held(), 51 * kMegabyte) << "and room for EXEC";
  Take(50 * kMegabyte);
  EXPECT_EQ(buffer_.held(), 0u);
  EXPECT_EQ(wrong_, 0u);
}

}  // namespace
}  // namespace outbox::sink::resp
