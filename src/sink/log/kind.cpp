// The server log as a destination: first steps with no broker. See sink/kind.h.
#include "sink/kind.h"

#include "base/topic_name.h"
#include "sink/log/log_sink.h"
#include "sink/option_rules.h"

namespace outbox::sink::log {

namespace {

std::span<const OptionRule> OptionRules() {
  using G = OptionGroup;
  static constexpr OptionRule kRules[] = {
      rules::Integer(G::kOwner, "body_limit", 0, 100000, "bytes of each payload to print (default 1000)"),
  };
  return kRules;
}

std::unique_ptr<Sink> Make(const Options& options, WriteLine write_line) {
  return std::make_unique<LogSink>(options, write_line);
}

}  // namespace

extern const SinkKind kKind;
constinit const SinkKind kKind = {
    .wrapper = "outbox_log",
    .title = "the server log",
    .make = Make,
    .options = OptionRules,
    .topic_template = &kPortableTopicTemplate,  // a route that was tried with the log goes to Kafka as it is
    .bad_topic = BadFreeTopic,                  // it can write any name: no name makes a dead letter
};

}  // namespace outbox::sink::log
