// outbox-sink-kafka: the Kafka sink as a process of its own, started by relay workers.
#include <librdkafka/rdkafka.h>

#include <unistd.h>

#include <algorithm>
#include <string>

#include "sink/kafka/kafka_checkup.h"
#include "sink/kafka/kafka_sink.h"
#include "sink/serve.h"

// Read by jemalloc, where that is the program's malloc (`needs`): two arenas do for the threads of one client, and what
// a drain took goes back to the system soon after. MALLOC_CONF in the server's environment adds to it.
extern "C" {
const char* malloc_conf =
    "narenas:2,dirty_decay_ms:1000,muzzy_decay_ms:0,background_thread:true,max_background_threads:1";
}

namespace {

// Kerberos keeps tickets there.
bool TemporaryFiles(const outbox::sink::Options& options) {
  return std::any_of(options.begin(), options.end(), [](const auto& option) {
    return option.second == "GSSAPI" || option.first.starts_with("sasl.kerberos.");
  });
}

}  // namespace

int main() {
  const outbox::sink::SinkProgram program{.library = std::string("librdkafka ") + rd_kafka_version_str(),
                                          .make = outbox::sink::kafka::KafkaSink::Make,
                                          .kind = outbox::sink::FindKind("outbox_kafka"),
                                          .temporary_files = TemporaryFiles,
                                          .checkup = outbox::sink::kafka::CheckUp};
  // Not exit(): threads of the library may still be letting go, and destructors of statics would run under them.
  _exit(outbox::sink::Serve(program));
}
