#include "sink/kafka/client_settings.h"

#include <algorithm>
#include <cstdlib>
#include <string_view>
#include <utility>

#include "sink/kafka/certificate_verdicts.h"
#include "sink/kafka/errors.h"
#include "sink/options.h"

namespace outbox::sink::kafka {
namespace {

// Records are limited by what the broker takes in one batch: 1,048,588 bytes by default, batch and record heads
// included. A larger record is refused before it is sent, which does not affect other records.
constexpr uint64_t kDefaultMaxRecord = 1048588 - 88;
constexpr uint64_t kUsualRecord = uint64_t{2} << 20;

// The library rejects client ids that fill its buffer in some versions.
constexpr size_t kMaxClientId = 100;

// How long a request may take before its connection is given up. The library's own 60 s is how long the first event
// after a quiet time has to wait if a device on the way to the broker (a NAT, a load balancer: some after 4 minutes)
// has silently dropped the connection. It is less than the 15 s after which a topic counts as stalled (stalled.cpp),
// and no less than this, because brokers may be slow and well:
// - A broker waits for its replicas for request.timeout.ms at most; we give it 2 s less than we wait for its answer. A
//   replica that has died may hold up an answer for 30 s (replica.lag.time.max.ms): the request is sent again then, as
//   often as needed, and the broker knows by the sequence number that it has the batch.
// - A broker that throttles reads nothing meanwhile: throttle.h sends so little then that it answers within seconds.
// - The largest batch has to pass within it: 75 kB/s do for the usual megabyte, and for more there is more time. Where
//   several partitions have one leader, as many batches share the way, up to five; on a slow one batch.size is lowered.
constexpr uint64_t kRequestMs = 14000;
constexpr uint64_t kAnswerMs = 2000;  // of that, for the way there and back
constexpr uint64_t kSlowBytesPerMs = 100;
constexpr uint64_t kLongestRequestMs = 300000;  // the library's own limit
// Below what is known to forget idle connections (240 s), above what costs anything.
constexpr const char* kIdleMs = "180000";

// rd_kafka_version(): the first that logs in by SCRAM as RFC 5802 says (confluentinc/librdkafka#4895), which Kafka
// wants from 4 on; the first that shows all certificates of ssl.certificate.pem (#4894).
constexpr int kScramSince = 0x020601ff;
constexpr int kChainSince = 0x020800ff;
// From the first on, to before the other, the timer that renews a token which the library makes itself uses a queue
// that was never made: the program ends by SIGSEGV, each time (the code of its releases, and tried with 2.0.2).
constexpr int kRenewalCrashesFrom = 0x010900ff;
constexpr int kRenewalWorksFrom = 0x020200ff;
constexpr const char* kBeginsCertificate = "-----BEGIN CERTIFICATE-----";

uint64_t Number(const Options& options, const char* name) {
  const auto found = options.find(name);
  return found == options.end() ? 0 : std::strtoull(found->second.c_str(), nullptr, 10);
}

// The library takes no longest delay that is shorter than the first one (the validator refuses that of a pair): where
// only the first one was chosen, the other one's default makes way.
void SetReconnectBackoff(Settings* settings) {
  constexpr uint64_t kLongestMs = 2000;
  settings->defaults["reconnect.backoff.max.ms"] =
      std::to_string(std::max(kLongestMs, Number(settings->chosen, "reconnect.backoff.ms")));
}

// If only one of the two was chosen, derives the other.
void SetTimeouts(uint64_t max_record, Settings* settings) {
  uint64_t socket = Number(settings->chosen, "socket.timeout.ms");
  const uint64_t request = Number(settings->chosen, "request.timeout.ms");
  if (socket == 0) {
    const uint64_t beyond = max_record > kUsualRecord ? (max_record - kUsualRecord) / kSlowBytesPerMs : 0;
    socket = std::min(std::max(kRequestMs, request + kAnswerMs) + beyond, kLongestRequestMs);
    settings->defaults["socket.timeout.ms"] = std::to_string(socket);
  }
  if (request == 0) {
    const uint64_t most = socket > 2 * kAnswerMs ? socket - kAnswerMs : std::max<uint64_t>(socket / 2, 1);
    settings->defaults["request.timeout.ms"] = std::to_string(std::min<uint64_t>(most, 30000));
  }
}

std::string ClientId(const std::string& destination) {
  std::string id = "outbox";
  for (char c : destination.empty() ? std::string() : "-" + destination) {
    const bool plain =
        (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '-' || c == '_' || c == '.';
    id += plain ? c : '_';
  }
  return id.substr(0, kMaxClientId);
}

Status Choose(const std::string& name, Settings* settings) {
  settings->hash_null_keys = name.find("_random") == std::string::npos;
  if (name == "murmur2_random" || name == "murmur2") {
    settings->partitioner = nullptr;
  } else if (name == "consistent" || name == "consistent_random") {
    settings->partitioner = rd_kafka_msg_partitioner_consistent;
  } else if (name == "fnv1a" || name == "fnv1a_random") {
    settings->partitioner = rd_kafka_msg_partitioner_fnv1a;
  } else {
    return Status(ErrorClass::kConfig, "PARTITIONER", "unknown partitioner: " + name);
  }
  return Status();
}

// Left out if the library does not know them, or was built without them; all others must be accepted.
constexpr const char* kOptional[] = {"enable.metrics.push", "sasl.kerberos.kinit.cmd",
                                     "sasl.kerberos.min.time.before.relogin"};

// What only says how fast or how often something is done, and came with a later version than the oldest that we take:
// left out if the library does not know it, so that a server that was made for a newer one works.
constexpr const char* kTuning[] = {"client.dns.lookup", "metadata.recovery.strategy",
                                   "metadata.recovery.rebootstrap.trigger.ms", "retry.backoff.max.ms"};

template <typename Names>
bool IsIn(const Names& names, const std::string& name) {
  return std::find(std::begin(names), std::end(names), name) != std::end(names);
}

Options Defaults(const SinkConfig& config, uint64_t max_record) {
  return {
      {"client.id", ClientId(config.name)},
      {"linger.ms", "0"},  // batches fill while others are in flight; p50 of a quiet lane is 0.2 ms, with 0.5 here 1.2
      {"batch.num.messages", "10000"},
      {"batch.size", "1000000"},
      {"message.max.bytes", std::to_string(max_record)},
      {"socket.keepalive.enable", "true"},
      {"socket.nagle.disable", "true"},
      {"connections.max.idle.ms", kIdleMs},
      {"topic.metadata.propagation.max.ms", "5000"},
      {"reconnect.backoff.ms", "50"},
  };
}

Options Fixed() {
  return {
      {"enable.idempotence", "true"},
      {"enable.gapless.guarantee", "true"},
      {"acks", "all"},
      {"message.timeout.ms", "0"},                   // a timeout by the library reorders: the engine has its own
      {"allow.auto.create.topics", "true"},          // whether it happens is the broker's setting
      {"queue.buffering.max.messages", "10000000"},  // the budget is the worker's, in bytes
      {"queue.buffering.max.kbytes", "2097151"},
      {"sticky.partitioning.linger.ms", "0"},  // the sink chooses every partition
      {"log.queue", "true"},
      {"log.connection.close", "false"},
      {"enable.metrics.push", "false"},
      // With GSSAPI (the library's default mechanism) it would run kinit in a shell. An empty command means the default
      // one: so a command that does nothing, and no timer that would run even that.
      {"sasl.kerberos.kinit.cmd", ":"},
      {"sasl.kerberos.min.time.before.relogin", "0"},
  };
}

}  // namespace

bool CrashesAtRenewal(const Options& chosen, int version) {
  return version >= kRenewalCrashesFrom && version < kRenewalWorksFrom &&
         TextOption(chosen, "sasl.mechanism", "") == "OAUTHBEARER" &&
         TextOption(chosen, "security.protocol", "").starts_with("sasl_") &&
         BoolOption(chosen, "enable.sasl.oauthbearer.unsecure.jwt", false);
}

Status MakeSettings(const SinkConfig& config, Settings* settings) {
  const uint64_t max_record = std::min<uint64_t>(std::max(kDefaultMaxRecord, config.max_message_bytes), 1000000000);
  settings->defaults = Defaults(config, max_record);
  settings->fixed = Fixed();
  settings->chosen.clear();
  for (const auto& [name, value] : config.options) {
    if (name == "partitioner") {
      if (Status status = Choose(value, settings); !status.ok()) {
        return status;
      }
    } else if (settings->fixed.find(name) == settings->fixed.end()) {
      settings->chosen[name] = value;
      settings->log_to_stderr |= name == "debug";
      if (name == "bootstrap.servers") {
        settings->addresses = 1 + static_cast<int>(std::count(value.begin(), value.end(), ','));
      }
      settings->compresses |= (name == "compression.type" || name == "compression.codec") && value != "none";
    }
  }
  settings->files = NamedFiles(settings->chosen, {"ssl.ca.location", "ssl.crl.location", "ssl.certificate.location",
                                                  "ssl.key.location", "ssl.keystore.location"});
  if (CrashesAtRenewal(settings->chosen, rd_kafka_version())) {
    return Status(ErrorClass::kConfig, "OLD_LIBRARY",
                  "librdkafka " + std::string(rd_kafka_version_str()) +
                      " crashes when it renews a token of \"enable.sasl.oauthbearer.unsecure.jwt\": that takes "
                      "librdkafka 2.2.0");
  }
  SetTimeouts(max_record, settings);
  SetReconnectBackoff(settings);
  settings->linger_micros = static_cast<int64_t>(Number(settings->chosen, "linger.ms")) * 1000;
  settings->patience = {};
  settings->patience.stalled += settings->linger_micros;
  settings->patience.refused += settings->linger_micros;
  rd_kafka_conf_t* conf = nullptr;
  Status status = settings->MakeConf(&conf);
  if (status.ok()) {
    rd_kafka_conf_destroy(conf);
  }
  return status;
}

std::string Settings::Explain(int code, std::string text, int version) const {
  const std::string before = text.substr(0, text.find(" (after ")) + "; librdkafka " + rd_kafka_version_str();
  if (code == RD_KAFKA_RESP_ERR__AUTHENTICATION && version < kScramSince &&
      TextOption(chosen, "sasl.mechanism", "").starts_with("SCRAM")) {
    return before + " cannot log in by SCRAM to Kafka 4 or newer: that takes librdkafka 2.6.1, or another mechanism";
  }
  if (code == RD_KAFKA_RESP_ERR__AUTHENTICATION && TextOption(chosen, "sasl.mechanism", "GSSAPI") == "GSSAPI") {
    return text.substr(0, text.find(" (after ")) + kOfKerberos +
           (text.find("No worthy mechs") == std::string::npos
                ? "logs in with the ticket of the server's user, valid now and in a file"
                : "takes a module of libsasl2 that is not here (Debian: libsasl2-modules-gssapi-mit)");
  }
  const std::string certificates = TextOption(chosen, "ssl.certificate.pem", "");
  const size_t first = certificates.find(kBeginsCertificate);
  if (RefusesCertificate(text) && version < kChainSince && first != std::string::npos &&
      certificates.find(kBeginsCertificate, first + 1) != std::string::npos) {
    return before + " shows only the first certificate of ssl.certificate.pem: ssl.certificate.location shows all";
  }
  return code == RD_KAFKA_RESP_ERR__SSL ? WithVerdict(std::move(text)) : text;
}

std::string Settings::WhyNone(const char* said) const {
  std::string unusable = files.Unusable();  // of which OpenSSL says no more than "BIO lib"
  if (!unusable.empty()) {
    return unusable;
  }
  // The library names the option: "ssl.ca.location failed: ...".
  const std::string text = said;
  const std::string file = files.Describe(text.substr(0, text.find(' ')));
  return file.empty() ? text : text + " (" + file + ")";
}

Status Settings::MakeConf(rd_kafka_conf_t** conf) const {
  rd_kafka_conf_t* made = rd_kafka_conf_new();
  char text[512];
  for (const Options* options : {&defaults, &chosen, &fixed}) {
    for (const auto& [name, value] : *options) {
      const rd_kafka_conf_res_t result = rd_kafka_conf_set(made, name.c_str(), value.c_str(), text, sizeof text);
      if (result == RD_KAFKA_CONF_OK || IsIn(kOptional, name) ||
          (result == RD_KAFKA_CONF_UNKNOWN && IsIn(kTuning, name))) {
        continue;
      }
      rd_kafka_conf_destroy(made);
      // The library's own text may repeat the value, which may be a secret.
      const bool unbuilt = std::string_view(text).find("not supported in this build") != std::string_view::npos;
      return Status(ErrorClass::kConfig, "OPTION",
                    "librdkafka " + std::string(rd_kafka_version_str()) +
                        (result == RD_KAFKA_CONF_UNKNOWN ? " does not know the option \""
                         : unbuilt                       ? " was built without what it needs for the option \""
                                                         : " refuses the value of \"") +
                        name + "\"");
    }
  }
  NoteCertificates(made);
  rd_kafka_conf_set_events(made, RD_KAFKA_EVENT_DR | RD_KAFKA_EVENT_ERROR | RD_KAFKA_EVENT_LOG);
  *conf = made;
  return Status();
}

}  // namespace outbox::sink::kafka
