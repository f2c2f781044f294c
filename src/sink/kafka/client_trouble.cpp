#include "sink/kafka/client_trouble.h"

#include <algorithm>
#include <cstdlib>
#include <string_view>
#include <utility>

#include "base/monotonic.h"
#include "sink/kafka/certificate_verdicts.h"
#include "sink/kafka/errors.h"
#include "sink/kafka/metadata.h"

namespace outbox::sink::kafka {
namespace {

// After a connection that the other side has closed: it says nothing of why, and the next try may. At least so long,
// and longer where the caller has more time.
constexpr int64_t kHungUpMicros = 3'000'000;
constexpr int kHungUpPart = 4;  // of the time that the caller gives
// Of an idempotent producer, in the library's figures.
constexpr std::string_view kHasNumber = R"("idemp_state": "Assigned")";

// Where something else than Kafka answers, the library takes the first four bytes for the length of an answer, and
// advises to allow answers that long. Returns these bytes if they are text, else "".
std::string NotKafka(const Error& error) {
  constexpr std::string_view kSays = "nvalid response size ";
  const size_t at = error.message.find(kSays);
  if (error.code != "_BAD_MSG" || at == std::string::npos) {
    return "";
  }
  const auto size = static_cast<uint32_t>(std::strtoul(error.message.c_str() + at + kSays.size(), nullptr, 10));
  std::string bytes;
  for (int shift = 24; shift >= 0; shift -= 8) {
    bytes += static_cast<char>(size >> shift & 0xff);
  }
  const bool text = std::all_of(bytes.begin(), bytes.end(), [](char c) { return c >= ' ' && c <= '~'; });
  return text ? bytes : "";
}

// A broker that throttles a connection reads nothing from it meanwhile: it looks like one that does not answer.
std::string MayBeQuota(const std::string& code) {
  return code == "TIMEOUT" || code == "_TIMED_OUT"
             ? " Or a quota of the brokers holds the connection back: outbox.destination says THROTTLED where it holds "
               "back events, too."
             : "";
}

}  // namespace

std::string ConnectionHint(const Error& error) {
  if (const std::string bytes = NotKafka(error); !bytes.empty()) {
    return bytes == "HTTP" ? "An HTTP server listens there (Kafka's REST proxy, a console, a registry?), not a broker: "
                             "bootstrap.servers wants the port of a Kafka listener, mostly 9092."
                           : "Something else than Kafka listens there: its answer begins with \"" + bytes +
                                 "\". bootstrap.servers wants the port of a Kafka listener, mostly 9092.";
  }
  if (error.code == "_RESOLVE") {
    return "Are the names in bootstrap.servers right, and known to the resolver of the database server's machine?";
  }
  if (error.message.find(kOfKerberos) != std::string::npos) {
    return "On the database server's machine: libsasl2's module for Kerberos, and a ticket of the server's user in a "
           "file "
           "(KRB5CCNAME: not KCM: or KEYRING:), kept fresh by k5start or a client keytab; sasl.kerberos.service.name "
           "and "
           "the names in bootstrap.servers have to be those of the brokers' principals.";
  }
  if (error.code == "_AUTHENTICATION" || error.code == "SASL_AUTHENTICATION_FAILED") {
    return "sasl.mechanism and security.protocol are options of the server, sasl.username and sasl.password of the "
           "user mapping that counts: ALTER USER MAPPING ... SERVER ... OPTIONS (SET \"sasl.password\" '...').";
  }
  if (RefusesCertificate(error.message)) {
    return "The broker refuses the certificate that it is shown, or that it is shown none: ssl.certificate.pem and "
           "ssl.key.pem of the user mapping (or ssl.certificate.location and ssl.key.location of the server) have to "
           "be of "
           "an authority that the broker trusts, and valid now.";
  }
  if (error.code == "_SSL" && OutOfDates(error.message)) {
    return "A certificate that the broker shows is out of its dates, by this machine's clock: it has to be renewed at "
           "the broker (one of an authority in ssl.ca.pem, too), or the clock set right.";
  }
  if (error.code == "_SSL") {
    return "ssl.ca.pem has the certificates of the authority that signed the brokers'; the names in bootstrap.servers "
           "have to be those of the certificates, which have to be valid now, by this machine's clock; a listener "
           "without TLS wants another security.protocol.";
  }
  return "Does Kafka run and listen there (bootstrap.servers), no firewall between? A listener for TLS or SASL hangs "
         "up on clients without: see security.protocol." +
         MayBeQuota(error.code);
}

std::string LeaderHint(const std::string& code) {
  return "That is the address under which the cluster says it is found (advertised.listeners of the broker); it has "
         "to be reachable from the database server, not only bootstrap.servers." +
         MayBeQuota(code);
}

ClientTrouble::ClientTrouble(const Settings& settings, rd_kafka_t* handle, int timeout_ms)
    : settings_(settings),
      handle_(handle),
      queue_(rd_kafka_queue_get_main(handle)),
      hung_up_patience_(std::max(kHungUpMicros, int64_t{timeout_ms} * 1000 / kHungUpPart)) {
  rd_kafka_set_log_queue(handle_, queue_);
}

void ClientTrouble::Take(int timeout_ms) {
  while (rd_kafka_event_t* event = rd_kafka_queue_poll(queue_, timeout_ms)) {
    if (rd_kafka_event_type(event) == RD_KAFKA_EVENT_ERROR) {
      TakeError(event);
    } else if (rd_kafka_event_type(event) == RD_KAFKA_EVENT_STATS) {
      const std::string_view figures = rd_kafka_event_stats(event);
      may_write_ |= figures.find(kHasNumber) != std::string_view::npos;
    } else if (rd_kafka_event_type(event) == RD_KAFKA_EVENT_LOG) {
      if (std::string said = NoProducerId(event); !said.empty()) {
        ++refusals_;
        no_id_ = std::move(said);
      }
    }
    rd_kafka_event_destroy(event);
    timeout_ms = 0;
  }
  fatal_ = FatalError(handle_);
}

void ClientTrouble::TakeError(rd_kafka_event_t* event) {
  int code = rd_kafka_event_error(event);
  const char* said = rd_kafka_event_error_string(event);
  std::string text = said == nullptr ? "" : said;
  if (code == RD_KAFKA_RESP_ERR__FATAL) {
    return;  // FatalError() has it
  }
  code = EventCode(code, text);
  // Where TLS was begun, "disconnected" is an unexpected end, or a reset. A connection that never was is "Connect to".
  hung_up_ |= code == RD_KAFKA_RESP_ERR__TRANSPORT && text.find("Connect to ") == std::string::npos;
  first_at_ = first_at_ == 0 ? MonotonicMicros() : first_at_;
  text = settings_.Explain(code, std::move(text));
  const ErrorClass error_class = EventClass(code);
  said_.push_back({MonotonicMicros(), MakeError(code, error_class, text)});
  if (code != RD_KAFKA_RESP_ERR__ALL_BROKERS_DOWN && (error_.ok() || error_class == ErrorClass::kConfig)) {
    error_ = MakeError(code, error_class, std::move(text));
  }
}

int64_t ClientTrouble::GiveUpAt(int addresses) const {
  const int64_t patience = kOthersMicros * addresses;
  const bool unclear = hung_up_ && error_.error_class != ErrorClass::kConfig;
  return first_at_ == 0 ? 0 : first_at_ + (unclear ? std::max(patience, hung_up_patience_) : patience);
}

const ClientTrouble::Said* ClientTrouble::Of(const std::string& address) const {
  const Said* found = nullptr;
  for (const Said& said : said_) {
    if (SpeaksOf(said.error.message, address) && (found == nullptr || found->error.error_class != ErrorClass::kConfig ||
                                                  said.error.error_class == ErrorClass::kConfig)) {
      found = &said;
    }
  }
  return found;
}

}  // namespace outbox::sink::kafka
