// How much a lane may have on its way.
#include "relay/in_flight_limit.h"

#include <gtest/gtest.h>

#include <algorithm>

namespace outbox::relay {
namespace {

// A destination that acknowledges `rate` events a second, `latency` microseconds after they were sent, fed to the
// bound.
uint32_t InFlightAfter(InFlightLimit* pace, int64_t* now, double rate, int64_t seconds) {
  uint32_t outstanding = 0;
  double credit = 0;
  for (const int64_t end = *now + seconds * 1'000'000; *now < end; *now += 1000) {
    outstanding += pace->Room(outstanding, *now);
    pace->Room(outstanding, *now);  // the engine's next round, that finds it full
    credit += rate / 1000;
    const uint32_t done = std::min(outstanding, static_cast<uint32_t>(credit));
    credit -= done;
    outstanding -= done;
    pace->OnDelivered(done);
  }
  return outstanding;
}

TEST(InFlightLimit, StartsWithAFewThousand) {
  InFlightLimit pace;
  EXPECT_EQ(pace.Room(0, 0), 4096u);
  EXPECT_EQ(pace.Room(4000, 0), 96u);
  EXPECT_EQ(pace.Room(5000, 0), 0u);
}

TEST(InFlightLimit, HoldsWhatTheDestinationAcknowledgesInSixTenthsOfASecond) {
  InFlightLimit pace;
  int64_t now = 0;
  EXPECT_NEAR(InFlightAfter(&pace, &now, 100'000, 5), 60'000, 6'000);
}

TEST(InFlightLimit, NeverFallsBelowItsLeast) {
  InFlightLimit pace;
  int64_t now = 0;
  EXPECT_NEAR(InFlightAfter(&pace, &now, 100, 5), 4096, 10);
}

TEST(InFlightLimit, FollowsADestinationThatBecomesSlower) {
  InFlightLimit pace;
  int64_t now = 0;
  InFlightAfter(&pace, &now, 200'000, 3);
  EXPECT_NEAR(InFlightAfter(&pace, &now, 20'000, 20), 12'000, 3'000);
}

TEST(InFlightLimit, QuietTimesDoNotLowerIt) {
  InFlightLimit pace;
  int64_t now = 0;
  InFlightAfter(&pace, &now, 200'000, 3);
  pace.Room(0, now);
  now += 60'000'000;
  EXPECT_GT(pace.Room(0, now), 60'000u);
}

}  // namespace
}  // namespace outbox::relay
