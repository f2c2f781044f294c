// A topic down for a day at 5,000 events a second, in simulated time: what it costs in parked rows, memory and disk,
// what the healthy topics feel, and how long it drains.
//   cmake --build build/unit --target topic_down_bench && build/unit/topic_down_bench [hours] [capacity, events/s]
#include <sys/resource.h>

#include <cstdio>
#include <cstdlib>
#include <ctime>

#include "relay_topic_down.h"

namespace {

// Measured: pg_total_relation_size of a day table over 200,000 events of 300 bytes, one to a transaction.
constexpr double kLogBytesPerEvent = 432;

double Seconds(int64_t micros) {
  return static_cast<double>(micros) / 1e6;
}

}  // namespace

int main(int argc, char** argv) {
  using namespace outbox::relay::topic_down;
  Config config;
  const double hours = argc > 1 ? std::atof(argv[1]) : 24;
  config.down_for = static_cast<int64_t>(hours * 3'600) * kSecond;
  if (argc > 2) {
    config.capacity = std::strtoull(argv[2], nullptr, 10);
  }
  const std::clock_t start = std::clock();
  const Report report = Simulation(config).Run();
  const double cpu = static_cast<double>(std::clock() - start) / CLOCKS_PER_SEC;
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  const double kept = Seconds(config.down_for) * static_cast<double>(config.down_rate + config.up_rate);
  std::printf("a topic down for %.1f h at %llu events/s, beside a healthy one at %llu; destination takes %llu/s\n",
              hours, static_cast<unsigned long long>(config.down_rate), static_cast<unsigned long long>(config.up_rate),
              static_cast<unsigned long long>(config.capacity));
  std::printf("  parked rows                      %lld\n", static_cast<long long>(report.parked));
  std::printf("  refusals while it was down       %llu\n", static_cast<unsigned long long>(report.probes));
  std::printf("  rows of progress                 %llu\n", static_cast<unsigned long long>(report.saves));
  std::printf("  engine's events, at most         %.1f MB (process: %.1f MB)\n",
              static_cast<double>(report.peak_engine_bytes) / 1e6, static_cast<double>(usage.ru_maxrss) / 1e3);
  std::printf("  log kept until it has drained    %.1f GB (%.0f B an event, all topics)\n",
              kept * kLogBytesPerEvent / 1e9, kLogBytesPerEvent);
  std::printf("  forked after                     %.3f s\n", Seconds(report.fork_after));
  std::printf("  healthy topic's worst delay      %.3f s well, %.3f s at the fork, %.3f s down, %.3f s draining\n",
              Seconds(report.worst_delay_well), Seconds(report.worst_delay_fork), Seconds(report.worst_delay_down),
              Seconds(report.worst_delay_drain));
  std::printf("  first event after it healed      %.3f s\n", Seconds(report.heal));
  std::printf("  drained and rejoined             %.1f s later\n", Seconds(report.drain));
  std::printf("  events                           %llu, delivered %llu, repeated or out of order %llu\n",
              static_cast<unsigned long long>(report.emitted), static_cast<unsigned long long>(report.delivered),
              static_cast<unsigned long long>(report.duplicates_or_disorder));
  std::printf("  CPU of all this                  %.1f s\n", cpu);
  return report.rejoined && report.parked == 0 && report.duplicates_or_disorder == 0 ? 0 : 1;
}
