#include "sink/redis/admission.h"

#include <cstdio>
#include <utility>

#include "base/murmur2.h"
#include "sink/options.h"

namespace outbox::sink {
namespace {

std::string HashOfEndpoint(const Options& options) {
  std::string endpoint;
  for (const char* name : {"host", "port", "db", "unix_socket"}) {
    endpoint += TextOption(options, name, "") + "\n";
  }
  char hash[9];
  snprintf(hash, sizeof(hash), "%08x", static_cast<unsigned>(Murmur2(endpoint)));
  return hash;
}

}  // namespace

Admission::Admission(const SinkConfig& config)
    : checks_server_(config.checks_server), endpoint_(HashOfEndpoint(config.options)) {}

bool Admission::Meet(const ServerInfo& info) {
  constexpr size_t kPart = 16;
  if (!checks_server_ || info.run_id.empty()) {
    return true;
  }
  std::string server_run = endpoint_ + "." + info.run_id.substr(0, kPart) + "." + info.replication_id.substr(0, kPart);
  if (server_run == admitted_) {
    return true;
  }
  Report(std::move(server_run));
  return false;
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
