#include "sink/kafka/connections.h"

#include <errno.h>
#include <sys/eventfd.h>

namespace outbox::sink::kafka {

void Connections::Mute() {
  const std::lock_guard lock(mutex_);
  event_fd_ = -1;
}

int Connections::Connect(int fd, const sockaddr* address, int size, const char*, void* self) {
  auto* connections = static_cast<Connections*>(self);
  connections->begun_.fetch_add(1, std::memory_order_release);
  {
    const std::lock_guard lock(connections->mutex_);
    if (connections->event_fd_ >= 0) {
      static_cast<void>(eventfd_write(connections->event_fd_, 1));
    }
  }
  // The socket does not block.
  return connect(fd, address, static_cast<socklen_t>(size)) == 0 || errno == EINPROGRESS ? 0 : errno;
}

}  // namespace outbox::sink::kafka
