// What the engine needs to remember of the servers that a destination was [-]: which streams may have lost something
// when another run of it answers. Implemented by log/ over outbox.server_run, by fakes in unit tests.
//
// Single-threaded; calls and errors as in lane_log.h.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "base/status.h"
#include "sink/sink.h"

namespace outbox::relay {

class ServerLog {
 public:
  virtual ~ServerLog() = default;

  // The streams to ask about next, of those that lanes of the destination, of all workers, wrote to under other runs.
  // `ends`: all that has been answered about this meeting so far, nothing at first. None: that is enough, or there is
  // nothing to ask, or a worker has done so.
  virtual Status Streams(const std::string& run, std::span<const sink::StreamEnd> ends,
                         std::vector<std::string>* streams) = 0;

  // Whether a run that ends there has lost anything that another one of it had acknowledged.
  virtual Status Lost(const std::string& run, std::span<const sink::StreamEnd> ends, bool* lost) = 0;

  // What the run still had when it was first met, before any of us wrote to it. Of several workers' the first counts.
  virtual Status Record(const std::string& run, std::span<const sink::StreamEnd> ends) = 0;
};

}  // namespace outbox::relay
