// The main loop of a sink executable [-]: the far end of ProcessSink. The main.cpp of a kind calls it.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "base/status.h"
#include "sink/checkup.h"
#include "sink/kind.h"
#include "sink/protocol.h"
#include "sink/sink.h"

namespace outbox::sink {

inline constexpr int kSinkSocket = 3;  // the descriptor a sink process finds its socket on
// The exit code of one that ends because a new one can read files that were renewed, and it cannot (confine.h).
inline constexpr int kExitShutOut = 3;

// What an executable provides. `make` returns a sink or a reason (class kConfig: an option the library refuses); with a
// reason the process stays, reports itself down with it, aborts what it is given and tries to make it again every few
// seconds, until it is closed.
struct SinkProgram {
  std::string library;  // "librdkafka 2.0.2": told to the worker in Ready
  Status (*make)(const SinkConfig& config, std::unique_ptr<Sink>* sink) = nullptr;
  // Whose options it is given: they say which of them name files and sockets. nullptr: none does.
  const SinkKind* kind = nullptr;
  // With these options it needs /tmp (see confine.h). nullptr: never.
  bool (*temporary_files)(const Options& options) = nullptr;
  // Tries the destination out and writes nothing there; may block for request.timeout_ms, and longer.
  std::vector<CheckupRow> (*checkup)(const CheckupRequest& request) = nullptr;
};

// Serves kSinkSocket until it closes, and says something every SinkConfig::alive_ms: a call of the sink that takes much
// longer looks like a hang to the worker. Returns the exit code; never waits for the destination (a Sink's Close() is
// quick). Sets the process up first: dies with its parent, is the OOM killer's first choice, no core dump (it holds
// secrets and payloads), SIGPIPE ignored, confined (confine.h). While the sink holds more than `pending_limit` bytes of
// unresolved records the socket is not read: the worker has the real budget, this is the backstop.
int Serve(const SinkProgram& program, size_t pending_limit = size_t{64} << 20);

}  // namespace outbox::sink
