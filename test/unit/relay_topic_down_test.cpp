// matrix: D6
// A topic down under load: nothing piles up, no other topic waits, and it comes back by itself.
// test/unit/topic_down_bench.cpp is the same for a whole day.
#include "relay_topic_down.h"

#include <gtest/gtest.h>

namespace outbox::relay::topic_down {
namespace {

TEST(TopicDown, NothingPilesUpAndItRejoins) {
  Config config;
  config.down_for = 60 * kSecond;
  const Report report = Simulation(config).Run();
  EXPECT_EQ(report.parked, 0);
  EXPECT_EQ(report.duplicates_or_disorder, 0u);
  EXPECT_EQ(report.delivered, report.emitted);
  EXPECT_GT(report.emitted, 400'000u);
  EXPECT_TRUE(report.rejoined);
  EXPECT_GT(report.probes, 3u);
  EXPECT_LT(report.probes, 30u);
  EXPECT_LT(report.peak_engine_bytes, size_t{80} << 20);  // the budget and a chunk
  // The healthy topic: as ever while the other is down and while it drains.
  EXPECT_LT(report.fork_after, config.refusal + kSecond);
  EXPECT_LT(report.worst_delay_fork, kSecond);
  EXPECT_LT(report.worst_delay_down, report.worst_delay_well + 20'000);
  EXPECT_LT(report.worst_delay_drain, 2 * kSecond);
  EXPECT_LT(report.heal, 40 * kSecond);
}

}  // namespace
}  // namespace outbox::relay::topic_down
