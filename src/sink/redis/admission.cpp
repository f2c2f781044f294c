#include "sink/redis/admission.h"

#include <cstdint>
#include <cstdio>
#include <string>
#include <utility>

#include "base/murmur2.h"
#include "sink/options.h"

namespace outbox::sink {
namespace {

constexpr const char* kUntold = "?";  // log/loss knows it, too

// Of what the options come to, however they are written: a default that is written out is the same server. What runs
// are known by in the tables, so it is never changed: a default host and port count as if written, database 0 as if
// not.
std::string HashOfEndpoint(const Options& options) {
  const std::string socket = TextOption(options, "unix_socket", "");
  const int64_t db = IntegerOption(options, "db", 0);
  std::string endpoint = socket.empty() ? TextOption(options, "host", "localhost") + "\n" +
                                              std::to_string(IntegerOption(options, "port", 6379)) + "\n"
                                        : "\n\n";
  endpoint += (db == 0 ? "" : std::to_string(db)) + "\n" + socket + "\n";
  char hash[9];
  snprintf(hash, sizeof(hash), "%08x", static_cast<unsigned>(Murmur2(endpoint)));
  return hash;
}

}  // namespace

Admission::Admission(const SinkConfig& config)
    : checks_server_(config.checks_server), endpoint_(HashOfEndpoint(config.options)) {}

bool Admission::Meet(const ServerInfo& info, bool tells) {
  constexpr size_t kPart = 16;
  untold_ = false;
  if (!checks_server_ || info.run_id.empty()) {
    return true;
  }
  std::string server_run = endpoint_ + "." + info.run_id.substr(0, kPart) + "." + info.history.substr(0, kPart);
  server_run += tells ? "" : kUntold;
  if (server_run == admitted_) {
    return true;
  }
  Report(std::move(server_run));
  return false;
}

bool Admission::ReportUntold() {
  if (!untold_ || identity_.server_run.empty() || identity_.server_run.ends_with(kUntold)) {
    return false;
  }
  Report(identity_.server_run + kUntold);
  return true;
}

bool Admission::Admit(const std::string& server_run) {
  if (server_run != identity_.server_run) {
    return false;
  }
  admitted_ = server_run;
  Report({});
  return true;
}

void Admission::Forget() {
  if (!identity_.server_run.empty()) {
    Report({});
  }
}

void Admission::Report(std::string server_run) {
  identity_.server_run = std::move(server_run);
  ++identity_.number;
}

}  // namespace outbox::sink
