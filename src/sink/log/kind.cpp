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
  return std::make_unique<LogSink>(options, std::move(write_line));
}

}  // namespace

// What Kafka takes, in words for users who do not have one.
constexpr TopicTemplateRules kTemplate = {
    .aggregate_id = false,
    .no_aggregate_id = "{aggregate_id} is not allowed in the topic template of a route to the server log",
    .no_aggregate_id_hint =
        "A route that was tried with the log goes to Kafka as it is, and no broker bears a topic per "
        "aggregate. The key template is the place for it.",
    .literal = IsPortableTopicCharacter,
    .literals = "Letters, digits, \".\", \"_\" and \"-\" are allowed.",
    .bad_name = BadPortableTopic,
    .names =
        "Topics have 1 to 249 of the characters A-Z, a-z, 0-9, dot, underscore and hyphen, so that the route can go "
        "to any broker.",
};

extern const SinkKind kKind;
constinit const SinkKind kKind = {
    .wrapper = "outbox_log",
    .title = "the server log",
    .make = Make,
    .options = OptionRules,
    .topic_template = &kTemplate,  // a route that was tried with the log goes to Kafka as it is
    .bad_topic = BadFreeTopic,     // it can write any name: no name makes a dead letter
};

}  // namespace outbox::sink::log
