#include "sink/redis/connection.h"

#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <algorithm>
#include <utility>

#include "base/monotonic.h"

namespace outbox::sink {
namespace {

constexpr int64_t kLongestExpected = 500 * 1000;

struct FreeReader {
  void operator()(redisReader* reader) const { redisReaderFree(reader); }
};

Status Trouble(const char* code, std::string message) {
  return Status(ErrorClass::kDestination, code, std::move(message));
}

std::string_view BytesOf(const addrinfo& address) {
  return {reinterpret_cast<const char*>(address.ai_addr), address.ai_addrlen};
}

auto Find(const std::vector<const addrinfo*>& addresses, std::string_view bytes) {
  return std::find_if(addresses.begin(), addresses.end(),
                      [bytes](const addrinfo* address) { return BytesOf(*address) == bytes; });
}

const char* IoErrorCode(int error) {
  switch (error) {
    case REDIS_ERR_EOF:
      return "CONNECTION_CLOSED";
    case REDIS_ERR_PROTOCOL:
      return "PROTOCOL";
    case REDIS_ERR_OOM:
      return "OUT_OF_MEMORY";
    default:
      return "CONNECTION_LOST";
  }
}

}  // namespace

Connection::Connection(Address address, std::shared_ptr<TlsContext> tls)
    : address_(std::move(address)), tls_(std::move(tls)) {}

Connection::~Connection() {
  Drop();
}

std::string Connection::HostAndPort() const {
  return address_.unix_socket.empty() ? address_.host + ":" + address_.port : address_.unix_socket;
}

Status Connection::Begin(int64_t by) {
  Drop();
  by_ = by;
  if (!address_.unix_socket.empty()) {
    sockaddr_un path{};
    path.sun_family = AF_UNIX;
    if (address_.unix_socket.size() >= sizeof(path.sun_path)) {
      return Status(ErrorClass::kConfig, "CONNECT", "the name in unix_socket is too long");
    }
    memcpy(path.sun_path, address_.unix_socket.data(), address_.unix_socket.size());
    connecting_fd_ = socket(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    if (connecting_fd_ < 0 || connect(connecting_fd_, reinterpret_cast<sockaddr*>(&path), sizeof(path)) != 0) {
      return Trouble("CONNECT", "could not connect to " + HostAndPort() + ": " + strerror(errno));
    }
    return Finish();
  }
  resolving_ = resolver_.Begin(address_.host, address_.port);
  if (!resolving_) {
    return Trouble("RESOLVE", "could not resolve \"" + address_.host + "\": out of threads or descriptors");
  }
  return TryResolved();
}

// Keeps waiting while there is no answer.
Status Connection::TryResolved() {
  int error = 0;
  if (!resolver_.Take(&error, &resolved_)) {
    return {};
  }
  resolving_ = false;
  if (error != 0) {
    return Trouble("RESOLVE", "could not resolve \"" + address_.host + "\": " + gai_strerror(error));
  }
  for (const addrinfo* address = resolved_.get(); address != nullptr; address = address->ai_next) {
    if (Find(untried_, BytesOf(*address)) == untried_.end()) {
      untried_.push_back(address);
    }
  }
  if (const auto last = Find(untried_, tried_); last != untried_.end()) {
    const auto first = (last - untried_.cbegin()) + (let_in_ ? 0 : 1);
    std::rotate(untried_.begin(), untried_.begin() + first, untried_.end());
  }
  return TryNext();
}

Status Connection::TryNext() {
  int error = EADDRNOTAVAIL;
  while (!untried_.empty()) {
    const addrinfo* address = untried_.front();
    untried_.erase(untried_.begin());
    tried_ = BytesOf(*address);
    let_in_ = false;
    connecting_fd_ = socket(address->ai_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, address->ai_protocol);
    if (connecting_fd_ >= 0 && (connect(connecting_fd_, address->ai_addr, address->ai_addrlen) == 0 ||
                                errno == EINPROGRESS || errno == EINTR)) {
      // An address that does not answer leaves time for the others.
      const auto shares = static_cast<int64_t>(untried_.size()) + 1;
      const int64_t now = MonotonicMicros();
      next_at_ = untried_.empty() ? -1 : now + std::max<int64_t>(by_ - now, 0) / shares;
      return {};  // Pump() finds out
    }
    error = errno;
    if (connecting_fd_ >= 0) {
      close(connecting_fd_);
      connecting_fd_ = -1;
    }
  }
  return Trouble("CONNECT", "could not connect to " + HostAndPort() + ": " + strerror(error));
}

Status Connection::Finish() {
  int on = 1;
  if (address_.unix_socket.empty()) {
    setsockopt(connecting_fd_, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
    setsockopt(connecting_fd_, SOL_SOCKET, SO_KEEPALIVE, &on, sizeof(on));
    // Whoever closes it, the end of this process too, what lies unsent in the socket goes with it. Else the system
    // would go on sending it, for as long as a network is away and beyond, and the server would execute it after what
    // comes by the next connection. Nothing is missed: what has no answer is sent again.
    const linger reset{1, 0};
    setsockopt(connecting_fd_, SOL_SOCKET, SO_LINGER, &reset, sizeof(reset));
  }
  untried_.clear();
  resolved_.reset();
  context_.reset(redisConnectFd(connecting_fd_));
  if (context_ == nullptr) {
    return Trouble("OUT_OF_MEMORY", "out of memory");  // Drop() closes the descriptor
  }
  connecting_fd_ = -1;  // the context's now
  context_->flags &= ~REDIS_BLOCK;
  if (tls_ == nullptr) {
    return {};
  }
  unsent_ = Unsent::kWaitsForRoom;  // the handshake
  return tls_->Start(context_->fd, &session_);
}

// Keeps waiting while the address may still answer.
Status Connection::TryConnected() {
  pollfd ready{connecting_fd_, POLLOUT, 0};
  if (poll(&ready, 1, 0) <= 0) {
    if (untried_.empty() || MonotonicMicros() < next_at_) {
      return {};
    }
    close(connecting_fd_);
    connecting_fd_ = -1;
    return TryNext();
  }
  int error = 0;
  socklen_t size = sizeof(error);
  getsockopt(connecting_fd_, SOL_SOCKET, SO_ERROR, &error, &size);
  if (error == 0) {
    return Finish();
  }
  close(connecting_fd_);
  connecting_fd_ = -1;
  if (!untried_.empty()) {
    return TryNext();
  }
  return Trouble("CONNECT", "could not connect to " + HostAndPort() + ": " + strerror(error));
}

Status Connection::Pump(bool read) {
  Status status = resolving_ ? TryResolved() : Status();
  if (status.ok() && connecting_fd_ >= 0) {
    status = TryConnected();
  }
  if (!status.ok() || context_ == nullptr) {
    return status;
  }
  Flush();
  if (read || session_ != nullptr || write_error_ != 0) {  // TLS reads in order to write
    Read();  // after a failed write too: the server may have said why it hung up
  } else {
    while (context_->err == 0 && HungUp()) {
      Read();
    }
  }
  if (session_ != nullptr && !session_->failure().ok()) {
    Error failure = session_->failure();
    if (failure.error_class == ErrorClass::kConfig) {
      return Status(std::move(failure));
    }
    return Lost(failure.code.empty() ? IoErrorCode(REDIS_ERR_IO) : failure.code.c_str(), failure.message);
  }
  if (closed_) {
    return Lost(IoErrorCode(REDIS_ERR_EOF), "Server closed the connection");
  }
  if (context_->err == 0 && write_error_ == 0) {
    return {};
  }
  return Lost(IoErrorCode(context_->err), context_->err != 0 ? context_->errstr : strerror(write_error_));
}

Status Connection::Lost(const char* code, const std::string& why) const {
  return Trouble(code, "lost the connection to " + HostAndPort() + ": " + why);
}

void Connection::Read() {
  pollfd ready{context_->fd, POLLIN, 0};
  if (low_water_ > 1 && MonotonicMicros() >= expected_since_ + kLongestExpected) {
    ExpectBytes(1);  // and what has come is ready, too
  }
  if (poll(&ready, 1, 0) <= 0) {
    return;
  }
  ExpectBytes(1);
  progress_ = true;
  const size_t before = context_->reader->len;
  if (session_ == nullptr) {
    redisBufferRead(context_.get());
  } else {
    ReadTls();
  }
  unparsed_ += context_->reader->len - before;
  if (unsent_ == Unsent::kWaitsForRead) {
    Flush();
  }
}

bool Connection::HungUp() const {
  pollfd ended{context_->fd, POLLRDHUP, 0};
  return poll(&ended, 1, 0) > 0;
}

void Connection::ExpectBytes(size_t count) {
  const int low_water = tls_ == nullptr ? static_cast<int>(count) : 1;  // TLS has bytes of its own
  if (context_ != nullptr && low_water != low_water_ &&
      setsockopt(context_->fd, SOL_SOCKET, SO_RCVLOWAT, &low_water, sizeof(low_water)) == 0) {
    low_water_ = low_water;
    expected_since_ = MonotonicMicros();
  }
}

void Connection::Flush() {
  if (context_ != nullptr && (unsent_ != Unsent::kNothing || !out_.empty())) {
    if (tls_ == nullptr) {
      Write();
    } else {
      WriteTls();
    }
  }
}

void Connection::Write() {
  while (!out_.empty()) {
    const ssize_t count = send(context_->fd, out_.bytes().data(), out_.bytes().size(), MSG_NOSIGNAL);
    if (count < 0) {
      const bool later = errno == EAGAIN || errno == EWOULDBLOCK || errno == EINTR;
      write_error_ = later ? 0 : errno;
      unsent_ = Unsent::kWaitsForRoom;
      return;
    }
    progress_ = true;
    out_.Take(static_cast<size_t>(count));
  }
  unsent_ = Unsent::kNothing;
}

void Connection::WriteTls() {
  using Result = TlsSession::Result;
  Result result = Result::kMoved;
  do {
    size_t count = 0;
    result = session_->Write(out_.bytes(), &count);
    progress_ |= count != 0;
    out_.Take(count);
  } while (result == Result::kMoved && !out_.empty());
  closed_ |= result == Result::kClosed;
  unsent_ = result == Result::kMoved          ? Unsent::kNothing
            : result == Result::kWaitsForRead ? Unsent::kWaitsForRead
                                              : Unsent::kWaitsForRoom;
}

void Connection::ReadTls() {
  char bytes[TlsSession::kLargestRecord];
  size_t count = 0;
  const TlsSession::Result result = session_->Read(bytes, sizeof(bytes), &count);
  if (count != 0 && redisReaderFeed(context_->reader, bytes, count) != REDIS_OK) {
    context_->err = REDIS_ERR_OOM;
  }
  closed_ |= result == TlsSession::Result::kClosed;
  if (result == TlsSession::Result::kWaitsForRoom) {
    unsent_ = Unsent::kWaitsForRoom;
  }
}

size_t Connection::SkipReplies(std::string_view reply, size_t most) {
  redisReader* reader = context_ == nullptr ? nullptr : context_->reader;
  size_t count = 0;
  if (reader == nullptr || reader->ridx >= 0) {
    return 0;  // in the middle of one
  }
  while (count < most && reader->len - reader->pos >= reply.size() &&
         memcmp(reader->buf + reader->pos, reply.data(), reply.size()) == 0) {
    reader->pos += reply.size();
    ++count;
  }
  unparsed_ = count == 0 ? unparsed_ : reader->len - reader->pos;
  return count;
}

bool Connection::NextElements(std::vector<ReplyView>* elements) {
  redisReader* reader = context_ == nullptr ? nullptr : context_->reader;
  if (reader == nullptr || reader->ridx >= 0) {
    return false;
  }
  const size_t size = ReadElements({reader->buf + reader->pos, reader->len - reader->pos}, elements);
  reader->pos += size;
  unparsed_ = size == 0 ? unparsed_ : reader->len - reader->pos;
  return size != 0;
}

Status Connection::NextReply(ReplyPtr* reply, size_t longest) {
  reply->reset();
  if (context_ == nullptr) {
    return {};
  }
  void* parsed = nullptr;
  if (redisGetReplyFromReader(context_.get(), &parsed) != REDIS_OK) {
    return NoRedis(context_->errstr);
  }
  reply->reset(static_cast<redisReply*>(parsed));
  if (parsed != nullptr) {
    unparsed_ = context_->reader->len - context_->reader->pos;
  } else if (unparsed_ > longest) {
    return TooLong(longest);
  }
  return {};
}

Status Connection::NoRedis(const char* why) const {
  return Trouble("PROTOCOL", HostAndPort() + " answers something that is not Redis: " + why);
}

Status Connection::TooLong(size_t longest) const {
  return Trouble("PROTOCOL",
                 HostAndPort() + " answers with more than " + std::to_string(longest >> 20) + " MB at once");
}

Status Connection::SkimReply(ReplyPtr* reply, size_t longest) {
  reply->reset();
  redisReader* reader = context_ == nullptr ? nullptr : context_->reader;
  if (reader == nullptr) {
    return {};
  }
  reader->pos += skimmer_.Take({reader->buf + reader->pos, reader->len - reader->pos});
  unparsed_ = reader->len - reader->pos;
  if (void* nothing = nullptr; unparsed_ == 0) {
    (void)redisReaderGetReply(reader, &nothing);  // forgets what was taken
  }
  if (!skimmer_.whole()) {
    return skimmer_.held() > longest ? TooLong(longest) : Status();
  }
  skimmed_ = skimmer_.size();
  const std::string kept = std::exchange(skimmer_, {}).kept();
  const std::unique_ptr<redisReader, FreeReader> outline(redisReaderCreate());
  void* parsed = nullptr;
  if (outline == nullptr || redisReaderFeed(outline.get(), kept.data(), kept.size()) != REDIS_OK) {
    return Trouble("OUT_OF_MEMORY", "out of memory");
  }
  if (redisReaderGetReply(outline.get(), &parsed) != REDIS_OK || parsed == nullptr) {
    return NoRedis(outline->errstr);
  }
  reply->reset(static_cast<redisReply*>(parsed));
  return {};
}

void Connection::Drop() {
  session_.reset();
  context_.reset();
  resolving_ = false;
  untried_.clear();
  resolved_.reset();
  next_at_ = -1;
  if (connecting_fd_ >= 0) {
    close(connecting_fd_);
    connecting_fd_ = -1;
  }
  out_.Clear();
  unsent_ = Unsent::kNothing;
  write_error_ = 0;
  closed_ = false;
  low_water_ = 1;
  held_ = 0;
  progress_ = false;
  unparsed_ = 0;
  skimmer_ = {};
}

// What was written may lie in the socket for long where the way to the server is slow. That it becomes less is
// progress.
bool Connection::TakeProgress() {
  int held = 0;
  if (context_ == nullptr || ioctl(context_->fd, TIOCOUTQ, &held) != 0) {
    held = 0;
  }
  const bool drained = held < std::exchange(held_, held);
  return std::exchange(progress_, false) || drained;
}

void Connection::AppendWait(WaitSpec wait, bool read, std::vector<WaitSpec>* waits) const {
  if (resolving_) {
    wait.fd = resolver_.fd();
    wait.read = true;
  } else if (connecting_fd_ >= 0) {
    wait.fd = connecting_fd_;
    wait.write = true;
    if (next_at_ >= 0 && (wait.deadline < 0 || next_at_ < wait.deadline)) {
      wait.deadline = next_at_;
    }
  } else if (context_ != nullptr) {
    wait.fd = context_->fd;
    wait.read = read || session_ != nullptr;
    wait.write = unsent_ == Unsent::kWaitsForRoom || (unsent_ == Unsent::kNothing && !out_.empty());
  }
  waits->push_back(wait);
}

}  // namespace outbox::sink
