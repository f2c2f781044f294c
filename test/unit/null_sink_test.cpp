// outbox_null: every record is delivered once, after the latency that was asked for; its options.
#include "sink/null/null_sink.h"

#include <gtest/gtest.h>

#include "sink/kind.h"
#include "sink_driver.h"

namespace outbox::sink {
namespace {

const SinkKind& Null() {
  return *FindKind("outbox_null");
}

std::unique_ptr<Sink> Make(const Options& options) {
  SinkConfig config;
  config.options = options;
  std::unique_ptr<Sink> sink;
  EXPECT_TRUE(NullSink::Make(config, &sink).ok());
  return sink;
}

TEST(NullSink, DeliversEveryRecordOfEveryFlowOnce) {
  std::unique_ptr<Sink> sink = Make({});
  EXPECT_TRUE(sink->health().up);
  for (uint32_t batch = 0; batch < 100; ++batch) {
    sink->Submit({batch % 7, 1, batch * 10, 10, "not even looked at"});
  }
  std::vector<Result> results;
  sink->Poll(&results);
  uint64_t next = 0;
  for (const Result& result : results) {
    EXPECT_EQ(result.first_seq, next);
    EXPECT_EQ(result.outcome, Outcome::kDelivered);
    next += result.count;
  }
  EXPECT_EQ(next, 1000u);
  results.clear();
  sink->Poll(&results);
  EXPECT_TRUE(results.empty());
}

TEST(NullSink, WaitsAsLongAsItIsTold) {
  std::unique_ptr<Sink> sink = Make({{"latency", "50"}});
  const int64_t start = MonotonicMicros();
  sink->Submit({1, 1, 0, 3, ""});
  std::vector<WaitSpec> waits;
  sink->AppendWaits(&waits);
  ASSERT_EQ(waits.size(), 1u);
  EXPECT_GE(waits[0].deadline, start + 50000);
  std::vector<Result> results;
  while (results.empty()) {
    sink->Poll(&results);
  }
  EXPECT_GE(MonotonicMicros(), start + 50000);
  EXPECT_EQ(results[0].count, 3u);
  waits.clear();
  sink->AppendWaits(&waits);
  EXPECT_TRUE(waits.empty());
}

TEST(NullSink, ReportsNothingAfterClose) {
  std::unique_ptr<Sink> sink = Make({{"latency", "1"}});
  sink->Submit({1, 1, 0, 3, ""});
  sink->Close();
  std::vector<Result> results;
  Driver(sink.get()).Turn();
  sink->Poll(&results);
  EXPECT_TRUE(results.empty());
}

TEST(NullOptions, TakeALatencyAndNothingElse) {
  const auto check = [](const char* name, const char* value) {
    return CheckOptions(Null(), OptionPlace::kServer, {{name, value}}, false);
  };
  EXPECT_TRUE(check("latency", "0").ok());
  EXPECT_TRUE(check("latency", "60000").ok());
  for (const char* bad : {"", "-1", "60001", "1.5", "soon"}) {
    EXPECT_STREQ(check("latency", bad).sqlstate, "22023") << bad;
  }
  EXPECT_STREQ(check("host", "a").sqlstate, "HV00D");
  EXPECT_EQ(CheckOptions(Null(), OptionPlace::kMapping, {{"password", "p"}}, true).detail,
            "A user mapping of outbox_null takes no options.");
  Options merged;
  EXPECT_TRUE(MergeOptions(Null(), {}, {}, &merged).ok());
}

}  // namespace
}  // namespace outbox::sink
