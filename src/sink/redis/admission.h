// Which run of the Redis server may be written to [-].
//
// A server with another run id or history than the last may have lost what was acknowledged. With
// SinkConfig::checks_server nothing is written to it before the owner has asked where its streams end, and has admitted
// it. A process that was a replica meanwhile has its old run id and another history (ServerInfo). A server that
// tells neither is not checked.
//
// One that does not tell where its streams end (XINFO is refused, or a stream may not be read) is met under a name of
// its own, which ends with a "?". Once it tells, another connection meets it without: it is asked then.
#pragma once

#include <string>

#include "sink/protocol.h"
#include "sink/redis/server_info.h"
#include "sink/sink.h"

namespace outbox::sink {

class Admission {
 public:
  explicit Admission(const SinkConfig& config);

  // The server has let the sink in. True: it may be written to; false: the owner has to admit this run first.
  // `tells`: it may be asked where streams end, for all that is known.
  bool Meet(const ServerInfo& info, bool tells);
  // The run that waits was asked about a stream, and this user may not be told.
  void NoteUntold() { untold_ = true; }
  // True, after that: it waits under its other name now, and is to be asked again.
  bool ReportUntold();
  // False: that is not the run that waits; it has gone meanwhile, and another will be reported.
  bool Admit(const std::string& server_run);
  // The connection is lost. A run that was admitted stays so.
  void Forget();
  bool checks_server() const { return checks_server_; }
  // The run that waits to be admitted.
  const ServerIdentity& identity() const { return identity_; }

 private:
  void Report(std::string server_run);

  const bool checks_server_;
  // Distinguishes the configured Redis from others: a run of another one is not a later run of this one.
  const std::string endpoint_;
  std::string admitted_;
  bool untold_ = false;
  ServerIdentity identity_;
};

}  // namespace outbox::sink
