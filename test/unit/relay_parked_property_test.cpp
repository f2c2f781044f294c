// matrix: S3
// Parked events under random trouble: refusals and outages of every class on the lanes' sink and on the retry sink,
// sink processes that die, log errors, crashes, lost and released lanes, replaced sinks, scheduled events, paused keys,
// people who retry and skip; under both policies, with and without a key.
//
// Checked all the time: an event is first written only when everything before it of its key and topic is written, or
// (skip) has been a dead letter, or was taken away by a person; nothing is sent before it is due; nothing is charged
// but an event's own fault. Checked at the end: nothing is lost, what can be delivered is, nothing waits behind
// nothing, and there is no duplicate without a crash or an abort.
//
// A failure prints its seed; OUTBOX_SEED=n runs that case alone, OUTBOX_CASES=n that many,
// OUTBOX_TRACE=1 shows each step.
#include "relay_parked_case.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <functional>
#include <thread>

namespace outbox::relay {
namespace {

using fakes::Case;
using fakes::Totals;

TEST(RelayParkedProperty, AHundredThousandRandomCases) {
  if (const char* only = std::getenv("OUTBOX_SEED")) {
    Totals totals{};
    EXPECT_EQ(Case(std::strtoull(only, nullptr, 10), &totals).Run(), "");
    return;
  }
  const char* wanted = std::getenv("OUTBOX_CASES");
  const uint64_t cases = wanted != nullptr ? std::strtoull(wanted, nullptr, 10) : 100'000;
  const uint64_t workers = std::clamp<uint64_t>(std::thread::hardware_concurrency(), 1, 8);
  const auto start = std::chrono::steady_clock::now();
  std::vector<Totals> totals(workers, Totals{});
  std::vector<std::string> wrong(workers);
  std::vector<std::thread> threads;
  for (uint64_t worker = 0; worker < workers; ++worker) {
    threads.emplace_back([&, worker] {
      for (uint64_t seed = 1 + worker; seed <= cases && wrong[worker].empty(); seed += workers) {
        wrong[worker] = Case(seed, &totals[worker]).Run();
      }
    });
  }
  Totals all{};
  for (uint64_t worker = 0; worker < workers; ++worker) {
    threads[worker].join();
    EXPECT_EQ(wrong[worker], "");
    std::transform(all.begin(), all.end(), totals[worker].begin(), all.begin(), std::plus<>());
  }
  const double seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  std::printf("%.1f s on %llu threads\n", seconds, static_cast<unsigned long long>(workers));
  static constexpr const char* kNames[] = {"cases",
                                           "events",
                                           "occasions for a duplicate",
                                           "refusals",
                                           "troubles",
                                           "deaths of a sink process",
                                           "delivered from parked",
                                           "dead letters",
                                           "blocked at the end",
                                           "scheduled",
                                           "acts of people",
                                           "duplicates"};
  for (size_t i = 0; i < all.size(); ++i) {
    std::printf("  %llu %s\n", static_cast<unsigned long long>(all[i]), kNames[i]);
  }
  // The cases must have met what they are about.
  EXPECT_GT(all[fakes::kEvents], cases * 5);
  EXPECT_GT(all[fakes::kRefusals], cases / 2);
  EXPECT_GT(all[fakes::kTroubles], cases / 2);
  EXPECT_GT(all[fakes::kDeaths], cases / 200);
  EXPECT_GT(all[fakes::kRetried], cases);
  EXPECT_GT(all[fakes::kDead], cases / 5);
  EXPECT_GT(all[fakes::kBlocked], cases / 20);
  EXPECT_GT(all[fakes::kScheduled], cases);
  EXPECT_GT(all[fakes::kPeople], cases / 2);
  EXPECT_GT(all[fakes::kDuplicates], cases / 10);
}

}  // namespace
}  // namespace outbox::relay
