// A way to a server that tests can make slow, or have it hang up [-].
#pragma once

#include <gtest/gtest.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <atomic>
#include <cstring>
#include <string>
#include <string_view>
#include <thread>
#include <utility>
#include <vector>

namespace outbox::sink {

// A way to the server's socket that takes 10 kB at a time, 50 times a second, as long as it is there.
class SlowLink {
 public:
  SlowLink(int port, const std::string& server) : server_(server) {
    const int room = 32768;
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_port = htons(static_cast<uint16_t>(port));
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    setsockopt(listener_, SOL_SOCKET, SO_RCVBUF, &room, sizeof(room));
    EXPECT_EQ(bind(listener_, reinterpret_cast<const sockaddr*>(&address), sizeof(address)), 0);
    EXPECT_EQ(listen(listener_, 8), 0);
    thread_ = std::thread([this] { Run(); });
  }
  ~SlowLink() {
    ended_ = true;
    thread_.join();
    close(listener_);
  }
  SlowLink(const SlowLink&) = delete;
  SlowLink& operator=(const SlowLink&) = delete;
  int connections() const { return connections_; }
  // How often something came of the client.
  int moves() const { return moves_; }
  // A connection is closed at the client's bytes with this word; nullptr: at none.
  void HangUpAt(const char* word) { word_ = word; }

 private:
  void Run() {
    std::vector<std::pair<int, int>> pairs;
    while (!ended_) {
      pollfd comes{listener_, POLLIN, 0};
      if (poll(&comes, 1, 20) > 0) {
        sockaddr_un path{};
        path.sun_family = AF_UNIX;
        memcpy(path.sun_path, server_.data(), server_.size());
        pairs.emplace_back(accept(listener_, nullptr, nullptr), socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
        EXPECT_EQ(connect(pairs.back().second, reinterpret_cast<const sockaddr*>(&path), sizeof(path)), 0);
        ++connections_;
      }
      std::erase_if(pairs, [this](const auto& pair) {
        const auto [client, server] = pair;
        Move(server, client, 65536);
        if (Move(client, server, 10000, &moves_)) {
          return false;
        }
        close(client);
        close(server);
        return true;
      });
    }
    for (const auto& [client, server] : pairs) {
      close(client);
      close(server);
    }
  }
  bool Move(int from, int to, size_t most, std::atomic<int>* moves = nullptr) {
    char bytes[65536];
    const ssize_t got = recv(from, bytes, most, MSG_DONTWAIT);
    if (got <= 0) {
      return got != 0;
    }
    if (moves != nullptr) {
      ++*moves;
    }
    const char* word = word_;
    if (word != nullptr && std::string_view(bytes, static_cast<size_t>(got)).find(word) != std::string_view::npos) {
      return false;
    }
    (void)send(to, bytes, static_cast<size_t>(got), MSG_NOSIGNAL);
    return true;
  }

  const std::string server_;
  const int listener_ = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  std::atomic<bool> ended_ = false;
  std::atomic<int> connections_ = 0;
  std::atomic<int> moves_ = 0;
  std::atomic<const char*> word_ = nullptr;
  std::thread thread_;
};

}  // namespace outbox::sink
