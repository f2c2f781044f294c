// relay::ServerRuns over outbox_internal.server_run [P behind, no Postgres type in sight]: what each run of one
// destination's server still had when it was first seen. For use in a relay worker only, like PgLaneLog.
//
// What is lost is what a run lacks that is younger than all it has kept (Survived()), or than what is left of its own
// stream (memory_end). Of a stream that others write to, the end alone tells nothing of that.
//
// Each worker asks about what was noted by then, its own lanes' last acknowledgements too, which it has just saved.
// What others note later, under a run before, is not spoken for: where nothing is lost, what is recorded (`survived`)
// is the highest id noted, and nothing above it passes for kept. The worker that has noted more, or one that comes
// after it, asks again and raises that, or finds a loss and lowers it. A lane that another worker loads before that, or
// a parked event, counts as lost: it is sent twice at worst.
//
// The end of a run's memory is found by bisection. The first question is about the streams that were written to last,
// and one from each second, two seconds, four seconds ... back to the oldest progress that is kept: with a topic per
// aggregate the newest streams may all be gone, and the older ones tell how far back the loss goes. The next questions
// are about those between the newest that exists and the oldest that does not, until they are less than a second apart.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "log/loss/memory_end.h"
#include "relay/common/server_runs.h"

namespace outbox::log {

// What was noted under other runs when it was read which streams to ask about.
struct Noted {
  bool covered = false;  // nothing was asked: a worker before has
  bool any = false;
  bool ahead = false;              // some ids of it are ahead of the clock
  std::string id = "0-0";          // the highest of the others
  std::string own;                 // and of those that this process acknowledged while it would not tell
  int64_t at = MemoryEnd::kNever;  // when the newest of it was noted
};

class PgServerRuns final : public relay::ServerRuns {
 public:
  // `resend`: lanes that have lost something are put back; else there is only a warning.
  PgServerRuns(std::string server, bool resend) : server_(std::move(server)), resend_(resend) {}

  bool resend() const override { return resend_; }
  Status Streams(const std::string& server_run, std::span<const sink::StreamEnd> ends,
                 std::vector<sink::AskedStream>* streams) override;
  Status Lost(const std::string& server_run, std::span<const sink::StreamEnd> ends, bool* lost) override;
  Status Record(const std::string& server_run, std::span<const sink::StreamEnd> ends) override;

 private:
  void LimitToNoted(MemoryEnd* end) const;

  const std::string server_;
  const bool resend_;
  std::vector<Sample> samples_;  // of the run that is being checked
  Noted noted_;
};

}  // namespace outbox::log
