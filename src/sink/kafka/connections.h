// How many connections a handle of the library has begun [-]: between two of them the cluster behind its addresses may
// have become another one.
//
// The library calls Connect() in its threads, before anything is sent over the connection; all else is the sink's
// thread's. Outlives the handle.
#pragma once

#include <sys/socket.h>

#include <atomic>
#include <cstdint>
#include <mutex>

namespace outbox::sink::kafka {

class Connections {
 public:
  // `event_fd` is an eventfd that is written when there is one more.
  explicit Connections(int event_fd) : event_fd_(event_fd) {}
  Connections(const Connections&) = delete;
  Connections& operator=(const Connections&) = delete;

  uint64_t begun() const { return begun_.load(std::memory_order_acquire); }
  // The eventfd may be closed after.
  void Mute();

  // rd_kafka_conf_set_connect_cb(); `self` is this.
  static int Connect(int fd, const sockaddr* address, int size, const char* id, void* self);

 private:
  std::atomic<uint64_t> begun_{0};
  std::mutex mutex_;
  int event_fd_;
};

}  // namespace outbox::sink::kafka
