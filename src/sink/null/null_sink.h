// A sink that discards every record and reports it as delivered [-]: outbox without a broker, for benchmarks. The
// records go all the way, through the socket into another process, and are counted as delivered; they are not read.
#pragma once

#include <cstdint>
#include <deque>
#include <memory>
#include <vector>

#include "base/status.h"
#include "sink/checkup.h"
#include "sink/protocol.h"
#include "sink/sink.h"

namespace outbox::sink {

class NullSink : public Sink {
 public:
  static Status Make(const SinkConfig& config, std::unique_ptr<Sink>* sink);
  static std::vector<CheckupRow> Checkup(const CheckupRequest& request);
  // `options`: latency, milliseconds from Submit() to the outcome.
  explicit NullSink(const Options& options);

  void Submit(Batch batch) override;
  void Poll(std::vector<Result>* results) override;
  void AppendWaits(std::vector<WaitSpec>* waits) override;
  const Health& health() const override { return health_; }
  void Close() override { waiting_.clear(); }

 private:
  struct Waiting {
    int64_t due;  // monotonic microseconds; never before that of the one in front of it
    Result result;
  };
  const int64_t latency_;  // microseconds
  const Health health_;
  std::deque<Waiting> waiting_;
};

}  // namespace outbox::sink
