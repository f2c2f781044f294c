// What the engine needs to remember of the runs of a destination's server [-]: which streams may have lost something
// when another run answers. Implemented by log/ over outbox_internal.server_run, by fakes in unit tests.
//
// Single-threaded; calls and errors as in lane_log.h.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "base/status.h"
#include "sink/sink.h"

namespace outbox::relay {

class ServerRuns {
 public:
  virtual ~ServerRuns() = default;

  // Whether lanes that have lost something are put back; if not, there is only a warning.
  virtual bool resend() const = 0;

  // The streams to ask about next, of those that lanes of any route, of all workers, wrote to under other runs of the
  // same server, wherever they write to now. `ends`: all that this run has answered so far, nothing at first. No
  // streams: that is enough, or there is nothing to ask that another worker has not asked about.
  virtual Status Streams(const std::string& server_run, std::span<const sink::StreamEnd> ends,
                         std::vector<sink::AskedStream>* streams) = 0;

  // Whether a run whose streams end there has lost anything that an earlier run had acknowledged.
  virtual Status Lost(const std::string& server_run, std::span<const sink::StreamEnd> ends, bool* lost) = 0;

  // Records what the run still had of what is noted; no `ends`: it did not tell. If several workers record, each adds
  // what it has asked about, and a loss that one has found counts, until another run is recorded at that address.
  virtual Status Record(const std::string& server_run, std::span<const sink::StreamEnd> ends) = 0;
};

}  // namespace outbox::relay
