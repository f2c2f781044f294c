// Outcomes come record by record and partition by partition; they leave as few ranges, each record exactly once.
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "sink/kafka/batch_store.h"

namespace outbox::sink::kafka {
namespace {

Batch MakeBatch(uint32_t flow, uint64_t first_seq, uint32_t count) {
  return {flow, 7, first_seq, count, std::string(100, 'x')};
}

std::string Text(const std::vector<Result>& results) {
  std::string text;
  for (const Result& result : results) {
    text += (text.empty() ? "" : " ") +
            std::string(result.outcome == Outcome::kDelivered ? "d"
                        : result.outcome == Outcome::kFailed  ? "f"
                                                              : "a") +
            std::to_string(result.first_seq) + "+" + std::to_string(result.count);
  }
  return text;
}

TEST(KafkaBatchStore, PrefixAtOnceAndTheRestAMomentLater) {
  BatchStore store;
  const uint32_t slot = store.Add(MakeBatch(1, 100, 10));
  for (uint32_t index : {0, 1, 2, 5, 6}) {
    store.Deliver(slot, index);
  }
  std::vector<Result> results;
  store.Flush(1000, &results);
  EXPECT_EQ(Text(results), "d100+3");
  EXPECT_GT(store.deadline(), 1000);
  results.clear();
  store.Flush(store.deadline() - 1, &results);
  EXPECT_EQ(Text(results), "");
  store.Flush(store.deadline(), &results);
  EXPECT_EQ(Text(results), "d105+2");
  EXPECT_EQ(store.deadline(), -1);
  results.clear();
  for (uint32_t index : {3, 4, 7, 8, 9}) {
    store.Deliver(slot, index);
  }
  EXPECT_EQ(store.open(), 0u);
  store.Flush(2000, &results);
  EXPECT_EQ(Text(results), "d103+2 d107+3");
}

TEST(KafkaBatchStore, OneOutcomePerRecord) {
  BatchStore store;
  const uint32_t slot = store.Add(MakeBatch(1, 0, 4));
  store.Fail(slot, 1, {ErrorClass::kMessage, "X", "x"});
  store.Deliver(slot, 1);
  store.Abort(slot, 1);
  store.Fail(slot, 1, {ErrorClass::kMessage, "X", "x"});
  store.Deliver(slot, 0);
  store.Abort(slot, 2);
  store.Abort(slot, 3);
  std::vector<Result> results;
  store.Flush(1, &results);
  EXPECT_EQ(Text(results), "f1+1 d0+1 a2+2");
  EXPECT_EQ(results[0].error.code, "X");
}

TEST(KafkaBatchStore, AbortAllLeavesWhatIsKnown) {
  BatchStore store;
  const uint32_t first = store.Add(MakeBatch(1, 0, 3));
  const uint32_t second = store.Add(MakeBatch(2, 3, 2));
  store.Deliver(first, 1);
  store.Deliver(second, 0);
  store.Deliver(second, 1);
  std::vector<uint32_t> flows;
  store.AbortAll([&](Hold& hold) { flows.push_back(hold.batch.flow); });
  EXPECT_EQ(flows, std::vector<uint32_t>{1});
  std::vector<Result> results;
  store.Flush(1, &results);
  EXPECT_EQ(Text(results), "a0+1 d1+1 a2+1 d3+2");
}

TEST(KafkaBatchStore, SlotsAreUsedAgain) {
  BatchStore store;
  std::vector<Result> results;
  for (uint64_t round = 0; round < 100; ++round) {
    const uint32_t slot = store.Add(MakeBatch(1, round, 1));
    EXPECT_EQ(slot, 0u);
    store.Deliver(slot, 0);
    store.Flush(1, &results);
  }
  EXPECT_EQ(results.size(), 100u);
}

TEST(KafkaBatchStore, RefusedBatchesAreReported) {
  BatchStore store;
  store.Refuse(MakeBatch(3, 50, 7));
  EXPECT_EQ(store.deadline(), 0);
  std::vector<Result> results;
  store.Flush(1, &results);
  EXPECT_EQ(Text(results), "a50+7");
}

}  // namespace
}  // namespace outbox::sink::kafka
