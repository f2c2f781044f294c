// A second connection to the server that a sink writes to [-]: while the server executes a transaction of one
// connection, the records of the next are queued on the other (writer.h).
//
// It comes when somebody wants it and goes when that was ten seconds ago. Nothing depends on it: one that cannot be
// had, or that meets another run of the server than the first one has, is tried again after ten seconds. A server that
// does not say which run it is gets none: behind a name may be another one by now. One that was lost while records were
// executed there, which stops all, is not had again soon, the more often the later.
//
// Used by one thread; nothing blocks. Times are monotonic microseconds.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "sink/redis/command_pipeline.h"
#include "sink/redis/server_info.h"

namespace outbox::sink {

class SecondConnection {
 public:
  // `login`: what a connection says first. `connect_timeout` until it may be used, microseconds.
  SecondConnection(Address address, std::shared_ptr<TlsContext> tls, std::vector<std::string> login,
                   int64_t connect_timeout)
      : pipeline_(std::move(address), std::move(tls)), login_(std::move(login)), connect_timeout_(connect_timeout) {}

  // The server that it has to meet, as the first connection was told. Drops what there is.
  void Expect(const ServerInfo& server);
  // True: it may be used now. False: it comes, later or never.
  bool Want();
  // It is lost, or silent, while it owes an answer.
  void Failed();
  // Nobody has wanted it for a while: time to drop it.
  bool Unwanted();
  // Moves bytes and calls handlers. An error: it could be used, and is lost; it has been dropped.
  Status Poll();
  void Drop();
  // `timeout` for an answer.
  void AppendWaits(int64_t timeout, std::vector<WaitSpec>* waits) const;
  Pipeline* pipeline() { return &pipeline_; }

 private:
  enum class State { kAway, kConnecting, kGreeting, kReady };

  void Greet();

  Pipeline pipeline_;
  const std::vector<std::string> login_;
  const int64_t connect_timeout_;
  State state_ = State::kAway;
  ServerInfo expected_;
  ServerInfo met_;
  bool refused_ = false;  // while it greets
  int64_t connect_by_ = 0;
  int64_t wanted_at_ = 0;
  int64_t again_at_ = 0;   // not before
  unsigned failures_ = 0;  // since one was not needed any more
};

}  // namespace outbox::sink
