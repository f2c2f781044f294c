// matrix: D10 A1h
// Names that resolve slowly, or never: the loop of the sink does not wait for them.
#include <arpa/inet.h>
#include <dlfcn.h>
#include <gtest/gtest.h>
#include <netdb.h>
#include <netinet/in.h>
#include <sys/socket.h>

#include <atomic>
#include <string_view>
#include <thread>

#include "redis_sink_fixture.h"

namespace {
std::atomic<int> lookups{0};
std::atomic<int> delay_ms{0};
}  // namespace

// In place of the C library's: "slow.test" is this machine, after a while.
extern "C" int getaddrinfo(const char* node, const char* service, const addrinfo* hints, addrinfo** found) {
  using Lookup = int(const char*, const char*, const addrinfo*, addrinfo**);
  static auto* const real = reinterpret_cast<Lookup*>(dlsym(RTLD_NEXT, "getaddrinfo"));
  if (node != nullptr && std::string_view(node) == "slow.test") {
    ++lookups;
    usleep(static_cast<useconds_t>(delay_ms) * 1000);
    return real("127.0.0.1", service, hints, found);
  }
  if (node != nullptr && std::string_view(node) == "many.test") {
    addrinfo** last = found;
    for (const char* address : {"127.0.0.1", "127.0.0.3", "127.0.0.2"}) {
      const int error = real(address, service, hints, last);
      if (error != 0) {
        return error;
      }
      while (*last != nullptr) {
        last = &(*last)->ai_next;
      }
    }
    return 0;
  }
  return real(node, service, hints, found);
}

namespace outbox::sink {
namespace {

std::string FreePort() {
  const int fd = socket(AF_INET, SOCK_STREAM, 0);
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t size = sizeof(address);
  EXPECT_EQ(bind(fd, reinterpret_cast<sockaddr*>(&address), size), 0);
  getsockname(fd, reinterpret_cast<sockaddr*>(&address), &size);
  close(fd);
  return std::to_string(ntohs(address.sin_port));
}

class ResolverTest : public RedisSinkTest {
 protected:
  void Start(int delay, const std::string& connect_timeout) {
    delay_ms = delay;
    lookups = 0;
    SinkConfig config{"test", {{"host", "slow.test"}, {"port", port_}, {"connect_timeout", connect_timeout}}, 0, 0};
    ASSERT_TRUE(RedisSink::Make(config, &sink_).ok());
    driver_ = std::make_unique<Driver>(sink_.get());
  }
  // The longest that one call of the sink took.
  int64_t TurnUntil(const std::function<bool()>& done) {
    int64_t longest = 0;
    for (const int64_t end = MonotonicMicros() + 10'000'000; !done() && MonotonicMicros() < end; usleep(1000)) {
      const int64_t begin = MonotonicMicros();
      driver_->Turn(0);
      longest = std::max(longest, MonotonicMicros() - begin);
    }
    EXPECT_TRUE(done());
    return longest;
  }
  const std::string port_ = FreePort();
};

TEST_F(ResolverTest, ASlowResolverBlocksNothing) {
  if (!server_.Start({"--port", port_, "--bind", "127.0.0.1"})) {
    GTEST_SKIP() << "neither redis-server nor valkey-server";
  }
  Start(700, "5000");
  driver_->Submit(1, 0, {To("s", "k", "0")});
  EXPECT_LT(TurnUntil([&] { return driver_->Count(Outcome::kDelivered) == 1; }), 400'000);
  EXPECT_EQ(lookups, 1);
}

TEST_F(ResolverTest, OneThatTakesLongerThanTheTimeoutIsAskedOnceAndItsAnswerIsUsed) {
  if (!server_.Start({"--port", port_, "--bind", "127.0.0.1"})) {
    GTEST_SKIP() << "neither redis-server nor valkey-server";
  }
  Start(1500, "500");
  const uint64_t first = driver_->Submit(1, 0, {To("s", "k", "0")});
  TurnUntil([&] { return !sink_->health().up; });
  EXPECT_EQ(sink_->health().error.code, "RESOLVE");
  TurnUntil([&] { return driver_->resolved() == 1; });
  EXPECT_EQ(driver_->outcome(first), Outcome::kAborted);
  EXPECT_LT(TurnUntil([&] { return sink_->health().up; }), 400'000);
  EXPECT_EQ(lookups, 1);
  driver_->Submit(1, 1, {To("s", "k", "0")});
  ASSERT_TRUE(driver_->UntilResolved());
  EXPECT_EQ(driver_->Count(Outcome::kDelivered), 1u);
}

// Its queue is full, and so it drops who comes: what a dead address or broken IPv6 looks like.
class SilentListener {
 public:
  SilentListener(const char* address, const std::string& port) {
    sockaddr_in at{};
    at.sin_family = AF_INET;
    at.sin_port = htons(static_cast<uint16_t>(std::stoi(port)));
    inet_pton(AF_INET, address, &at.sin_addr);
    fds_.push_back(socket(AF_INET, SOCK_STREAM, 0));
    EXPECT_EQ(bind(fds_[0], reinterpret_cast<sockaddr*>(&at), sizeof(at)), 0);
    EXPECT_EQ(listen(fds_[0], 0), 0);
    for (int i = 0; i < 4; ++i) {
      fds_.push_back(socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK, 0));
      connect(fds_.back(), reinterpret_cast<sockaddr*>(&at), sizeof(at));
    }
  }
  ~SilentListener() {
    for (int fd : fds_) {
      close(fd);
    }
  }
  SilentListener(const SilentListener&) = delete;
  SilentListener& operator=(const SilentListener&) = delete;

 private:
  std::vector<int> fds_;
};

// Two that do not answer, and the third is the server: each address has its share of the time.
TEST_F(ResolverTest, AnAddressThatDoesNotAnswerLeavesTimeForTheOthers) {
  SilentListener first("127.0.0.1", port_);
  SilentListener second("127.0.0.3", port_);
  if (!server_.Start({"--port", port_, "--bind", "127.0.0.2"})) {
    GTEST_SKIP() << "neither redis-server nor valkey-server";
  }
  SinkConfig config{"test", {{"host", "many.test"}, {"port", port_}, {"connect_timeout", "3000"}}, 0, 0};
  ASSERT_TRUE(RedisSink::Make(config, &sink_).ok());
  driver_ = std::make_unique<Driver>(sink_.get());
  driver_->Submit(1, 0, {To("s", "k", "0")});
  const int64_t begin = MonotonicMicros();
  EXPECT_LT(TurnUntil([&] { return driver_->resolved() == 1; }), 400'000);
  EXPECT_EQ(driver_->Count(Outcome::kDelivered), 1u) << sink_->health().error.message;
  EXPECT_GT(MonotonicMicros() - begin, 1'900'000) << "they were silent";
}

// Takes connections and then says nothing, or hangs up.
class Dummy {
 public:
  Dummy(const char* address, const std::string& port, bool hangs_up) {
    sockaddr_in at{};
    at.sin_family = AF_INET;
    at.sin_port = htons(static_cast<uint16_t>(std::stoi(port)));
    inet_pton(AF_INET, address, &at.sin_addr);
    fd_ = socket(AF_INET, SOCK_STREAM, 0);
    EXPECT_EQ(bind(fd_, reinterpret_cast<sockaddr*>(&at), sizeof(at)), 0);
    EXPECT_EQ(listen(fd_, 50), 0);
    if (hangs_up) {
      thread_ = std::thread([this] {
        for (int client = -1; (client = accept(fd_, nullptr, nullptr)) >= 0;) {
          close(client);
        }
      });
    }
  }
  ~Dummy() {
    shutdown(fd_, SHUT_RDWR);
    if (thread_.joinable()) {
      thread_.join();
    }
    close(fd_);
  }
  Dummy(const Dummy&) = delete;
  Dummy& operator=(const Dummy&) = delete;

 private:
  int fd_ = -1;
  std::thread thread_;
};

// Two at which something else takes the connection: the server is at the third, and that is where it is found again.
TEST_F(ResolverTest, AnAddressThatLetsNobodyInLeavesTheOthers) {
  Dummy first("127.0.0.1", port_, /*hangs_up=*/true);
  Dummy second("127.0.0.3", port_, /*hangs_up=*/false);
  if (!server_.Start({"--port", port_, "--bind", "127.0.0.2"})) {
    GTEST_SKIP() << "neither redis-server nor valkey-server";
  }
  SinkConfig config{"test", {{"host", "many.test"}, {"port", port_}, {"connect_timeout", "500"}}, 0, 0};
  ASSERT_TRUE(RedisSink::Make(config, &sink_).ok());
  driver_ = std::make_unique<Driver>(sink_.get());
  TurnUntil([&] { return !sink_->health().up; });
  ASSERT_TRUE(driver_->Until([&] { return sink_->health().up; }, 20)) << sink_->health().error.message;

  const uint64_t changes = sink_->health().changes;
  usleep(1'100'000);  // what is closed sooner is trouble
  const int64_t before = Connections();
  server_.Command({"CLIENT", "KILL", "TYPE", "normal", "SKIPME", "yes"});
  ASSERT_TRUE(driver_->Until([&] { return Connections() > before; }));
  driver_->Submit(1, 0, {To("s", "k", "0")});
  ASSERT_TRUE(driver_->UntilResolved());
  EXPECT_EQ(driver_->Count(Outcome::kDelivered), 1u);
  EXPECT_EQ(sink_->health().changes, changes) << sink_->health().error.message;
}

// All of them are: an attempt ends when it has to.
TEST_F(ResolverTest, WhereNoAddressAnswersTheTimeIsThat) {
  SilentListener first("127.0.0.1", port_);
  SilentListener second("127.0.0.3", port_);
  SilentListener third("127.0.0.2", port_);
  SinkConfig config{"test", {{"host", "many.test"}, {"port", port_}, {"connect_timeout", "900"}}, 0, 0};
  ASSERT_TRUE(RedisSink::Make(config, &sink_).ok());
  driver_ = std::make_unique<Driver>(sink_.get());
  const int64_t begin = MonotonicMicros();
  TurnUntil([&] { return !sink_->health().up; });
  EXPECT_EQ(sink_->health().error.code, "TIMEOUT");
  EXPECT_GE(MonotonicMicros() - begin, 890'000);
}

TEST_F(ResolverTest, ASinkThatGoesLeavesItsLookupToItsEnd) {
  Start(300, "5000");
  driver_->Turn(0);
  const int64_t begin = MonotonicMicros();
  sink_.reset();
  EXPECT_LT(MonotonicMicros() - begin, 200'000);
  usleep(500'000);  // sanitizers look at what the thread does
}

}  // namespace
}  // namespace outbox::sink
