// The Kafka sink in process, measured as kafka_raw measures the bare library: same records, same output.
//
//   kafka_sink BOOTSTRAP TOPIC [--count N] [--size BYTES] [--keys N] [-X option=value ...]
//   kafka_sink BOOTSTRAP TOPIC --latency RECORDS_PER_SECOND [--seconds S] ...
//
// --prepacked 1 leaves packing the records, the worker's work, out of the CPU. --process PATH puts the sink into its
// executable, as the worker does; its CPU is then reported apart (the parent's is what the worker pays).
// Build: c++ -O2 -std=c++20 -Isrc, with src/base, src/sink and src/sink/kafka but its main.cpp, -lrdkafka -pthread
#include <poll.h>
#include <sys/resource.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "base/monotonic.h"
#include "sink/kafka/kafka_sink.h"
#include "sink/process_sink.h"
#include "sink/record.h"

namespace {

using namespace outbox::sink;

constexpr uint32_t kBatch = 1000;
constexpr uint64_t kInflight = 100000;

struct Arguments {
  std::string topic;
  uint64_t count = 1000000, keys = 10000, rate = 0;
  size_t size = 300;
  double seconds = 10;
  std::string process;
  SinkConfig config;
};

double CpuSeconds(int who = RUSAGE_SELF) {
  rusage usage{};
  getrusage(who, &usage);
  return static_cast<double>(usage.ru_utime.tv_sec + usage.ru_stime.tv_sec) +
         static_cast<double>(usage.ru_utime.tv_usec + usage.ru_stime.tv_usec) / 1e6;
}

void Pack(const Arguments& arguments, const std::string& body, uint64_t number, std::string* out) {
  static Record record;
  char key[24], id[40], at[24];
  record.topic = arguments.topic;
  record.key = {key, static_cast<size_t>(
                         snprintf(key, sizeof key, "%llu", static_cast<unsigned long long>(number % arguments.keys)))};
  record.body = body;
  const int id_size =
      snprintf(id, sizeof id, "019163d0-8694-739b-aea5-%012llx", static_cast<unsigned long long>(number));
  const int at_size = snprintf(at, sizeof at, "%llu", 1700000000000000ull + static_cast<unsigned long long>(number));
  record.fields = {{"id", {id, static_cast<size_t>(id_size)}},
                   {"type", "order.created"},
                   {"aggregate_type", "order"},
                   {"created_at", {at, static_cast<size_t>(at_size)}}};
  PackRecord(record, out);
}

class Driver {
 public:
  explicit Driver(Sink* sink) : sink_(sink) {}

  void Poll() {
    results_.clear();
    sink_->Poll(&results_);
    for (const Result& result : results_) {
      ++ranges;
      resolved += result.count;
      if (result.outcome != Outcome::kDelivered) {
        bad += result.count;
        if (bad < 5) fprintf(stderr, "%s: %s\n", result.error.code.c_str(), result.error.message.c_str());
      } else if (sent_at != nullptr) {
        const int64_t now = outbox::MonotonicMicros();
        for (uint64_t seq = result.first_seq; seq < result.first_seq + result.count; ++seq) {
          if (seq < sent_at->size()) waits.push_back(now - (*sent_at)[seq]);
        }
      }
    }
  }
  void Wait(int64_t until) {
    waits_.clear();
    sink_->AppendWaits(&waits_);
    int64_t deadline = until;
    std::vector<pollfd> fds;
    for (const WaitSpec& wait : waits_) {
      if (wait.deadline >= 0) deadline = std::min(deadline, wait.deadline);
      if (wait.fd >= 0) {
        fds.push_back({wait.fd, static_cast<short>((wait.read ? POLLIN : 0) | (wait.write ? POLLOUT : 0)), 0});
      }
    }
    const int64_t left = std::max<int64_t>(0, deadline - outbox::MonotonicMicros());
    const timespec timeout{left / 1000000, left % 1000000 * 1000};
    ppoll(fds.data(), fds.size(), &timeout, nullptr);
  }

  uint64_t resolved = 0, bad = 0, ranges = 0;
  std::vector<int64_t>* sent_at = nullptr;
  std::vector<int64_t> waits;

 private:
  Sink* sink_;
  std::vector<Result> results_;
  std::vector<WaitSpec> waits_;
};

}  // namespace

int main(int argc, char** argv) {
  Arguments arguments;
  bool prepacked = false;
  if (argc < 3) return 2;
  arguments.config.name = "bench";
  arguments.config.options["bootstrap.servers"] = argv[1];
  arguments.topic = argv[2];
  for (int i = 3; i + 1 < argc; i += 2) {
    const std::string name = argv[i], value = argv[i + 1];
    if (name == "--count")
      arguments.count = strtoull(value.c_str(), nullptr, 10);
    else if (name == "--size")
      arguments.size = strtoull(value.c_str(), nullptr, 10);
    else if (name == "--keys")
      arguments.keys = std::max<uint64_t>(1, strtoull(value.c_str(), nullptr, 10));
    else if (name == "--latency")
      arguments.rate = strtoull(value.c_str(), nullptr, 10);
    else if (name == "--seconds")
      arguments.seconds = atof(value.c_str());
    else if (name == "--process")
      arguments.process = value;
    else if (name == "--prepacked")
      prepacked = value == "1";
    else if (name == "-X")
      arguments.config.options[value.substr(0, value.find('='))] = value.substr(value.find('=') + 1);
    else
      return 2;
  }
  std::unique_ptr<Sink> sink;
  if (!arguments.process.empty()) {
    sink = std::make_unique<ProcessSink>(arguments.process, arguments.config);
  } else if (outbox::Status status = kafka::KafkaSink::Make(arguments.config, &sink); !status.ok()) {
    fprintf(stderr, "kafka_sink: %s\n", status.error().message.c_str());
    return 1;
  }
  std::string body = "{\"order\": 123456, \"text\": \"";
  body.resize(std::max(arguments.size, body.size() + 2), 'x');
  body.replace(body.size() - 2, 2, "\"}");
  Driver driver(sink.get());
  uint64_t seq = 0;
  const auto submit = [&](uint64_t count) {
    Batch batch{1, 1, seq, static_cast<uint32_t>(count), {}};
    for (uint64_t i = 0; i < count; ++i) Pack(arguments, body, seq + i, &batch.records);
    sink->Submit(std::move(batch));
    seq += count;
  };
  submit(100);
  while (driver.resolved < seq) {
    driver.Wait(outbox::MonotonicMicros() + 100000);
    driver.Poll();
  }
  if (arguments.rate > 0) {
    std::vector<int64_t> sent_at(seq, 0);
    driver.sent_at = &sent_at;
    const int64_t gap = 1000000 / static_cast<int64_t>(arguments.rate);
    int64_t next = outbox::MonotonicMicros();
    const int64_t end = next + static_cast<int64_t>(arguments.seconds * 1e6);
    while (next < end) {
      sent_at.push_back(outbox::MonotonicMicros());
      submit(1);
      next += gap;
      driver.Poll();
      while (outbox::MonotonicMicros() < next) {
        driver.Wait(next);
        driver.Poll();
      }
    }
    while (driver.resolved < seq) {
      driver.Wait(outbox::MonotonicMicros() + 100000);
      driver.Poll();
    }
    std::sort(driver.waits.begin(), driver.waits.end());
    const auto at = [&](double part) {
      return static_cast<double>(
                 driver.waits[static_cast<size_t>(part * static_cast<double>(driver.waits.size() - 1))]) /
             1e3;
    };
    printf("records=%llu failed=%llu rate=%llu p50_ms=%.3f p99_ms=%.3f max_ms=%.3f\n",
           static_cast<unsigned long long>(driver.waits.size()), static_cast<unsigned long long>(driver.bad),
           static_cast<unsigned long long>(arguments.rate), at(0.5), at(0.99), at(1));
  } else {
    const uint64_t start_seq = seq;
    std::vector<Batch> packed;
    if (prepacked) {
      for (uint64_t i = 0; i < arguments.count; i += kBatch) {
        Batch batch{1, 1, seq + i, kBatch, {}};
        for (uint64_t j = 0; j < kBatch; ++j) Pack(arguments, body, seq + i + j, &batch.records);
        packed.push_back(std::move(batch));
      }
    }
    const double cpu = CpuSeconds();
    const int64_t start = outbox::MonotonicMicros();
    driver.ranges = 0;
    while (driver.resolved < start_seq + arguments.count) {
      while (seq < start_seq + arguments.count && seq - driver.resolved < kInflight) {
        if (prepacked) {
          Batch& batch = packed[(seq - start_seq) / kBatch];
          seq += batch.count;
          sink->Submit(std::move(batch));
        } else {
          submit(std::min<uint64_t>(kBatch, start_seq + arguments.count - seq));
        }
        driver.Poll();
      }
      driver.Wait(outbox::MonotonicMicros() + 100000);
      driver.Poll();
    }
    const double seconds = static_cast<double>(outbox::MonotonicMicros() - start) / 1e6;
    const double count = static_cast<double>(arguments.count);
    printf("records=%llu failed=%llu seconds=%.3f rate=%.0f cpu_per_million=%.3f ranges=%llu\n",
           static_cast<unsigned long long>(arguments.count), static_cast<unsigned long long>(driver.bad), seconds,
           count / seconds, (CpuSeconds() - cpu) / count * 1e6, static_cast<unsigned long long>(driver.ranges));
  }
  if (!arguments.process.empty()) {
    sink->Close();
    printf("sink_process_cpu=%.3f (whole run)\n", CpuSeconds(RUSAGE_CHILDREN));
  }
  fflush(stdout);
  _exit(driver.bad == 0 ? 0 : 1);
}
