#include "sink/null/null_sink.h"

#include <utility>

#include "base/monotonic.h"
#include "sink/options.h"

namespace outbox::sink {

Status NullSink::Make(const SinkConfig& config, std::unique_ptr<Sink>* sink) {
  *sink = std::make_unique<NullSink>(config.options);
  return {};
}

NullSink::NullSink(const Options& options) : latency_(IntegerOption(options, "latency", 0) * 1000) {}

// No record ever fails, so none has to be kept back behind one: epochs do not matter here.
void NullSink::Submit(Batch batch) {
  if (batch.count != 0) {
    waiting_.push_back(
        {MonotonicMicros() + latency_, {batch.flow, batch.first_seq, batch.count, Outcome::kDelivered, {}}});
  }
}

void NullSink::Poll(std::vector<Result>* results) {
  const int64_t now = MonotonicMicros();
  while (!waiting_.empty() && waiting_.front().due <= now) {
    AppendResult(std::move(waiting_.front().result), results);
    waiting_.pop_front();
  }
}

void NullSink::AppendWaits(std::vector<WaitSpec>* waits) {
  if (!waiting_.empty()) {
    waits->push_back({-1, false, false, waiting_.front().due});
  }
}

std::vector<CheckupRow> NullSink::Checkup(const CheckupRequest&) {
  return {{"connection", {}, "none is needed: events are thrown away, and count as delivered", ""}};
}

}  // namespace outbox::sink
