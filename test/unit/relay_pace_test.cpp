// How much a lane may have on its way, and how far apart turns begin.
#include "relay/lane/in_flight_limit.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "relay/destination/turn_spacing.h"

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

// What a second of `rate` records in turns of the given distance leaves the distance at.
int64_t ApartAfter(TurnSpacing* spacing, int64_t* now, int64_t rate, int64_t turn = 500) {
  int64_t apart = 0;
  for (const int64_t end = *now + 1'000'000; *now < end;) {
    *now += turn;
    spacing->OnSubmitted(static_cast<uint64_t>(rate * turn / 1'000'000));
    apart = spacing->Apart(*now);
  }
  return apart;
}

TEST(TurnSpacing, GrowsWithTheRateUpToWhatTheKindGainsFrom) {
  TurnSpacing spacing(2000);
  int64_t now = 5'000'000;
  EXPECT_EQ(spacing.Apart(now), TurnSpacing::kAny);
  EXPECT_EQ(ApartAfter(&spacing, &now, 1000, 1000), 250);
  EXPECT_NEAR(ApartAfter(&spacing, &now, 2000), 437, 20);
  EXPECT_NEAR(ApartAfter(&spacing, &now, 5000, 1000), 1000, 20);
  EXPECT_NEAR(ApartAfter(&spacing, &now, 8000), 1562, 20);
  EXPECT_EQ(ApartAfter(&spacing, &now, 1'000'000), 2000);
}

TEST(TurnSpacing, AKindThatGainsNothingIsNotWaitedFor) {
  TurnSpacing none(0);
  TurnSpacing little(250);
  int64_t now = 5'000'000;
  EXPECT_EQ(ApartAfter(&none, &now, 50'000), 0);
  EXPECT_EQ(ApartAfter(&little, &now, 50'000), 250);
}

TEST(TurnSpacing, TheFirstAfterAQuietTimeGoesAtOnce) {
  TurnSpacing spacing(2000);
  int64_t now = 5'000'000;
  ASSERT_EQ(ApartAfter(&spacing, &now, 12'000), 2000);
  now += 500'000;
  spacing.OnSubmitted(1);
  EXPECT_NEAR(spacing.Apart(now), 250, 20);
  now += 50'000;
  EXPECT_EQ(spacing.Apart(now), TurnSpacing::kAny);
}

// The measure is of time that passed, so a worker that was stopped for a minute does not take one turn for a storm.
TEST(TurnSpacing, OneTurnAfterALongOneIsNoStorm) {
  TurnSpacing spacing(2000);
  int64_t now = 5'000'000;
  ApartAfter(&spacing, &now, 1000, 1000);
  now += 60'000'000;
  spacing.OnSubmitted(5000);
  EXPECT_EQ(spacing.Apart(now), 250);
}

}  // namespace
}  // namespace outbox::relay
