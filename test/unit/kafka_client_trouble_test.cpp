// ClientTrouble: for how long a checkup waits, by what the library says of connections.
#include <arpa/inet.h>
#include <errno.h>
#include <gtest/gtest.h>
#include <librdkafka/rdkafka.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "base/monotonic.h"
#include "sink/kafka/client_settings.h"
#include "sink/kafka/client_trouble.h"

namespace outbox::sink::kafka {
namespace {

// What the library and the one who waits for it share lives to the end of the process, as it does in a checkup.
struct Client {
  Settings settings;
  std::unique_ptr<ClientTrouble> trouble;
};

// The library begins its greeting when the other side has hung up already.
int ConnectAndWaitForEnd(int fd, const sockaddr* address, int size, const char*, void*) {
  if (connect(fd, address, static_cast<socklen_t>(size)) != 0 && errno != EINPROGRESS) {
    return errno;
  }
  pollfd end{fd, POLLRDHUP, 0};
  poll(&end, 1, 30'000);
  return 0;
}

// Closes each connection as it comes, until it is destroyed.
class HangsUp {
 public:
  HangsUp() : fd_(socket(AF_INET, SOCK_STREAM, 0)) {
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    socklen_t size = sizeof address;
    EXPECT_EQ(bind(fd_, reinterpret_cast<sockaddr*>(&address), size), 0);
    EXPECT_EQ(listen(fd_, 5), 0);
    EXPECT_EQ(getsockname(fd_, reinterpret_cast<sockaddr*>(&address), &size), 0);
    address_ = "127.0.0.1:" + std::to_string(ntohs(address.sin_port));
    thread_ = std::thread([this] {
      for (int client = accept(fd_, nullptr, nullptr); client >= 0; client = accept(fd_, nullptr, nullptr)) {
        close(client);
      }
    });
  }
  ~HangsUp() {
    shutdown(fd_, SHUT_RDWR);  // which ends accept()
    thread_.join();
    close(fd_);
  }
  HangsUp(const HangsUp&) = delete;
  HangsUp& operator=(const HangsUp&) = delete;
  const std::string& address() const { return address_; }

 private:
  const int fd_;
  std::string address_;
  std::thread thread_;
};

// When a client that may wait for so long gives up on that address, counted from its start.
int64_t GivesUpAfter(const std::string& address, int timeout_ms) {
  SinkConfig config;
  config.options = {{"bootstrap.servers", address}, {"security.protocol", "ssl"}};
  static auto* clients = new std::vector<std::unique_ptr<Client>>;
  Client* client = clients->emplace_back(std::make_unique<Client>()).get();
  rd_kafka_conf_t* conf = nullptr;
  EXPECT_TRUE(MakeSettings(config, &client->settings).ok() && client->settings.MakeConf(&conf).ok());
  rd_kafka_conf_set_connect_cb(conf, ConnectAndWaitForEnd);
  const int64_t begin = MonotonicMicros();
  char text[512];
  rd_kafka_t* handle = rd_kafka_new(RD_KAFKA_PRODUCER, conf, text, sizeof text);
  EXPECT_NE(handle, nullptr) << text;
  client->trouble = std::make_unique<ClientTrouble>(client->settings, handle, timeout_ms);
  ClientTrouble* trouble = client->trouble.get();
  while (trouble->error().ok() && MonotonicMicros() < begin + 30 * kSecond) {
    const rd_kafka_metadata_t* metadata = nullptr;
    rd_kafka_metadata(handle, 0, nullptr, &metadata, 100);  // the library connects when it is asked something
    trouble->Take();
  }
  EXPECT_EQ(trouble->error().code, "_TRANSPORT") << trouble->error().message;
  const int64_t after = trouble->GiveUpAt(1) - begin;
  rd_kafka_destroy(handle);
  return after;
}

// The library's word for it is not "disconnected" where the greeting had not begun.
TEST(KafkaClientTroubleTest, AfterAHangUpTheNextTryIsWaitedFor) {
  const HangsUp gate;
  EXPECT_GE(GivesUpAfter(gate.address(), 2000), 3 * kSecond);
  EXPECT_GE(GivesUpAfter(gate.address(), 60'000), 15 * kSecond);
}

bool Says(const std::string& hint, const char* what) {
  return hint.find(what) != std::string::npos;
}

// A broker that throttles a connection reads nothing from it: it looks like one that is not there.
TEST(ConnectionHint, SilenceMayBeAQuota) {
  EXPECT_TRUE(Says(ConnectionHint({ErrorClass::kDestination, "TIMEOUT", "no broker answered in 2000 ms"}), "quota"));
  EXPECT_TRUE(Says(LeaderHint("_TIMED_OUT"), "quota"));
  for (const char* code : {"_TRANSPORT", "_RESOLVE", "_AUTHENTICATION"}) {
    EXPECT_FALSE(Says(ConnectionHint({ErrorClass::kDestination, code, "x: Connect to ... failed"}), "quota")) << code;
    EXPECT_FALSE(Says(LeaderHint(code), "quota")) << code;
  }
}

TEST(ConnectionHint, DatesOfACertificateAreTheBrokers) {
  const std::string verify = "ssl://a:9093/bootstrap: SSL handshake failed: certificate verify failed";
  EXPECT_TRUE(Says(ConnectionHint({ErrorClass::kConfig, "_SSL", verify + ": certificate has expired"}), "renewed at"));
  EXPECT_TRUE(Says(ConnectionHint({ErrorClass::kConfig, "_SSL", verify}), "ssl.ca.pem"));
  EXPECT_TRUE(Says(ConnectionHint({ErrorClass::kConfig, "_SSL", verify}), "valid now"));
}

}  // namespace
}  // namespace outbox::sink::kafka
