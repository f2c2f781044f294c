// One non-blocking connection to a Redis server [-]: bytes in, replies out. Their meaning is up to the sink.
//
// Nothing blocks: names are resolved in a thread (resolver.h).
#pragma once

#include <hiredis/hiredis.h>

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"
#include "sink/redis/reply.h"
#include "sink/redis/resolver.h"
#include "sink/redis/resp.h"
#include "sink/redis/skimmer.h"
#include "sink/redis/tls.h"
#include "sink/sink.h"

namespace outbox::sink {

struct FreeReply {
  void operator()(redisReply* reply) const { freeReplyObject(reply); }
};
using ReplyPtr = std::unique_ptr<redisReply, FreeReply>;

struct Address {
  std::string host = "localhost";
  std::string port = "6379";
  std::string unix_socket;  // instead of host and port when not empty
};

class Connection {
 public:
  Connection(Address address, std::shared_ptr<TlsContext> tls);
  ~Connection();
  Connection(const Connection&) = delete;
  Connection& operator=(const Connection&) = delete;

  // Begins to resolve the name and to connect. Errors: class kDestination. The addresses of the name are tried in turn;
  // each has its share of the time until `by` (monotonic microseconds). The first is the one that let us in last; where
  // the last one did not, though it took the connection, the one after it.
  Status Begin(int64_t by);
  // The server at this address can be used.
  void LetIn() { let_in_ = true; }
  // Moves what can be moved, connecting first. After an error NextReply() may still have replies; then Drop().
  // `read`: whether anything that the server says is waited for; else it lies there until then, unless the server has
  // hung up.
  Status Pump(bool read = true);
  // Writes only. An error shows in the next Pump().
  void Flush();
  // What is put there is sent by the next Flush() or Pump(). In Redis' own format.
  resp::Buffer* out() { return &out_; }
  // Nothing needs to be read before so many bytes have come, or the end: not to be woken for each piece of a long
  // reply. Holds until the next Pump() that finds them, or that comes half a second later: the answers may be shorter.
  void ExpectBytes(size_t count);
  // Takes replies that are exactly this, up to so many, and returns how many: without making an object of each.
  size_t SkipReplies(std::string_view reply, size_t most);
  // Reads an array whose elements are no arrays. Returns false if the next reply is another, or is not there
  // yet: NextReply() takes it. Elements are views that hold until the next call of anything here.
  bool NextElements(std::vector<ReplyView>* elements);
  // The next whole reply, of which only the outline is wanted (skimmer.h); empty when it has not come. Nothing of it
  // was given to NextReply() before.
  Status SkimReply(ReplyPtr* reply, size_t longest);
  // How long it was.
  size_t skimmed() const { return skimmed_; }
  // The next whole reply; empty when none has come. Returns an error if the server sends something that is not Redis,
  // or more than `longest` bytes.
  Status NextReply(ReplyPtr* reply, size_t longest);
  void Drop();

  bool connected() const { return context_ != nullptr; }
  bool resolving() const { return resolving_; }
  // Whether bytes went in or out since the last call, as far as the server's machine.
  bool TakeProgress();
  // `read`: as Pump()'s.
  void AppendWait(WaitSpec wait, bool read, std::vector<WaitSpec>* waits) const;

 private:
  struct FreeContext {
    void operator()(redisContext* context) const { redisFree(context); }
  };
  enum class Unsent {
    kNothing,
    kWaitsForRoom,  // in the socket
    kWaitsForRead,  // TLS: of something that the server has to say first
  };
  void Write();
  void WriteTls();
  void ReadTls();
  Status TryResolved();
  Status TryNext();  // the next address of the list
  Status TryConnected();
  Status Finish();  // the socket is connected
  void Read();
  bool HungUp() const;
  std::string HostAndPort() const;
  Status Lost(const char* code, const std::string& why) const;
  Status NoRedis(const char* why) const;
  Status TooLong(size_t longest) const;

  const Address address_;
  const std::shared_ptr<TlsContext> tls_;
  Resolver resolver_;
  bool resolving_ = false;
  Addresses resolved_;
  std::vector<const addrinfo*> untried_;  // of these
  std::string tried_;                     // the address that was tried last, as of Begin()s before, too
  bool let_in_ = false;                   // whether LetIn() was said of it
  int64_t by_ = 0;
  int64_t next_at_ = -1;  // when the next address is tried though this one may still answer
  int connecting_fd_ = -1;
  std::unique_ptr<redisContext, FreeContext> context_;
  std::unique_ptr<TlsSession> session_;  // where the connection is encrypted
  resp::Buffer out_;
  Unsent unsent_ = Unsent::kNothing;
  int write_error_ = 0;  // errno
  bool closed_ = false;  // by the server, where TLS said so
  bool progress_ = false;
  int held_ = 0;       // bytes that the server's machine had not taken, when TakeProgress() last looked
  int low_water_ = 1;  // the socket's SO_RCVLOWAT
  int64_t expected_since_ = 0;
  size_t unparsed_ = 0;  // bytes read since the last whole reply
  Skimmer skimmer_;
  size_t skimmed_ = 0;
};

}  // namespace outbox::sink
