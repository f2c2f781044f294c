// relay::ServerLog over outbox.server_run [P behind, no Postgres type in sight]: what the runs of one destination still
// had when they were met. For use in a relay worker only, like PgLaneLog.
//
// Where a run's memory ends is looked for as in a dictionary. First are asked the streams that were written to last,
// and one of each second, two seconds, four seconds ... back to the oldest progress that is kept: of a topic per
// aggregate the newest streams may all be gone, and the older ones tell how much more is not. Then those between the
// newest that is there and the oldest that is not, until they are less than a second apart.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "relay/server_log.h"

namespace outbox::log {

class PgServerLog final : public relay::ServerLog {
 public:
  // `resend`: lanes that have lost something are put back; else it is only said.
  PgServerLog(std::string server, bool resend) : server_(std::move(server)), resend_(resend) {}

  Status Streams(const std::string& run, std::span<const sink::StreamEnd> ends,
                 std::vector<std::string>* streams) override;
  Status Lost(const std::string& run, std::span<const sink::StreamEnd> ends, bool* lost) override;
  Status Record(const std::string& run, std::span<const sink::StreamEnd> ends) override;

  // A stream that was asked about, and under which id it had something acknowledged, and when.
  struct Probe {
    int64_t at = 0;            // Postgres microseconds
    std::string acknowledged;  // stream id
    std::string stream;
  };

 private:
  const std::string server_;
  const bool resend_;
  std::vector<Probe> probes_;  // of the meeting
};

}  // namespace outbox::log
