// relay::ServerLog over outbox.server_run [P behind, no Postgres type in sight]: what the runs of one destination still
// had when they were met. For use in a relay worker only, like PgLaneLog.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "relay/server_log.h"

namespace outbox::log {

class PgServerLog final : public relay::ServerLog {
 public:
  // `resend`: lanes that have lost something are put back; else it is only said.
  PgServerLog(std::string server, bool resend) : server_(std::move(server)), resend_(resend) {}

  Status Streams(const std::string& run, std::vector<std::string>* streams) override;
  Status Record(const std::string& run, std::span<const sink::StreamEnd> ends) override;

 private:
  const std::string server_;
  const bool resend_;
};

}  // namespace outbox::log
