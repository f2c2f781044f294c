// Commands on their way to the server, and who takes each reply [-]: a server answers in order.
//
// Owns the connection. Used by one thread; nothing blocks. Times are monotonic microseconds.
#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <string_view>

#include "sink/redis/connection.h"

namespace outbox::sink {

class Pipeline {
 public:
  // The reply is gone when the handler returns. It may send, and may drop the connection.
  using Handler = std::function<void(const redisReply&)>;
  static constexpr size_t kUsualReply = size_t{1} << 20;

  Pipeline(Address address, std::shared_ptr<TlsContext> tls) : connection_(std::move(address), std::move(tls)) {}

  // As Connection's.
  Status Begin(int64_t by) { return connection_.Begin(by); }
  bool connected() const { return connection_.connected(); }
  bool resolving() const { return connection_.resolving(); }
  void Flush() { connection_.Flush(); }
  void AppendWait(WaitSpec wait, std::vector<WaitSpec>* waits) const { connection_.AppendWait(wait, waits); }

  // Queues a command in Redis' own format. A reply of more than `longest` bytes is an error of HandleReplies().
  void Send(std::string_view command, Handler handler, size_t longest = kUsualReply);
  // Moves bytes. After an error there may still be replies to handle; then Drop().
  Status Pump();
  // Calls the handlers of the replies that have come. Errors: what came is no reply, or was not asked for.
  Status HandleReplies();
  // Forgets the handlers that wait, too.
  void Drop();

  bool awaits() const { return !awaited_.empty(); }
  // Last time bytes moved, or something was asked of an idle server.
  int64_t quiet_since() const { return quiet_since_; }
  // Call at least at CountPauseBy() while a reply is awaited, and in every turn: the time in which this process or the
  // whole machine stood still is no silence of the server. Disconnecting would send again what it has done meanwhile.
  void CountPause();
  int64_t CountPauseBy() const;

 private:
  struct Awaited {
    Handler handler;
    size_t longest;
  };

  Connection connection_;
  std::deque<Awaited> awaited_;
  int64_t quiet_since_ = 0;
  int64_t counted_at_ = 0;
};

}  // namespace outbox::sink
