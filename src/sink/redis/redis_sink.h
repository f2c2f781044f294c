// The Redis sink [-]: streams, lists and channels of one server, in order (hiredis 0.14.1 to 1.2).
//
// Streams: one script call per stream and batch, one call on its way per stream, many streams at once. The script stops
// at the first refused record (scripts.h). Where scripts are forbidden: XADD in a pipeline, never two records of a key
// at once. Lists: one RPUSH of many values, which is all or nothing. Channels: a script, or PUBLISH as XADD above.
//
// A stream entry has the fields `key` and `payload` (each absent where the record has none), then the record's own. A
// list or channel gets the payload alone; a tombstone is the empty string there.
//
// A server with another run id or replication id than the last may have lost what was acknowledged. With
// SinkConfig::checks_server nothing is written to it before the owner has asked where its streams end, and has admitted
// it. A server that cannot answer is not checked: a replica, one that is loading its data, a Sentinel. It has not lost
// what it lacks, and the next one to answer may be the right one.
//
// A server that may throw streams away when its memory is full (maxmemory-policy allkeys-...) is Health::warning
// EVICTION; one whose user may not ask what the check for lost writes asks is NO_LOSS_CHECK, once there are streams.
//
// Health goes down when the connection is lost or cannot be made, and up when the server has let us in. While it is
// down records wait for the next attempt, and are aborted when that fails. Options: options.cpp.
#pragma once

#include <deque>
#include <map>
#include <memory>
#include <random>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "sink/flow_gate.h"
#include "sink/places.h"
#include "sink/protocol.h"
#include "sink/redis/connection.h"
#include "sink/redis/targets.h"
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
  // A stream's range is that of the calls which carried the flow's records; where flows share a stream, an end may be
  // another flow's. Lists and channels have no places, only names.
  void TakePlaces(std::vector<Place>* places) override { places_.Take(places); }
  const ServerIdentity* identity() const override { return &identity_; }
  void Ask(std::vector<AskedStream> streams) override;
  bool TakeEnds(std::vector<StreamEnd>* ends) override;
  void IdentifyAgain() override;
  void Admit(const std::string& server_run, bool drop) override;
  void Close() override;

 private:
  enum class State {
    kWaiting,            // until retry_at_, then connects
    kConnecting,         // and greeting: AUTH, SELECT, SCRIPT LOAD, PING
    kAwaitingAdmission,  // connected; waits to be admitted
    kReady,
    kClosed,
  };
  enum class CallKind { kScript, kPush, kSingle };
  struct Call {
    Target* target = nullptr;
    CallKind kind = CallKind::kSingle;
    std::vector<Entry> entries;
    size_t bytes = 0;
    int loads = 0;  // times the script had to be loaded again
  };
  enum class Expected {
    kAuth,
    kSelect,
    kServer,
    kReplication,
    kPersistence,
    kStreamScript,
    kPublishScript,
    kReload,
    kPing,
    kHello,
    kEnd,     // XINFO STREAM
    kUpTo,    // XREVRANGE: the newest entry up to the one that was asked about
    kBefore,  // XREVRANGE: the newest one from before the server's process began
    kMemory,
    kProbe,  // XINFO STREAM: whether it may be asked
    kCall,
  };
  // About one stream: up to three commands, one after the other.
  struct Question {
    StreamEnd end;
    std::string deleted;   // the last id that was ever deleted there; "": it does not tell
    bool removed = false;  // entries were, at whichever end
    std::string up_to;     // kUpTo's answer
  };
  struct Awaited {
    Expected what;
    std::unique_ptr<Call> call;
    std::unique_ptr<Question> question = {};  // kEnd, kUpTo, kBefore
  };

  RedisSink(const SinkConfig& config, std::shared_ptr<TlsContext> tls);

  void Connect();
  void Greet();
  void Expect(Expected what, std::string_view command);
  void Pump();
  void Handle(Awaited awaited, const redisReply& reply);
  void HandleGreeting(Expected what, const redisReply& reply);
  void HandleCall(std::unique_ptr<Call> call, const redisReply& reply);
  void HandleScript(std::unique_ptr<Call> call, const redisReply& reply);
  void CountSilence();
  void CheckDeadlines();
  void Lost(Error error);
  void SetHealth(bool up, Error error);
  void HandleRole(Expected what, const redisReply& reply);
  void Meet();
  void CheckMemory();
  void HandleMemory(const redisReply& reply);
  void NoteUnasked(const char* command, const redisReply& reply);
  void ShowWarning();
  void HandleEnd(std::unique_ptr<Question> question, const redisReply& reply);
  void HandleUpTo(std::unique_ptr<Question> question, const redisReply& reply);
  void HandleBefore(std::unique_ptr<Question> question, const redisReply& reply);
  void ExpectAnswer(Expected what, std::unique_ptr<Question> question, std::string_view command);
  static bool Lacks(const Question& question);
  void AnswerEnd(Question* question);
  void AbortWaiting();

  void Dispatch();
  void SendBatch(Target* target);
  void SendSingles(Target* target);
  void SendCall(std::unique_ptr<Call> call);
  std::string Encode(const Call& call) const;

  void Finish(Call* call);  // it is answered
  void Delivered(const Call& call, size_t done, std::string_view first, std::string_view last);
  void Aborted(const Entry& entry);
  // The first `done` have been delivered, the next one failed with `error`; the rest is aborted or put back.
  void Stopped(std::unique_ptr<Call> call, size_t done, Error error);

  const std::string username_;
  const std::string password_;
  const int64_t db_;
  const int64_t connect_timeout_;  // microseconds
  const int64_t timeout_;          // microseconds
  const std::string maxlen_;       // "": none
  const bool checks_server_;
  const std::string endpoint_;  // hashed

  Connection connection_;
  State state_ = State::kWaiting;
  Health health_;
  Targets targets_;
  FlowGate gate_;
  std::deque<Awaited> awaited_;  // commands sent and not answered, in order
  std::vector<Result> results_;
  Places places_;
  std::map<std::pair<RecordForm, std::string>, unsigned> puzzles_;  // unknown replies in a row
  std::string run_id_;          // of the server at the other end, while connecting; "": it does not tell
  std::string replication_id_;  // of the same server
  int64_t began_ = 0;     // when its process did, to the second, in milliseconds of its clock; 0: it does not tell
  std::string admitted_;  // the run that the sink was admitted to
  ServerIdentity identity_;
  size_t asked_ = 0;  // streams, not answered yet
  bool answered_ = false;
  std::vector<StreamEnd> ends_;
  bool scripts_ = true;   // false: the server refuses them
  bool streams_ = false;  // there was a record for one
  Error eviction_;        // warnings, of this connection
  Error no_loss_check_;
  std::string stream_sha_;
  std::string publish_sha_;
  size_t bytes_out_ = 0;  // of calls not answered
  size_t calls_out_ = 0;
  int64_t retry_at_ = 0;
  int64_t connect_by_ = 0;
  int64_t quiet_since_ = 0;  // last time bytes moved, or something was asked of an idle server
  int64_t polled_at_ = 0;
  int64_t check_memory_at_ = 0;  // next CheckMemory()
  int attempts_ = 0;             // connections in a row that brought nothing
  bool reconnect_ = false;       // after this turn
  Error reconnect_why_;
  bool greeted_ = false;
  std::minstd_rand random_;
};

}  // namespace outbox::sink
