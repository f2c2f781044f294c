// matrix: D8
// TLS to Redis where this build has it (hiredis 1.0 with hiredis_ssl); a clear refusal where it has not.
#include <gtest/gtest.h>

#include <cstdlib>
#include <fstream>
#include <sstream>

#include "redis_server.h"
#include "sink/redis/redis_sink.h"
#include "sink_driver.h"

namespace outbox::sink {
namespace {

#ifdef OUTBOX_HAVE_HIREDIS_SSL

class RedisTlsTest : public ::testing::Test {
 protected:
  bool Begin() {
    signal(SIGPIPE, SIG_IGN);
    std::string key = server_.directory() + "/key.pem";
    std::string certificate = server_.directory() + "/certificate.pem";
    std::string make =
        "openssl req -x509 -newkey rsa:2048 -nodes -days 2 -subj /CN=redis.test -addext "
        "subjectAltName=DNS:redis.test -keyout " +
        key + " -out " + certificate + " 2>/dev/null";
    port_ = std::to_string(FreePort());
    if (system(make.c_str()) != 0 ||
        !server_.Start({"--tls-port", port_, "--tls-cert-file", certificate, "--tls-key-file", key,
                        "--tls-ca-cert-file", certificate, "--tls-auth-clients", "no"})) {
      return false;
    }
    std::ifstream file(certificate);
    std::ostringstream text;
    text << file.rdbuf();
    certificate_ = text.str();
    return true;
  }
  void Connect(Options options) {
    options.insert({{"host", "127.0.0.1"}, {"port", port_}, {"tls", "true"}});
    ASSERT_TRUE(RedisSink::Make({"test", options, 0, 0}, &sink_).ok());
    driver_ = std::make_unique<Driver>(sink_.get());
  }
  void ExpectDelivered() {
    std::vector<TestRecord> records(5000, TestRecord{"s", "k", std::string(300, 'x'), RecordForm::kStream, {}});
    driver_->Submit(1, 0, records);
    ASSERT_TRUE(driver_->UntilResolved());
    EXPECT_GE(driver_->Count(Outcome::kDelivered), 5000u) << sink_->health().error.message;
  }
  void ExpectDistrusted() {
    driver_->Submit(1, 0, {{"s", "k", "x", RecordForm::kStream, {}}});
    ASSERT_TRUE(driver_->UntilResolved());
    EXPECT_EQ(driver_->Count(Outcome::kAborted), 1u);
    EXPECT_EQ(sink_->health().error.error_class, ErrorClass::kConfig) << sink_->health().error.message;
    EXPECT_EQ(sink_->health().error.code, "TLS");
  }

  RedisServer server_;
  std::string port_;
  std::string certificate_;
  std::unique_ptr<Sink> sink_;
  std::unique_ptr<Driver> driver_;
};

TEST_F(RedisTlsTest, TrustsTheRightCertificateUnderTheRightNameOnly) {
  if (!Begin()) {
    GTEST_SKIP() << "no redis-server with TLS, or no openssl";
  }
  Connect({{"ca_pem", certificate_}, {"tls_server_name", "redis.test"}});
  ExpectDelivered();
  Connect({{"ca_pem", certificate_}});  // the name is 127.0.0.1 then
  ExpectDistrusted();
  Connect({{"tls_server_name", "redis.test"}});  // the system's authorities
  ExpectDistrusted();
  Connect({{"tls_verify", "false"}});
  ExpectDelivered();
}

// A server that says nothing in the handshake: the sink sleeps until its deadline.
TEST_F(RedisTlsTest, AHandshakeIsWaitedForWithoutTurningInCircles) {
  if (!Begin()) {
    GTEST_SKIP() << "no redis-server with TLS, or no openssl";
  }
  Connect({{"ca_pem", certificate_}, {"tls_server_name", "redis.test"}});
  server_.Signal(SIGSTOP);  // the kernel goes on accepting connections
  driver_->Submit(1, 0, {{"s", "k", "x", RecordForm::kStream, {}}});
  int turns = 0;
  driver_->Until([&] { return ++turns > 10000; }, 0.5);  // each waits for 20 ms where nothing happens
  EXPECT_LT(turns, 60);
  server_.Signal(SIGCONT);
  ExpectDelivered();
}

TEST(RedisTls, AnUnusableCertificateIsConfiguration) {
  std::unique_ptr<Sink> sink;
  Status status = RedisSink::Make({"test", {{"tls", "true"}, {"ca_pem", "-----BEGIN nonsense"}}, 0, 0}, &sink);
  EXPECT_EQ(status.error().error_class, ErrorClass::kConfig);
}

#else

TEST(RedisTls, ABuildWithoutItSaysSo) {
  std::unique_ptr<Sink> sink;
  Status status = RedisSink::Make({"test", {{"tls", "true"}}, 0, 0}, &sink);
  EXPECT_EQ(status.error().error_class, ErrorClass::kConfig);
  EXPECT_EQ(status.error().code, "TLS");
  EXPECT_EQ(sink, nullptr);
}

#endif

}  // namespace
}  // namespace outbox::sink
