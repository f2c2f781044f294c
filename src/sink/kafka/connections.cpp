#include "sink/kafka/connections.h"

#include <errno.h>
#include <linux/tcp.h>
#include <netinet/in.h>
#include <sys/eventfd.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <cstddef>
#include <utility>

namespace outbox::sink::kafka {
namespace {

constexpr uint8_t kEstablished = 1;  // TCP_ESTABLISHED, which is in the kernel's own headers
constexpr uint32_t kSilentMs = 5000;
constexpr uint64_t kMuchBytes = 8192;  // more than what a connection begins with
constexpr uint64_t kFewBytes = 1024;  // questions whether a broker is there, in a second: one that hangs gets them, too

struct Peer {
  bool spoke;   // something came from there; true if the kernel does not tell
  bool there;   // it has not closed
  bool silent;  // but has said nothing for a while
  bool much;    // much was sent there; false if the kernel does not tell
};

Peer PeerOf(int fd) {
  tcp_info info{};
  socklen_t size = sizeof info;
  if (getsockopt(fd, IPPROTO_TCP, TCP_INFO, &info, &size) != 0 ||
      size < offsetof(tcp_info, tcpi_bytes_received) + sizeof info.tcpi_bytes_received) {
    return {true, false, true, false};
  }
  const bool much =
      size >= offsetof(tcp_info, tcpi_bytes_sent) + sizeof info.tcpi_bytes_sent && info.tcpi_bytes_sent >= kMuchBytes;
  return {info.tcpi_bytes_received > 0, info.tcpi_state == kEstablished, info.tcpi_last_data_recv >= kSilentMs, much};
}

}  // namespace

void Connections::Mute() {
  const std::lock_guard lock(mutex_);
  event_fd_ = -1;
}

void Connections::Tell() {
  if (event_fd_ >= 0) {
    static_cast<void>(eventfd_write(event_fd_, 1));
  }
}

bool Connections::Sending() {
  const std::lock_guard lock(mutex_);
  bool sending = false;
  for (auto& [fd, arrived] : open_) {
    tcp_info info{};
    socklen_t size = sizeof info;
    int left = 0;
    if (getsockopt(fd, IPPROTO_TCP, TCP_INFO, &info, &size) != 0 ||
        size < offsetof(tcp_info, tcpi_bytes_acked) + sizeof info.tcpi_bytes_acked || ioctl(fd, TIOCOUTQ, &left) != 0) {
      continue;
    }
    const uint64_t before = std::exchange(arrived, info.tcpi_bytes_acked);
    sending |= left > 0 && arrived > before + kFewBytes && info.tcpi_last_data_recv >= kSilentMs;
  }
  return sending;
}

int Connections::Connect(int fd, const sockaddr* address, int size, const char*, void* self) {
  auto* connections = static_cast<Connections*>(self);
  connections->begun_.fetch_add(1, std::memory_order_release);
  {
    const std::lock_guard lock(connections->mutex_);
    connections->open_.emplace(fd, 0);
    connections->Tell();
  }
  // The socket does not block.
  return connect(fd, address, static_cast<socklen_t>(size)) == 0 || errno == EINPROGRESS ? 0 : errno;
}

int Connections::Close(int fd, void* self) {
  auto* connections = static_cast<Connections*>(self);
  {
    const std::lock_guard lock(connections->mutex_);
    connections->open_.erase(fd);
    const auto lives = [](const auto& other) {
      const Peer peer = PeerOf(other.first);
      return peer.spoke && peer.there;
    };
    // What the library closes of its own accord while the peer is there says nothing: newer ones do so with the
    // connection by which they have found the cluster.
    const Peer peer = PeerOf(fd);
    if (peer.spoke && !peer.there && peer.much) {
      connections->closings_.fetch_add(1, std::memory_order_release);
      connections->Tell();
    }
    const bool ends = peer.spoke && (!peer.there || peer.silent);
    if (ends && std::none_of(connections->open_.begin(), connections->open_.end(), lives)) {
      connections->losses_.fetch_add(1, std::memory_order_release);
      connections->Tell();
    }
  }
  return close(fd);
}

void Connections::Throttled(rd_kafka_t*, const char*, int32_t, int milliseconds, void* self) {
  static_cast<Connections*>(self)->throttled_.fetch_add(int64_t{milliseconds} * 1000, std::memory_order_acq_rel);
}

}  // namespace outbox::sink::kafka
