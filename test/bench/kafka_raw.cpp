// What librdkafka alone can do on this machine: the yardstick of `make bench`. Knows nothing of outbox; sends records
// as outbox sends them (key, body, four headers, or the first N of them), with the same producer settings.
//
//   kafka_raw BOOTSTRAP TOPIC [--count N] [--size BYTES] [--keys N] [--headers N] [-X property=value ...]
//   kafka_raw BOOTSTRAP TOPIC --latency RECORDS_PER_SECOND [--seconds S] [--size BYTES] [--keys N] [-X ...]
//
// Prints one line of name=value: rate and CPU seconds per million records, or the times from produce to
// acknowledgement. Build: c++ -O2 -std=c++20 -o kafka_raw kafka_raw.cpp -lrdkafka
#include <sys/resource.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>
#include <vector>

#include "kafka_producer.h"

namespace {

struct Arguments {
  std::string bootstrap, topic;
  uint64_t count = 1000000, keys = 10000, rate = 0, headers = 4;
  size_t size = 300;
  double seconds = 10;
  std::vector<std::string> properties;
};

uint64_t delivered = 0, failed = 0;
std::vector<int64_t> waits;  // nanoseconds
bool timing = false;

int64_t Nanos() {
  timespec now{};
  clock_gettime(CLOCK_MONOTONIC, &now);
  return int64_t{now.tv_sec} * 1000000000 + now.tv_nsec;
}

double CpuSeconds() {
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  return static_cast<double>(usage.ru_utime.tv_sec + usage.ru_stime.tv_sec) +
         static_cast<double>(usage.ru_utime.tv_usec + usage.ru_stime.tv_usec) / 1e6;
}

[[noreturn]] void Die(const std::string& what) {
  fprintf(stderr, "kafka_raw: %s\n", what.c_str());
  exit(1);
}

void Report(rd_kafka_t*, const rd_kafka_message_t* message, void*) {
  if (message->err != RD_KAFKA_RESP_ERR_NO_ERROR) {
    ++failed;
    return;
  }
  ++delivered;
  if (timing) {
    waits.push_back(Nanos() - reinterpret_cast<int64_t>(message->_private));
  }
}

class Records {
 public:
  Records(rd_kafka_t* client, const Arguments& arguments)
      : client_(client),
        topic_(rd_kafka_topic_new(client, arguments.topic.c_str(), nullptr)),
        keys_(arguments.keys),
        headers_(std::min<uint64_t>(arguments.headers, 4)) {
    body_ = "{\"order\": 123456, \"text\": \"";
    body_.resize(std::max(arguments.size, body_.size() + 2), 'x');
    body_.replace(body_.size() - 2, 2, "\"}");
  }

  // False: the queue is full.
  bool Send(uint64_t number) {
    char key[24], id[40], at[24];
    const int key_size = snprintf(key, sizeof key, "%llu", static_cast<unsigned long long>(number % keys_));
    const int id_size =
        snprintf(id, sizeof id, "019163d0-8694-739b-aea5-%012llx", static_cast<unsigned long long>(number));
    const int at_size = snprintf(at, sizeof at, "%llu", 1700000000000000ull + static_cast<unsigned long long>(number));
    const struct {
      const char *name, *value;
      int size;
    } all[] = {{"id", id, id_size},
               {"type", "order.created", 13},
               {"aggregate_type", "order", 5},
               {"created_at", at, at_size}};
    rd_kafka_headers_t* headers = rd_kafka_headers_new(headers_);
    for (size_t i = 0; i < headers_; ++i) {
      rd_kafka_header_add(headers, all[i].name, -1, all[i].value, all[i].size);
    }
    const rd_kafka_resp_err_t error =
        rd_kafka_producev(client_, RD_KAFKA_V_RKT(topic_), RD_KAFKA_V_MSGFLAGS(RD_KAFKA_MSG_F_COPY),
                          RD_KAFKA_V_KEY(key, static_cast<size_t>(key_size)),
                          RD_KAFKA_V_VALUE(body_.data(), body_.size()), RD_KAFKA_V_HEADERS(headers),
                          RD_KAFKA_V_OPAQUE(timing ? reinterpret_cast<void*>(Nanos()) : nullptr), RD_KAFKA_V_END);
    if (error == RD_KAFKA_RESP_ERR_NO_ERROR) return true;
    rd_kafka_headers_destroy(headers);
    if (error != RD_KAFKA_RESP_ERR__QUEUE_FULL) Die(rd_kafka_err2str(error));
    return false;
  }

 private:
  rd_kafka_t* client_;
  rd_kafka_topic_t* topic_;
  uint64_t keys_;
  size_t headers_;
  std::string body_;
};

void Throughput(rd_kafka_t* client, Records* records, const Arguments& arguments) {
  records->Send(0);  // connect, learn the topic
  while (delivered + failed < 1) rd_kafka_poll(client, 10);
  const double cpu = CpuSeconds();
  const int64_t start = Nanos();
  for (uint64_t i = 0; i < arguments.count; ++i) {
    while (!records->Send(i)) rd_kafka_poll(client, 1);
    if (i % 512 == 0) rd_kafka_poll(client, 0);
  }
  while (delivered + failed < arguments.count + 1) rd_kafka_poll(client, 10);
  const double seconds = static_cast<double>(Nanos() - start) / 1e9;
  const double count = static_cast<double>(arguments.count);
  printf("records=%llu failed=%llu seconds=%.3f rate=%.0f cpu_per_million=%.3f\n",
         static_cast<unsigned long long>(arguments.count), static_cast<unsigned long long>(failed), seconds,
         count / seconds, (CpuSeconds() - cpu) / count * 1e6);
}

void Latency(rd_kafka_t* client, Records* records, const Arguments& arguments) {
  for (uint64_t i = 0; i < 100; ++i) records->Send(i);  // connect, warm up
  while (delivered + failed < 100) rd_kafka_poll(client, 10);
  timing = true;
  const int64_t gap = 1000000000 / static_cast<int64_t>(arguments.rate);
  const int64_t start = Nanos();
  const int64_t end = start + static_cast<int64_t>(arguments.seconds * 1e9);
  int64_t next = start;
  uint64_t sent = 0;
  while (next < end) {
    records->Send(sent++);
    next += gap;
    for (int64_t now = Nanos(); now < next; now = Nanos()) {
      // The poll wakes at once for a report; its timeout is in whole milliseconds, so the rest is slept.
      if (next - now > 2000000) {
        rd_kafka_poll(client, 1);
      } else {
        rd_kafka_poll(client, 0);
        timespec pause{0, std::min<int64_t>(next - now, 50000)};
        nanosleep(&pause, nullptr);
      }
    }
  }
  while (delivered + failed < sent + 100) rd_kafka_poll(client, 10);
  std::sort(waits.begin(), waits.end());
  if (waits.empty()) Die("nothing was delivered");
  const auto at = [&](double part) {
    return static_cast<double>(waits[static_cast<size_t>(part * static_cast<double>(waits.size() - 1))]) / 1e6;
  };
  printf("records=%llu failed=%llu rate=%llu p50_ms=%.3f p99_ms=%.3f max_ms=%.3f\n",
         static_cast<unsigned long long>(sent), static_cast<unsigned long long>(failed),
         static_cast<unsigned long long>(arguments.rate), at(0.5), at(0.99), at(1));
}

Arguments Parse(int argc, char** argv) {
  Arguments arguments;
  if (argc < 3)
    Die("kafka_raw BOOTSTRAP TOPIC [--count N] [--size B] [--keys N] [--latency RATE] [--seconds S] [-X p=v]");
  arguments.bootstrap = argv[1];
  arguments.topic = argv[2];
  for (int i = 3; i + 1 < argc; i += 2) {
    const std::string name = argv[i];
    const char* value = argv[i + 1];
    if (name == "--count")
      arguments.count = strtoull(value, nullptr, 10);
    else if (name == "--size")
      arguments.size = strtoull(value, nullptr, 10);
    else if (name == "--keys")
      arguments.keys = std::max<uint64_t>(1, strtoull(value, nullptr, 10));
    else if (name == "--headers")
      arguments.headers = strtoull(value, nullptr, 10);
    else if (name == "--latency")
      arguments.rate = strtoull(value, nullptr, 10);
    else if (name == "--seconds")
      arguments.seconds = atof(value);
    else if (name == "-X")
      arguments.properties.push_back(value);
    else
      Die("unknown argument " + name);
  }
  return arguments;
}

}  // namespace

int main(int argc, char** argv) {
  const Arguments arguments = Parse(argc, argv);
  rd_kafka_t* client = bench::ConnectProducer(arguments.bootstrap, arguments.properties, Report);
  Records records(client, arguments);
  if (arguments.rate > 0) {
    Latency(client, &records, arguments);
  } else {
    Throughput(client, &records, arguments);
  }
  fflush(stdout);
  _exit(failed == 0 ? 0 : 1);
}
