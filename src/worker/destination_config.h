// Destinations as a relay worker uses them [P behind, no Postgres type in sight]: foreign servers with their options
// and secrets, checked again, and the sinks made of them.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "base/status.h"
#include "relay/common/server_runs.h"
#include "sink/kind.h"
#include "sink/sink.h"

namespace outbox::worker {

struct DestinationConfig {
  uint32_t oid = 0;  // of the foreign server; 0: no server has that name
  std::string name;
  const sink::SinkKind* kind = &sink::kUnknownKind;
  sink::Options options;  // merged, canonical, secrets included: never log them
  Error problem;          // why it cannot be used; ok() if it can
  bool operator==(const DestinationConfig& other) const;
};

// Returns one per name, in order. The mapping used is that of the server's owner, else that of the extension's
// (`owner`), else the one for PUBLIC. Runs its own transaction; throws pg::PgError.
std::vector<DestinationConfig> LoadDestinations(const std::vector<std::string>& names, uint32_t owner);

// Limits that sinks are given, from the settings.
struct SinkLimits {
  uint64_t max_message_bytes = 0;
  uint64_t max_inflight_bytes = 0;
  bool operator==(const SinkLimits& other) const = default;
};

// In the postmaster, once: servers go on with the programs that were beside the library when it was loaded, see
// sink::KeepProgram().
void KeepSinkPrograms();
// At load, in every process: sinks start where the server's open data files leave room for their sockets.
void CountSinkDescriptors();
// A destination with a problem gives a sink that is down and says why.
std::unique_ptr<sink::Sink> MakeSink(const DestinationConfig& config, const SinkLimits& limits);
// Returns nullptr if runs of a server of this kind cannot be told apart (SinkKind::resends_lost).
std::unique_ptr<relay::ServerRuns> MakeServerRuns(const DestinationConfig& config);

}  // namespace outbox::worker
