#include "sink/kafka/certificate_verdicts.h"

#include <map>
#include <mutex>
#include <utility>

#include "sink/kafka/metadata.h"

namespace outbox::sink::kafka {
namespace {

constexpr std::string_view kFailed = "certificate verify failed";  // OpenSSL's words, as those below
constexpr const char* kExpired = "certificate has expired";
constexpr const char* kNotYet = "certificate is not yet valid";
constexpr size_t kMostBrokers = 1000;

// By X509_V_ERR_...: the program links no OpenSSL of its own.
constexpr std::pair<int, const char*> kReasons[] = {
    {3, "unable to get certificate CRL"},
    {7, "certificate signature failure"},
    {9, kNotYet},
    {10, kExpired},
    {11, "CRL is not yet valid"},
    {12, "CRL has expired"},
    {18, "self-signed certificate"},
    {19, "self-signed certificate in certificate chain"},
    {20, "unable to get local issuer certificate"},
    {21, "unable to verify the first certificate"},
    {23, "certificate revoked"},
    {24, "invalid CA certificate"},
    {26, "unsuitable certificate purpose"},
    {62, "hostname mismatch"},
    {64, "IP address mismatch"},
    {66, "EE certificate key too weak"},
    {67, "CA certificate key too weak"},
    {68, "CA signature digest algorithm too weak"},
};

std::string Reason(int error, int depth) {
  for (const auto& [code, text] : kReasons) {
    if (code == error) {
      return std::string(text) + (depth == 0 ? "" : " (of an authority above the broker's)");
    }
  }
  return "error " + std::to_string(error) + " of OpenSSL's verification";
}

// The library calls from its own threads, for clients that may outlive whoever has made them.
struct Verdicts {
  std::mutex mutex;
  std::map<std::string, std::string> of_broker;  // the newest, by host and port
};

Verdicts& All() {
  static auto* verdicts = new Verdicts;
  return *verdicts;
}

// Called for each certificate of a chain, and again for whatever is wrong with it.
int Note(rd_kafka_t* /*client*/, const char* broker, int32_t /*id*/, int* error, int depth, const char* /*der*/,
         size_t /*size*/, char* /*text*/, size_t /*text_size*/, void* /*opaque*/) noexcept {
  try {
    Verdicts& all = All();
    const std::lock_guard lock(all.mutex);
    if (*error == 0) {
      all.of_broker.erase(broker);
    } else {
      if (all.of_broker.size() >= kMostBrokers) {
        all.of_broker.clear();
      }
      all.of_broker[broker] = Reason(*error, depth);
    }
  } catch (...) {  // no memory: then nothing is known
  }
  return *error == 0 ? 1 : 0;
}

}  // namespace

void NoteCertificates(rd_kafka_conf_t* conf) {
  char on[8] = "";
  size_t size = sizeof on;
  if (rd_kafka_conf_get(conf, "enable.ssl.certificate.verification", on, &size) == RD_KAFKA_CONF_OK &&
      std::string_view(on) == "true") {
    rd_kafka_conf_set_ssl_cert_verify_cb(conf, Note);  // refused by a library that was built without TLS
  }
}

std::string WithVerdict(std::string text) {
  const size_t at = text.find(kFailed);
  if (at == std::string::npos) {
    return text;
  }
  Verdicts& all = All();
  const std::lock_guard lock(all.mutex);
  for (const auto& [broker, reason] : all.of_broker) {
    if (SpeaksOf(text, broker)) {
      return text.substr(0, at + kFailed.size()) + ": " + reason;
    }
  }
  return text;
}

bool OutOfDates(std::string_view text) {
  return text.find(kExpired) != std::string_view::npos || text.find(kNotYet) != std::string_view::npos;
}

}  // namespace outbox::sink::kafka
