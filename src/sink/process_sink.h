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
#include <optional>
#include <string>
#include <vector>

#include "sink/child_process.h"
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

  pid_t pid() const { return process_.pid(); }             // -1: not running
  const std::string& library() const { return library_; }  // "librdkafka 2.0.2" once Ready has come; "" before
  uint64_t starts() const { return process_.starts(); }    // times a process was started

 private:
  // How much the process sends without resolving anything: one that keeps doing so would keep its worker busy.
  class Chatter {
   public:
    void Add(size_t bytes) { bytes_ += static_cast<int64_t>(bytes); }
    void Forgive();  // takes off what time has forgiven since the last call
    void Reset() { bytes_ = 0; }
    bool too_much() const;

   private:
    int64_t bytes_ = 0;
    int64_t forgiven_at_ = 0;
  };

  void Start();
  void Exchange(std::vector<Result>* results);
  void CheckHung();
  void AwaitExit();
  // The longest time from one Poll() to the next that counts as silence.
  int64_t LongestStep() const { return int64_t{config_.alive_ms} * 1000 / 2; }
  // The connection is of no use any more, or there is none: aborts everything, then the process is reaped. Its death is
  // counted once it is known how it ended.
  void Lost(Error error);
  void Handle(const Frame& frame, std::vector<Result>* results);
  bool TakeResults(const Frame& frame, std::vector<Result>* results);
  // Lost when no process runs: the next one reports the server again.
  void Tell(FrameType type, const std::string& body);
  void SetIdentity(std::string server_run);
  bool Resolve(const Result& result);
  void SetHealth(bool up, Error error, Error warning, bool sending = false);

  const std::string executable_;
  const SinkConfig config_;
  ChildProcess process_;
  FrameReader reader_;
  FrameWriter writer_;
  Chatter chatter_;
  Health health_;
  std::string library_;
  PendingRecords pending_;
  FlowGate gate_;
  std::vector<Result> refused_;  // aborted at Submit; reported by the next Poll
  Places places_;
  size_t place_bytes_ = 0;  // of places_, about
  int64_t places_due_ = 0;  // places that came, less the records resolved since
  ServerIdentity identity_;
  size_t asked_ = 0;                            // streams; no more answers than that
  std::optional<std::vector<StreamEnd>> ends_;  // the answers; nullopt: not yet, or taken
  bool closed_ = false;
};

}  // namespace outbox::sink
