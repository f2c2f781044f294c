// A sink in a process of its own [-]: starts a sink executable and carries the Sink interface to it (protocol.h).
//
// Why: a client library that crashes, asserts, blocks or is OOM-killed must not take a server process with it. When
// the process dies, all its unresolved records are reported kAborted, in order, with the next Poll(); health goes down
// (SINK_DIED: which signal or exit code) and counts it; and it is started again: at once the first time, with back-off
// up to 5 s when it keeps dying young without having delivered. Records submitted while none runs wait for the next.
//
// The owner is a Postgres background worker: nothing here blocks, touches signal handlers, or waits for any child but
// its own. No secret is in arguments or environment: configuration goes over the socket.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <string>
#include <vector>

#include "sink/flow_gate.h"
#include "sink/pending.h"
#include "sink/places.h"
#include "sink/protocol.h"
#include "sink/sink.h"

namespace outbox::sink {

class ProcessSink : public Sink {
 public:
  // Starts at once. `executable` is an absolute path.
  ProcessSink(std::string executable, SinkConfig config);
  ~ProcessSink() override;
  ProcessSink(const ProcessSink&) = delete;
  ProcessSink& operator=(const ProcessSink&) = delete;

  void Submit(Batch batch) override;
  void Poll(std::vector<Result>* results) override;
  void AppendWaits(std::vector<WaitSpec>* waits) override;
  const Health& health() const override { return health_; }
  void TakePlaces(std::vector<Place>* places) override { places_.Take(places); }
  // At most 200 ms: asks, gives it 100 ms to go, kills, reaps. One that is stuck in the kernel even then is reaped by a
  // later call of any ProcessSink of this process.
  void Close() override;

  pid_t pid() const { return pid_; }                       // -1: not running
  const std::string& library() const { return library_; }  // "librdkafka 2.0.2" once Ready has come; "" before
  uint64_t starts() const { return starts_; }              // times a process was started

 private:
  void Start();
  void Exchange(std::vector<Result>* results);
  void Died(Error error);  // counts it, then as Lost
  void Lost(Error error);  // the socket is of no use any more: aborts everything, then the process is reaped
  void AwaitExit();
  void Handle(const Frame& frame, std::vector<Result>* results);
  bool Resolve(const Result& result);
  void SetHealth(bool up, Error error, Error warning);
  bool Reap(int* status);

  const std::string executable_;
  const SinkConfig config_;
  Health health_;
  std::string library_;
  pid_t pid_ = -1;
  int fd_ = -1;
  FrameReader reader_;
  FrameWriter writer_;
  PendingRecords pending_;
  FlowGate gate_;
  Places places_;
  std::vector<Result> refused_;  // aborted at Submit; reported by the next Poll
  uint64_t starts_ = 0;
  int64_t started_at_ = 0;  // monotonic microseconds
  int64_t lost_at_ = 0;     // when the socket was lost; fd_ is -1 and pid_ not: waiting for the process to end
  int64_t wake_at_ = -1;    // when to look at the dying process again, or to start; -1: neither
  int failures_ = 0;        // deaths in a row, each within a few seconds of its start and without a delivery
  bool delivered_ = false;  // this process has
  bool killed_ = false;     // by us, because it lingered after its socket was lost
  bool closed_ = false;
};

}  // namespace outbox::sink
