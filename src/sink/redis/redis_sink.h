// The Redis sink [-]: streams, lists and channels of one server, in order (hiredis 0.14.1 to 1.2).
//
// Connects, greets, and connects again; under load it has a second connection to the same server; what it speaks of is
// in its parts: `Admission` which run of the server may be written to, `StreamEnds` what a server still has, `Writer`
// the records. A server that cannot answer is not admitted: a replica, one that is loading its data, a Sentinel. It has
// not lost what it lacks, and the next one to answer may be the right one.
//
// A server that may throw streams away when its memory is full (maxmemory-policy allkeys-...) is Health::warning
// EVICTION; one that does not answer, or not this user, what the check for lost writes asks is NO_LOSS_CHECK, once
// there are streams; one that refuses transactions is NO_TRANSACTIONS. Every ten seconds it is asked again, the latter
// by a connection. So is a proxy of several servers, of which now one and now another answers INFO. SILENT is one that
// owes an answer for long, where the option timeout waits for longer.
//
// Health goes down when the connection is lost with something on its way, or cannot be made, and up when the server has
// let us in. While it is down records wait for the next attempt, and are aborted when that fails. A connection that is
// closed at rest is made again at once, as nothing was lost with it. Options: options.cpp.
#pragma once

#include <memory>
#include <random>
#include <string>
#include <vector>

#include "base/backoff.h"
#include "sink/protocol.h"
#include "sink/redis/admission.h"
#include "sink/redis/command_pipeline.h"
#include "sink/redis/second_connection.h"
#include "sink/redis/server_info.h"
#include "sink/redis/stream_ends.h"
#include "sink/redis/writer.h"
#include "sink/sink.h"

namespace outbox::sink {

class RedisSink : public Sink {
 public:
  // Errors: class kConfig. Connects at the first Poll().
  static Status Make(const SinkConfig& config, std::unique_ptr<Sink>* sink);
  static std::string Library();  // "hiredis 0.14.1"

  void Submit(Batch batch) override;
  void Poll(std::vector<Result>* results) override;
  void AppendWaits(std::vector<WaitSpec>* waits) override;
  const Health& health() const override { return health_; }
  // A stream's range is that of the transactions which carried the flow's records; where flows share a stream, an end
  // may be another flow's. Lists and channels have no places, only names.
  void TakePlaces(std::vector<Place>* places) override { writer_.outcomes()->TakePlaces(places); }
  const ServerIdentity* identity() const override { return &admission_.identity(); }
  void Ask(std::vector<AskedStream> streams) override;
  bool TakeEnds(std::vector<StreamEnd>* ends) override;
  void IdentifyAgain() override;
  void Admit(const std::string& server_run, bool drop) override;
  void Close() override;

 private:
  enum class State {
    kWaiting,     // until retry_at_, then connects
    kConnecting,  // to the socket, TLS not yet
    kGreeting,    // AUTH, SELECT, INFO, an empty transaction, PING
    kAwaitingAdmission,
    kReady,
    kLeaving,  // as soon as nothing is on its way, to see which server answers there by now
    kClosed,
  };

  RedisSink(const SinkConfig& config, std::shared_ptr<TlsContext> tls);

  void Connect();
  void Greet();
  void AskWhetherLetIn();
  void Introduce();
  void AskForInfo();
  void CheckRun(const redisReply& reply);
  void Meet();
  void LeaveIfIdle();
  void Reconnect();
  bool ClosedAtRest(const Status& advanced) const;
  void Pump();
  void PumpSecond();
  void Enter();
  void AskWhileIdle();
  void CheckMemory();
  void AskForStream(const Pipeline::Handler& then);
  void CheckIds(const redisReply& reply);
  void TryReading();
  bool ReadsFirst() const;
  void NoteUnchecked(const std::string& why, const std::string& advice);
  void NoteRefused(const char* command, const redisReply& reply);
  void NoteStreamRefused(const std::string& stream, const redisReply& reply);
  void NoteSingles();
  void ShowWarning();
  void ShowSending(bool outcomes);
  const Pipeline& Executes();
  Error Silence();
  void CheckDeadlines();
  // The connection is of no use. Nothing if `error` is ok().
  void Lost(Error error);
  void SetHealth(bool up, Error error);

  const std::vector<std::string> login_;  // secret
  const int64_t connect_timeout_;         // microseconds
  const int64_t timeout_;                 // microseconds

  State state_ = State::kWaiting;
  Health health_;
  int64_t outcome_at_ = 0;  // the last of any record
  Error eviction_;          // warnings
  Error ids_ahead_;
  Error no_loss_check_;
  bool info_refused_ = false;  // when it was last asked how the memory is set up
  struct Reading {
    std::string stream;
    bool refused = false;
  };
  Reading reading_;  // what TryReading() is about
  Error no_transactions_;
  int64_t transactions_again_at_ = 0;  // while that is set
  Pipeline pipeline_;
  SecondConnection second_;
  ServerInfo server_;  // at the other end, since it was greeted
  Admission admission_;
  StreamEnds stream_ends_;
  Writer writer_;
  int64_t retry_at_ = 0;
  int64_t connect_by_ = 0;
  int64_t ready_since_ = 0;
  int64_t check_memory_at_ = 0;  // next CheckMemory()
  Backoff backoff_;              // of connections in a row that brought nothing
  std::mt19937_64 random_;
};

}  // namespace outbox::sink
