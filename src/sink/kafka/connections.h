// The connections of a handle of the library [-]: while there is none, the cluster behind its addresses may become
// another one.
//
// The library calls Connect() and Close() in its threads, the first before anything is sent over the connection; all
// else is the sink's thread's. Outlives the handle.
#pragma once

#include <librdkafka/rdkafka.h>
#include <sys/socket.h>

#include <atomic>
#include <cstdint>
#include <map>
#include <mutex>

namespace outbox::sink::kafka {

class Connections {
 public:
  // `event_fd` is an eventfd that is written when there is one more, or when they are lost.
  explicit Connections(int event_fd) : event_fd_(event_fd) {}
  Connections(const Connections&) = delete;
  Connections& operator=(const Connections&) = delete;

  uint64_t begun() const { return begun_.load(std::memory_order_acquire); }
  // How often one that a broker had spoken on was closed by it, or in silence, and no other such was open.
  uint64_t losses() const { return losses_.load(std::memory_order_acquire); }
  // How many a broker that had spoken has closed after much had been sent over them.
  uint64_t closings() const { return closings_.load(std::memory_order_acquire); }
  // Whether by one of them, which has brought no answer for a while, bytes still went out since this was asked last: a
  // large request on a slow way. To be asked about once a second.
  bool Sending();
  // For how long brokers were said to throttle since this was asked last, in all; microseconds.
  int64_t TakeThrottled() { return throttled_.exchange(0, std::memory_order_acq_rel); }
  // The eventfd may be closed after.
  void Mute();

  // rd_kafka_conf_set_connect_cb(), rd_kafka_conf_set_closesocket_cb(); `self` is this.
  static int Connect(int fd, const sockaddr* address, int size, const char* id, void* self);
  static int Close(int fd, void* self);
  // rd_kafka_conf_set_throttle_cb(); likewise.
  static void Throttled(rd_kafka_t*, const char* broker, int32_t id, int milliseconds, void* self);

 private:
  void Tell();  // with the lock held

  std::atomic<uint64_t> begun_{0};
  std::atomic<uint64_t> losses_{0};
  std::atomic<uint64_t> closings_{0};
  std::atomic<int64_t> throttled_{0};
  std::mutex mutex_;  // of all below
  int event_fd_;
  std::map<int, uint64_t> open_;  // and how many bytes had arrived there when Sending() was asked
};

}  // namespace outbox::sink::kafka
