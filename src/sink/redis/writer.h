// Writes records to streams, lists and channels, in order [-].
//
// A plain pipeline goes on behind a refused command, so that later records overtake the refused one. So records go in
// transactions: MULTI, a command for each record (a list: one for all of its records), EXEC. One is executed at a
// time and holds what is ready of all targets. Redis checks each command when it is queued and all of them again at
// EXEC (memory, role, rights, cluster slots), and one refusal discards the whole transaction: EXECABORT. What can still
// be refused while it runs is refused for all commands to that key (another type), or from one on to the last (no ids
// left); an element too large for a stream, which would be refused alone, is larger than a record can be.
//
// The next MULTI goes with the EXEC before, and no record is sent before the server has confirmed it: were MULTI
// refused with records behind it, these would be a plain pipeline. Between transactions one is open, so other commands
// have to wait for TryIdle().
//
// The server would stand idle until the next records have come, and ours while it executes. So while one transaction is
// executed the next, if it is a full one, is queued on a second connection to the same run of the server; its EXEC is
// sent when all of the first is written. Where that is not so, the next is discarded and its records are behind those
// that come back.
//
// A server that becomes a replica and a primary again keeps its connections, and may have lost what it had. While
// records go it refuses some; one that nothing was sent to for a moment is asked for the history of its data first.
//
// Records that were on their way when the connection was closed are sent in smaller groups (suspects.h), behind a write
// that changes nothing where the connection has taken none. A group is a transaction, or what is on its way at a time.
//
// Where transactions are forbidden: one command for each record, never two records of a key at once.
//
// Used by one thread. The pipeline is the owner's and lives longer.
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <utility>

#include "sink/redis/command_pipeline.h"
#include "sink/redis/second_connection.h"
#include "sink/redis/server_info.h"
#include "sink/redis/waiting_records.h"
#include "sink/sink.h"

namespace outbox::sink {

class Writer {
 public:
  // `maxlen`: what streams are trimmed to, "": never.
  Writer(Pipeline* pipeline, SecondConnection* second, std::string maxlen)
      : second_connection_(second), first_{pipeline}, second_{second->pipeline()}, waiting_(std::move(maxlen)) {}

  void Submit(Batch batch) { waiting_.Submit(std::move(batch)); }
  // Part of the greeting: tries a transaction. `lost` is called when the connection is of no use.
  void Probe(const std::function<void(Error)>& lost);
  // Sends what may be sent.
  void Dispatch();
  // True: a command that is sent now, on the first connection, is executed at once. False: a transaction is on its way.
  bool TryIdle();
  bool may_idle() const { return !discarding_ && (first_.multi == Multi::kClosed || first_.multi == Multi::kOpen); }
  // Nothing that was sent has no answer yet.
  bool nothing_out() const { return first_.parts.empty() && second_.parts.empty(); }
  // Which connection owes what became of records.
  bool second_runs() const { return running_ == &second_; }
  // The second connection is lost, or not needed any more; it is dropped. Nothing of it is executed at the moment.
  void LeaveSecond();
  // Another connection comes; nothing was out.
  void ForgetConnection();
  // The connection is lost: all that is on its way is aborted, and what waits. `closed`: by the other side.
  void AbortAll(bool closed);
  void AbortWaiting() { waiting_.AbortWaiting(); }
  // Forgets everything; nothing is reported afterwards.
  void Clear();

  Outcomes* outcomes() { return waiting_.outcomes(); }
  const Outcomes& outcomes() const { return waiting_.outcomes(); }
  // The server refuses transactions, as far as this connection knows.
  bool sends_singles() const { return mode_ == Mode::kSingles; }
  // Then: what it said.
  const Error& why_singles() const { return why_singles_; }
  // A connection to this run of the server can be used. See Suspects.
  void Meet(const std::string& server_run) { suspects_->Met(server_run); }
  // The connection is in a transaction, for all that is known, that cannot be ended: another one is needed, which
  // begins none.
  bool stuck() const { return stuck_; }
  // The server, with the history of its data, as this connection met it when it could be used; "": that is not known,
  // or need not be.
  void ExpectHistory(ServerInfo server);
  bool knows_history() const { return !expected_.history.empty(); }
  // Asks for it, on the first connection, where TryIdle() was true. If it is another, TakeReconnect() says so.
  void AskForHistory();
  // The server did not answer that, or could not: nothing is sent before another connection, which finds out why.
  bool untold() const { return untold_; }
  // Whether there was ever a record for a stream.
  bool writes_streams() const { return waiting_.has_streams(); }
  // Why another server may answer the same name by now: connect again. Not ok() once after such a reply.
  Error TakeReconnect();

 private:
  enum class Mode {
    kTransactions,
    kTransactionPerTarget,  // a cluster behind one address: the keys of a transaction have to be on one node
    kSingles,               // the server refuses transactions
  };
  enum class Multi {
    kClosed,
    kOpening,  // MULTI is sent
    kOpen,
    kQueued,   // records are sent, and wait for what the other connection executes
    kRunning,  // records and EXEC are sent, and MULTI for the next
  };
  // A connection, and what of its transaction is on the way.
  struct Channel {
    Pipeline* pipeline;
    Multi multi = Multi::kClosed;
    Parts parts = {};  // in order
  };

  void Open(Channel* channel);
  void HandleMulti(Channel* channel, const redisReply& reply);
  bool Queue(Channel* channel);
  bool Asks();
  void QueueNext();
  void Execute(Channel* channel);
  void TryWriting(const Target& target);
  static void HandleRefused(Channel* channel, size_t command, const redisReply& reply);
  void HandleExec(Channel* channel, const redisReply* refusal, std::span<const ReplyView> answers);
  Channel* Waiting();  // whose transaction waits for the other one's; nullptr: neither
  void ExecuteNext();
  void TakeBackNext();
  void TakeBack(Channel* channel);
  void HandleDiscarded(Parts parts, Error error);
  void UseSingles(bool in_transaction, const Error& why);

  void DispatchSingles();
  bool MayJoin(const Target& target, const Group& group) const;
  void SendSingles(Target* target, Group* group);
  void SendPart(Part part);
  void HandleSingle(const redisReply& reply);

  Parts TakeOut(Channel* channel);

  SecondConnection* const second_connection_;
  Channel first_;
  Channel second_;
  Channel* running_ = nullptr;  // whose EXEC is not answered; nothing is queued on the other one but then
  WaitingRecords waiting_;
  Targets* const targets_ = waiting_.targets();
  Suspects* const suspects_ = waiting_.suspects();
  bool grouped_ = false;        // kSingles: suspects are on their way, and nothing follows until all have come back
  bool trying_ = false;         // what TryWriting() has sent has no answer
  bool discarding_ = false;     // DISCARD has no answer
  bool stuck_ = false;          // it was refused
  bool without_multi_ = false;  // the next connection is to begin none
  Mode mode_ = Mode::kTransactions;
  Error why_singles_;
  size_t bytes_out_ = 0;  // kSingles: of what has no answer
  ServerInfo expected_;
  ServerInfo looked_;        // what it says when it is asked again
  int64_t answered_at_ = 0;  // when records were, or the question for it, monotonic microseconds
  bool asking_ = false;
  bool untold_ = false;
  Error reconnect_;
};

}  // namespace outbox::sink
