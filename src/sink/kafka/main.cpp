// outbox-sink-kafka: the Kafka sink as a process of its own, started by relay workers.
#include <librdkafka/rdkafka.h>

#include <unistd.h>

#include <string>

#include "sink/kafka/kafka_sink.h"
#include "sink/serve.h"

int main() {
  const outbox::sink::SinkProgram program{.library = std::string("librdkafka ") + rd_kafka_version_str(),
                                          .make = outbox::sink::kafka::KafkaSink::Make};
  // Not exit(): threads of the library may still be letting go, and destructors of statics would run under them.
  _exit(outbox::sink::Serve(program));
}
