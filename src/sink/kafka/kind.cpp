// Apache Kafka as a destination: see sink/kind.h.
#include "sink/kind.h"

#include "base/topic_name.h"
#include "sink/kafka/options.h"
#include "sink/option_rules.h"

namespace outbox::sink::kafka {

namespace {

// What the library would refuse together, only once a client is made: the destination would stand for good.
OptionProblem CheckTogether(const Options& options) {
  const int64_t first = IntegerOption(options, "reconnect.backoff.ms", 0);
  const int64_t longest = IntegerOption(options, "reconnect.backoff.max.ms", first);
  if (longest < first) {
    return {kInvalidValue, "option \"reconnect.backoff.max.ms\" is below \"reconnect.backoff.ms\"",
            "The longest delay is " + std::to_string(longest) + " ms, the first one " + std::to_string(first) + " ms.",
            "Set reconnect.backoff.max.ms to at least that, or leave it out."};
  }
  if (HasOption(options, "https.ca.pem") && HasOption(options, "https.ca.location")) {
    return {kInvalidValue, "options \"https.ca.pem\" and \"https.ca.location\" exclude each other", "",
            "Leave one of them out."};
  }
  if (TextOption(options, "sasl.oauthbearer.method", "default") == "oidc" &&
      BoolOption(options, "enable.sasl.oauthbearer.unsecure.jwt", false)) {
    return {kInvalidValue,
            "option \"enable.sasl.oauthbearer.unsecure.jwt\" and \"sasl.oauthbearer.method\" oidc exclude each other",
            "Tokens are made by the client itself, or fetched from elsewhere.", "Leave one of them out."};
  }
  return {};
}

OptionProblem CheckMerged(const Options& options) {
  std::string protocol = TextOption(options, "security.protocol", "plaintext");
  if (HasOption(options, "sasl.password") && !protocol.starts_with("sasl_")) {
    return {kInvalidValue, "option \"sasl.password\" has no effect with security.protocol \"" + protocol + "\"",
            "The brokers would be used without authentication.", "Set security.protocol to sasl_ssl."};
  }
  // The library waits for a token then, for ever and without a word.
  if (TextOption(options, "sasl.mechanism", "") == "OAUTHBEARER" && protocol.starts_with("sasl_") &&
      TextOption(options, "sasl.oauthbearer.method", "default") != "oidc" &&
      !BoolOption(options, "enable.sasl.oauthbearer.unsecure.jwt", false)) {
    return {
        kInvalidValue, "sasl.mechanism OAUTHBEARER has no source of tokens", "Nothing says where to fetch one.",
        "Set sasl.oauthbearer.method to oidc and sasl.oauthbearer.token.endpoint.url on the server (superusers), and "
        "sasl.oauthbearer.client.id and .secret in the user mapping."};
  }
  return {};
}

// As Java's clients, command line tools and other databases have it.
constexpr const char* kBrokers = "Brokers are in \"bootstrap.servers\": host:port, comma-separated.";
constexpr const char* kTrust =
    "Certificates of the authorities to trust are in \"ssl.ca.pem\", as text; a superuser may name a file in "
    "\"ssl.ca.location\". Java's key stores are not read.";
constexpr const char* kLogin =
    "Use \"security.protocol\" and \"sasl.mechanism\" of the server, and \"sasl.username\" and \"sasl.password\" of a "
    "user mapping.";
constexpr const char* kWire = "Leave it out: payloads are published as they were emitted.";
constexpr ForeignOption kForeign[] = {
    {"brokers", kBrokers},
    {"broker", kBrokers},
    {"broker.list", kBrokers},
    {"hosts", kBrokers},
    {"host", kBrokers},
    {"port", kBrokers},
    {"servers", kBrokers},
    {"server", kBrokers},
    {"url", kBrokers},
    {"ssl.truststore.location", kTrust},
    {"ssl.truststore.password", kTrust},
    {"ssl.truststore.type", kTrust},
    {"ssl.truststore.certificates", kTrust},
    {"sasl.jaas.config", kLogin},
    {"username", kLogin},
    {"user", kLogin},
    {"password", kLogin},
    {"max.request.size", "The largest record is \"message.max.bytes\"."},
    {"buffer.memory", "What is in flight is bounded by the setting outbox.max_inflight."},
    {"max.block.ms",
     "Leave it out: emit() waits for no broker, and what is in flight is bounded by outbox.max_inflight."},
    {"key.serializer", kWire},
    {"value.serializer", kWire},
    {"topic", "Topics are of routes: outbox.create_route(..., topic => ...)."},
};

}  // namespace

extern const SinkKind kKind;
constinit const SinkKind kKind = {
    .wrapper = "outbox_kafka",
    .title = "Kafka",
    .program = "outbox-sink-kafka",
    .options = OptionRules,
    .options_hint = "Options are the producer properties of librdkafka, under their own names.",
    .foreign_options = kForeign,
    .required = {"bootstrap.servers", "A Kafka destination is found through at least one host:port.", "host:9092"},
    .check_together = CheckTogether,
    .check_merged = CheckMerged,
    .topic_template = &kPortableTopicTemplate,
    .bad_topic = BadPortableTopic,
    .gather_micros = 2000,
};

}  // namespace outbox::sink::kafka
