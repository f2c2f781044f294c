// A sink in a process of its own [-]: starts a sink executable and carries the Sink interface to it (protocol.h).
//
// Why: a client library that crashes, asserts, blocks or is OOM-killed must not take a server process with it. When
// the process dies, all its unresolved records are reported kAborted, in order, with the next Poll(); health goes down
// (SINK_DIED: which signal or exit code) and counts it; and it is started again: at once the first time, with back-off
// up to 5 s when it keeps dying young without having delivered (each quarter of a second that it was well takes one
// step off, so that killing it now and then does not make it come back later and later). Records submitted while none
// runs wait for the next.
//
// What a death says about the records depends on how the process ended, so all this is told once that is known: a crash
// (SIGSEGV, SIGABRT, SIGSYS where a sandbox forbids what it did) or an exit may be a record's doing; a SIGKILL that
// this process did not send says nothing, or that a record takes too much memory.
//
// A process that hangs (stopped, a deadlock, an endless loop) is killed and replaced: SINK_HUNG. It sends something
// every SinkConfig::alive_ms (2 s); after five times that in silence, 10 s, it is given up. Its loop never stays that
// long in one call: the calls of the Kafka library do not block, except for questions about topics in trouble, for
// which one turn waits 1 s at most; those of hiredis do not either; names are resolved in a thread of their own. Until
// it is ready it has 30 s: a program may come from a slow disk, or find out about certificates. Only time counts in
// which the owner itself was running: one second at most from one Poll() to the next, so that no process is killed
// because the machine was paused, or the worker stopped or waited for a lock. A sink process held in a debugger for
// longer is killed.
//
// An attacker who has taken the process over gets nowhere from here: its answers are checked against what it was given,
// cost no more than some 16 MB, and a process that sends too much is killed (SINK_PROTOCOL). What the process can do by
// itself: confine.h.
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
  void TakePlaces(std::vector<Place>* places) override {
    places_.Take(places);
    place_bytes_ = 0;
  }
  const ServerIdentity* identity() const override { return &identity_; }
  void Ask(std::vector<AskedStream> streams) override {
    asked_ = streams.size();
    Tell(FrameType::kAsk, EncodeAsk(streams));
  }
  bool TakeEnds(std::vector<StreamEnd>* ends) override;
  void IdentifyAgain() override;
  void Admit(const std::string& server_run, bool drop) override;
  // At most 200 ms: asks, gives it 100 ms to go, kills, reaps. One that is stuck in the kernel even then is reaped by a
  // later call of any ProcessSink of this process.
  void Close() override;

  pid_t pid() const { return pid_; }                       // -1: not running
  const std::string& library() const { return library_; }  // "librdkafka 2.0.2" once Ready has come; "" before
  uint64_t starts() const { return starts_; }              // times a process was started

 private:
  void Start();
  void Exchange(std::vector<Result>* results);
  void Died(Error error);  // as Lost; the death is counted once it is known how it ended
  void CountDeath(const int* status);
  void CheckHung();
  // The longest time from one Poll() to the next that counts as silence.
  int64_t LongestStep() const { return int64_t{config_.alive_ms} * 1000 / 2; }
  void CountFailure();
  void Lost(Error error);  // the socket is of no use any more: aborts everything, then the process is reaped
  void AwaitExit();
  void Handle(const Frame& frame, std::vector<Result>* results);
  bool TakeResults(const Frame& frame, std::vector<Result>* results);
  void Tell(FrameType type,
            const std::string& body);  // lost when no process runs: the next one reports the server again
  void SetIdentity(std::string server_run);
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
  ServerIdentity identity_;
  size_t place_bytes_ = 0;   // of places_, about
  int64_t places_due_ = 0;   // places that came, less the records resolved since
  int64_t chatter_ = 0;      // bytes that it sent lately without resolving anything
  int64_t forgiven_at_ = 0;  // when some of them were last taken off
  std::vector<StreamEnd> ends_;
  size_t asked_ = 0;             // streams; no more answers than that
  bool answered_ = false;        // ends_ are to be taken
  std::vector<Result> refused_;  // aborted at Submit; reported by the next Poll
  uint64_t starts_ = 0;
  int64_t started_at_ = 0;  // monotonic microseconds
  int64_t ready_at_ = 0;    // 0: not yet
  int64_t polled_at_ = 0;
  int64_t silent_ = 0;      // microseconds that this process has run since it was heard
  int64_t lost_at_ = 0;     // when the socket was lost; fd_ is -1 and pid_ not: waiting for the process to end
  int64_t wake_at_ = -1;    // when to look at the dying process again, or to start; -1: neither
  int failures_ = 0;        // deaths in a row, each within a few seconds of its start and without a delivery
  bool delivered_ = false;  // this process has
  bool killed_ = false;     // by this sink, because it hung, or lingered after its socket was lost
  bool died_ = false;       // unasked, and has not been counted
  bool closed_ = false;
};

}  // namespace outbox::sink
