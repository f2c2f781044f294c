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

const std::string kTopic = "topic";

void Deliver(BatchStore* store, uint32_t slot, uint32_t index) {
  store->Deliver(slot, index, store->AddSpot(slot, &kTopic, 0), index);
}

std::string PlacesText(BatchStore* store) {
  std::vector<Place> places;
  store->TakePlaces(&places);
  std::string text;
  for (const Place& place : places) {
    text += (text.empty() ? "" : " ") + std::to_string(place.flow) + ":" + place.topic + "/" +
            std::to_string(place.partition) + "=" + place.first + "-" + place.last;
  }
  return text;
}

// A place leaves with its outcome: not before, not after.
TEST(KafkaBatchStore, PlacesLeaveWithTheirOutcomes) {
  BatchStore store;
  const uint32_t slot = store.Add(MakeBatch(1, 100, 6));
  const uint32_t other = store.Add(MakeBatch(2, 200, 1));
  const uint32_t first = store.AddSpot(slot, &kTopic, 0);
  store.Deliver(slot, 0, first, 10);
  store.Deliver(slot, 1, first, 11);
  store.Deliver(slot, 3, first, 12);
  store.Deliver(slot, 4, first, 13);
  const uint32_t second = store.AddSpot(slot, &kTopic, 1);
  store.Deliver(slot, 5, second, 999);
  EXPECT_EQ(PlacesText(&store), "");
  std::vector<Result> results;
  store.Flush(1000, &results);
  EXPECT_EQ(Text(results), "d100+2");
  EXPECT_EQ(PlacesText(&store), "1:topic/0=10-11");
  EXPECT_EQ(PlacesText(&store), "");
  store.Flush(store.deadline(), &results);
  EXPECT_EQ(PlacesText(&store), "1:topic/0=12-13 1:topic/1=999-999");
  store.Abort(slot, 2);
  store.Deliver(other, 0, store.AddSpot(other, &kTopic, 0), -1);  // acknowledged without an offset
  store.Flush(2000000, &results);
  EXPECT_EQ(Text(results), "d100+2 d103+3 a102+1 d200+1");
  EXPECT_EQ(PlacesText(&store), "2:topic/0=-");
}

TEST(KafkaBatchStore, PrefixAtOnceAndTheRestAMomentLater) {
  BatchStore store;
  const uint32_t slot = store.Add(MakeBatch(1, 100, 10));
  for (uint32_t index : {0, 1, 2, 5, 6}) {
    Deliver(&store, slot, index);
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
    Deliver(&store, slot, index);
  }
  EXPECT_EQ(store.open(), 0u);
  store.Flush(2000, &results);
  EXPECT_EQ(Text(results), "d103+2 d107+3");
}

TEST(KafkaBatchStore, OneOutcomePerRecord) {
  BatchStore store;
  const uint32_t slot = store.Add(MakeBatch(1, 0, 4));
  store.Fail(slot, 1, {ErrorClass::kMessage, "X", "x"});
  Deliver(&store, slot, 1);
  store.Abort(slot, 1);
  store.Fail(slot, 1, {ErrorClass::kMessage, "X", "x"});
  Deliver(&store, slot, 0);
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
  Deliver(&store, first, 1);
  Deliver(&store, second, 0);
  Deliver(&store, second, 1);
  std::vector<uint32_t> flows;
  store.AbortAll([&](StoredBatch& hold) { flows.push_back(hold.batch.flow); });
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
    Deliver(&store, slot, 0);
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
