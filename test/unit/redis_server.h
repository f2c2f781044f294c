// A private redis-server (or valkey-server) for unit tests, on a socket in a directory of its own.
#pragma once

#include <fcntl.h>
#include <gtest/gtest.h>
#include <hiredis/hiredis.h>
#include <netinet/in.h>
#include <signal.h>
#include <spawn.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "base/monotonic.h"

namespace outbox::sink {

// A port that no process listens on now; 0 if none can be found.
inline int FreePort() {
  const int listener = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t size = sizeof(address);
  EXPECT_EQ(bind(listener, reinterpret_cast<sockaddr*>(&address), size), 0);
  EXPECT_EQ(getsockname(listener, reinterpret_cast<sockaddr*>(&address), &size), 0);
  close(listener);
  return ntohs(address.sin_port);
}

class RedisServer {
 public:
  RedisServer() {
    char directory[] = "/tmp/outbox-redis-test-XXXXXX";
    directory_ = mkdtemp(directory);
  }
  ~RedisServer() {
    Stop(SIGKILL);
    std::filesystem::remove_all(directory_);
  }
  RedisServer(const RedisServer&) = delete;
  RedisServer& operator=(const RedisServer&) = delete;

  // Returns false if no server is installed. `extra`: more command line ("--maxmemory", "3mb"). OUTBOX_TEST_REDIS is
  // the server to start, if it is set (scripts/test-redis): then there is no other.
  bool Start(std::vector<std::string> extra = {}) {
    if (const char* chosen = std::getenv("OUTBOX_TEST_REDIS"); chosen != nullptr) {
      Launch(chosen, std::move(extra));
      return Ready();
    }
    for (const char* program : {"/usr/bin/redis-server", "/usr/bin/valkey-server", "/usr/local/bin/redis-server"}) {
      if (access(program, X_OK) == 0) {
        Launch(program, std::move(extra));
        return Ready();
      }
    }
    return false;
  }
  void Stop(int signal_number = SIGKILL) {
    client_.reset();
    if (pid_ > 0) {
      kill(pid_, SIGCONT);
      kill(pid_, signal_number);
      waitpid(pid_, nullptr, 0);
      pid_ = -1;
    }
  }
  void Signal(int signal_number) { kill(pid_, signal_number); }
  // What Command() says when it connects.
  void set_password(const std::string& password) { password_ = password; }
  std::string socket() const { return directory_ + "/socket"; }
  const std::string& directory() const { return directory_; }

  struct FreeReply {
    void operator()(redisReply* reply) const { freeReplyObject(reply); }
  };
  using Reply = std::unique_ptr<redisReply, FreeReply>;
  // A blocking command; never null.
  Reply Command(const std::vector<std::string>& arguments) {
    if (client_ == nullptr) {
      client_.reset(redisConnectUnix(socket().c_str()));
      if (!password_.empty()) {
        freeReplyObject(redisCommand(client_.get(), "AUTH %s", password_.c_str()));
      }
    }
    std::vector<const char*> values;
    std::vector<size_t> sizes;
    for (const std::string& argument : arguments) {
      values.push_back(argument.data());
      sizes.push_back(argument.size());
    }
    void* reply = redisCommandArgv(client_.get(), static_cast<int>(values.size()), values.data(), sizes.data());
    EXPECT_NE(reply, nullptr) << client_->errstr;
    return Reply(static_cast<redisReply*>(reply));
  }
  // ACL SETUSER with these rights and all channels, which only servers from 6.2 on ask for.
  void SetUser(const std::string& name, std::vector<std::string> rights) {
    rights.insert(rights.begin(), {"ACL", "SETUSER", name});
    rights.push_back("&*");
    if (Command(rights)->type == REDIS_REPLY_ERROR) {
      rights.pop_back();
      EXPECT_EQ(Command(rights)->type, REDIS_REPLY_STATUS);
    }
  }
  int64_t Integer(const std::vector<std::string>& arguments) { return Command(arguments)->integer; }

  // The entries of a stream: each the names and values in turn.
  std::vector<std::vector<std::string>> Stream(const std::string& name) {
    std::vector<std::vector<std::string>> entries;
    Reply reply = Command({"XRANGE", name, "-", "+"});
    for (size_t i = 0; i < reply->elements; ++i) {
      const redisReply* fields = reply->element[i]->element[1];
      std::vector<std::string> entry;
      for (size_t j = 0; j < fields->elements; ++j) {
        entry.emplace_back(fields->element[j]->str, fields->element[j]->len);
      }
      entries.push_back(std::move(entry));
    }
    return entries;
  }

 private:
  struct FreeContext {
    void operator()(redisContext* context) const { redisFree(context); }
  };

  void Launch(const char* program, std::vector<std::string> extra) {
    std::vector<std::string> arguments = {program,    "--port", "0", "--unixsocket", socket(), "--dir",
                                          directory_, "--save", "",  "--appendonly", "no",     "--daemonize",
                                          "no"};
    arguments.insert(arguments.end(), extra.begin(), extra.end());
    std::string log = directory_ + "/log";
    pid_ = fork();
    if (pid_ == 0) {
      prctl(PR_SET_PDEATHSIG, SIGKILL);
      int out = open(log.c_str(), O_WRONLY | O_CREAT | O_APPEND, 0600);
      dup2(out, 1);
      dup2(out, 2);
      std::vector<char*> pointers;
      for (std::string& argument : arguments) {
        pointers.push_back(argument.data());
      }
      pointers.push_back(nullptr);
      execv(program, pointers.data());
      _exit(127);
    }
  }
  bool Ready() {
    int64_t end = MonotonicMicros() + 10000000;
    while (MonotonicMicros() < end) {
      std::unique_ptr<redisContext, FreeContext> probe(redisConnectUnix(socket().c_str()));
      if (probe != nullptr && probe->err == 0) {
        Reply reply(static_cast<redisReply*>(redisCommand(probe.get(), "PING")));
        if (reply != nullptr) {
          return true;
        }
      }
      usleep(2000);
    }
    ADD_FAILURE() << "redis-server did not come up";
    return false;
  }

  std::string directory_;
  std::string password_;
  pid_t pid_ = -1;
  std::unique_ptr<redisContext, FreeContext> client_;
};

}  // namespace outbox::sink
