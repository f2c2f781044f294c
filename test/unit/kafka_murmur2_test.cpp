// matrix: H4
// Answers of Java's org.apache.kafka.common.utils.Utils.murmur2 (kafka-clients 4.1.0, JDK 17), and of
// Utils.toPositive(hash) % partitions: a record goes where a Java producer would send it.
#include <gtest/gtest.h>

#include <string_view>

#include "base/murmur2.h"

namespace outbox {
namespace {

struct Vector {
  std::string_view key;
  uint32_t hash;
  int32_t of4, of12, of1000;
};

constexpr char kRawBytes[] = {0, '\xff', '\x80', '\x7f', 0};

const Vector kVectors[] = {
    {"", 0x106e08d9u, 1, 9, 681},
    {"0", 0x39e0b3c4u, 0, 8, 396},
    {"1", 0x892e6f8fu, 3, 3, 159},
    {"42", 0x18e59c6cu, 0, 4, 972},
    {"21", 0xc5f2f8ecu, 0, 0, 340},
    {"foobar", 0xd0e47bbeu, 2, 6, 166},
    {"a", 0xa2d0b27cu, 0, 4, 524},
    {"ab", 0x12d8262au, 2, 2, 434},
    {"abc", 0x1c94221bu, 3, 3, 107},
    {"abcd", 0xb11ab5f4u, 0, 8, 100},
    {"abcde", 0x1b897eddu, 1, 1, 741},
    {"a-little-bit-long-string", 0xc53b1da0u, 0, 8, 112},
    {"a-little-bit-longer-string", 0xa768c9c3u, 3, 11, 819},
    {"lkjh234lh9fiuh90y23oiuhsafujhadof229phr9h19h89h8", 0xfc7d49cdu, 1, 5, 677},
    {"order-1000001", 0x18cc19e4u, 0, 4, 156},
    {"0190163d-8694-739b-aea5-966c26f8ad91", 0x4edd0dc9u, 1, 9, 833},
    {"Z\303\274rich", 0xa38b7831u, 1, 1, 833},
    {"\346\227\245\346\234\254", 0xd63a78f3u, 3, 3, 627},
    {"\303\277\302\200", 0x1322f07cu, 0, 0, 892},
    {"\360\237\232\200", 0x2d67d1c1u, 1, 1, 625},
    {"customer:4711", 0x71838d09u, 1, 1, 729},
    {"9223372036854775807", 0xb72ed3bdu, 1, 9, 741},
    {"-1", 0x5b4d238bu, 3, 3, 27},
    {std::string_view(kRawBytes, sizeof kRawBytes), 0xf4363dd1u, 1, 5, 825},
};

TEST(Murmur2, AnswersAsJava) {
  for (const Vector& vector : kVectors) {
    EXPECT_EQ(Murmur2(vector.key), vector.hash) << vector.key;
    EXPECT_EQ(KafkaPartition(vector.key, 4), vector.of4) << vector.key;
    EXPECT_EQ(KafkaPartition(vector.key, 12), vector.of12) << vector.key;
    EXPECT_EQ(KafkaPartition(vector.key, 1000), vector.of1000) << vector.key;
  }
}

TEST(Murmur2, ReadsUnalignedBytes) {
  const std::string_view text = "xxxorder-1000001";
  EXPECT_EQ(Murmur2(text.substr(3)), 0x18cc19e4u);
}

}  // namespace
}  // namespace outbox
