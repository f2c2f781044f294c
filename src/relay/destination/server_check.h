// Server identity check of one destination [-]: before anything is written to an unknown run of its server, it is found
// out what that run has lost, and the lanes concerned are rewound. README.md here, "A server that has lost something".
//
// A run that has lost something is met twice, on two connections some seconds apart, before that is believed: while a
// name or an address moves from one server to another, an empty one may answer for a moment. What a run has answered
// holds for it over all its connections, until another one is met: what other clients write and delete meanwhile may
// hide a loss from whoever asks again.
//
// While that cannot be found out (a table is locked, a page of it is damaged) nothing is written: what the run lacks
// would never be missed again. That is trouble of the destination.
//
// Single-threaded; owned by the destination.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "relay/common/call_retry.h"
#include "relay/common/engine_types.h"
#include "relay/common/server_runs.h"
#include "relay/common/turn.h"
#include "sink/sink.h"

namespace outbox::relay {

// A lane, as the check needs it.
class CheckedLane {
 public:
  enum class Acceptance : uint8_t {
    kLater,     // call again
    kAccepted,  // what is acknowledged from now on is acknowledged by this run
    kPutBack,   // the run has lost what another one had acknowledged: the lane leaves, to begin further back
  };
  // False: call again. Then, and with kLater: *why becomes what is in the way, unless the lane only waits for its turn.
  virtual bool SaveAcknowledged(TurnContext* turn, Error* why) = 0;
  virtual Acceptance AcceptServer(const std::string& server_run, TurnContext* turn, Error* why) = 0;

 protected:
  ~CheckedLane() = default;
};

class ServerCheck {
 public:
  // `log` may be nullptr: then every run is admitted.
  explicit ServerCheck(std::unique_ptr<ServerRuns> log);

  // The run that was admitted last; "": none was.
  const std::string& server_run() const { return server_run_; }
  // Lanes that have lost something are put back.
  bool resend() const { return log_ == nullptr || log_->resend(); }
  // What the sink waits for, as far as it can be done now. `lanes`: all of the destination, side lanes too. True when
  // it did something.
  bool Step(sink::Sink* sink, std::span<CheckedLane* const> lanes, TurnContext* turn);
  // Why the run that waits to be admitted is not, as of the last Step; ok(): nothing is in the way, or for a moment
  // only.
  const Error& trouble() const { return trouble_; }
  // When Step wants to be called again; kNever.
  int64_t next_try() const { return next_try_; }
  // Whether lanes were put back when that run was met: nothing that waits may come before what is sent again.
  bool put_back() const { return put_back_; }
  // Another sink, or other settings.
  void SetLog(std::unique_ptr<ServerRuns> log) {
    log_ = std::move(log);
    Forget();
  }
  void Reset() { number_ = 0; }

 private:
  enum class Phase : uint8_t {
    kSave,    // what was acknowledged until now, under the run before
    kAsk,     // which streams, and where they end
    kAwait,   // the answers, after which there may be more to ask
    kRecord,  // what it has; a loss only when it is met the second time
    kRewind,  // the lanes that have lost something
  };
  enum class Next : uint8_t {
    kPhase,  // the phase has changed: its step is next
    kWait,
    kDone,  // with this server run
  };
  bool Check(sink::Sink* sink, std::span<CheckedLane* const> lanes, TurnContext* turn);
  Next StepPhase(sink::Sink* sink, const std::string& server_run, std::span<CheckedLane* const> lanes,
                 TurnContext* turn);
  Next Save(std::span<CheckedLane* const> lanes, TurnContext* turn);
  Next Ask(sink::Sink* sink, const std::string& server_run, const TurnContext& turn);
  Next Await(sink::Sink* sink);
  Next Record(sink::Sink* sink, const std::string& server_run, const TurnContext& turn);
  Next Rewind(sink::Sink* sink, const std::string& server_run, std::span<CheckedLane* const> lanes, TurnContext* turn);

  bool Failed(const Status& status, const TurnContext& turn);
  Next RetryLater(const Error& why, const TurnContext& turn);
  void Tell(const TurnContext& turn);
  Next GoTo(Phase phase);
  void Admit(sink::Sink* sink, const std::string& server_run);
  void Forget();

  std::unique_ptr<ServerRuns> log_;
  std::string server_run_;
  Phase phase_ = Phase::kSave;
  uint64_t number_ = 0;   // of the identity that phase_ is about
  int questions_ = 0;     // to it
  bool rewound_ = false;  // a lane was, since the last Admit
  bool put_back_ = false;
  int64_t next_try_ = kNever;
  CallRetry retry_;
  Error trouble_;
  std::string asked_run_;              // that waits, or did when it was met last
  std::vector<sink::StreamEnd> ends_;  // all answers of that run so far
  bool doubted_ = false;               // it has lost something, and is met once more before that is believed
};

}  // namespace outbox::relay
