// One destination meets its servers [-]: before anything is written to a run that it does not know, what that run has
// lost is found out, and the lanes that it concerns are rewound. README.md here, "A server that has lost something".
//
// A run that has lost something is met twice, on two connections some seconds apart, before that is believed: while a
// name or an address moves from one server to another, an empty one may answer for a moment.
//
// Single-threaded; owned by the destination.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "base/backoff.h"
#include "relay/engine.h"
#include "relay/server_log.h"
#include "relay/turn.h"
#include "sink/sink.h"

namespace outbox::relay {

class Lane;

class Meetings {
 public:
  // `log` may be nullptr: then whoever comes is admitted.
  explicit Meetings(std::unique_ptr<ServerLog> log);

  // The run that was admitted last; "": none was.
  const std::string& run() const { return run_; }
  // What the sink waits for, as far as it can be done now. `lanes`: all of the destination, side lanes too. True when
  // it did something.
  bool Step(sink::Sink* sink, std::span<Lane* const> lanes, TurnContext* turn);
  // When Step wants to be called again; kNever.
  int64_t next_try() const { return waiting_ ? next_try_ : kNever; }
  // Another sink, or other settings.
  void SetLog(std::unique_ptr<ServerLog> log) { log_ = std::move(log); }
  void Reset() { number_ = 0; }

 private:
  enum class Phase : uint8_t {
    kSave,    // what was acknowledged until now, under the run before
    kAsk,     // which streams, and where they end
    kAwait,   // the answers, after which there may be more to ask
    kRecord,  // what it has; a loss only at the second meeting
    kRewind,  // the lanes that have lost something
  };
  bool Failed(const Status& status, TurnContext* turn);
  bool NotYet(TurnContext* turn);
  void Admit(sink::Sink* sink, const std::string& run);

  std::unique_ptr<ServerLog> log_;
  std::string run_;
  Phase phase_ = Phase::kSave;
  uint64_t number_ = 0;   // of the meeting that phase_ is about
  bool rewound_ = false;  // a lane was, since the last Admit
  bool waiting_ = false;
  int64_t next_try_ = 0;
  Backoff backoff_;
  std::vector<sink::StreamEnd> ends_;  // all answers of the meeting
  int questions_ = 0;
  std::string doubted_;  // a run that has lost something and is met once more before that is believed
};

}  // namespace outbox::relay
