// A producer of librdkafka with the settings that outbox gives its own: for programs that are measured beside it.
#pragma once

#include <librdkafka/rdkafka.h>
#include <time.h>

#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <vector>

namespace bench {

// What the calling thread has taken of CPU, in nanoseconds.
inline int64_t ThreadCpu() {
  timespec time{};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time);
  return int64_t{time.tv_sec} * 1'000'000'000 + time.tv_nsec;
}

// What the library's threads of all producers took, added when each ends: whole after rd_kafka_destroy().
inline std::atomic<int64_t> producer_threads_cpu{0};

inline rd_kafka_resp_err_t CountThreads(rd_kafka_t* client, const rd_kafka_conf_t*, void*, char*, size_t) {
  return rd_kafka_interceptor_add_on_thread_exit(
      client, "cpu",
      [](rd_kafka_t*, rd_kafka_thread_type_t, const char*, void*) {
        producer_threads_cpu += ThreadCpu();
        return RD_KAFKA_RESP_ERR_NO_ERROR;
      },
      nullptr);
}

using OnReport = void (*)(rd_kafka_t*, const rd_kafka_message_t*, void*);

// `more`: property=value, of -X. Ends the program where librdkafka does not take one.
inline rd_kafka_t* ConnectProducer(const std::string& bootstrap, const std::vector<std::string>& more,
                                   OnReport on_report) {
  std::vector<std::string> properties = {"bootstrap.servers=" + bootstrap,
                                         "enable.idempotence=true",
                                         "enable.gapless.guarantee=true",
                                         "acks=all",
                                         "message.timeout.ms=0",
                                         "partitioner=murmur2_random",
                                         "linger.ms=0",
                                         "batch.num.messages=10000",
                                         "batch.size=1000000",
                                         "socket.nagle.disable=true",
                                         "queue.buffering.max.messages=200000"};
  properties.insert(properties.end(), more.begin(), more.end());
  rd_kafka_conf_t* conf = rd_kafka_conf_new();
  char text[512] = "not property=value";
  for (const std::string& property : properties) {
    const size_t equals = property.find('=');
    if (equals == std::string::npos ||
        rd_kafka_conf_set(conf, property.substr(0, equals).c_str(), property.substr(equals + 1).c_str(), text,
                          sizeof text) != RD_KAFKA_CONF_OK) {
      fprintf(stderr, "-X %s: %s\n", property.c_str(), text);
      exit(1);
    }
  }
  rd_kafka_conf_set_dr_msg_cb(conf, on_report);
  rd_kafka_conf_interceptor_add_on_new(conf, "cpu", CountThreads, nullptr);
  rd_kafka_t* client = rd_kafka_new(RD_KAFKA_PRODUCER, conf, text, sizeof text);
  if (client == nullptr) {
    fprintf(stderr, "librdkafka: %s\n", text);
    exit(1);
  }
  return client;
}

}  // namespace bench
