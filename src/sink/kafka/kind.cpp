// Apache Kafka as a destination: see sink/kind.h.
#include "sink/kind.h"

#include "base/topic_name.h"
#include "sink/kafka/options.h"
#include "sink/option_rules.h"

namespace outbox::sink::kafka {

namespace {

OptionProblem CheckMerged(const Options& options) {
  std::string protocol = TextOption(options, "security.protocol", "plaintext");
  if (HasOption(options, "sasl.password") && !protocol.starts_with("sasl_")) {
    return {kInvalidValue, "option \"sasl.password\" has no effect with security.protocol \"" + protocol + "\"",
            "The brokers would be used without authentication.", "Set security.protocol to sasl_ssl."};
  }
  return {};
}

}  // namespace

extern const SinkKind kKind;
constinit const SinkKind kKind = {
    .wrapper = "outbox_kafka",
    .title = "Kafka",
    .program = "outbox-sink-kafka",
    .options = OptionRules,
    .options_hint = "Options are the producer properties of librdkafka, under their own names.",
    .required = {"bootstrap.servers", "A Kafka destination is found through at least one host:port.", "host:9092"},
    .check_merged = CheckMerged,
    .topic_template = &kPortableTopicTemplate,
    .bad_topic = BadPortableTopic,
};

}  // namespace outbox::sink::kafka
