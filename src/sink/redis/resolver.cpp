#include "sink/redis/resolver.h"

#include <signal.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <atomic>
#include <cstdint>
#include <system_error>
#include <thread>
#include <utility>

namespace outbox::sink {

// Shared with the thread, which may live longer than the resolver.
struct Resolver::Lookup {
  Lookup(std::string host_name, std::string port_number)
      : host(std::move(host_name)), port(std::move(port_number)), done_fd(eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC)) {}
  ~Lookup() {
    if (done_fd >= 0) {
      close(done_fd);
    }
  }
  Lookup(const Lookup&) = delete;
  Lookup& operator=(const Lookup&) = delete;

  void Run() {
    addrinfo hints{};
    hints.ai_socktype = SOCK_STREAM;
    hints.ai_flags = AI_ADDRCONFIG | AI_NUMERICSERV;
    addrinfo* list = nullptr;
    error = getaddrinfo(host.c_str(), port.c_str(), &hints, &list);
    found.reset(error == 0 ? list : nullptr);
    done.store(true, std::memory_order_release);
    const uint64_t one = 1;
    [[maybe_unused]] const ssize_t told = write(done_fd, &one, sizeof(one));
  }

  const std::string host;
  const std::string port;
  const int done_fd;
  std::atomic<bool> done{false};
  int error = 0;  // these two once done
  Addresses found;
};

Resolver::Resolver() = default;
Resolver::~Resolver() = default;

bool Resolver::Begin(const std::string& host, const std::string& port) {
  if (lookup_ != nullptr) {
    return true;
  }
  auto lookup = std::make_shared<Lookup>(host, port);
  if (lookup->done_fd < 0) {
    return false;
  }
  // Signals are the main thread's business.
  sigset_t all;
  sigset_t before;
  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, &before);
  bool started = true;
  try {
    std::thread([lookup] { lookup->Run(); }).detach();
  } catch (const std::system_error&) {
    started = false;
  }
  pthread_sigmask(SIG_SETMASK, &before, nullptr);
  if (started) {
    lookup_ = std::move(lookup);
  }
  return started;
}

bool Resolver::Take(int* error, Addresses* found) {
  if (lookup_ == nullptr || !lookup_->done.load(std::memory_order_acquire)) {
    return false;
  }
  *error = lookup_->error;
  *found = std::move(lookup_->found);
  lookup_.reset();
  return true;
}

int Resolver::fd() const {
  return lookup_ == nullptr ? -1 : lookup_->done_fd;
}

}  // namespace outbox::sink
