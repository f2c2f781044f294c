// Redis (or Valkey) as a destination: see sink/kind.h.
#include "sink/kind.h"

#include "base/topic_name.h"
#include "sink/option_rules.h"
#include "sink/redis/options.h"

namespace outbox::sink::redis {

namespace {

constexpr RouteOption kRouteOptions[] = {{"mode", "stream|list|publish"}};

RecordForm Form(const OptionList& route_options) {
  const std::string_view mode = RouteOptionValue(route_options, "mode");
  return mode == "list" ? RecordForm::kList : mode == "publish" ? RecordForm::kPublish : RecordForm::kStream;
}

// As openssl writes it today, or as it did.
bool IsEncrypted(const std::string& key) {
  return key.find("-----BEGIN ENCRYPTED PRIVATE KEY-----") != std::string::npos ||
         key.find("Proc-Type: 4,ENCRYPTED") != std::string::npos;
}

OptionProblem CheckTogether(const Options& options) {
  if (IsEncrypted(TextOption(options, "key_pem", ""))) {
    return {kInvalidValue, "the private key of option \"key_pem\" is encrypted", "Nobody types its passphrase.",
            "Use what openssl pkey -in encrypted.pem -out key.pem writes."};
  }
  if (HasOption(options, "unix_socket") && (HasOption(options, "host") || HasOption(options, "port"))) {
    return {kInvalidValue, "option \"unix_socket\" cannot be combined with \"host\" or \"port\"", "", ""};
  }
  for (const char* name : {"tls_server_name", "tls_verify", "ca_pem", "ca_file", "certificate_file", "key_file"}) {
    if (HasOption(options, name) && !BoolOption(options, "tls", false)) {
      return {kInvalidValue, "option \"" + std::string(name) + "\" needs TLS", "", "Add the option tls 'true'."};
    }
  }
  return {};
}

OptionProblem CheckMerged(const Options& options) {
  if (HasOption(options, "username") && !HasOption(options, "password")) {
    return {kInvalidValue, "option \"username\" needs \"password\"", "", ""};
  }
  if (HasOption(options, "certificate_pem") != HasOption(options, "key_pem")) {
    return {kInvalidValue, "options \"certificate_pem\" and \"key_pem\" belong together", "", ""};
  }
  if (HasOption(options, "certificate_pem") && !BoolOption(options, "tls", false)) {
    return {kInvalidValue, "option \"certificate_pem\" needs TLS", "", "Add the option tls 'true' to the server."};
  }
  return {};
}

// As other clients and addresses have it.
constexpr const char* kAddress =
    "Use host, port, db and tls of the server, and username and password of a user mapping.";
constexpr const char* kOne =
    "outbox writes to one Redis server: host and port have to name the primary itself, not a Sentinel nor a cluster.";
constexpr const char* kTls = "Use tls 'true'; certificates of the authorities to trust are in ca_pem.";
constexpr const char* kMode =
    "Streams, lists and channels are chosen by routes: outbox.create_route(..., options => ...).";
constexpr ForeignOption kForeign[] = {
    {"url", kAddress},
    {"uri", kAddress},
    {"dsn", kAddress},
    {"hostname", kAddress},
    {"address", kAddress},
    {"addr", kAddress},
    {"server", kAddress},
    {"sentinel", kOne},
    {"sentinels", kOne},
    {"cluster", kOne},
    {"nodes", kOne},
    {"master_name", kOne},
    {"ssl", kTls},
    {"tls_ca", kTls},
    {"ca", kTls},
    {"ssl_ca_certs", kTls},
    {"cacert", kTls},
    {"mode", kMode},
    {"stream", kMode},
    {"channel", kMode},
    {"socket", "Use unix_socket (superusers) instead of host and port."},
    {"path", "Use unix_socket (superusers) instead of host and port."},
};

bool ResendsLost(const Options& options) {
  return TextOption(options, "on_lost_writes", "resend") == "resend";
}

}  // namespace

extern const SinkKind kKind;
constinit const SinkKind kKind = {
    .wrapper = "outbox_redis",
    .title = "Redis",
    .program = "outbox-sink-redis",
    .options = OptionRules,
    .foreign_options = kForeign,
    .check_together = CheckTogether,
    .check_merged = CheckMerged,
    .route_options = kRouteOptions,
    .route_options_hint =
        "Routes to Redis take mode (stream, list, publish) and topics_known; the other options belong to the server.",
    .form = Form,
    .bad_topic = BadFreeTopic,
    .content_type_name = "content_type",  // fields of a stream entry: hyphens and colons are ours
    .header_prefix = "h:",
    .has_fields = {true, false, false},
    .needs_field = true,
    .gather_micros = 1000,
    .resends_lost = ResendsLost,
};

}  // namespace outbox::sink::redis
