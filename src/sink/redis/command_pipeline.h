// Commands on their way to the server, and what takes each reply [-]: a server answers in order.
//
// Owns the connection. Used by one thread; nothing blocks. Times are monotonic microseconds.
#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <span>
#include <string_view>
#include <utility>
#include <vector>

#include "sink/redis/connection.h"
#include "sink/redis/reply.h"

namespace outbox::sink {

class Pipeline {
 public:
  // The reply is gone when the handler returns. It may send, and may drop the connection.
  using Handler = std::function<void(const redisReply&)>;
  // What EXEC did: what each command answered, or else why it was not done (a reply that is no array).
  using ExecHandler = std::function<void(const redisReply* refusal, std::span<const ReplyView> answers)>;
  // The command of this number (from 0) of a transaction was refused when it was queued.
  using RefusedHandler = std::function<void(size_t command, const redisReply&)>;
  static constexpr size_t kUsualReply = size_t{1} << 20;

  Pipeline(Address address, std::shared_ptr<TlsContext> tls) : connection_(std::move(address), std::move(tls)) {}

  // As Connection's.
  Status Begin(int64_t by);
  void LetIn() { connection_.LetIn(); }
  bool connected() const { return connection_.connected(); }
  bool resolving() const { return connection_.resolving(); }
  void Flush() { connection_.Flush(); }
  // What is queued in a transaction that has not been ended is not read meanwhile: it would wake its reader for
  // nothing.
  void AppendWait(WaitSpec wait, std::vector<WaitSpec>* waits) const {
    connection_.AppendWait(wait, !queueing(), waits);
  }

  enum class Reading {
    kWhole,
    kOutline,  // as Connection's SkimReply()
  };
  // Queues a command in Redis' own format. A reply of more than kUsualReply bytes is an error of Advance().
  void Send(std::string_view command, Handler handler, Reading reading = Reading::kWhole);
  // Commands may also be written into out() directly: first the command, then Expect(). In a transaction, behind MULTI:
  // all of its commands, then Queued() says how many there were; nothing else is sent until one of the next two ends
  // it.
  resp::Buffer* out() { return connection_.out(); }
  void Expect(Handler handler, Reading reading = Reading::kWhole);
  void Queued(size_t commands, RefusedHandler refused);
  void SendExec(ExecHandler done);
  void SendDiscard(Handler done);
  // Moves bytes, calls `greet` once the connection is there, then the handlers of the replies that have come, which may
  // drop it. Errors: the connection's; what came is no reply, or was not asked for, which says more. Then Drop().
  Status Advance(const std::function<void()>& greet);
  // Forgets the handlers that wait, too.
  void Drop();

  // How long the reply was of which an outline is being handled.
  size_t skimmed() const { return connection_.skimmed(); }
  // The server owes an answer.
  bool awaits() const;
  // Since when it has owed one all the time.
  int64_t awaits_since() const { return awaits_since_; }
  // Last time bytes moved, also from the socket to the server, or something was asked of an idle server.
  int64_t quiet_since() const { return quiet_since_; }
  // Call at least at CountPauseBy() while a reply is awaited, and in every turn: the time in which this process or the
  // whole machine was suspended is no silence of the server. Disconnecting would send again what it has done meanwhile.
  void CountPause();
  int64_t CountPauseBy() const;

 private:
  // A transaction has one reply for each command, and that of EXEC.
  struct Transaction {
    size_t commands;
    RefusedHandler refused;
    ExecHandler done = {};  // once EXEC, or DISCARD, is sent
    size_t queued = 0;      // commands that have been answered
  };
  struct Awaited {
    Handler handler;
    Reading reading = Reading::kWhole;
    std::unique_ptr<Transaction> transaction = {};
  };
  Status Move();
  Status HandleReplies();
  void Await(Awaited awaited);
  void End(std::string_view command, ExecHandler done);
  // A transaction's records are sent, and neither EXEC nor DISCARD.
  bool queueing() const {
    return !awaited_.empty() && awaited_.back().transaction != nullptr && !awaited_.back().transaction->done;
  }
  Status HandleQueued(Transaction* transaction, const redisReply& reply);
  bool HandleElements();
  void HandleReply(const redisReply& reply);

  Connection connection_;
  bool greeted_ = false;
  std::deque<Awaited> awaited_;
  std::vector<ReplyView> elements_;
  int64_t quiet_since_ = 0;
  int64_t awaits_since_ = 0;
  int64_t counted_at_ = 0;
};

}  // namespace outbox::sink
