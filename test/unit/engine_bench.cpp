// CPU time of the engine and of formatting, per event: make sure that it stays near 0.5 us.
//   cmake --build build/unit --target engine_bench && build/unit/engine_bench
// What the figures cost (relay/common/meter.h), in turn with the same without; and in instructions, on any machine:
//   for figures in with without; do valgrind --tool=callgrind --callgrind-out-file=/dev/null build/unit/engine_bench
//   $figures 2>&1 | grep Collected; done
#include <algorithm>
#include <cstdio>
#include <cstring>
#include <ctime>
#include <vector>

#include "format/record_format.h"
#include "relay/engine.h"
#include "relay_fake_dead.h"
#include "sink/sink.h"

namespace outbox::relay {
namespace {

constexpr int kEvents = 1'000'000;
constexpr size_t kPayload = 300;

double CpuSeconds() {
  return static_cast<double>(std::clock()) / CLOCKS_PER_SEC;
}

class BenchClock : public Clock {
 public:
  int64_t NowMicros() override { return static_cast<int64_t>(CpuSeconds() * 1e6); }
  int64_t WallMicros() override { return 1'700'000'000'000'000; }
  uint64_t Random() override { return 4; }
};

Event MakeEvent(int i, Arena* arena) {
  static const std::string payload(kPayload, 'x');
  Event event;
  event.created_at = 1'700'000'000'000'000 + i;
  event.xid = 1000 + static_cast<uint64_t>(i);  // a transaction each
  event.id = MakeUuid7(event.created_at, static_cast<uint64_t>(i));
  event.aggregate_type = arena->Copy("order");
  event.aggregate_id = arena->Copy(std::to_string(i % 1000));
  event.event_type = arena->Copy("order.created");
  event.payload = arena->Copy(payload);
  return event;
}

// Chunks made beforehand, so that only the engine is measured.
class BenchLog : public LaneLog {
 public:
  BenchLog() {
    for (int i = 0; i < kEvents;) {
      EventChunk chunk;
      for (size_t bytes = 0; bytes < 512 * 1024 && i < kEvents; ++i) {
        chunk.events.push_back(MakeEvent(i, &chunk.arena));
        bytes += chunk.events.back().bytes();
      }
      chunks_.push_back(std::move(chunk));
    }
  }
  Status LoadPosition(Position* position) override {
    position->base = *Snapshot::FromText("3:3:");
    return Status();
  }
  Status OpenWindow(const Position& position, Window* window, bool* opened) override {
    *opened = next_ < chunks_.size();
    window->from = position.base;
    window->to = *Snapshot::FromText("9:9:");
    window->current = true;
    return Status();
  }
  Status ReadChunk(size_t, EventChunk* chunk, bool* end) override {
    *chunk = std::move(chunks_[next_++]);
    *end = next_ == chunks_.size();
    return Status();
  }
  Status CheckDurable(uint64_t, bool* durable) override {
    *durable = true;
    return Status();
  }
  Status SaveProgress(std::span<ProgressSave>) override { return Status(); }

 private:
  std::vector<EventChunk> chunks_;
  size_t next_ = 0;
};

// Acknowledges everything, `step` records to a result.
class BenchSink : public sink::Sink {
 public:
  explicit BenchSink(uint32_t step) : step_(step) {}
  void Submit(sink::Batch batch) override {
    bytes += batch.records.size();
    submitted += static_cast<int>(batch.count);
    for (uint32_t i = 0; i < batch.count; i += step_) {
      sink::Result result;
      result.flow = batch.flow;
      result.first_seq = batch.first_seq + i;
      result.count = std::min(step_, batch.count - i);
      results_.push_back(result);
    }
  }
  void Poll(std::vector<sink::Result>* results) override { results->swap(results_); }
  void AppendWaits(std::vector<sink::WaitSpec>*) override {}
  const sink::Health& health() const override { return health_; }
  void Close() override {}
  size_t bytes = 0;
  int submitted = 0;

 private:
  uint32_t step_;
  sink::Health health_;
  std::vector<sink::Result> results_;
};

std::shared_ptr<const format::RouteSpec> Spec() {
  format::RouteConfig config;
  config.kind = sink::FindKind("outbox_kafka");
  format::TemplateError error;
  return format::RouteSpec::Make(config, &error);
}

void BenchFormat() {
  format::RecordFormat format(Spec());
  Arena arena;
  const Event event = MakeEvent(7, &arena);
  std::string out;
  out.reserve(1 << 20);
  Error error;
  const double start = CpuSeconds();
  for (int i = 0; i < kEvents; ++i) {
    if (out.size() > 500'000) {
      out.clear();
    }
    format.Append(event, event.created_at, &out, &error);
  }
  std::printf("format: %.3f us per event\n", (CpuSeconds() - start) * 1e6 / kEvents);
}

// Returns microseconds of CPU per event.
double BenchEngine(uint32_t results_of, const MeterPlace& figures) {
  BenchClock clock;
  EngineOptions options;
  Engine engine(&clock, options);
  auto made = std::make_unique<BenchSink>(results_of);
  BenchSink* sink = made.get();
  engine.SetDestination(
      1, [&made] { return std::move(made); }, 0);
  const auto spec = Spec();
  engine.AddLane({1, 0}, spec,
                 {.filter = std::make_shared<LaneFilter>(spec),
                  .log = std::make_unique<BenchLog>(),
                  .parked = std::make_unique<fakes::DeadParkedLog>(),
                  .figures = figures},
                 1);
  std::vector<LaneStatus> lanes;
  const double start = CpuSeconds();
  do {
    engine.Turn({true, 0});
    engine.Lanes(&lanes);
  } while (sink->submitted < kEvents || lanes[0].inflight_count > 0);
  return (CpuSeconds() - start) * 1e6 / kEvents;
}

double Median(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  return values[values.size() / 2];
}

void BenchFigures(uint32_t results_of) {
  auto figures = std::make_unique<RouteFigures>();
  auto commits = std::make_unique<CommitTimes>();
  for (uint64_t xid = 0; xid < 65536; ++xid) {  // of the last 65,536 transactions the commit is known
    commits->Note(1000 + kEvents - 1 - xid, 1);
  }
  std::vector<double> with;
  std::vector<double> without;
  for (int round = 0; round < 5; ++round) {
    without.push_back(BenchEngine(results_of, {}));
    with.push_back(BenchEngine(results_of, {.figures = figures.get(), .commits = commits.get()}));
  }
  std::printf("engine and format, %u records to a result: %.3f us per event, %.3f us with figures\n", results_of,
              Median(without), Median(with));
}

}  // namespace
}  // namespace outbox::relay

int main(int argc, char** argv) {
  using namespace outbox::relay;
  if (argc > 1) {
    auto figures = std::make_unique<outbox::RouteFigures>();
    auto commits = std::make_unique<outbox::CommitTimes>();
    const bool with = std::strcmp(argv[1], "with") == 0;
    (void)BenchEngine(500, with ? MeterPlace{figures.get(), commits.get()} : MeterPlace{});
    return 0;
  }
  BenchFormat();
  BenchFigures(500);
  BenchFigures(1);
}
