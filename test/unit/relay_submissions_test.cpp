// The numbers of a sink's records, and since when the oldest without an outcome is on its way.
#include "relay/destination/submissions.h"

#include <gtest/gtest.h>

namespace outbox::relay {
namespace {

TEST(Submissions, TheOldestWithoutAnOutcomeIsKnown) {
  Submissions all;
  EXPECT_EQ(all.oldest(), 0);
  EXPECT_EQ(all.Take(1, 1, 3, "", 10).first_seq, 1u);
  EXPECT_EQ(all.Take(2, 1, 2, "", 10).first_seq, 4u);
  EXPECT_EQ(all.Take(1, 1, 4, "", 20).first_seq, 6u);
  EXPECT_EQ(all.next_seq(), 10u);
  EXPECT_EQ(all.oldest(), 10);
  all.Resolved(4, 4);  // of both moments
  EXPECT_EQ(all.oldest(), 10);
  all.Resolved(1, 3);
  EXPECT_EQ(all.oldest(), 20);
  all.Resolved(8, 2);
  EXPECT_EQ(all.oldest(), 0);
  EXPECT_EQ(all.Take(1, 1, 1, "", 30).first_seq, 10u);
  all.Forget();
  EXPECT_EQ(all.oldest(), 0);
  EXPECT_EQ(all.next_seq(), 11u);
}

TEST(Submissions, OfManyMomentsTheLaterOnesAreTakenForAnEarlier) {
  Submissions all;
  for (int64_t now = 1; now <= 5000; ++now) {
    all.Take(1, 1, 1, "", now);
  }
  all.Resolved(1, 4999);
  EXPECT_GT(all.oldest(), 1);
  EXPECT_LE(all.oldest(), 5000);
  all.Resolved(5000, 1);
  EXPECT_EQ(all.oldest(), 0);
}

}  // namespace
}  // namespace outbox::relay
