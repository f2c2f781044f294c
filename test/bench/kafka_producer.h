// A producer of librdkafka with the settings that outbox gives its own: for programs that are measured beside it.
#pragma once

#include <librdkafka/rdkafka.h>

#include <cstdio>
#include <cstdlib>
#include <string>
#include <vector>

namespace bench {

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
  rd_kafka_t* client = rd_kafka_new(RD_KAFKA_PRODUCER, conf, text, sizeof text);
  if (client == nullptr) {
    fprintf(stderr, "librdkafka: %s\n", text);
    exit(1);
  }
  return client;
}

}  // namespace bench
