// Between a Redis sink and its server, for tests: knows when records and their EXEC come by.
#pragma once

#include <gtest/gtest.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <atomic>
#include <cstring>
#include <list>
#include <mutex>
#include <string>
#include <string_view>
#include <thread>
#include <utility>
#include <vector>

namespace outbox::sink {

class Proxy {
 public:
  enum class Mode {
    kPass,
    kHold,        // each EXEC
    kHoldSecond,  // those of all connections but the first
    kMuteSecond,  // these get no answers
    kSlow,        // a hundred thousand bytes a second
    kCut,         // the answer of the next EXEC: the server executes it, and the connection is lost
  };
  Proxy(std::string path, std::string server) : path_(std::move(path)), server_(std::move(server)) {
    listener_ = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    const sockaddr_un address = Address(path_);
    EXPECT_EQ(bind(listener_, reinterpret_cast<const sockaddr*>(&address), sizeof(address)), 0);
    EXPECT_EQ(listen(listener_, 8), 0);
    thread_ = std::thread([this] { Run(); });
  }
  ~Proxy() {
    ended_ = true;
    thread_.join();
    close(listener_);
  }
  Proxy(const Proxy&) = delete;
  Proxy& operator=(const Proxy&) = delete;

  const std::string& path() const { return path_; }
  void set_mode(Mode mode) { mode_ = mode; }
  // Where connections go that are made from now on.
  void set_server(const std::string& server) {
    const std::lock_guard<std::mutex> lock(mutex_);
    server_ = server;
  }

 private:
  struct Pair {
    bool first;
    int client;
    int server;
    std::string up = {};  // what the client has said and the server has not heard
    bool cutting = false;
  };

  static sockaddr_un Address(const std::string& path) {
    sockaddr_un address{};
    address.sun_family = AF_UNIX;
    EXPECT_LT(path.size(), sizeof(address.sun_path));
    memcpy(address.sun_path, path.data(), path.size());
    return address;
  }
  void Run() {
    std::list<Pair> pairs;
    while (!ended_) {
      std::vector<pollfd> ready{{listener_, POLLIN, 0}};
      for (const Pair& pair : pairs) {
        ready.push_back({pair.client, POLLIN, 0});
        ready.push_back({pair.server, POLLIN, 0});
      }
      poll(ready.data(), ready.size(), 5);
      size_t at = 1;
      for (auto pair = pairs.begin(); pair != pairs.end(); at += 2) {
        if (Move(&*pair, ready[at].revents != 0, ready[at + 1].revents != 0)) {
          ++pair;
        } else {
          close(pair->client);
          close(pair->server);
          pair = pairs.erase(pair);
        }
      }
      if (ready[0].revents != 0) {
        Accept(&pairs);
      }
    }
    for (const Pair& pair : pairs) {
      close(pair.client);
      close(pair.server);
    }
  }
  void Accept(std::list<Pair>* pairs) {
    const int client = accept(listener_, nullptr, nullptr);
    const int server = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    const std::lock_guard<std::mutex> lock(mutex_);
    const sockaddr_un address = Address(server_);
    if (connect(server, reinterpret_cast<const sockaddr*>(&address), sizeof(address)) == 0) {
      pairs->push_back({pairs->empty(), client, server});
    } else {
      close(client);
      close(server);
    }
  }
  bool Holds(const Pair& pair) const { return mode_ == Mode::kHold || (mode_ == Mode::kHoldSecond && !pair.first); }
  // False: a side has gone.
  bool Move(Pair* pair, bool from_client, bool from_server) {
    const std::string exec = "*1\r\n$4\r\nEXEC\r\n";
    char bytes[65536];
    if (from_client) {
      const bool slow = mode_ == Mode::kSlow;
      if (slow) {
        usleep(10'000);
      }
      const ssize_t got = recv(pair->client, bytes, slow ? 1000 : sizeof(bytes), 0);
      if (got <= 0) {
        return false;
      }
      pair->up.append(bytes, static_cast<size_t>(got));
    }
    const bool seeks = mode_ != Mode::kPass && mode_ != Mode::kMuteSecond && mode_ != Mode::kSlow;
    const size_t at = seeks ? pair->up.find(exec) : std::string::npos;
    size_t go = pair->up.size();
    if (at != std::string::npos && mode_ == Mode::kCut) {
      pair->cutting = true;
      mode_ = Mode::kPass;
      shutdown(pair->client, SHUT_RDWR);
      go = at + exec.size();
    } else if (at != std::string::npos && Holds(*pair)) {
      go = at;
    }
    (void)send(pair->server, pair->up.data(), go, MSG_NOSIGNAL);
    pair->up.erase(0, go);
    if (from_server) {
      const ssize_t got = recv(pair->server, bytes, sizeof(bytes), 0);
      const std::string_view reply(bytes, got <= 0 ? 0 : static_cast<size_t>(got));
      if (got <= 0 || (pair->cutting && reply.find("\r\n$") != std::string_view::npos)) {
        return false;  // the ids of what was written
      }
      if (!pair->cutting && (mode_ != Mode::kMuteSecond || pair->first)) {
        (void)send(pair->client, bytes, static_cast<size_t>(got), MSG_NOSIGNAL);
      }
    }
    return true;
  }

  const std::string path_;
  std::mutex mutex_;
  std::string server_;  // under the mutex
  int listener_ = -1;
  std::atomic<Mode> mode_ = Mode::kPass;
  std::atomic<bool> ended_ = false;
  std::thread thread_;
};

}  // namespace outbox::sink
