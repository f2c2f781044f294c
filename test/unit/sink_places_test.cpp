// Places: their order, and that only the smallest and the largest of a flow, topic and partition are kept.
#include "sink/places.h"

#include <gtest/gtest.h>

namespace outbox::sink {
namespace {

TEST(PlaceBefore, OrdersOffsetsAndStreamIds) {
  const std::string_view ascending[] = {"", "0", "9", "10", "99", "100", "9223372036854775807"};
  const std::string_view ids[] = {"", "9-2", "9-10", "10-0", "1700000000000-0", "1700000000000-1", "1700000000001-0"};
  for (size_t i = 0; i < std::size(ascending); ++i) {
    for (size_t j = 0; j < std::size(ascending); ++j) {
      EXPECT_EQ(PlaceBefore(ascending[i], ascending[j]), i < j) << ascending[i] << " " << ascending[j];
      EXPECT_EQ(PlaceBefore(ids[i], ids[j]), i < j) << ids[i] << " " << ids[j];
    }
  }
}

TEST(Places, KeepsTheEndsOfEachFlowTopicAndPartition) {
  Places places;
  places.Add(1, "a", 0, "10", "12");
  places.Add(1, "a", 0, "9", "9");
  places.Add(1, "a", 1, "5", "5");
  places.Add(2, "a", 0, "7", "8");
  places.Add(1, "b", -1, "", "");
  places.Add(1, "a", 0, "", "");
  std::vector<Place> taken;
  places.Take(&taken);
  ASSERT_EQ(taken.size(), 4u);
  EXPECT_TRUE(places.empty());
  const auto is = [](const Place& place, uint32_t flow, const char* topic, int32_t partition, const char* first,
                     const char* last) {
    EXPECT_EQ(place.flow, flow);
    EXPECT_EQ(place.topic, topic);
    EXPECT_EQ(place.partition, partition);
    EXPECT_EQ(place.first, first);
    EXPECT_EQ(place.last, last);
  };
  is(taken[0], 1, "b", -1, "", "");
  is(taken[1], 1, "a", 0, "9", "12");
  is(taken[2], 1, "a", 1, "5", "5");
  is(taken[3], 2, "a", 0, "7", "8");
}

}  // namespace
}  // namespace outbox::sink
