// How fast a sink executable takes records, through the same ProcessSink as a relay worker's:
//
//   sink_bench EXECUTABLE RECORDS BYTES TOPICS IN_FLIGHT NAME=VALUE ...
//   sink_bench ./outbox-sink-redis 1000000 300 4 16777216 unix_socket=/tmp/x/socket
//
// Prints records/s, and CPU seconds per million records of this process and of the sink process.
#include <poll.h>
#include <sys/resource.h>

#include <cstdio>
#include <cstdlib>
#include <string>
#include <vector>

#include "base/monotonic.h"
#include "sink/process_sink.h"
#include "sink/record.h"

namespace {

double CpuSeconds(int who) {
  rusage usage{};
  getrusage(who, &usage);
  return static_cast<double>(usage.ru_utime.tv_sec + usage.ru_stime.tv_sec) +
         static_cast<double>(usage.ru_utime.tv_usec + usage.ru_stime.tv_usec) / 1e6;
}

}  // namespace

int main(int argc, char** argv) {
  using namespace outbox::sink;
  if (argc < 6) {
    fprintf(stderr, "usage: sink_bench EXECUTABLE RECORDS BYTES TOPICS IN_FLIGHT NAME=VALUE ...\n");
    return 2;
  }
  const uint64_t records = strtoull(argv[2], nullptr, 10);
  const size_t bytes = strtoull(argv[3], nullptr, 10);
  const uint64_t topics = strtoull(argv[4], nullptr, 10);
  const size_t budget = strtoull(argv[5], nullptr, 10);
  SinkConfig config{"bench", {}, 1 << 20, budget};
  for (int i = 6; i < argc; ++i) {
    std::string option = argv[i];
    size_t equals = option.find('=');
    config.options[option.substr(0, equals)] = option.substr(equals + 1);
  }

  constexpr uint32_t kBatch = 1000;
  const std::string body(bytes, 'x');
  ProcessSink sink(argv[1], config);
  std::vector<Result> results;
  std::vector<WaitSpec> waits;
  uint64_t submitted = 0;
  uint64_t resolved = 0;
  uint64_t ranges = 0;
  int64_t begin = outbox::MonotonicMicros();
  while (resolved < records) {
    while (submitted < records && (submitted - resolved) * (bytes + 200) < budget) {
      Batch batch{1, 0, submitted, kBatch, {}};
      batch.records.reserve(kBatch * (bytes + 250));
      for (uint32_t i = 0; i < kBatch; ++i) {
        std::string topic = "outbox.event.bench" + std::to_string((submitted + i) % topics);
        std::string key = std::to_string((submitted + i) % 1000);
        Record record;
        record.topic = topic;
        record.key = key;
        record.body = body;
        record.fields = {{"id", "0192e4bf-c8a1-73e7-bfff-ffffffffffff"},
                         {"type", "order.created"},
                         {"aggregate_type", "order"},
                         {"created_at", "1700000000000000"}};
        PackRecord(record, &batch.records);
      }
      sink.Submit(std::move(batch));
      submitted += kBatch;
    }
    waits.clear();
    sink.AppendWaits(&waits);
    pollfd ready{waits[0].fd, static_cast<short>(POLLIN | (waits[0].write ? POLLOUT : 0)), 0};
    poll(&ready, 1, 200);
    results.clear();
    sink.Poll(&results);
    for (const Result& result : results) {
      if (result.outcome != Outcome::kDelivered) {
        fprintf(stderr, "not delivered: %s %s %s\n", result.error.code.c_str(), result.error.message.c_str(),
                sink.health().error.message.c_str());
        return 1;
      }
      resolved += result.count;
    }
    ranges += results.size();
  }
  double seconds = static_cast<double>(outbox::MonotonicMicros() - begin) / 1e6;
  double millions = static_cast<double>(records) / 1e6;
  double own = CpuSeconds(RUSAGE_SELF) / millions;
  std::string library = sink.library();
  sink.Close();
  printf("%s: %.0f records/s; CPU s per million: %.2f here, %.2f in the sink process; %.1f records per result\n",
         library.c_str(), static_cast<double>(records) / seconds, own, CpuSeconds(RUSAGE_CHILDREN) / millions,
         static_cast<double>(records) / static_cast<double>(ranges));
  return 0;
}
